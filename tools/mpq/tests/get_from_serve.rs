//! `mpq get` from `mpq serve`, as processes, over loopback.

mod common;

use std::io::Read;
use std::process::Stdio;

use mpq_identity::Identity;

use common::code;
use common::dirs;
use common::json;
use common::received;
use common::relay::Relay;
use common::sha256;
use common::signal;
use common::stderr;
use common::until;
use common::wait;
use common::Server;
use common::TWO_PATHS;

#[test]
fn a_download_is_intact_and_reported() {
    let (dirs, data) = dirs(3_000_000);
    let server = Server::start(&dirs.www, &[]);
    let url = server.url("file.bin");
    let output = dirs
        .get(&["--pin", &server.fingerprint])
        .args(TWO_PATHS)
        .args(["--json=report.json", &url])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(dirs.names(), ["file.bin", "report.json"]);
    assert!(std::fs::read(dirs.cwd.join("file.bin")).unwrap() == data);

    let report = json(&dirs, "report.json");
    assert_eq!(report["files"][0]["url"], url);
    assert_eq!(report["files"][0]["bytes"], 3_000_000);
    assert_eq!(report["files"][0]["sha256"], sha256(&data));
    assert!(report["goodput_bps"].as_f64().unwrap() > 0.0);

    assert!(received(&report) > 3_000_000);
    for path in report["paths"].as_array().unwrap() {
        let last = path["samples"].as_array().unwrap().last().unwrap();
        assert_eq!(last[1], path["recv_bytes"]);
        for name in ["path_id", "local", "peer", "sent_bytes", "rtt_ms", "lost"] {
            assert!(!path[name].is_null(), "{name}");
        }
    }

    signal(&server.child, "TERM");
    let (code, log) = server.wait();
    assert_eq!(code, 0);
    assert!(
        log.contains("\"GET /file.bin\" 200 3000000 bytes") && log.contains("complete paths 0="),
        "{log}"
    );
}

#[test]
fn several_files_share_a_connection_and_a_range_is_a_part() {
    let (dirs, data) = dirs(500_000);
    std::fs::write(dirs.www.join("b.txt"), b"second").unwrap();
    let server = Server::start(&dirs.www, &[]);
    let output = dirs
        .get(&["--no-verify", &server.url("file.bin"), &server.url("b.txt")])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(std::fs::read(dirs.cwd.join("file.bin")).unwrap() == data);
    assert_eq!(std::fs::read(dirs.cwd.join("b.txt")).unwrap(), b"second");

    let output = dirs
        .get(&["--no-verify", "-o", "-", "--range", "1000-1999"])
        .arg(server.url("file.bin"))
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(output.stdout == data[1000..2000]);
}

#[test]
fn an_error_status_leaves_no_file() {
    let (dirs, _) = dirs(10);
    let server = Server::start(&dirs.www, &[]);
    for (args, said) in [
        (&["--no-verify"][..], "404"),
        (&["--no-verify", "--range", "50-60"][..], "416"),
    ] {
        let file = if said == "404" { "none" } else { "file.bin" };
        let output = dirs.get(args).arg(server.url(file)).output().unwrap();
        assert_eq!(code(&output), 4);
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert_eq!(dirs.names(), [""; 0]);
    }
}

