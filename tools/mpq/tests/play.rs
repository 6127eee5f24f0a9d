//! `mpq play` from `mpq serve`, as processes, over loopback.

mod common;

use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use common::code;
use common::dash;
use common::dirs;
use common::json;
use common::received;
use common::run;
use common::signal;
use common::stderr;
use common::until;
use common::wait;
use common::Dirs;
use common::Server;
use common::TWO_PATHS;

const SECONDS: u64 = 6;

fn movie() -> (Dirs, Server) {
    let (dirs, _) = dirs(1);
    dash::write(&dirs.www, SECONDS);
    let server = Server::start(&dirs.www, &[]);
    (dirs, server)
}

/// Every number that follows from others does.
fn check_consistent(report: &Value) {
    let segments = report["segments"].as_array().unwrap();
    let rates: Vec<f64> = segments
        .iter()
        .map(|s| s["bitrate_bps"].as_f64().unwrap())
        .collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    assert!((report["mean_bitrate_bps"].as_f64().unwrap() - mean).abs() < 1.0);
    let switches = rates.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(report["switches"], switches);

    let mut previous_start = 0.0;
    for (index, segment) in segments.iter().enumerate() {
        assert_eq!(segment["index"], index);
        let start = segment["start_ms"].as_f64().unwrap();
        assert!(start >= previous_start);
        assert!(segment["end_ms"].as_f64().unwrap() >= start);
        previous_start = start;
        let bps = segment["rep"].as_str().unwrap().parse::<u64>().unwrap();
        assert_eq!(segment["bitrate_bps"], bps);
        // styp, moof, mdat: three box headers.
        assert_eq!(segment["bytes"], 16 + 100 + bps / 8 + 24);
    }
}

