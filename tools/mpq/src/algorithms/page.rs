//! How controllers, schedulers and adaptation rules look on a terminal.

use anstyle::Style;
use terminal_size::terminal_size;
use terminal_size::Width;

use super::controller::Controller;
use super::controller::Parameter;
use super::controller::Scope;
use super::rule::Rule;
use super::scheduler::Scheduler;

/// Where nobody looks, and where lines would be too long to read.
const WIDTH: usize = 80;
const MAX_WIDTH: usize = 100;

const BOLD: Style = Style::new().bold();

fn width() -> usize {
    terminal_size().map_or(WIDTH, |(Width(columns), _)| {
        usize::from(columns).clamp(40, MAX_WIDTH)
    })
}

/// All controllers, a line each, under a heading for each scope.
pub fn controllers(all: &[Controller]) -> String {
    let name_width = all.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let mut page = String::new();
    for (scope, heading) in [
        (Scope::Quiche, "quiche's own, one for each path"),
        (Scope::EachPath, "Each path by itself"),
        (Scope::Coupled, "Coupled over all paths"),
    ] {
        page += &format!("{BOLD}{heading}{BOLD:#}\n");
        for controller in all.iter().filter(|c| c.scope == scope) {
            page += &row(controller.name, name_width, controller.summary);
        }
        page += "\n";
    }
    page + "`mpq cc NAME` explains one; --cc NAME:KEY=VALUE,KEY=VALUE sets its parameters.\n"
}

/// All schedulers, a line each.
pub fn schedulers(all: &[Scheduler]) -> String {
    let name_width = all.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let rows: String = all
        .iter()
        .map(|scheduler| row(scheduler.name, name_width, scheduler.summary))
        .collect();
    rows + "\n`mpq sched NAME` explains one; --sched NAME:KEY=VALUE,... sets parameters.\n"
}

/// All adaptation rules, a line each.
pub fn rules(all: &[Rule]) -> String {
    let name_width = all.iter().map(|rule| rule.name.len()).max().unwrap_or(0);
    let rows: String = all
        .iter()
        .map(|rule| row(rule.name, name_width, rule.summary))
        .collect();
    rows + "\n`mpq abr NAME` explains one; --abr NAME:KEY=VALUE,... sets parameters.\n"
}

/// A name and what it stands for, in columns.
fn row(name: &str, name_width: usize, text: &str) -> String {
    let left = format!("  {name:name_width$}  ");
    wrap(&left, left.len(), text)
}

/// `text` after `first`, further lines `indent` deep.
fn wrap(first: &str, indent: usize, text: &str) -> String {
    let indent = " ".repeat(indent);
    let options = textwrap::Options::new(width())
        .initial_indent(first)
        .subsequent_indent(&indent)
        .break_words(false);
    textwrap::fill(text, options) + "\n"
}

/// All about one controller.
pub fn explain(controller: &Controller) -> String {
    let mut page = opening(controller.name, controller.summary);
    section(&mut page, "Idea", controller.idea);
    section(&mut page, "Source", controller.source);
    steps(&mut page, "Formula", controller.formula);
    settings(
        &mut page,
        "get --cc",
        controller.name,
        &controller.parameters,
    );
    section(&mut page, "Use it when", controller.use_when);
    section(&mut page, "Avoid it when", controller.avoid_when);
    deviations(&mut page, controller.deviations);
    page
}

/// All about one scheduler.
pub fn explain_scheduler(scheduler: &Scheduler) -> String {
    let mut page = opening(scheduler.name, scheduler.summary);
    section(&mut page, "Idea", scheduler.idea);
    section(&mut page, "Source", scheduler.source);
    steps(&mut page, "Rule", scheduler.rule);
    settings(
        &mut page,
        "get --sched",
        scheduler.name,
        &scheduler.parameters,
    );
    section(&mut page, "Use it when", scheduler.use_when);
    section(&mut page, "What it gets wrong", scheduler.wrong);
    deviations(&mut page, scheduler.deviations);
    page
}

/// All about one adaptation rule.
pub fn explain_rule(rule: &Rule) -> String {
    let mut page = opening(rule.name, rule.summary);
    section(&mut page, "Idea", rule.idea);
    section(&mut page, "Source", rule.source);
    steps(&mut page, "Rule", rule.rule);
    settings(&mut page, "play --abr", rule.name, &rule.parameters);
    section(&mut page, "Use it when", rule.use_when);
    section(&mut page, "What it gets wrong", rule.wrong);
    deviations(&mut page, rule.deviations);
    page
}

fn opening(name: &str, summary: &str) -> String {
    format!("{BOLD}{name}{BOLD:#}\n") + &wrap("", 0, summary)
}

/// What a formula or a rule consists of, a step on each line.
fn steps(page: &mut String, title: &str, all: &str) {
    heading(page, title);
    for step in all.split("; ") {
        *page += &wrap("  ", 4, step);
    }
}

/// The parameters, and how one is set.
fn settings(page: &mut String, command: &str, name: &str, all: &[Parameter]) {
    parameters(page, &all.iter().collect::<Vec<_>>());
    if let Some(first) = all.first() {
        heading(page, "Example");
        *page += &format!(
            "  mpq {command} {name}:{}={} URL\n",
            first.name, first.default
        );
    }
}

fn deviations(page: &mut String, all: &[&str]) {
    heading(page, "Deviations from the source");
    if all.is_empty() {
        *page += "  none\n";
    }
    for deviation in all {
        *page += &wrap("  - ", 4, deviation);
    }
}

fn heading(page: &mut String, text: &str) {
    *page += &format!("\n{BOLD}{text}{BOLD:#}\n");
}

fn section(page: &mut String, title: &str, text: &str) {
    heading(page, title);
    *page += &wrap("  ", 2, text);
}

fn parameters(page: &mut String, all: &[&Parameter]) {
    if all.is_empty() {
        return section(page, "Parameters", "none");
    }

    heading(page, "Parameters");
    let titles = ["default", "unit", "range"].map(String::from);
    let rows: Vec<[String; 3]> = all
        .iter()
        .map(|p| {
            let setting = format!("{}={}", p.name, p.default);
            [setting, p.unit.clone(), p.range.clone()]
        })
        .collect();
    let widths = [0, 1, 2].map(|column| {
        let cells = rows.iter().chain([&titles]).map(|row| row[column].len());
        cells.max().unwrap_or(0)
    });
    let columns = |[setting, unit, range]: &[String; 3]| {
        let [a, b, c] = widths;
        format!("  {setting:a$}  {unit:b$}  {range:c$}  ")
    };
    *page += columns(&titles).trim_end();
    *page += "\n";
    for (row, parameter) in rows.iter().zip(all) {
        let left = columns(row);
        *page += &wrap(&left, left.len(), parameter.about);
    }
}
