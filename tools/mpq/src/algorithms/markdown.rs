//! The tables of docs/, from the entries of controllers, schedulers and adaptation rules.

use mpq_dash::abr;
use mpq_dash::abr::RULES;
use mpq_decision::cc::Entry;
use mpq_decision::cc::CONTROLLERS;
use mpq_decision::params::Param;
use mpq_decision::sched;
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
        Part::Parameters => parameter_table(
            "controller",
            CONTROLLERS.iter().map(|entry| (entry.name, entry.params)),
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

/// What can be printed of the schedulers.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum SchedulerPart {
    /// A list of names
    Names,
    /// A table with a row for each scheduler
    Schedulers,
    /// A table with a row for each parameter
    Parameters,
    /// What each gets wrong
    Wrong,
    /// A list of what departs from the sources
    Readings,
}

/// `part` of what there is to say of the schedulers.
pub fn schedulers(part: SchedulerPart) -> String {
    let to = |entry: &sched::Entry| format!("[{}](../{})", code(entry.name), entry.file());
    match part {
        SchedulerPart::Names => {
            let names: Vec<_> = SCHEDULERS.iter().map(|entry| code(entry.name)).collect();
            names.join(", ") + "\n"
        }
        SchedulerPart::Schedulers => table(
            &["name", "what it does", "source"],
            SCHEDULERS
                .iter()
                .map(|entry| vec![to(entry), entry.summary.to_owned(), entry.source.to_owned()]),
        ),
        SchedulerPart::Parameters => parameter_table(
            "scheduler",
            SCHEDULERS.iter().map(|entry| (entry.name, entry.params)),
        ),
        SchedulerPart::Wrong => SCHEDULERS
            .iter()
            .map(|entry| item(&format!("{}: {}.", code(entry.name), entry.wrong)))
            .collect(),
        SchedulerPart::Readings => SCHEDULERS
            .iter()
            .filter(|entry| !entry.deviations.is_empty())
            .map(|entry| item(&format!("{}: {}.", to(entry), entry.deviations.join("; "))))
            .collect(),
    }
}

/// What can be printed of the adaptation rules.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum RulePart {
    /// A list of names
    Names,
    /// A table with a row for each rule
    Rules,
    /// A table with a row for each parameter
    Parameters,
    /// What each gets wrong
    Wrong,
    /// A list of what departs from the sources
    Readings,
}

/// `part` of what there is to say of the adaptation rules.
pub fn rules(part: RulePart) -> String {
    let to = |entry: &abr::Entry| format!("[{}](../{})", code(entry.name), entry.file());
    match part {
        RulePart::Names => {
            let names: Vec<_> = RULES.iter().map(|entry| code(entry.name)).collect();
            names.join(", ") + "\n"
        }
        RulePart::Rules => table(
            &["name", "what it does", "source"],
            RULES
                .iter()
                .map(|entry| vec![to(entry), entry.summary.to_owned(), entry.source.to_owned()]),
        ),
        RulePart::Parameters => {
            parameter_table("rule", RULES.iter().map(|entry| (entry.name, entry.params)))
        }
        RulePart::Wrong => RULES
            .iter()
            .map(|entry| item(&format!("{}: {}.", code(entry.name), entry.wrong)))
            .collect(),
        RulePart::Readings => RULES
            .iter()
            .filter(|entry| !entry.deviations.is_empty())
            .map(|entry| item(&format!("{}: {}.", to(entry), entry.deviations.join("; "))))
            .collect(),
    }
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

/// A table with a row for each parameter, and those that have it just so.
fn parameter_table(
    whose: &str,
    entries: impl Iterator<Item = (&'static str, &'static [Param])>,
) -> String {
    let mut all: Vec<(&Param, Vec<String>)> = Vec::new();
    for (name, params) in entries {
        for param in params {
            match all.iter_mut().find(|(known, _)| *known == param) {
                Some((_, names)) => names.push(code(name)),
                None => all.push((param, vec![code(name)])),
            }
        }
    }
    table(
        &[whose, "default", "unit", "range", "what it is"],
        all.into_iter().map(|(param, names)| {
            vec![
                names.join(", "),
                code(&format!("{}={}", param.name, param.default_text())),
                param.unit.to_string(),
                param.range_text(),
                param.about.to_owned(),
            ]
        }),
    )
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
