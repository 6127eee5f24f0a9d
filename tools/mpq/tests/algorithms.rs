//! `mpq cc`, `mpq sched` and `mpq abr`.

mod common;

use std::process::Command;
use std::process::Output;

use serde_json::Value;

use common::code;
use common::stderr;
use common::MPQ;

fn mpq(args: &[&str]) -> Output {
    common::run(Command::new(MPQ).args(args))
}

fn stdout(output: Output) -> String {
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn names() -> Vec<String> {
    quiche::cc_algorithms()
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Without line breaks and indentation.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The page has each heading at the start of a line, in this order, and followed by something.
fn assert_headed(name: &str, page: &str, headings: &[&str]) {
    let mut rest = page;
    for heading in headings {
        let line = format!("{heading}\n");
        let at = rest
            .find(&line)
            .unwrap_or_else(|| panic!("{name}: {heading}: {page}"));
        rest = &rest[at + line.len()..];
        assert!(rest.trim_start().len() > 3, "{name}: {heading}");
    }
}

#[test]
fn the_list_has_every_controller_with_its_line() {
    let page = stdout(mpq(&["cc"]));
    for (name, _) in quiche::cc_algorithms() {
        let row = page.lines().find(|line| {
            line.strip_prefix(&format!("  {name} "))
                .is_some_and(|text| text.trim().len() > 10)
        });
        assert!(row.is_some(), "{name}: {page}");
    }
    let at = |text: &str| page.find(text).unwrap();
    assert!(at("  cubic ") < at("Each path by itself"));
    assert!(at("Each path by itself") < at("  vegas "));
    assert!(at("  vegas ") < at("Coupled over all paths"));
    assert!(at("Coupled over all paths") < at("  wvegas "));
    // Not on a terminal, so no styles, and no line that is wider than one.
    assert!(!page.contains('\x1b'));
    assert!(page.lines().all(|line| line.len() <= 80), "{page}");
}

#[test]
fn every_controller_is_explained_in_all_sections() {
    let all: Value = serde_json::from_str(&stdout(mpq(&["cc", "--json"]))).unwrap();
    let all = all.as_array().unwrap();
    assert_eq!(
        all.iter().map(|c| &c["name"]).collect::<Vec<_>>(),
        names().iter().collect::<Vec<_>>()
    );

    for controller in all {
        let name = controller["name"].as_str().unwrap();
        let page = stdout(mpq(&["cc", name]));
        let headings = [
            name,
            "Idea",
            "Source",
            "Formula",
            "Parameters",
            "Use it when",
            "Avoid it when",
            "Deviations from the source",
        ];
        assert_headed(name, &page, &headings);

        let said = words(&page);
        for key in [
            "summary",
            "idea",
            "source",
            "formula",
            "use_when",
            "avoid_when",
        ] {
            // The steps of a formula stand on lines of their own.
            let text = words(&controller[key].as_str().unwrap().replace("; ", "\n"));
            let said = said.replace("; ", " ");
            assert!(text.len() > 3 && said.contains(&text), "{name}: {text}");
        }
        for deviation in controller["deviations"].as_array().unwrap() {
            let text = words(deviation.as_str().unwrap());
            assert!(said.contains(&text), "{name}: {text}");
        }
        for parameter in controller["parameters"].as_array().unwrap() {
            let text = |key: &str| parameter[key].as_str().unwrap();
            let setting = format!("{}={}", text("name"), text("default"));
            let row = format!(
                "{setting} {} {} {}",
                text("unit"),
                text("range"),
                text("about")
            );
            assert!(said.contains(&row), "{name}: {row}");
            // What is shown can be given.
            let choice = format!("{name}:{setting}");
            assert_eq!(quiche::check_cc_algorithm_name(&choice), Ok(()));
        }
    }
}

#[test]
fn one_controller_as_json() {
    let one: Value = serde_json::from_str(&stdout(mpq(&["cc", "hybla", "--json"]))).unwrap();
    assert_eq!(one["name"], "hybla");
    assert_eq!(one["scope"], "each-path");
    assert_eq!(one["parameters"][0]["name"], "rtt0");
    assert_eq!(one["parameters"][0]["unit"], "time");
    assert_eq!(one["parameters"][0]["default"], "25ms");
    assert_eq!(one["parameters"][0]["range"], "1ms to 1s");

    let one: Value = serde_json::from_str(&stdout(mpq(&["cc", "mpmtp", "--json"]))).unwrap();
    assert_eq!(one["scope"], "coupled");
    assert_eq!(
        one["parameters"][0]["words"],
        serde_json::json!(["on", "off"])
    );
}

#[test]
fn an_unknown_controller_lists_those_that_exist() {
    let output = mpq(&["cc", "warp"]);
    assert_eq!(code(&output), 1);
    assert!(output.stdout.is_empty());
    let expected = format!(
        "no congestion controller is called \"warp\"; use one of: {}",
        names().join(", ")
    );
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
}

#[test]
fn schedulers_are_listed() {
    let page = stdout(mpq(&["sched"]));
    let all: Value = serde_json::from_str(&stdout(mpq(&["sched", "--json"]))).unwrap();
    assert_eq!(all.as_array().unwrap().len(), quiche::schedulers().count());
    for (name, summary) in quiche::schedulers() {
        assert!(
            words(&page).contains(&format!("{name} {summary}")),
            "{page}"
        );
    }
    assert!(page.lines().all(|line| line.len() <= 80), "{page}");
}

#[test]
fn every_scheduler_is_explained_in_all_sections() {
    let all: Value = serde_json::from_str(&stdout(mpq(&["sched", "--json"]))).unwrap();
    for scheduler in all.as_array().unwrap() {
        let name = scheduler["name"].as_str().unwrap();
        let page = stdout(mpq(&["sched", name]));
        let headings = [
            name,
            "Idea",
            "Source",
            "Rule",
            "Parameters",
            "Use it when",
            "What it gets wrong",
            "Deviations from the source",
        ];
        assert_headed(name, &page, &headings);

        let said = words(&page).replace("; ", " ");
        for key in ["summary", "idea", "source", "rule", "use_when", "wrong"] {
            let text = words(&scheduler[key].as_str().unwrap().replace("; ", " "));
            assert!(text.len() > 3 && said.contains(&text), "{name}: {text}");
        }
        for deviation in scheduler["deviations"].as_array().unwrap() {
            let text = words(&deviation.as_str().unwrap().replace("; ", " "));
            assert!(said.contains(&text), "{name}: {text}");
        }
        for parameter in scheduler["parameters"].as_array().unwrap() {
            let text = |key: &str| parameter[key].as_str().unwrap();
            let setting = format!("{}={}", text("name"), text("default"));
            assert!(said.contains(&setting), "{name}: {setting}");
            let choice = format!("{name}:{setting}");
            assert_eq!(quiche::check_scheduler_name(&choice), Ok(()));
        }
    }
}

#[test]
fn an_unknown_scheduler_lists_those_that_exist() {
    let output = mpq(&["sched", "warp"]);
    assert_eq!(code(&output), 1);
    assert!(output.stdout.is_empty());
    let names: Vec<_> = quiche::schedulers().map(|(name, _)| name).collect();
    let expected = format!(
        "no scheduler is called \"warp\"; use one of: {}",
        names.join(", ")
    );
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
}

#[test]
fn every_adaptation_rule_is_listed_and_explained_in_all_sections() {
    let list = stdout(mpq(&["abr"]));
    assert!(list.lines().all(|line| line.len() <= 80), "{list}");
    let all: Value = serde_json::from_str(&stdout(mpq(&["abr", "--json"]))).unwrap();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), mpq_dash::abr::RULES.len());
    for rule in all {
        let name = rule["name"].as_str().unwrap();
        let summary = words(rule["summary"].as_str().unwrap());
        assert!(
            words(&list).contains(&format!("{name} {summary}")),
            "{list}"
        );
        let page = stdout(mpq(&["abr", name]));
        let headings = [
            name,
            "Idea",
            "Source",
            "Rule",
            "Parameters",
            "Use it when",
            "What it gets wrong",
            "Deviations from the source",
        ];
        assert_headed(name, &page, &headings);
        let said = words(&page).replace("; ", " ");
        for key in ["summary", "idea", "source", "rule", "use_when", "wrong"] {
            let text = words(&rule[key].as_str().unwrap().replace("; ", " "));
            assert!(text.len() > 3 && said.contains(&text), "{name}: {text}");
        }
        for parameter in rule["parameters"].as_array().unwrap() {
            let text = |key: &str| parameter[key].as_str().unwrap();
            let setting = format!("{}={}", text("name"), text("default"));
            let row = format!("{setting} {} {}", text("unit"), text("range"));
            assert!(said.contains(&row), "{name}: {row}");
            let choice = format!("{name}:{setting}");
            assert!(mpq_dash::abr::by_name(&choice).is_ok(), "{choice}");
        }
    }
    let output = mpq(&["abr", "warp"]);
    assert_eq!(code(&output), 1);
    let said = stderr(&output);
    assert!(
        said.contains("no adaptation rule is called \"warp\"; use one of: rate, bba0"),
        "{said}"
    );
}

/// The pages with what `mpq` prints, and how many such parts each has.
const PAGES: [(&str, usize); 5] = [
    ("docs/abr.md", 4),
    ("docs/mpq.md", 3),
    ("docs/controllers.md", 3),
    ("docs/schedulers.md", 4),
    ("docs/paths.md", 3),
];

#[test]
fn the_pages_have_what_is_printed() {
    for (file, parts) in PAGES {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let page = std::fs::read_to_string(format!("{root}/{file}")).unwrap();
        let mut found = 0;
        for part in page.split("\n<!-- mpq ").skip(1) {
            let (args, rest) = part.split_once(" -->\n").unwrap();
            let (shown, _) = rest.split_once("<!-- end of mpq -->").unwrap();
            let args: Vec<_> = args.split(' ').collect();
            let printed = stdout(mpq(&args));
            assert!(
                shown == printed,
                "{file} does not have what mpq {} prints; ci/tables renews it",
                args.join(" ")
            );
            found += 1;
        }
        assert_eq!(found, parts, "{file}");
    }
}
