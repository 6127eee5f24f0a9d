//! `mpq play --transport`: the same session over TCP and MPTCP, as processes, over loopback.

mod common;

use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use serde_json::json;
use serde_json::Value;

use common::code;
use common::dash;
use common::dirs;
use common::json as report_of;
use common::netns;
use common::received;
use common::run;
use common::stderr;
use common::tcp::listener;
use common::tcp::Asked;
use common::tcp::Origin;
use common::tcp::H2;
use common::Dirs;
use common::Server;
use common::MPQ;
use common::TWO_PATHS;

const SECONDS: u64 = 3;

fn movie() -> Dirs {
    let (dirs, _) = dirs(1);
    dash::write(&dirs.www, SECONDS);
    dirs
}

fn play(dirs: &Dirs, origin: &Origin, args: &[&str]) -> std::process::Output {
    let pin = ["--pin", origin.fingerprint.as_str(), "--json=run.json"];
    run(dirs
        .command("play", &pin)
        .args(args)
        .arg(origin.url("movie.mpd")))
}

fn body_bytes(report: &Value) -> u64 {
    let segments = report["segments"].as_array().unwrap();
    segments.iter().map(|s| s["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn a_session_over_tcp_says_what_one_over_quic_does() {
    let dirs = movie();
    let asked = Asked::default();
    let origin = Origin::start(listener(), H2, asked.files(&dirs.www, None));
    let output = play(&dirs, &origin, &["--transport", "tcp"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let tcp = report_of(&dirs, "run.json");

    let server = Server::start(&dirs.www, &[]);
    let quic = run(dirs
        .command("play", &["--no-verify", "--json=quic.json"])
        .arg(server.url("movie.mpd")));
    assert_eq!(code(&quic), 0, "{}", stderr(&quic));
    let quic = report_of(&dirs, "quic.json");
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&tcp), keys(&quic));
    assert_eq!(keys(&tcp["paths"][0]), keys(&quic["paths"][0]));
    assert_eq!(tcp["transport"], json!({"asked": "tcp", "used": "tcp"}));
    let both = json!({"asked": "h3-multipath", "used": "h3-multipath"});
    assert_eq!(quic["transport"], both);

    assert_eq!(tcp["segments"].as_array().unwrap().len(), SECONDS as usize);
    let path = &tcp["paths"][0];
    assert_eq!(path["peer"], origin.address.to_string());
    assert!(path["recv_bytes"].as_u64().unwrap() > body_bytes(&tcp));
    let samples = path["samples"].as_array().unwrap();
    common::assert_sampled(samples);
    assert_eq!(samples.last().unwrap()[1], path["recv_bytes"]);

    // MPD, init and segments of both tracks, all on one connection, and each tells of the playback.
    let requests = asked.requests.lock().unwrap();
    let segments = requests.iter().filter(|asked| asked.path.contains("/seg-"));
    assert_eq!(segments.count(), 2 * SECONDS as usize);
    assert_eq!(origin.connections.load(Ordering::SeqCst), 1);
    assert!(requests
        .iter()
        .all(|asked| asked.fields.contains_key("cmcd-session")));
}

#[test]
fn another_server_gets_a_connection_of_its_own() {
    let dirs = movie();
    let cdn = Origin::start(listener(), H2, Asked::default().files(&dirs.www, None));
    let mpd = std::fs::read_to_string(dirs.www.join("movie.mpd")).unwrap();
    let base = format!("<BaseURL>{}</BaseURL><Period>", cdn.url(""));
    std::fs::write(dirs.www.join("movie.mpd"), mpd.replace("<Period>", &base)).unwrap();
    let asked = Asked::default();
    let origin = Origin::start(listener(), H2, asked.files(&dirs.www, None));
    // Each has a certificate of its own.
    let args = ["--transport", "tcp", "--no-verify", "--json=run.json"];
    let output = run(dirs.command("play", &args).arg(origin.url("movie.mpd")));
    assert_eq!(code(&output), 0, "{}", stderr(&output));

    let report = report_of(&dirs, "run.json");
    let paths = report["paths"].as_array().unwrap();
    let peers: Vec<&Value> = paths.iter().map(|path| &path["peer"]).collect();
    assert_eq!(
        peers,
        [
            &json!(origin.address.to_string()),
            &json!(cdn.address.to_string())
        ]
    );
    assert!(paths[1]["recv_bytes"].as_u64().unwrap() > body_bytes(&report));
    assert_eq!(asked.requests.lock().unwrap().len(), 1);
    assert_eq!(cdn.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_segment_that_comes_late_is_tried_again() {
    let dirs = movie();
    let files = Asked::default().files(&dirs.www, None);
    let late = format!("/seg-{}-3.m4s", dash::LADDER_BPS[0]);
    let is_late = Arc::new(AtomicBool::new(true));
    let origin = Origin::start(listener(), H2, move |request| {
        let is_it = request.uri().path() == late;
        let mut response = files(request);
        if is_it && is_late.swap(false, Ordering::SeqCst) {
            *response.status_mut() = hyper::StatusCode::NOT_FOUND;
        }
        response
    });
    let args = ["--transport", "tcp", "--abr", "fixed:0", "-v"];
    let output = play(&dirs, &origin, &args);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("404"), "{}", stderr(&output));
    let report = report_of(&dirs, "run.json");
    let segments = report["segments"].as_array().unwrap();
    assert_eq!(segments.len(), SECONDS as usize);
}

#[test]
fn live_comes_over_tcp_too() {
    let (dirs, _) = dirs(1);
    let origin = Origin::start(listener(), H2, Asked::default().files(&dirs.www, None));
    let (stop, publisher) = dash::publish(&dirs.www);
    let output = run(dirs
        .command("play", &["--no-verify", "--transport", "tcp"])
        .args(["--target-latency", "2", "--for", "4", "--json=run.json"])
        .arg(origin.url("live.mpd")));
    stop.store(true, Ordering::Relaxed);
    publisher.join().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report = report_of(&dirs, "run.json");
    assert_eq!(report["latency"]["target_ms"], 2_000.0);
    assert!(!report["segments"].as_array().unwrap().is_empty());
    assert_eq!(origin.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn http3_over_one_path_uses_one_path() {
    let dirs = movie();
    let server = Server::start(&dirs.www, &[]);
    let output = run(dirs
        .command("play", &["--no-verify", "--transport", "h3"])
        .args(TWO_PATHS)
        .args(["--json=run.json", &server.url("movie.mpd")]));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(!said.contains("note"), "{said}");
    let report = report_of(&dirs, "run.json");
    assert_eq!(report["transport"], json!({"asked": "h3", "used": "h3"}));
    let paths = report["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 1);
    assert!(paths[0]["local"]
        .as_str()
        .unwrap()
        .starts_with("127.0.0.1:"));

    // And who asks for both is told if there are none.
    let server = Server::start(&dirs.www, &["--no-multipath"]);
    let output = run(dirs
        .command("play", &["--no-verify", "--json=run.json"])
        .arg(server.url("movie.mpd")));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report = report_of(&dirs, "run.json");
    assert_eq!(report["transport"]["used"], "h3");
    let said = stderr(&output);
    assert!(said.contains("over HTTP/3 over one path, not"), "{said}");
}

#[test]
fn a_segment_that_is_given_up_is_reset() {
    let dirs = movie();
    let asked = Asked::default();
    let top = "seg-1800000-2";
    let origin = Origin::start(listener(), H2, asked.files(&dirs.www, Some(top)));
    let args = ["--transport", "tcp", "--abr", "rate:abandon=on"];
    let output = play(
        &dirs,
        &origin,
        &[&args[..], &["--start-level", "2"]].concat(),
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report = report_of(&dirs, "run.json");
    assert_eq!(
        report["segments"].as_array().unwrap().len(),
        SECONDS as usize
    );
    // The stream was let go while the connection went on: the last request found it so.
    assert_eq!(asked.requests.lock().unwrap().last().unwrap().dropped, 1);
    assert_eq!(origin.connections.load(Ordering::SeqCst), 1);
    assert!(report["segments"][1]["bitrate_bps"].as_u64().unwrap() < 1_800_000);
}

#[test]
fn what_fails_is_said() {
    let dirs = movie();
    let tcp = ["--transport", "tcp"];
    let files = || Asked::default().files(&dirs.www, None);
    let origin = Origin::start(listener(), H2, files());
    let url = origin.url("movie.mpd");
    let fails = |args: &[&str], url: &str, expected: i32, says: &str| {
        let output = run(dirs.command("play", args).args(tcp).arg(url));
        let said = stderr(&output);
        assert_eq!(code(&output), expected, "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    };
    fails(&[], &url, 3, "--pin SHA256");
    fails(&["--pin", &"0".repeat(64)], &url, 3, "not the pinned one");
    fails(&["--session", "kept"], &url, 1, "--session");
    fails(&["--no-verify"], &origin.url("none.mpd"), 4, "404");

    let old = Origin::start(listener(), b"\x08http/1.1", files());
    fails(&["--no-verify"], &old.url("movie.mpd"), 2, "http2 on;");

    // Nobody listens there.
    let gone = format!("https://{}/movie.mpd", listener().local_addr().unwrap());
    fails(&["--no-verify"], &gone, 2, "cannot be reached over TCP");
    // Nobody answers there.
    let silent = listener();
    let silent = format!("https://{}/movie.mpd", silent.local_addr().unwrap());
    let args = ["--no-verify", "--handshake-timeout", "300"];
    fails(&args, &silent, 2, "over TCP");
}

#[test]
fn a_server_that_falls_silent_ends_the_session() {
    let dirs = movie();
    let files = Asked::default().files(&dirs.www, None);
    let origin = Origin::start(listener(), H2, move |request| {
        // All of the origin waits, its answers to pings with it.
        if request.uri().path().ends_with("-2.m4s") {
            std::thread::sleep(common::LIMIT);
        }
        files(request)
    });
    let output = play(
        &dirs,
        &origin,
        &["--transport", "tcp", "--idle-timeout", "1500"],
    );
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("has not answered for --idle-timeout"),
        "{said}"
    );
    // What was played is reported.
    let report = report_of(&dirs, "run.json");
    assert_eq!(report["segments"].as_array().unwrap().len(), 1);
}

fn kernel_has_mptcp() -> bool {
    std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|value| value.trim() == "1")
}

fn mptcp_listener() -> TcpListener {
    let protocol = Some(socket2::Protocol::MPTCP);
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, protocol);
    let socket = socket.unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(16).unwrap();
    socket.into()
}

#[test]
fn mptcp_says_what_became_of_it() {
    let dirs = movie();
    let files = || Asked::default().files(&dirs.www, None);
    let mptcp = ["--transport", "mptcp"];
    let plain = Origin::start(listener(), H2, files());
    let output = play(&dirs, &plain, &mptcp);
    let said = stderr(&output);
    if !kernel_has_mptcp() {
        assert_eq!(code(&output), 6, "{said}");
        assert!(said.contains("net.mptcp.enabled=1"), "{said}");
        return;
    }
    assert_eq!(code(&output), 0, "{said}");
    assert!(said.contains("note: this is plain TCP"), "{said}");
    assert!(said.contains("over TCP, not MPTCP"), "{said}");
    let transport = &report_of(&dirs, "run.json")["transport"];
    assert_eq!(transport["used"], "tcp");
    assert!(transport["why"]
        .as_str()
        .unwrap()
        .contains("did not answer"));

    let origin = Origin::start(mptcp_listener(), H2, files());
    let output = play(&dirs, &origin, &mptcp);
    let said = stderr(&output);
    assert_eq!(code(&output), 0, "{said}");
    assert!(!said.contains("plain TCP"), "{said}");
    let report = report_of(&dirs, "run.json");
    assert_eq!(
        report["transport"],
        json!({"asked": "mptcp", "used": "mptcp"})
    );
    assert_eq!(report["paths"][0]["peer"], origin.address.to_string());
    assert!(received(&report) > body_bytes(&report));
}

#[test]
#[ignore = "network namespaces: ci/test net"]
fn netns_a_kernel_without_mptcp_is_named() {
    let space = netns::name("mptcp", 'c');
    netns::command(&format!("ip netns add {space}"));
    if kernel_has_mptcp() {
        netns::command(&format!(
            "ip netns exec {space} sysctl -qw net.mptcp.enabled=0"
        ));
    }
    let output = Command::new("ip")
        .args(["netns", "exec", &space, MPQ, "play", "--transport", "mptcp"])
        .args(["--no-verify", "https://127.0.0.1:1/movie.mpd"])
        .output()
        .unwrap();
    netns::delete(&[&space]);
    assert_eq!(code(&output), 6);
    let said = stderr(&output);
    assert!(said.contains("net.mptcp.enabled=1"), "{said}");
}