#[test]
fn a_session_plays_in_real_time_over_two_paths() {
    let (dirs, server) = movie();
    let began = Instant::now();
    let output = run(dirs
        .command("play", &["--pin", &server.fingerprint])
        .args(TWO_PATHS)
        .args(["--buffer-goal", "2", "--buffer-goal-at-top", "2"])
        .args(["--json=run.json", &server.url("movie.mpd")]));
    let wall_ms = began.elapsed().as_secs_f64() * 1e3;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(dirs.names(), ["run.json"]);

    let report = json(&dirs, "run.json");
    let mut keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    keys.sort_unstable();
    let mut expected = [
        "mpd",
        "startup_ms",
        "stalls",
        "stall_ms",
        "mean_bitrate_bps",
        "switches",
        "qoe",
        "segments",
        "buffer",
        "paths",
        "transport",
    ];
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(report["mpd"], server.url("movie.mpd"));
    assert_eq!(
        report["segments"].as_array().unwrap().len(),
        SECONDS as usize
    );
    check_consistent(&report);

    // Media, startup and stalls fill the time that passed: only process start
    // and end are outside of it, and all of the buffer's history is inside.
    let played_ms = SECONDS as f64 * 1e3
        + report["startup_ms"].as_f64().unwrap()
        + report["stall_ms"].as_f64().unwrap();
    assert!(played_ms <= wall_ms, "{played_ms} of {wall_ms}");
    let corners = report["buffer"].as_array().unwrap();
    let last = corners.last().unwrap();
    assert_eq!(last[1], 0.0);
    assert!((last[0].as_f64().unwrap() - played_ms).abs() < 10.0);
    // Two seconds of goal, and one segment more at most.
    for corner in corners {
        assert!(corner[1].as_f64().unwrap() <= 3010.0, "{corner}");
    }

    let paths = report["paths"].as_array().unwrap();
    let mut locals: Vec<&str> = paths
        .iter()
        .map(|p| p["local"].as_str().unwrap().split(':').next().unwrap())
        .collect();
    locals.sort_unstable();
    assert_eq!(locals, ["127.0.0.1", "127.0.0.2"]);
    let body: u64 = report["segments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["bytes"].as_u64().unwrap())
        .sum();
    let received = received(&report);
    assert!(received > body, "{received} bytes for {body} of video");
    for path in paths {
        for name in ["path_id", "peer", "sent_bytes", "rtt_ms"] {
            assert!(!path[name].is_null(), "{name}");
        }
        let samples = path["samples"].as_array().unwrap();
        common::assert_sampled(samples);
        assert_eq!(samples.last().unwrap()[1], path["recv_bytes"]);
    }
    // stderr is a pipe: a line every five seconds, and the summary.
    let said = stderr(&output);
    assert!(said.contains("playing 0:0"), "{said}");
    assert!(said.contains("played 6.0 of 6.0 s"), "{said}");
}

#[test]
fn a_waiting_player_keeps_the_connection() {
    let (dirs, _) = dirs(1);
    dash::write(&dirs.www, 2 * SECONDS);
    // All is fetched at once; then 11 seconds of silence follow, and either
    // side's timeout alone would end the connection.
    for (server_ms, client_ms) in [("30000", "4000"), ("4000", "30000")] {
        let server = Server::start(&dirs.www, &["--idle-timeout", server_ms]);
        let output = run(dirs
            .command(
                "play",
                &[
                    "--no-verify",
                    "--idle-timeout",
                    client_ms,
                    "--json=run.json",
                ],
            )
            .arg(server.url("movie.mpd")));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let report = json(&dirs, "run.json");
        // Samples end when the connection does.
        let samples = report["paths"][0]["samples"].as_array().unwrap();
        let last_ms = samples.last().unwrap()[0].as_u64().unwrap();
        assert!(last_ms > 11_000, "gone after {last_ms} ms");
    }
}

#[test]
fn a_fixed_level_is_kept_and_a_first_level_is_only_the_first() {
    let (dirs, server) = movie();
    for (option, value, first, all_same) in [
        ("--abr", "fixed:1", dash::LADDER_BPS[1], true),
        ("--start-level", "2", dash::LADDER_BPS[2], false),
    ] {
        let output = run(dirs
            .command(
                "play",
                &["--no-verify", option, value, "-q", "--json=run.json"],
            )
            .arg(server.url("movie.mpd")));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert_eq!(stderr(&output), "");
        let report = json(&dirs, "run.json");
        check_consistent(&report);
        assert_eq!(report["segments"][0]["bitrate_bps"], first);
        if all_same {
            assert_eq!(report["switches"], 0);
        }
    }
}

#[test]
fn the_server_hears_of_the_playback_as_it_is_told_to() {
    let (dirs, _) = dirs(1);
    dash::write(&dirs.www, SECONDS);
    let server = Server::start(&dirs.www, &["-v"]);
    let log_of = |cmcd: &[&str]| {
        let before = server.log().len();
        let output = run(dirs
            .command("play", &["--no-verify", "-q", "--abr", "fixed:0"])
            .args(cmcd)
            .arg(server.url("movie.mpd")));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        server.log()[before..].to_owned()
    };
    // The server's words for what it understood: three requests are made while nothing plays yet.
    let heard = |log: &str| {
        let understood = |what| log.matches(what).count();
        assert!(understood("is_startup: true") >= 3, "{log}");
        let segments = 2 * SECONDS as usize;
        assert_eq!(understood("duration_ms: Some(1000)"), segments, "{log}");
        assert!(understood("deadline_ms: Some(") >= segments, "{log}");
        assert!(understood("buffer_ms: Some(0)") >= 2, "{log}");
        assert!(understood("buffer_ms: Some(1000)") >= 1, "{log}");
        assert!(understood("throughput_kbps: Some(") >= 1, "{log}");
    };

    let log = log_of(&[]);
    heard(&log);
    assert!(!log.contains("CMCD="), "{log}");

    let log = log_of(&["--cmcd", "query"]);
    heard(&log);
    let asked = log.matches("GET /").count();
    assert_eq!(log.matches("?CMCD=").count(), asked, "{log}");

    let log = log_of(&["--cmcd", "off"]);
    assert!(
        !log.contains("is_startup") && !log.contains("CMCD="),
        "{log}"
    );
}

#[test]
fn what_cannot_be_played_is_said() {
    let (dirs, server) = movie();
    let www = |name: &str, text: &str| std::fs::write(dirs.www.join(name), text).unwrap();
    www("page.mpd", "<html><body>Not here</body></html>");
    www(
        "cut.mpd",
        "<MPD mediaPresentationDuration=\"PT6S\"><Period>",
    );
    www(
        "live.mpd",
        "<MPD type=\"dynamic\"><Period><AdaptationSet/></Period></MPD>",
    );
    let mpd = std::fs::read_to_string(dirs.www.join("movie.mpd")).unwrap();
    let below = |base: &str| mpd.replace("<Period>", &format!("<BaseURL>{base}</BaseURL><Period>"));
    www("plain.mpd", &below("http://192.0.2.1/"));
    www("dead.mpd", &below("https://127.0.0.1:9/"));

    for (name, exit, said) in [
        ("page.mpd", 5, "is this URL really a DASH manifest"),
        ("cut.mpd", 5, "not well-formed XML"),
        ("live.mpd", 5, "availabilityStartTime"),
        ("plain.mpd", 5, "which is not https"),
        ("dead.mpd", 2, "https://127.0.0.1:9/init-"),
        ("none.mpd", 4, "404"),
    ] {
        let output = run(&mut dirs.command("play", &["--no-verify", &server.url(name)]));
        assert_eq!(code(&output), exit, "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let output = run(&mut dirs.command("play", &["--abr", "best", "https://127.0.0.1/"]));
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("rate, bba0, bola, dynamic, mpc"));
    let output = run(&mut dirs.command("play", &["--abr", "mpc:horizon=0", "https://127.0.0.1/"]));
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("horizon=5 (1 to 8)"));
}

#[test]
fn segments_come_from_the_servers_that_the_mpd_names() {
    let (dirs, server) = movie();
    let cdn = Server::start(&dirs.www, &[]);
    let mpd = std::fs::read_to_string(dirs.www.join("movie.mpd")).unwrap();
    // Port 9 is nobody's: what is asked of it first comes from the other server.
    let bases = format!(
        "<BaseURL>https://127.0.0.1:9/</BaseURL><BaseURL>{}</BaseURL><Period>",
        cdn.url("")
    );
    std::fs::write(dirs.www.join("cdn.mpd"), mpd.replace("<Period>", &bases)).unwrap();
    let args = ["--no-verify", "--cmcd", "off", "--json=run.json"];
    let output = run(dirs.command("play", &args).arg(server.url("cdn.mpd")));
    assert_eq!(code(&output), 0, "{}", stderr(&output));

    let report = json(&dirs, "run.json");
    assert_eq!(report["segments"].as_array().unwrap().len() as u64, SECONDS);
    assert_eq!(server.log().matches("GET /").count(), 1, "{}", server.log());
    let log = cdn.log();
    assert_eq!(
        log.matches("GET /seg-").count() as u64,
        2 * SECONDS,
        "{log}"
    );
    // What both carried is in the report.
    let films: u64 = report["segments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["bytes"].as_u64().unwrap())
        .sum();
    assert!(received(&report) > films);
}

#[test]
fn a_segment_that_never_comes_right_ends_the_session() {
    let (dirs, server) = movie();
    let segment = |number: u64| format!("seg-{}-{number}.m4s", dash::LADDER_BPS[0]);
    std::fs::remove_file(dirs.www.join(segment(3))).unwrap();
    let args = ["--no-verify", "--abr", "fixed:0", "--json=run.json"];
    let play = || run(dirs.command("play", &args).arg(server.url("movie.mpd")));

    let output = play();
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains(&segment(3)) && said.contains("3 times") && said.contains("404"),
        "{said}"
    );
    // The report holds what was played.
    let report = json(&dirs, "run.json");
    assert_eq!(report["segments"].as_array().unwrap().len(), 2);

    std::fs::write(dirs.www.join(segment(3)), "<!DOCTYPE html><p>An error page").unwrap();
    let output = play();
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("<!DOCTYPE html>"), "{said}");
}

