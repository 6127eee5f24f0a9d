//! `mpq sim` from the outside: exit codes and what is printed.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;

use common::signal;
use common::until;
use common::wait;

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

/// Every file below `folder` by its name, but for what differs between two equal runs: manifests have
/// a wall time.
fn results(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("manifest.json") {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                all.insert(name, fs::read(path).unwrap());
            }
        }
    }
    all
}

fn manifest(folder: &Path) -> serde_json::Value {
    let text = fs::read_to_string(folder.join("manifest.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn assert_same(a: &BTreeMap<PathBuf, Vec<u8>>, b: &BTreeMap<PathBuf, Vec<u8>>) {
    assert!(a.keys().eq(b.keys()), "{:?} and {:?}", a.keys(), b.keys());
    for (name, bytes) in a {
        assert!(bytes == &b[name], "{} differs", name.display());
    }
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
    let dash = schema["$defs"]["Dash"]["properties"].as_object().unwrap();
    for key in ["video", "segment", "abr", "buffer_goal"] {
        assert!(dash.contains_key(key), "{key}");
    }
    let path = &schema["$defs"]["Flow"]["properties"]["paths"]["items"];
    assert!(path.to_string().contains("FlowPath"), "{path}");
}

/// Everything that is drawn or timed, for a minute: loss, jitter, reordering, rates that change, an
/// outage, paths that join, leave and wait, and every kind of flow.
const LONG: &str = r#"question = "Does everything repeat?"
expected = "yes"
duration = "65 s"
sample = "250 ms"
[[link]]
name = "wifi"
rate = "4 Mbit/s"
rtt = "20 ms"
loss = "gilbert:p=0.2%,r=30%"
schedule = "rate=2 Mbit@20s,rate=5 Mbit@30s,down@40s,up@45s"
[[link]]
name = "lte"
rate = "3 Mbit/s"
rtt = "60 ms"
jitter = "5 ms"
loss = "0.3 %"
reorder = "0.5 % by 8 ms"
aqm = "codel"
[[flow]]
name = "tv"
paths = ["wifi", { name = "lte", start = "3 s" }]
cc = "olia"
[flow.dash]
video = ["300 kbit/s", "700 kbit/s", "1500 kbit/s"]
audio = "64 kbit/s"
segment = "2 s"
length = "50 s"
abr = "dynamic"
[[flow]]
name = "bulk"
paths = ["lte", { name = "wifi", stop = "50 s" }]
cc = "lia"
[[flow]]
name = "up"
paths = ["wifi", { name = "lte", backup = true }]
direction = "up"
size = "4 MB"
[[flow]]
name = "web"
paths = ["lte"]
count = 3
start_spread = "2 s"
requests = { response = "30 kB", pause = "500 ms" }
"#;

#[test]
fn two_processes_send_the_same_packets_and_write_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for out in ["one", "two"] {
        let output = sim(folder.path(), LONG, &["--out", out, "--quiet"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let run = |out: &str| folder.path().join(out).join("runs/base/seed-1");
    let (one, two) = (manifest(&run("one")), manifest(&run("two")));
    assert!(one["packets"].as_u64().unwrap() > 50_000, "{one}");
    assert_eq!(one["packets"], two["packets"]);
    assert_eq!(one["packet_log"], two["packet_log"]);
    let written = results(&folder.path().join("one"));
    assert!(written.len() >= 8, "{:?}", written.keys());
    assert_same(&written, &results(&folder.path().join("two")));

    let other = sim(folder.path(), LONG, &["--out", "other", "--seeds", "2"]);
    assert_eq!(other.status.code(), Some(0), "{}", said(&other));
    let other = manifest(&folder.path().join("other/runs/base/seed-2"));
    assert_ne!(one["packet_log"], other["packet_log"]);
}

#[test]
fn the_manifest_says_what_made_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let output = sim(folder.path(), SCENARIO, &["--out", "out", "--seeds", "7"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let run = manifest(&folder.path().join("out/runs/base/seed-7"));
    assert_eq!(run["seed"], 7);
    let command = run["command"].as_array().unwrap();
    assert_eq!(
        command[1..],
        ["sim", "x.toml", "--out", "out", "--seeds", "7"]
    );
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    assert!(
        text(&run["versions"]["rustc"]).starts_with("rustc 1."),
        "{run}"
    );
    assert!(text(&run["versions"]["quiche"]).starts_with("0."), "{run}");
    for hash in ["patch_series", "scenario_sha256"] {
        let hash = text(&run[hash]);
        assert!(hash.len() == 64 && hash.chars().all(|c| c.is_ascii_hexdigit()));
    }
    assert!(!text(&run["commit"]).is_empty());
}

#[test]
fn an_interrupted_sweep_goes_on_to_the_same_results() {
    let folder = tempfile::tempdir().unwrap();
    let text = SCENARIO
        .replace("duration = \"20 s\"", "duration = \"20 s\"\nseeds = [1, 2]")
        .replace("\"1 MB\"", "\"12 MB\"")
        .replace("completion_s <= 2", "completion_s <= 13")
        + "[sweep]\n\"flow.f.cc\" = [\"cubic\", \"reno\", \"vegas\", \"hybla\"]\n";
    let whole = sim(folder.path(), &text, &["--out", "whole", "--jobs", "1"]);
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));

    let runs = folder.path().join("parts/runs");
    let is_done = |cc: &str, seed: u32| {
        let run = runs.join(format!("cc={cc}/seed-{seed}"));
        run.join("summary.json").exists()
    };
    let mut child = loop {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mpq"))
            .current_dir(folder.path())
            .args(["sim", "x.toml", "--out", "parts", "--jobs", "1", "--quiet"])
            .spawn()
            .unwrap();
        until("the first run ends", || is_done("cubic", 1));
        // It stands still when the signal comes, and has something left to do.
        signal(&child, "STOP");
        let state = format!("/proc/{}/stat", child.id());
        until("it stands", || {
            let state = fs::read_to_string(&state).unwrap();
            let (_, state) = state.rsplit_once(") ").unwrap();
            state.starts_with(['T', 'Z'])
        });
        let all = ["cubic", "reno", "vegas", "hybla"];
        if !all.iter().all(|cc| is_done(cc, 1) && is_done(cc, 2)) {
            break child;
        }
        signal(&child, "CONT");
        wait(&mut child);
        fs::remove_dir_all(folder.path().join("parts")).unwrap();
    };
    signal(&child, "INT");
    signal(&child, "CONT");
    assert_eq!(wait(&mut child), 130);
    let first = runs.join("cc=cubic/seed-1/summary.json");
    let written = fs::read(&first).unwrap();
    let summary = fs::read_to_string(folder.path().join("parts/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let finished = summary["runs"].as_array().unwrap().len();
    assert!((1..8).contains(&finished), "{finished} of 8 runs");
    let first_manifest = manifest(first.parent().unwrap());

    let rest = sim(folder.path(), &text, &["--out", "parts", "--jobs", "1"]);
    assert_eq!(rest.status.code(), Some(0), "{}", said(&rest));
    assert_eq!(fs::read(&first).unwrap(), written);
    // The wall time would differ if it had been run again.
    assert_eq!(manifest(first.parent().unwrap()), first_manifest);
    let results_of = |out: &str| results(&folder.path().join(out));
    assert_same(&results_of("whole"), &results_of("parts"));
}
