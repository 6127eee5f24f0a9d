//! `mpq sim` from the outside: exit codes and what is printed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::process::Output;

const SCENARIO: &str = r#"question = "Is 1 MB there within two seconds?"
expected = "yes"
duration = "20 s"
[[link]]
name = "a"
rate = "10 Mbit/s"
rtt = "20 ms"
[[flow]]
name = "f"
paths = ["a"]
size = "1 MB"
[[accept]]
rule = "flow.f.completion_s <= 2"
"#;

fn sim(folder: &Path, scenario: &str, arguments: &[&str]) -> Output {
    fs::write(folder.join("x.toml"), scenario).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpq"));
    command.current_dir(folder).args(["sim", "x.toml"]);
    command.args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn exit_codes_tell_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let good = sim(folder.path(), SCENARIO, &[]);
    assert_eq!(good.status.code(), Some(0), "{}", said(&good));
    assert!(said(&good).contains("holds: flow.f.completion_s <= 2"));
    assert!(folder
        .path()
        .join("out/sim/x/runs/base/seed-1/paths.csv")
        .exists());

    for (from, to, code, words) in [
        ("\"20 ms\"", "\"20\"", 1, "x.toml:7: "),
        ("<= 2", "<= 0.1", 8, "1 of 1 rules do not hold"),
        (
            "rtt =",
            "schedule = \"down@0s\"\nrtt =",
            7,
            "1 of 1 runs failed",
        ),
    ] {
        let text = SCENARIO.replace(from, to);
        let output = sim(folder.path(), &text, &["--out", &format!("out-{code}")]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
    }

    let other = sim(folder.path(), SCENARIO, &["--set", "flow.f.cc=reno"]);
    assert_eq!(other.status.code(), Some(6), "{}", said(&other));
    assert!(said(&other).contains("--out"));
}

#[test]
fn check_lists_the_runs_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = sim(folder.path(), SCENARIO, &["--check", "--seeds", "4,5"]);
    assert_eq!(said(&output), "base seed 4\nbase seed 5\n");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn the_runs_are_listed_for_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{SCENARIO}[sweep]\n\"flow.f.cc\" = [\"reno\", \"lia\"]\n");
    let output = sim(folder.path(), &text, &["--check", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["scenario"], "x");
    assert_eq!(plan["text"], text);
    assert_eq!(plan["scenario_sha256"].as_str().unwrap().len(), 64);
    let runs = plan["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1]["folder"], "runs/cc=lia/seed-1");
    assert_eq!(runs[1]["case"]["set"]["flow.f.cc"], "lia");
    // What is listed for a run is a scenario again, with one run.
    let of_run = sim(
        folder.path(),
        runs[1]["text"].as_str().unwrap(),
        &["--check"],
    );
    assert_eq!(said(&of_run), "base seed 1\n");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn the_schema_knows_the_keys() {
    let output = Command::new(env!("CARGO_BIN_EXE_mpq"))
        .args(["sim", "--schema"])
        .output()
        .unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys = schema["properties"].as_object().unwrap();
    for key in ["question", "duration", "link", "flow", "sweep", "accept"] {
        assert!(keys.contains_key(key), "{key}");
    }
    assert_eq!(schema["additionalProperties"], false);
}
