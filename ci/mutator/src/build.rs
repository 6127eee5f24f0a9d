//! Compiles the crate with its mutants.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use serde_json::Value;

use crate::run::Binary;
use crate::switch::Source;

/// The name of the unit tests.
pub const UNIT: &str = "unit tests";

/// The compiler gives up at the first kind of error, so what it finds later needs another round.
const MAX_ROUNDS: usize = 10;

/// The crate.
pub struct Crate<'a> {
    pub dir: &'a Path,
    pub features: &'a str,
}

/// What cargo says in lines of JSON, and whether it succeeded.
fn cargo(of: &Crate, args: &[&str]) -> Result<(Vec<Value>, bool)> {
    let output = Command::new("cargo")
        .current_dir(of.dir)
        .args(args)
        .args(["--features", of.features])
        .arg("--message-format=json")
        // Some changes are errors by a lint: what they divide by, or how far they shift.
        .env("RUSTFLAGS", "--cap-lints=allow")
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cargo")?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let messages = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    Ok((messages.collect(), output.status.success()))
}

/// The numbers that a line of a changed file names.
fn numbers(line: &str) -> impl Iterator<Item = usize> + '_ {
    let tags = line.split("/*M").skip(1);
    tags.filter_map(|tag| tag.split("*/").next()?.parse().ok())
}

/// The mutants that an error of the compiler is about: those that its lines name.
fn blamed(dir: &Path, error: &Value) -> BTreeSet<usize> {
    let mut blamed = BTreeSet::new();
    let spans = error["spans"].as_array().into_iter().flatten();
    for span in spans.filter(|span| span["is_primary"] == true) {
        let name = span["file_name"].as_str().unwrap_or_default();
        let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
        let line = span["line_start"].as_u64().unwrap_or(1) as usize;
        blamed.extend(text.lines().nth(line - 1).into_iter().flat_map(numbers));
    }
    blamed
}

/// Writes the sources, without what does not compile, and returns the numbers of that.
pub fn until_it_compiles(of: &Crate, sources: &[Source]) -> Result<BTreeSet<usize>> {
    let mut broken = BTreeSet::new();
    for round in 1..=MAX_ROUNDS {
        for source in sources {
            source.write(&broken)?;
        }
        let (messages, compiles) = cargo(of, &["check", "--quiet", "--lib", "--profile", "test"])?;
        if compiles {
            return Ok(broken);
        }
        let before = broken.len();
        for message in &messages {
            let error = &message["message"];
            if error["level"] == "error" {
                broken.extend(blamed(of.dir, error));
            }
        }
        eprintln!("round {round}: {} do not compile", broken.len());
        if broken.len() == before {
            for message in &messages {
                let text = message["message"]["rendered"].as_str();
                eprint!("{}", text.unwrap_or_default());
            }
            bail!("the copy does not compile, and no mutant is to blame");
        }
    }
    bail!("the copy does not compile after {MAX_ROUNDS} rounds");
}

/// Builds the unit tests, and the integration tests of files whose names begin so.
pub fn tests(of: &Crate, tests: &[(String, Vec<String>)]) -> Result<Vec<Binary>> {
    let mut args = vec!["test", "--quiet", "--no-run", "--lib"];
    let names: BTreeSet<_> = tests.iter().flat_map(|(_, names)| names).collect();
    for name in names {
        args.extend(["--test", name]);
    }
    let (messages, compiles) = cargo(of, &args)?;
    if !compiles {
        for message in &messages {
            let text = message["message"]["rendered"].as_str();
            std::io::stderr().write_all(text.unwrap_or_default().as_bytes())?;
        }
        bail!("the tests do not compile");
    }
    let binary = |name: &str, about: &str| -> Result<Binary> {
        let built = messages.iter().find(|message| {
            let target = &message["target"];
            let is_named = match name {
                UNIT => target["kind"][0] == "lib",
                _ => target["name"] == name && target["kind"][0] == "test",
            };
            message["profile"]["test"] == true && message["executable"].is_string() && is_named
        });
        let path = built.and_then(|message| message["executable"].as_str());
        Ok(Binary {
            name: name.to_owned(),
            about: about.to_owned(),
            path: PathBuf::from(path.with_context(|| format!("there are no tests {name}"))?),
            dir: of.dir.to_owned(),
            args: Vec::new(),
        })
    };
    let mut binaries = vec![binary(UNIT, "")?];
    for (about, names) in tests {
        for name in names {
            binaries.push(binary(name, about)?);
        }
    }
    Ok(binaries)
}
