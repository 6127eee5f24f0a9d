//! `mpq tune` from the outside: a scenario, servers, results; what it keeps, and what it refuses.

mod common;

use std::fs;

use common::code;
use common::dirs;
use common::json;
use common::stderr;
use common::Dirs;
use common::Server;

/// A path that blocks small buffers beside one that does not need it.
const SITES: &str = r#"question = "?"
expected = "?"
duration = "1 s"
[[link]]
name = "near"
rate = "6 Mbit/s"
rtt = "20 ms"
[[link]]
name = "far"
rate = "0.2 Mbit/s"
rtt = "600 ms"
queue = "1 s"
[[flow]]
name = "f"
paths = ["near", "far"]
scheduler = "round-robin"
ack_detours = false
[sweep]
"flow.f.cc" = ["lia", "olia"]
[[accept]]
rule = "flow.f.goodput_mbps > 1"
"#;

const CHOICES: [&str; 12] = [
    "--controllers",
    "uncoupled-cubic,vegas",
    "--buffers",
    "0.03125,0.0625,0.5",
    "--time",
    "5",
    "--rounds",
    "2",
    "--out",
    "tuned",
    "--json=report.json",
    "--quiet",
];

fn sites() -> Dirs {
    let (dirs, _) = dirs(0);
    fs::write(dirs.cwd.join("sites.toml"), SITES).unwrap();
    dirs
}

#[test]
fn a_pair_of_sites_in_virtual_time() {
    let dirs = sites();
    let tune = |more: &[&str]| {
        dirs.command("tune", &["sites.toml"])
            .args(CHOICES)
            .args(more)
            .output()
            .unwrap()
    };
    let output = tune(&[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report = json(&dirs, "report.json");
    // The far path takes more than it brings, and is left out.
    assert_eq!(report["paths"], "pcdc-quick", "{report}");
    let impacts = report["impacts"]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap();
    assert!(impacts["far"].as_f64().unwrap() < -0.1, "{report}");
    assert!(report["mbps"].as_f64().unwrap() > 4.0, "{report}");
    assert!(report["of_traditional"].as_f64().unwrap() < 1.0, "{report}");
    assert_eq!(report["at_choice"].as_array().unwrap().len(), 2);
    let bytes = report["buffer_bytes"].as_u64().unwrap();
    let lines = report["configuration"].to_string();
    assert!(
        lines.contains(&format!("quic_send_buffer {bytes};")),
        "{lines}"
    );
    let cost = report["cost"]["seconds"].as_f64().unwrap();
    assert!(cost > 20.0 && cost < 80.0, "{cost}");
    let page = fs::read_to_string(dirs.cwd.join("tuned/index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("equation 1") && page.contains("chosen"));

    // The same again takes nothing but what is there, to the digit.
    let kept = fs::read_to_string(dirs.cwd.join("tuned/measurements.jsonl")).unwrap();
    assert_eq!(code(&tune(&[])), 0);
    assert_eq!(json(&dirs, "report.json"), report);
    assert_eq!(
        fs::read_to_string(dirs.cwd.join("tuned/measurements.jsonl")).unwrap(),
        kept
    );

    // Another seed is another measurement, and does not get mixed up with these.
    let output = tune(&["--seed", "7"]);
    assert_eq!(code(&output), 6);
    assert!(stderr(&output).contains("--out"), "{}", stderr(&output));
}

#[test]
fn a_dry_run_measures_nothing() {
    let dirs = sites();
    let output = dirs
        .command(
            "tune",
            &["sites.toml", "--dry-run", "--method", "published"],
        )
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    // 6 controllers, 2 managers, 60 buffers, 9 times, 30 s.
    assert!(said.contains("6480 at most, 194400 s"), "{said}");
    assert_eq!(dirs.names(), ["sites.toml"]);
}

#[test]
fn a_server_that_is_there() {
    let (dirs, _) = dirs(2_000_000);
    let server = Server::start(&dirs.www, &[]);
    let url = server.url("file.bin");
    let output = dirs
        .command(
            "tune",
            &["--pin", &server.fingerprint, "--managers", "full-mesh"],
        )
        .args([
            "--buffers",
            "0.25,1",
            "--time",
            "0.5",
            "--rounds",
            "1",
            "--out",
            "tuned",
        ])
        .args(["--json=report.json", "--quiet", &url])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report = json(&dirs, "report.json");
    assert_eq!(report["cc"], "server's");
    assert!(report["mbps"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["cost"]["bytes"].as_u64().unwrap() > 0, "{report}");
    let lines = report["configuration"].to_string();
    assert!(!lines.contains("--cc"), "{lines}");

    // What is not there fails as a download does, and says which.
    let output = dirs
        .command(
            "tune",
            &[
                "--pin",
                &server.fingerprint,
                "--time",
                "0.5",
                "--out",
                "other",
            ],
        )
        .arg(server.url("nothing"))
        .output()
        .unwrap();
    assert_eq!(code(&output), 4);
    assert!(stderr(&output).contains("404"), "{}", stderr(&output));
}

#[test]
fn results_that_are_there() {
    let dirs = sites();
    // From formulas: lia's best is at the largest buffer, olia's is less.
    let mut runs = Vec::new();
    for (cc, best) in [("lia", 20.0), ("olia", 12.0)] {
        for mib in [1.0, 2.0, 4.0, 8.0, 16.0] {
            runs.push(serde_json::json!({
                "set": { "flow.f.cc": cc, "flow.f.flow_control": format!("{mib}MiB") },
                "status": "ok",
                "metrics": {
                    "flow.f.goodput_mbps": best * (0.5 + mib / 32.0),
                    "flow.f.path.a.goodput_mbps": 9.0,
                    "flow.f.path.a.mean_srtt_ms": 500.0,
                },
            }));
        }
    }
    fs::create_dir(dirs.cwd.join("results")).unwrap();
    let summary = serde_json::json!({ "runs": runs }).to_string();
    fs::write(dirs.cwd.join("results/summary.json"), summary).unwrap();
    let output = dirs
        .command("tune", &["results", "--json=report.json", "--quiet"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report = json(&dirs, "report.json");
    assert_eq!(report["cc"], "lia");
    assert_eq!(report["paths"], "full-mesh");
    // 20 Mbit/s at 16 MiB; 18.6 are at 0.43 of 32.
    assert!(
        (report["buffer_mib"].as_f64().unwrap() - 13.76).abs() < 0.01,
        "{report}"
    );
    assert!(
        report["models"][0]["r_square"].as_f64().unwrap() > 0.99,
        "{report}"
    );
    // (3 x 0.5 + 1) s of 9 Mbit/s.
    assert!(
        (report["traditional_mib"].as_f64().unwrap() - 2.682).abs() < 0.01,
        "{report}"
    );

    let output = dirs.command("tune", &["nowhere"]).output().unwrap();
    assert_eq!(code(&output), 1);
}
