//! Puts the mutants into the source, each behind its number.
//!
//! ```text
//! a + b        (match crate::__mutant(7) { 7 => (a) - (b), 8 => (a) * (b), _ => (a) + (b) })
//! !a           (match crate::__mutant(9) { 9 => (a), _ => !(a) })
//! { body }     { if crate::__mutant(10) == 10 { return 0; } body }
//! p if g =>    p if (match crate::__mutant(11) { 11 => true, 12 => false, _ => g }) =>
//! p =>         p if crate::__mutant(13) != 13 =>
//! S { f, ..b } (match crate::__mutant(14) { 14 => S { ..b }, _ => S { f, ..b } })
//! ```
//!
//! What is asked for the number ([`PROBE`]) is told the place: the first number that the place may have.
//! Each stands on a line of its own, which says its number: so errors of the compiler are known to be
//! its own. One mutant is on at a time, so within a change the operands are as they were.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use proc_macro2::LineColumn;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit;
use syn::visit::Visit;

use crate::list::Genre;
use crate::list::Mutant;
use crate::list::Position;

/// What stands at the end of the crate's `lib.rs`.
const PROBE: &str = include_str!("../probe.rs");

/// A file with its mutants.
pub struct Source {
    pub path: PathBuf,
    text: String,
    /// Sorted: what contains another one comes before it.
    sites: Vec<Site>,
}

/// A place, and what becomes of it.
struct Site {
    range: Range<usize>,
    form: Form,
    /// By number: what stands there instead.
    mutants: Vec<(usize, String)>,
}

impl Site {
    /// Its number: that of its first mutant, whether that compiles or not.
    fn place(&self) -> usize {
        self.mutants.first().map_or(0, |(id, _)| *id)
    }
}

/// The order is that of nesting where two have the same range.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Body,
    /// The end of a pattern, or the guard that follows it.
    Arm {
        has_guard: bool,
    },
    Guard,
    Expression,
}

/// Reads the files, and finds the places of the mutants.
pub fn sources(dir: &Path, mutants: &[Mutant]) -> Result<Vec<Source>> {
    // First, as it may have mutants too.
    let root = dir.join("src/lib.rs");
    let text = fs::read_to_string(&root)?;
    fs::write(root, text + PROBE)?;
    let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        by_file.entry(&mutant.file).or_default().push(mutant);
    }
    let mut sources = Vec::new();
    for (file, mutants) in by_file {
        let path = dir.join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let tree = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        sources.push(Source::new(path, &text, &tree, &mutants));
    }
    Ok(sources)
}

impl Source {
    fn new(path: PathBuf, text: &str, tree: &syn::File, mutants: &[&Mutant]) -> Source {
        let mut finder = Finder::new(text, mutants);
        finder.visit_file(tree);
        let mut sites = finder.sites;
        sites.sort_by(|a, b| {
            let key = |site: &Site| (site.range.start, std::cmp::Reverse(site.range.end));
            (key(a), &a.form).cmp(&(key(b), &b.form))
        });
        let text = text.to_owned();
        Source { path, text, sites }
    }

    /// The numbers of the mutants that have a place, each with that of the place.
    pub fn placed(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let of = |site: &'_ Site| {
            let place = site.place();
            let ids: Vec<usize> = site.mutants.iter().map(|(id, _)| *id).collect();
            ids.into_iter().map(move |id| (id, place))
        };
        self.sites.iter().flat_map(of)
    }

    /// Writes the file with all mutants, but for those left out.
    pub fn write(&self, left_out: &BTreeSet<usize>) -> Result<()> {
        let all: Vec<&Site> = self.sites.iter().collect();
        let text = self.render(0..self.text.len(), &all, left_out);
        fs::write(&self.path, text).with_context(|| self.path.display().to_string())
    }

    fn render(&self, range: Range<usize>, sites: &[&Site], left_out: &BTreeSet<usize>) -> String {
        let mut text = String::new();
        let mut at = range.start;
        let mut rest = sites;
        while let Some((site, others)) = rest.split_first() {
            let inner = others
                .iter()
                .take_while(|other| other.range.end <= site.range.end)
                .count();
            text += &self.text[at..site.range.start];
            text += &self.switch(site, &others[..inner], left_out);
            at = site.range.end;
            rest = &others[inner..];
        }
        text + &self.text[at..range.end]
    }

    fn switch(&self, site: &Site, inner: &[&Site], left_out: &BTreeSet<usize>) -> String {
        let original = self.render(site.range.clone(), inner, left_out);
        let mutants = site.mutants.iter().filter(|(id, _)| !left_out.contains(id));
        let mutants: Vec<&(usize, String)> = mutants.collect();
        if mutants.is_empty() {
            return original;
        }
        let place = site.place();
        let each = |line: &dyn Fn(usize, &str) -> String| -> String {
            let lines = mutants
                .iter()
                .map(|(id, with)| format!("\n/*M{id}*/ {}\n", line(*id, with)));
            lines.collect()
        };
        match site.form {
            Form::Body => {
                let lines = each(&|id, with| {
                    format!("if crate::__mutant({place}) == {id} {{ return {with}; }}")
                });
                lines + &original
            }
            Form::Arm { has_guard } => {
                let (before, after) = match has_guard {
                    true => ("", format!("&& ({original})")),
                    false => ("if", String::new()),
                };
                each(&|id, _| format!("{before} crate::__mutant({place}) != {id} {after}"))
            }
            Form::Guard | Form::Expression => {
                let lines = each(&|id, with| format!("{id} => {{ {with} }}"));
                let ids: Vec<String> = mutants.iter().map(|(id, _)| format!("M{id}")).collect();
                let ids = ids.join("*//*");
                format!(
                    "(match crate::__mutant({place}) {{{lines}/*{ids}*/ _ => {{ {original} }}\n}})"
                )
            }
        }
    }
}

