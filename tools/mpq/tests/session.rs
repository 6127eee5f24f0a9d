//! Runs that go on from what earlier ones kept: `mpq get --session`, `mpq serve --remember` and `--early-data`.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use mpq_identity::Identity;
use serde_json::Value;

use common::code;
use common::dirs;
use common::json;
use common::relay::Relay;
use common::run;
use common::sha256;
use common::signal;
use common::stderr;
use common::until;
use common::Dirs;
use common::Server;
use common::TWO_PATHS;

/// Long enough for both paths to fill the queues of their links.
const FILE_BYTES: usize = 4_000_000;

/// From and to a server that is 25 ms away, over two links.
struct Visits {
    dirs: Dirs,
    data: Vec<u8>,
    relay: Relay,
    // Last, so that it outlives the relay.
    server: Server,
}

impl Visits {
    fn new(server_options: &[&str]) -> Visits {
        let (dirs, data) = dirs(FILE_BYTES);
        std::fs::write(dirs.www.join("small"), [7; 1000]).unwrap();
        let server = Server::start(&dirs.www, server_options);
        let relay = Relay::with_delay(server.port, Duration::from_millis(25));
        Visits {
            dirs,
            data,
            relay,
            server,
        }
    }

    /// One run, from two addresses, and its report.
    fn get(&self, file: &str, options: &[&str]) -> Value {
        let output = self.try_get(file, &TWO_PATHS, options);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let report = json(&self.dirs, "report.json");
        if file == "file.bin" {
            assert_eq!(report["files"][0]["sha256"], sha256(&self.data));
        }
        report
    }

    fn try_get(&self, file: &str, paths: &[&str], options: &[&str]) -> Output {
        let mut command = self
            .dirs
            .get(&["--no-verify", "--session=kept", "--json=report.json"]);
        command.args(paths).args(options);
        command.args(["--connect-to", &self.relay.address()]);
        run(command.arg(self.server.url(file)))
    }

    /// What the server has said of the paths of those who come back.
    fn said_of(&self, path_id: u64, what: &str) -> usize {
        let what = format!("path {path_id} {what}");
        self.server.log().matches(&what).count()
    }

    fn kept(&self) -> PathBuf {
        self.dirs.cwd.join("kept")
    }

    fn token(&self) -> Option<String> {
        let kept: Value = serde_json::from_slice(&std::fs::read(self.kept()).unwrap()).unwrap();
        let token = kept["servers"][self.name()]["token"].as_str()?;
        Some(token.to_owned())
    }

    fn set_token(&self, token: &str) {
        let mut kept: Value = serde_json::from_slice(&std::fs::read(self.kept()).unwrap()).unwrap();
        kept["servers"][self.name()]["token"] = token.into();
        std::fs::write(self.kept(), kept.to_string()).unwrap();
    }

    fn name(&self) -> String {
        format!("127.0.0.1:{}", self.server.port)
    }
}

/// By doubling a path begins so slowly that its jump is seen.
const REMEMBERS: [&str; 4] = ["--cc", "olia:start=slow", "--remember", "600"];

