//! What `cargo mutants --list --json` says.

use std::fs;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;
use serde::Deserialize;

/// A place in a file: line and column, both from 1.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// From the first character to the one after the last.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Span {
    pub start: Position,
}

/// What kind of change it is, and so what stands at its span.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub enum Genre {
    /// A function's body, but for the braces.
    FnValue,
    /// An operator.
    BinaryOperator,
    /// An operator, which is left out.
    UnaryOperator,
    /// The guard of an arm, but for `if`.
    MatchArmGuard,
    /// An arm, which is left out.
    MatchArm,
    /// A field, which is left out in favour of the base.
    StructField,
}

/// One change.
#[derive(Debug, Deserialize)]
pub struct Mutant {
    /// Its number, from 1; 0 is the program as it is.
    #[serde(default)]
    pub id: usize,
    pub file: String,
    pub genre: Genre,
    pub name: String,
    pub replacement: String,
    pub span: Span,
}

/// Reads the list.
pub fn read(path: &Path) -> Result<Vec<Mutant>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut mutants: Vec<Mutant> = serde_json::from_str(&text)?;
    for (id, mutant) in (1..).zip(&mut mutants) {
        mutant.id = id;
    }
    Ok(mutants)
}
