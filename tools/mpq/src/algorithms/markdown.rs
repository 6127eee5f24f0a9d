//! The tables of docs/, from the entries of controllers and schedulers.

use mpq_decision::cc::Entry;
use mpq_decision::cc::CONTROLLERS;
use mpq_decision::params::Param;
use mpq_decision::sched::SCHEDULERS;

/// The longest line of the pages, but for tables.
const WIDTH: usize = 120;

/// What can be printed of the controllers.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Part {
    /// A list of names, by whether they couple paths
    Names,
    /// A table with a row for each controller
    Controllers,
    /// A table with a row for each parameter
    Parameters,
    /// A list of what departs from the sources
    Readings,
}

/// `part` of what there is to say of our controllers.
pub fn controllers(part: Part) -> String {
    match part {
        Part::Names => {
            names("each path by itself", false, ";") + &names("coupled over all paths", true, ".")
        }
        Part::Controllers => table(
            &["name", "paths", "what it does", "source"],
            CONTROLLERS.iter().map(controller),
        ),
        Part::Parameters => table(
            &["controller", "default", "unit", "range", "what it is"],
            parameters().into_iter().map(|(param, names)| {
                vec![
                    names.join(", "),
                    code(&format!("{}={}", param.name, param.default_text())),
                    param.unit.to_string(),
                    param.range_text(),
                    param.about.to_owned(),
                ]
            }),
        ),
        Part::Readings => readings(),
    }
}

/// What each controller that departs from its source says of that.
fn readings() -> String {
    let depart = CONTROLLERS.iter().filter(|c| !c.deviations.is_empty());
    depart
        .map(|entry| {
            let all = entry.deviations.join("; ");
            item(&format!("{}: {all}.", link(entry)))
        })
        .collect()
}

/// A table with a row for each scheduler.
pub fn schedulers() -> String {
    let rows = SCHEDULERS.iter().map(|entry| {
        let params: Vec<_> = entry.params.iter().map(|p| code(&p.to_string())).collect();
        vec![
            code(entry.name),
            entry.summary.to_owned(),
            params.join(", "),
            entry.source.to_owned(),
        ]
    });
    table(&["name", "what it does", "parameters", "source"], rows)
}

fn names(heading: &str, coupled: bool, end: &str) -> String {
    let names: Vec<_> = CONTROLLERS
        .iter()
        .filter(|entry| entry.coupled == coupled)
        .map(|entry| code(entry.name))
        .collect();
    item(&format!("{heading}: {}{end}", names.join(", ")))
}

/// An item of a list.
fn item(text: &str) -> String {
    let options = textwrap::Options::new(WIDTH)
        .initial_indent("- ")
        .subsequent_indent("  ")
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

/// A link to the controller's file from docs/.
fn link(entry: &Entry) -> String {
    format!("[{}](../{})", code(entry.name), entry.file())
}

fn controller(entry: &Entry) -> Vec<String> {
    let paths = if entry.coupled { "coupled" } else { "each" };
    vec![
        link(entry),
        paths.to_owned(),
        entry.summary.to_owned(),
        entry.source.to_owned(),
    ]
}

/// Each parameter with the controllers that have it just so, as code.
fn parameters() -> Vec<(&'static Param, Vec<String>)> {
    let mut all: Vec<(&Param, Vec<String>)> = Vec::new();
    for entry in CONTROLLERS {
        for param in entry.params {
            match all.iter_mut().find(|(known, _)| *known == param) {
                Some((_, names)) => names.push(code(entry.name)),
                None => all.push((param, vec![code(entry.name)])),
            }
        }
    }
    all
}

pub fn code(text: &str) -> String {
    format!("`{text}`")
}

pub fn table(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = format!(
        "| {} |\n|{}\n",
        titles.join(" | "),
        " --- |".repeat(titles.len())
    );
    for row in rows {
        let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}