/// Finds the places.
struct Finder<'a> {
    /// Where each line begins.
    lines: Vec<usize>,
    text: &'a str,
    mutants: BTreeMap<(Genre, Position), Vec<&'a Mutant>>,
    sites: Vec<Site>,
    /// Within what is evaluated at compile time, where no number is known.
    is_const: bool,
    /// Within a match of which one arm takes whatever comes.
    is_covered: bool,
}

impl<'a> Finder<'a> {
    fn new(text: &'a str, mutants: &[&'a Mutant]) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let mut by_place: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for mutant in mutants {
            let place = (mutant.genre, mutant.span.start);
            by_place.entry(place).or_default().push(*mutant);
        }
        Finder {
            lines: std::iter::once(0).chain(ends).collect(),
            text,
            mutants: by_place,
            sites: Vec::new(),
            is_const: false,
            is_covered: false,
        }
    }

    /// The offset in bytes; columns count characters.
    fn at(&self, place: LineColumn) -> usize {
        let line = self.lines[place.line - 1];
        let mut characters = self.text[line..].char_indices();
        characters
            .nth(place.column)
            .map_or(self.text.len(), |(at, _)| line + at)
    }

    fn range(&self, of: &impl Spanned) -> Range<usize> {
        self.at(of.span().start())..self.at(of.span().end())
    }

    /// Whether there are mutants of the kind at the beginning of something; then they are placed.
    fn place(
        &mut self,
        genre: Genre,
        at: &impl Spanned,
        range: Range<usize>,
        form: Form,
        with: impl Fn(&Mutant) -> String,
    ) {
        let start = at.span().start();
        let position = Position {
            line: start.line,
            column: start.column + 1,
        };
        if self.is_const {
            return;
        }
        if let Some(mutants) = self.mutants.remove(&(genre, position)) {
            let mutants = mutants.iter().map(|mutant| (mutant.id, with(mutant)));
            self.sites.push(Site {
                range,
                form,
                mutants: mutants.collect(),
            });
        }
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        // Of `impl Iterator` the compiler wants one type, and two would be returned.
        let result = signature.output.to_token_stream().to_string();
        if result.contains("impl ") {
            return;
        }
        if let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) {
            let range = self.range(first).start..self.range(last).end;
            self.place(Genre::FnValue, first, range, Form::Body, |mutant| {
                mutant.replacement.clone()
            });
        }
    }

    /// Visits what may be evaluated at compile time.
    fn within(&mut self, is_const: bool, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.is_const, is_const);
        visit(self);
        self.is_const = before;
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(item.sig.constness.is_some(), |finder| {
            finder.body(&item.sig, &item.block);
            visit::visit_item_fn(finder, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.within(item.sig.constness.is_some(), |finder| {
            finder.body(&item.sig, &item.block);
            visit::visit_impl_item_fn(finder, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    // Closures in constants run later, as those of tables do.
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.within(true, |finder| visit::visit_item_const(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.within(true, |finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within(true, |finder| visit::visit_item_static(finder, item));
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.within(true, |finder| visit::visit_type_array(finder, array));
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.within(true, |finder| finder.visit_expr(&repeat.len));
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.within(false, |finder| visit::visit_expr_closure(finder, closure));
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let range = self.range(binary);
        let (left, right) = (
            binary.left.to_token_stream().to_string(),
            binary.right.to_token_stream().to_string(),
        );
        let with = |mutant: &Mutant| format!("({left}) {} ({right})", mutant.replacement);
        self.place(
            Genre::BinaryOperator,
            &binary.op,
            range,
            Form::Expression,
            with,
        );
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let range = self.range(unary);
        let operand = unary.expr.to_token_stream().to_string();
        self.place(
            Genre::UnaryOperator,
            &unary.op,
            range,
            Form::Expression,
            |_| operand.clone(),
        );
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_struct(&mut self, whole: &'ast syn::ExprStruct) {
        for (at, field) in whole.fields.iter().enumerate() {
            let mut without = whole.clone();
            without.fields = whole
                .fields
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
                .map(|(_, field)| field.clone())
                .collect();
            // An expression that ends a list of fields needs its comma before the base.
            if !without.fields.is_empty() && !without.fields.trailing_punct() {
                without.fields.push_punct(Default::default());
            }
            let text = without.to_token_stream().to_string();
            let range = self.range(whole);
            self.place(Genre::StructField, field, range, Form::Expression, |_| {
                text.clone()
            });
        }
        visit::visit_expr_struct(self, whole);
    }

    // A guarded arm covers nothing, so another one has to.
    fn visit_expr_match(&mut self, whole: &'ast syn::ExprMatch) {
        let covers = |arm: &syn::Arm| matches!(arm.pat, syn::Pat::Wild(_));
        self.visit_expr(&whole.expr);
        for arm in &whole.arms {
            self.is_covered = whole.arms.iter().any(covers);
            self.visit_arm(arm);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let (pattern, guard) = match &arm.pat {
            syn::Pat::Guard(guarded) => (&*guarded.pat, Some(&*guarded.guard)),
            pattern => (pattern, None),
        };
        let end = self.range(pattern).end;
        let range = guard.map_or(end..end, |guard| self.range(guard));
        let form = Form::Arm {
            has_guard: guard.is_some(),
        };
        if self.is_covered {
            self.place(Genre::MatchArm, arm, range, form, |_| String::new());
        }
        if let Some(guard) = guard {
            let range = self.range(guard);
            self.place(Genre::MatchArmGuard, guard, range, Form::Guard, |mutant| {
                mutant.replacement.clone()
            });
        }
        visit::visit_arm(self, arm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::Span;

    const TEXT: &str = "const N: u32 = 2 + 3;
fn f(a: u32) -> bool {
    match a {
        1 if a == 1 => !true,
        2 => false,
        _ => a + 1 < 9,
    }
}
";

    fn mutant(id: usize, genre: Genre, line: usize, column: usize, replacement: &str) -> Mutant {
        let start = Position { line, column };
        Mutant {
            id,
            file: "src/lib.rs".to_owned(),
            genre,
            name: String::new(),
            replacement: replacement.to_owned(),
            span: Span { start },
        }
    }

    #[test]
    fn each_change_is_behind_its_number() {
        let mutants = [
            mutant(1, Genre::BinaryOperator, 1, 18, "-"),
            mutant(2, Genre::FnValue, 3, 5, "true"),
            mutant(3, Genre::MatchArmGuard, 4, 14, "false"),
            mutant(4, Genre::BinaryOperator, 4, 16, "!="),
            mutant(5, Genre::UnaryOperator, 4, 24, ""),
            mutant(6, Genre::MatchArm, 5, 9, ""),
            mutant(7, Genre::BinaryOperator, 6, 16, "-"),
            mutant(8, Genre::BinaryOperator, 6, 20, ">"),
            mutant(9, Genre::BinaryOperator, 6, 20, "=="),
        ];
        let tree = syn::parse_file(TEXT).unwrap();
        let source = Source::new(
            PathBuf::new(),
            TEXT,
            &tree,
            &mutants.iter().collect::<Vec<_>>(),
        );
        // Not what is evaluated at compile time.
        let placed: BTreeSet<usize> = source.placed().map(|(id, _)| id).collect();
        assert_eq!(placed, (2..=9).collect());

        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let render = |left_out: &[usize]| {
            let sites: Vec<&Site> = source.sites.iter().collect();
            let left_out = left_out.iter().copied().collect();
            words(&source.render(0..TEXT.len(), &sites, &left_out))
        };
        assert_eq!(render(&[2, 3, 4, 5, 6, 7, 8, 9]), words(TEXT));
        let changed = "const N: u32 = 2 + 3;
            fn f(a: u32) -> bool {
                /*M2*/ if crate::__mutant(2) == 2 { return true; }
                match a {
                    1 if (match crate::__mutant(3) {
                        /*M3*/ 3 => { false }
                        /*M3*/ _ => { (match crate::__mutant(4) {
                            /*M4*/ 4 => { (a) != (1) }
                            /*M4*/ _ => { a == 1 } }) } })
                    => (match crate::__mutant(5) {
                        /*M5*/ 5 => { true }
                        /*M5*/ _ => { !true } }),
                    2 /*M6*/ if crate::__mutant(6) != 6 => false,
                    _ => (match crate::__mutant(8) {
                        /*M8*/ 8 => { (a + 1) > (9) }
                        /*M9*/ 9 => { (a + 1) == (9) }
                        /*M8*//*M9*/ _ => { (match crate::__mutant(7) {
                            /*M7*/ 7 => { (a) - (1) }
                            /*M7*/ _ => { a + 1 } }) < 9 } }),
                }
            }";
        assert_eq!(render(&[]), words(changed));
    }
}