#[test]
fn both_paths_resume_where_they_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    let traces = ["--cc-trace", trace.to_str().unwrap()];
    let visits = Visits::new(&[&REMEMBERS[..], &traces[..]].concat());
    let first = visits.get("file.bin", &[]);
    assert_eq!(first["connections"][0]["resumed"], false);
    assert_eq!(visits.said_of(0, ""), 0);
    let mode = std::fs::metadata(visits.kept()).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);

    // On a busy machine a path may carry too little in one visit to be known in the next.
    let mut used = None;
    for _ in 0..10 {
        let before = visits.token();
        let report = visits.get("file.bin", &[]);
        assert_eq!(report["connections"][0]["server"], visits.name());
        assert_eq!(report["connections"][0]["resumed"], true);
        if used.is_none() && visits.said_of(0, "resumes: ") > 0 {
            assert_ne!(visits.token(), before);
            used = before;
        }
        if [0, 1].iter().all(|id| visits.said_of(*id, "resumes: ") > 0) {
            break;
        }
    }
    assert!(
        visits.said_of(1, "resumes: ") > 0,
        "{}",
        visits.server.log()
    );

    // The token of the visit before that is worth nothing any more.
    let resumed = visits.said_of(0, "resumes: ");
    let was_used = || visits.said_of(0, "begins anew: what is known of it was used");
    let before = was_used();
    visits.set_token(&used.expect("the first path never resumed"));
    visits.get("small", &[]);
    until("the used token is known", || was_used() == before + 1);
    assert_eq!(visits.said_of(0, "resumes: "), resumed);

    // And somebody went on with half of what was remembered. Not each does: a busy machine shows other RTTs, or losses.
    for _ in 0..2 {
        visits.get("file.bin", &[]);
    }
    let log = visits.server.log();
    let resumed = log.lines().filter(|line| line.contains(" resumes: "));
    let halves: Vec<(String, String)> = resumed
        .map(|line| {
            let (before, after) = line.split_once(" resumes: ").unwrap();
            let path_id = before.rsplit(' ').next().unwrap();
            let bytes: u64 = after.split(' ').next().unwrap().parse().unwrap();
            (path_id.to_owned(), (bytes / 2).to_string())
        })
        .collect();
    assert!(halves.len() >= 2, "{log}");
    signal(&visits.server.child, "TERM");
    until("a jump", || {
        let trace = std::fs::read_to_string(&trace).unwrap();
        let is_jump = |row: &str| {
            let fields: Vec<&str> = row.split(',').collect();
            // The last row may be a part of one.
            let [_, _, path_id, _, "acked", _, cwnd, ..] = fields[..] else {
                return false;
            };
            halves
                .iter()
                .any(|half| half.0 == path_id && half.1 == cwnd)
        };
        trace.lines().any(is_jump)
    });
}