#[test]
fn the_certificate_is_checked() {
    let (dirs, _) = dirs(10);
    let server = Server::start(&dirs.www, &[]);
    let url = server.url("file.bin");
    let wrong = "00".repeat(32);
    for args in [&[][..], &["--pin", &wrong][..]] {
        let output = dirs.get(args).arg(&url).output().unwrap();
        assert_eq!(code(&output), 3, "{}", stderr(&output));
        assert!(stderr(&output).contains("certificate"));
        assert_eq!(dirs.names(), [""; 0]);
    }

    // A certificate that is its own authority, for the name asked for.
    let made = Identity::new(["127.0.0.1".into()]).unwrap();
    let files = made.files().unwrap();
    let [cert, key] = [&files.certificate, &files.key].map(|file| file.to_str().unwrap());
    let server = Server::start(&dirs.www, &["--cert", cert, "--key", key]);
    let output = dirs
        .get(&["--trust-origin-ca-pem", cert])
        .arg(server.url("file.bin"))
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));

    // The same authority, but another name or address than the certificate's.
    for host in ["localhost", "127.0.0.9"] {
        let url = server.url("file.bin").replace("127.0.0.1", host);
        let there = format!("127.0.0.1:{}", server.port);
        let output = dirs
            .get(&["--trust-origin-ca-pem", cert, "--connect-to", &there, &url])
            .output()
            .unwrap();
        assert_eq!(code(&output), 3, "{host}: {}", stderr(&output));
    }
}