#[test]
fn an_interrupted_session_reports_what_it_played() {
    let (dirs, server) = movie();
    let answers = || {
        let log = server.log();
        let sounds = log.matches("GET /seg-64000-").count();
        [log.matches("GET /seg-").count() - sounds, sounds]
    };
    for name in ["INT", "TERM"] {
        let before = answers();
        let mut child = dirs
            .command("play", &["--no-verify", "-q", "--json=run.json"])
            .arg(server.url("movie.mpd"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Picture and sound of the first second have come when those of the next
        // have been asked for.
        let enough = before.map(|count| count + 2);
        until("it plays", || {
            let [pictures, sounds] = answers();
            pictures >= enough[0] && sounds >= enough[1]
        });
        signal(&child, name);
        assert_eq!(wait(&mut child), 130);
        let report = json(&dirs, "run.json");
        assert!(report["startup_ms"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_server_that_dies_ends_the_session() {
    let (dirs, mut server) = movie();
    let mut child = dirs
        .command("play", &["--no-verify", "--idle-timeout", "1500"])
        .args(["--buffer-goal", "1", "--buffer-goal-at-top", "1"])
        .arg(server.url("movie.mpd"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Where it times out before, the end is the same.
    until("it plays", || {
        server.log().matches("GET /seg-").count() >= 2 || child.try_wait().unwrap().is_some()
    });
    server.child.kill().unwrap();
    until("the server ends", || {
        server.child.try_wait().unwrap().is_some()
    });
    let output = common::finish(child);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("timed out"), "{}", stderr(&output));
}

/// Segments appear as they are made, and the MPD lists the newest only.
#[test]
fn a_live_presentation_is_played_behind_its_present() {
    let (dirs, _) = dirs(1);
    let server = Server::start(&dirs.www, &["-v"]);
    let (stop, publisher) = dash::publish(&dirs.www);
    let output = run(dirs
        .command(
            "play",
            &["--no-verify", "--target-latency", "2", "--for", "8"],
        )
        .args(["-v", "--json=run.json"])
        .arg(server.url("live.mpd")));
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    publisher.join().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report = json(&dirs, "run.json");
    let latency = &report["latency"];
    assert_eq!(latency["target_ms"], 2_000.0);
    // Nobody sees what is not made yet; how late it is shown is the machine's affair.
    let mean_ms = latency["mean_ms"].as_f64().unwrap();
    assert!(mean_ms > 500.0, "{mean_ms}");
    let segments = report["segments"].as_array().unwrap();
    assert!(segments.len() >= 4, "{}", segments.len());
    let said = stderr(&output);
    assert!(said.contains("behind the present"), "{said}");
    // One after the other and none twice, though the MPDs begin with another one each time.
    let log = server.log();
    let asked = log.split("GET /live-").skip(1);
    let times: Vec<u64> = asked
        .filter_map(|rest| rest.split_once(".m4s")?.0.parse().ok())
        .collect();
    assert!(times.len() >= segments.len(), "{log}");
    assert!(
        times.windows(2).all(|pair| pair[1] == pair[0] + 500),
        "{times:?}"
    );
}
