//! Campaigns: results, resumption, failures.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use mpq_sim::campaign::Campaign;
use mpq_sim::campaign::Campaigned;
use mpq_sim::results::Folder;
use mpq_sim::results::Origin;
use mpq_sim::results::ResultError;
use mpq_sim::results::Status;
use mpq_sim::scenario::Document;

const SCENARIO: &str = r#"
question = "q"
expected = "e"
duration = "20 s"
seeds = [1, 2]
[[link]]
name = "a"
rate = "10 Mbit/s"
rtt = "20 ms"
[[flow]]
name = "f"
paths = ["a"]
size = "1 MB"
[sweep]
"flow.f.cc" = ["cubic", "reno"]
[[accept]]
rule = "flow.f.completion_s <= 1.1 * flow.f.completion_s@cc=cubic"
cases = "cc=reno"
[[accept]]
rule = "flow.f.completion_s <= 0.1"
cases = "cc=reno"
[[accept]]
rule = "flow.g.completion_s <= 0.1"
cases = "cc=reno"
"#;

fn document(text: &str) -> Document {
    Document::parse(Path::new("x.toml"), text.to_owned(), &[], None).unwrap()
}

fn run(document: &Document, out: &Path, stop: bool, qlog: bool) -> Result<Campaigned, ResultError> {
    let origin = Origin::new(vec!["test".into()]);
    let folder = Folder::open(out, document, &origin)?;
    Campaign {
        document,
        folder: &folder,
        origin: &origin,
        jobs: 2,
        qlog,
        stop: &AtomicBool::new(stop),
    }
    .run(&mut |_| ())
}

/// What is compared with a named case is compared at the same values of what is swept.
#[test]
fn rules_compare_named_cases_at_the_same_point() {
    let base = SCENARIO.split("[sweep]").next().unwrap();
    let rules = r#"
[sweep]
"link.a.rate" = ["10 Mbit/s", "5 Mbit/s"]
[[case]]
name = "one"
set = { "flow.f.cc" = "cubic" }
[[case]]
name = "other"
set = { "flow.f.cc" = "reno" }
[[accept]]
rule = "0.8 <= flow.f.completion_s / flow.f.completion_s@case=one <= 1.5"
cases = "case=other"
"#;
    let folder = tempfile::tempdir().unwrap();
    let document = document(&(base.to_owned() + rules));
    let summary = run(&document, &folder.path().join("out"), false, false)
        .unwrap()
        .summary;
    assert_eq!(summary.acceptance.len(), 2);
    for rule in &summary.acceptance {
        assert!(
            rule.holds,
            "{}: {:?} {:?}",
            rule.case, rule.values, rule.problem
        );
    }
}

#[test]
fn results_are_complete_and_rules_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let campaigned = run(&document(SCENARIO), &out, false, true).unwrap();
    assert!(!campaigned.is_interrupted);
    let summary = campaigned.summary;
    assert_eq!(summary.runs.len(), 4);
    assert!(summary.runs.iter().all(|run| run.status == Status::Ok));
    for run in &summary.runs {
        let run = out.join(&run.folder);
        for name in [
            "manifest.json",
            "summary.json",
            "scenario.toml",
            "paths.csv",
            "flows.csv",
            "links.csv",
            "f-client.sqlog",
            "f-server.sqlog",
        ] {
            assert!(fs::metadata(run.join(name)).unwrap().len() > 50, "{name}");
        }
        // The series adds up to the transfer.
        let flows = fs::read_to_string(run.join("flows.csv")).unwrap();
        let delivered = flows
            .lines()
            .skip(1)
            .map(|row| row.rsplit(',').next().unwrap());
        let sum: u64 = delivered.map(|bytes| bytes.parse::<u64>().unwrap()).sum();
        assert_eq!(sum, 1_000_000);
    }
    let holds: Vec<bool> = summary.acceptance.iter().map(|rule| rule.holds).collect();
    assert_eq!(holds, [true, false, false]);
    let problem = summary.acceptance[2].problem.as_deref().unwrap();
    assert!(
        problem.contains("has no metric flow.g.completion_s"),
        "{problem}"
    );
    let written = fs::read_to_string(out.join("summary.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(
        written["cases"][0]["metrics"]["flow.f.completion_s"]["n"],
        2
    );
}

#[test]
fn an_interrupted_campaign_goes_on_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let document = document(SCENARIO);
    assert!(run(&document, &out, true, false).unwrap().is_interrupted);
    // What an interrupted run left behind.
    let partial = out.join("runs/cc=cubic/.seed-2.partial");
    fs::create_dir_all(&partial).unwrap();
    fs::write(partial.join("paths.csv"), "half a ro").unwrap();
    assert!(!run(&document, &out, false, false).unwrap().is_interrupted);
    assert!(!partial.exists());

    let manifest = out.join("runs/cc=reno/seed-1/manifest.json");
    let before = fs::read_to_string(&manifest).unwrap();
    fs::remove_dir_all(out.join("runs/cc=cubic/seed-1")).unwrap();
    let again = run(&document, &out, false, false).unwrap();
    assert_eq!(again.summary.runs.len(), 4);
    assert!(out.join("runs/cc=cubic/seed-1/summary.json").exists());
    // Its wall time would differ if it had been written again.
    assert_eq!(fs::read_to_string(&manifest).unwrap(), before);
}

#[test]
fn results_of_another_scenario_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    run(&document(SCENARIO), &out, true, false).unwrap();
    let other = document(&SCENARIO.replace("1 MB", "2 MB"));
    let error = run(&other, &out, false, false).err().unwrap().to_string();
    assert!(
        error.contains("another scenario") && error.contains("--out"),
        "{error}"
    );

    let foreign = folder.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.tex"), "years of work").unwrap();
    assert!(run(&other, &foreign, false, false).is_err());
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    // Root may write everywhere, but not below a file.
    let error = run(&document(SCENARIO), &file.join("out"), false, false)
        .err()
        .unwrap();
    let error = error.to_string();
    assert!(
        error.contains("cannot write to") && error.contains("--out"),
        "{error}"
    );
}

#[test]
fn a_failed_run_is_marked_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let text = SCENARIO.replace("\"20 s\"", "\"100 s\"").replace(
        "[sweep]\n\"flow.f.cc\" = [\"cubic\", \"reno\"]",
        "[sweep]\n\"link.a.schedule\" = [\"down@0s\", \"down@90s\"]",
    );
    let text = &text[..text.find("[[accept]]").unwrap()];
    let campaigned = run(&document(text), &folder.path().join("out"), false, false).unwrap();
    assert!(!campaigned.is_interrupted);
    let failed: Vec<bool> = campaigned
        .summary
        .runs
        .iter()
        .map(|run| run.status == Status::Failed)
        .collect();
    assert_eq!(failed, [true, true, false, false]);
    let reason = campaigned.summary.runs[0].reason.as_deref().unwrap();
    assert!(reason.starts_with("flow f: "), "{reason}");
    assert_eq!(campaigned.summary.cases[0].failed, 2);
}