#[test]
fn another_network_begins_anew() {
    let visits = Visits::new(&REMEMBERS);
    visits.get("file.bin", &[]);

    // The handshake runs over the path that was the second one, and the first has become another network.
    let paths = ["--path", "127.0.0.2", "--path", "127.0.0.3"];
    let output = visits.try_get("file.bin", &paths, &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    until("both paths are judged", || {
        visits.said_of(0, "resumes: ") == 1
            && visits.said_of(1, "begins anew: nothing is known of its addresses") == 1
    });
}

#[test]
fn memory_has_an_end() {
    let visits = Visits::new(&["--cc", "olia", "--remember", "1"]);
    // On a busy machine a path may carry too little in one visit to be known in the next.
    for n in 1..=10 {
        visits.get("file.bin", &[]);
        std::thread::sleep(Duration::from_millis(2100));
        visits.get("small", &[]);
        visits.server.until_answered("GET /small", n);
        if visits.said_of(0, "begins anew: what is known of it is too old") > 0 {
            break;
        }
    }
    assert!(
        visits.said_of(0, "begins anew: what is known of it is too old") > 0,
        "{}",
        visits.server.log()
    );
    assert_eq!(visits.said_of(0, "resumes: "), 0);
}

#[test]
fn a_token_that_was_changed_is_none() {
    let visits = Visits::new(&REMEMBERS);
    visits.get("file.bin", &[]);
    let token = visits.token().unwrap();
    for position in [0, token.len() / 2, token.len() - 1] {
        let mut forged = token.clone().into_bytes();
        forged[position] = if forged[position] == b'0' { b'1' } else { b'0' };
        visits.set_token(std::str::from_utf8(&forged).unwrap());
        visits.get("small", &[]);
    }
    // Nor does one of another length do harm, or one that is cut.
    for other in ["00", &token[..token.len() - 2], &format!("{token}00")] {
        visits.set_token(other);
        visits.get("small", &[]);
    }
    visits.server.until_answered("GET /small", 6);
    assert_eq!(visits.said_of(0, ""), 0, "{}", visits.server.log());

    // The true one is as good as ever. On a busy machine the path may have carried too little to be known by it.
    visits.set_token(&token);
    for visit in 7..17 {
        visits.get("small", &[]);
        visits.server.until_answered("GET /small", visit);
        if visits.said_of(0, "resumes: ") == 1 {
            return;
        }
        visits.get("file.bin", &[]);
    }
    panic!("the path never resumes: {}", visits.server.log());
}

#[test]
fn a_request_goes_with_the_first_packets_and_a_second_path_opens() {
    let visits = Visits::new(&["--early-data"]);
    let first = visits.get("file.bin", &[]);
    assert!(first["connections"][0]["early_data"].is_null());

    let second = visits.get("file.bin", &[]);
    assert_eq!(second["connections"][0]["early_data"], "accepted");
    assert_eq!(paths_with_data(&second), 2);

    // If the client does not want it, or has become another one.
    let third = visits.get("small", &["--no-early-data"]);
    assert_eq!(third["connections"][0]["resumed"], true);
    assert!(third["connections"][0]["early_data"].is_null());
    let output = visits.try_get("small", &["--path", "127.0.0.3"], &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let fourth = json(&visits.dirs, "report.json");
    assert_eq!(fourth["connections"][0]["resumed"], true);
    assert!(fourth["connections"][0]["early_data"].is_null());
}

#[test]
fn a_request_that_came_too_early_is_answered_all_the_same() {
    let mut visits = Visits::new(&["--early-data"]);
    visits.get("file.bin", &[]);

    // A server that cannot read the session, and one that takes no early data.
    for options in [&["--early-data"][..], &[][..]] {
        let port = visits.server.port.to_string();
        visits.server.child.kill().unwrap();
        visits.server.child.wait().unwrap();
        let listen = format!("127.0.0.1:{port}");
        visits.server = Server::start_in(None, &visits.dirs.www, &listen, options);

        let report = visits.get("file.bin", &[]);
        assert_eq!(report["connections"][0]["early_data"], "rejected");
        assert_eq!(report["connections"][0]["resumed"], false);
        assert_eq!(paths_with_data(&report), 2);
    }
}

#[test]
fn a_session_that_nobody_verified_is_not_trusted() {
    let (dirs, _) = dirs(10);
    let made = Identity::new(["127.0.0.1".into()]).unwrap();
    let files = made.files().unwrap();
    let [cert, key] = [&files.certificate, &files.key].map(|file| file.to_str().unwrap());
    let options = ["--early-data", "--cert", cert, "--key", key];
    let server = Server::start(&dirs.www, &options);
    let get = |options: &[&str]| {
        let mut command = dirs.get(&["--session=kept", "--json=report.json"]);
        code(&run(command.args(options).arg(server.url("file.bin"))))
    };
    let is_resumed = || json(&dirs, "report.json")["connections"][0]["resumed"] == true;

    assert_eq!(get(&["--no-verify"]), 0);
    assert_eq!(get(&[]), 3);
    // With its authority it has to show its certificate once, and is known then.
    assert_eq!(get(&["--trust-origin-ca-pem", cert]), 0);
    assert!(!is_resumed());
    assert_eq!(get(&["--trust-origin-ca-pem", cert]), 0);
    assert!(is_resumed());
    assert_eq!(get(&[]), 3);
}

#[test]
fn what_cannot_work_is_said_at_once() {
    let visits = Visits::new(&[]);
    let www = visits.dirs.www.to_str().unwrap();
    let output = run(&mut visits.dirs.command("serve", &[www, "--remember", "600"]));
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("resumes no window"),
        "{}",
        stderr(&output)
    );

    std::fs::write(visits.kept(), "notes").unwrap();
    let output = visits.try_get("small", &TWO_PATHS, &[]);
    assert_ne!(code(&output), 0);
    assert!(stderr(&output).contains("no file of --session"));
    assert_eq!(std::fs::read(visits.kept()).unwrap(), b"notes");
}

/// Paths that carried more than what opens one.
fn paths_with_data(report: &Value) -> usize {
    let paths = report["paths"].as_array().unwrap();
    let bytes = paths
        .iter()
        .map(|path| path["recv_bytes"].as_u64().unwrap());
    bytes
        .filter(|bytes| *bytes > FILE_BYTES as u64 / 10)
        .count()
}