#[test]
fn a_body_that_ends_early_is_an_error() {
    let (dirs, data) = dirs(40_000_000);
    let server = Server::start(&dirs.www, &[]);
    let mut child = dirs
        .get(&["--no-verify", "-q", "-o", "-", &server.url("file.bin")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();

    // The pipe holds the client back while the file loses its second half.
    let mut stdout = child.stdout.take().unwrap();
    let mut first = vec![0; 1000];
    stdout.read_exact(&mut first).unwrap();
    assert!(first == data[..1000]);
    let file = std::fs::File::options()
        .write(true)
        .open(dirs.www.join("file.bin"))
        .unwrap();
    file.set_len(20_000_000).unwrap();
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    assert_eq!(wait(&mut child), 5);
    assert!(rest.len() < 20_000_000);
}

#[test]
fn a_full_disk_is_a_local_error() {
    let (dirs, _) = dirs(100_000);
    let server = Server::start(&dirs.www, &[]);
    let output = dirs
        .get(&["--no-verify", "-o", "/dev/full", &server.url("file.bin")])
        .output()
        .unwrap();
    assert_eq!(code(&output), 6);
    assert!(
        stderr(&output).contains("No space left"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_interrupted_download_leaves_only_its_report() {
    let (dirs, _) = dirs(10);
    dirs.add_huge();
    let server = Server::start(&dirs.www, &[]);
    let mut child = dirs
        .get(&["--no-verify", "-q", "--json=report.json"])
        .arg(server.url("huge"))
        .spawn()
        .unwrap();
    let part = dirs.cwd.join("huge.part");
    until("something arrives", || {
        part.metadata().map_or(0, |meta| meta.len()) >= 100_000
    });
    signal(&child, "INT");
    assert_eq!(wait(&mut child), 130);
    assert_eq!(dirs.names(), ["report.json"]);
    let report = json(&dirs, "report.json");
    assert_eq!(report["files"], serde_json::json!([]));
    assert!(report["goodput_bps"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_stopped_server_finishes_what_runs() {
    let (dirs, data) = dirs(3_000_000);
    let server = Server::start(&dirs.www, &[]);
    // Slow, so that it runs when the signal comes.
    let relay = Relay::start(server.port);
    let mut child = dirs
        .get(&["--no-verify", "-q", "--connect-to", &relay.address()])
        .arg(server.url("file.bin"))
        .spawn()
        .unwrap();
    until("something arrives", || relay.link(0).delivered() > 100_000);
    signal(&server.child, "TERM");
    assert_eq!(wait(&mut child), 0);
    assert!(std::fs::read(dirs.cwd.join("file.bin")).unwrap() == data);
    let (code, _) = server.wait();
    assert_eq!(code, 0);
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let (dirs, _) = dirs(10);
    dirs.add_huge();
    let server = Server::start(&dirs.www, &[]);
    let relay = Relay::start(server.port);
    let mut child = dirs
        .get(&["--no-verify", "-q", "-o", "/dev/null"])
        .args(["--connect-to", &relay.address(), &server.url("huge")])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("something arrives", || relay.link(0).delivered() > 100_000);
    signal(&server.child, "TERM");
    // Two signals that wait are one.
    until("the server has seen it", || {
        server.log().contains("stopping")
    });
    signal(&server.child, "TERM");
    let (code, _) = server.wait();
    assert_eq!(code, 0);
    assert_eq!(wait(&mut child), 2, "the client is told that it is over");
}

#[test]
fn wrong_usage_says_so() {
    let (dirs, _) = dirs(1);
    for args in [
        &["http://127.0.0.1/"][..],
        &[][..],
        &["--path", "nosuchif0", "https://127.0.0.1/"][..],
        &["-o", "-", "--json", "https://127.0.0.1/"][..],
    ] {
        let output = dirs.get(args).output().unwrap();
        assert_eq!(code(&output), 1, "{args:?}: {}", stderr(&output));
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn a_wrong_controller_or_scheduler_shows_what_would_be_right() {
    let (dirs, _) = dirs(1);
    for (option, value, said) in [
        (
            "--cc",
            "warp",
            "no congestion controller is called \"warp\"; use one of: reno, cubic,",
        ),
        (
            "--cc",
            "hybla:rtt0=25",
            "\"25\" is no value for rtt0 of hybla; use one like rtt0=25ms (1ms to 1s)",
        ),
        (
            "--cc",
            "hybla:rho=3",
            "hybla has no parameter \"rho\"; use any of: rtt0=25ms (1ms to 1s), rho_max=16 (1 to 16)",
        ),
        (
            "--sched",
            "warp",
            "no scheduler is called \"warp\"; use one of: min-rtt",
        ),
    ] {
        let output = dirs
            .get(&[option, value, "https://127.0.0.1/"])
            .output()
            .unwrap();
        assert_eq!(code(&output), 1);
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
}

#[test]
fn a_controller_with_parameters_carries_a_download() {
    let (dirs, data) = dirs(300_000);
    let controller = ["--cc", "dc-ledbat:ret=10s,zeta=1"];
    let server = Server::start(&dirs.www, &controller);
    let output = dirs
        .get(&controller)
        .args(["--no-verify", &server.url("file.bin")])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let file = std::fs::read(dirs.cwd.join("file.bin")).unwrap();
    assert_eq!(sha256(&file), sha256(&data));
}

#[test]
fn nobody_there_is_a_network_error() {
    let (dirs, _) = dirs(1);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("https://127.0.0.1:{port}/");
    let output = dirs
        .get(&["--handshake-timeout", "300", &url])
        .output()
        .unwrap();
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("no answer"), "{}", stderr(&output));
    assert_eq!(dirs.names(), [""; 0]);
}

#[test]
fn qlog_of_both_ends() {
    let (dirs, _) = dirs(300_000);
    let logs = dirs.cwd.join("not/yet");
    let options = ["--qlog", logs.to_str().unwrap()];
    let server = Server::start(&dirs.www, &options);
    let relay = Relay::start(server.port);
    let output = dirs
        .get(&options)
        .args(["--no-verify", "--connect-to", &relay.address()])
        .args(TWO_PATHS)
        .arg(server.url("file.bin"))
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    signal(&server.child, "TERM");
    assert_eq!(server.wait().0, 0);
    for side in ["client", "server"] {
        let events = common::qlog(&logs, side);
        let is_there = |name: &str, path_id: u64| {
            let of_path = |e: &serde_json::Value| {
                e["data"]["path_id"] == path_id || e["data"]["header"]["path_id"] == path_id
            };
            events.iter().any(|e| e["name"] == name && of_path(e))
        };
        for path_id in [0, 1] {
            assert!(is_there("quic:packet_sent", path_id), "{side} {path_id}");
        }
        assert!(is_there("multipath:path_validated", 1), "{side}");
    }

    let file = dirs.www.join("file.bin");
    let output = dirs
        .get(&["--qlog", file.to_str().unwrap(), "https://127.0.0.1:1/"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 6);
    assert!(
        stderr(&output).contains("cannot write qlog"),
        "{}",
        stderr(&output)
    );
}

/// What the columns of LIA's rows say, as far as there is a sample.
struct Lia {
    path_id: usize,
    cwnd_bytes: f64,
    rtt_secs: f64,
    a: f64,
}

#[test]
fn the_trace_of_a_controller_follows_its_equation() {
    let (dirs, _) = dirs(3_000_000);
    let file = dirs.cwd.join("lia.csv");
    // Datagrams of one size, so that windows in bytes stand for those in packets.
    let trace = file.to_str().unwrap();
    let options = ["--cc", "lia", "--max-datagram", "1200", "--cc-trace", trace];
    let server = Server::start(&dirs.www, &options);
    let relay = Relay::start(server.port);
    let output = dirs
        .get(&["--no-verify"])
        .args(TWO_PATHS)
        .args(["--connect-to", &relay.address(), &server.url("file.bin")])
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    signal(&server.child, "TERM");
    assert_eq!(server.wait().0, 0);

    let mut table = csv::Reader::from_path(&file).unwrap();
    let columns: Vec<String> = table.headers().unwrap().iter().map(Into::into).collect();
    let fixed = "time_s connection path_id controller event phase cwnd_bytes ssthresh_bytes \
                 srtt_us min_rtt_us a";
    assert_eq!(columns.join(" "), fixed);

    let mut last: [Option<Lia>; 2] = [None, None];
    let (mut opened, mut checked, mut time) = (0, 0, 0.0);
    for row in table.records() {
        let row = row.unwrap();
        let number = |column: usize| row[column].parse::<f64>().unwrap();
        assert!(number(0) >= time, "{row:?}");
        time = number(0);
        assert!(!row[1].is_empty(), "{row:?}");
        assert_eq!(&row[3], "lia");
        assert!(matches!(&row[4], "opened" | "acked" | "lost"), "{row:?}");
        opened += usize::from(&row[4] == "opened");
        if row[8].is_empty() {
            continue;
        }
        assert!(number(9) <= number(8) * 1.5, "{row:?}");
        let lia = Lia {
            path_id: number(2) as usize,
            cwnd_bytes: number(6),
            rtt_secs: number(8) * 1e-6,
            a: number(10),
        };
        let a = lia.a;
        let path_id = lia.path_id;
        last[path_id] = Some(lia);
        let [Some(first), Some(second)] = &last else {
            continue;
        };
        // RFC 6356, equation 2.
        let paths = [first, second];
        let total: f64 = paths.iter().map(|p| p.cwnd_bytes).sum();
        let rate: f64 = paths.iter().map(|p| p.cwnd_bytes / p.rtt_secs).sum();
        let best = paths.map(|p| p.cwnd_bytes / p.rtt_secs.powi(2));
        let expected = total * best[0].max(best[1]) / rate.powi(2);
        // RTTs of some 100 us are rounded to one.
        assert!((a / expected - 1.0).abs() < 0.05, "{expected}: {row:?}");
        checked += 1;
    }
    assert_eq!(opened, 2);
    assert!(checked >= 10, "{checked}");
}

#[test]
fn a_trace_needs_a_controller_that_tells() {
    let (dirs, _) = dirs(10);
    for (options, exit, said) in [
        (
            &["--cc", "cubic", "--cc-trace", "t.csv"][..],
            1,
            "--cc uncoupled-cubic",
        ),
        (
            &["--cc", "lia", "--cc-trace", "none/t.csv"][..],
            6,
            "none/t.csv",
        ),
    ] {
        let output = dirs
            .get(options)
            .arg("https://127.0.0.1:9/x")
            .output()
            .unwrap();
        assert_eq!(code(&output), exit, "{}", stderr(&output));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert_eq!(dirs.names(), [""; 0]);
    }
}
