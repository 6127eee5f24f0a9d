//! `mpq get` over networks that break.
//!
//! Each test ends with the whole file or with a clear error, and within a bound.

mod common;

use std::net::UdpSocket;
use std::process::Child;
use std::process::Output;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use common::code;
use common::dirs;
use common::finish;
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

/// Over the two links of a relay this takes more than two seconds.
const FILE_BYTES: usize = 4_000_000;

/// Enough to know that a link is in use.
const SOME_BYTES: u64 = 300_000;

/// A download over two links that can be broken.
struct Transfer {
    dirs: Dirs,
    data: Vec<u8>,
    relay: Relay,
    // Last, so that it outlives the relay.
    server: Server,
}

impl Transfer {
    fn new(server_options: &[&str]) -> Transfer {
        let (dirs, data) = dirs(FILE_BYTES);
        let server = Server::start(&dirs.www, server_options);
        let relay = Relay::start(server.port);
        Transfer {
            dirs,
            data,
            relay,
            server,
        }
    }

    fn start(&self, options: &[&str]) -> Child {
        self.dirs
            .get(&["--no-verify", "--json=report.json"])
            .args(TWO_PATHS)
            .args(["--connect-to", &self.relay.address()])
            .args(options)
            .arg(self.server.url("file.bin"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn until_link_carries(&self, index: u8, bytes: u64) {
        let goal = self.relay.link(index).delivered() + bytes;
        until("the link carries enough", || {
            self.relay.link(index).delivered() >= goal
        });
    }

    /// Whether `output` is that of a complete download; the report.
    fn check_whole(&self, output: &Output) -> Value {
        assert_eq!(code(output), 0, "{}", stderr(output));
        assert_eq!(self.dirs.names(), ["file.bin", "report.json"]);
        let file = std::fs::read(self.dirs.cwd.join("file.bin")).unwrap();
        assert_eq!(sha256(&file), sha256(&self.data));
        let report = json(&self.dirs, "report.json");
        assert_eq!(report["files"][0]["sha256"], sha256(&self.data));
        report
    }
}

fn path_ids(report: &Value) -> Vec<u64> {
    let mut ids: Vec<u64> = report["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path["path_id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    ids
}

#[test]
fn two_good_links_share_a_download() {
    let transfer = Transfer::new(&[]);
    let report = transfer.check_whole(&finish(transfer.start(&[])));
    assert_eq!(path_ids(&report), [0, 1]);
    for index in [0, 1] {
        assert!(transfer.relay.link(index).delivered() > FILE_BYTES as u64 / 4);
    }
}

#[test]
fn a_server_without_multipath_is_noted_and_serves_on_one_path() {
    for options in [&["--no-multipath"][..], &["--max-path-id", "0"][..]] {
        let transfer = Transfer::new(options);
        let output = finish(transfer.start(&[]));
        let report = transfer.check_whole(&output);
        assert_eq!(path_ids(&report), [0]);
        assert_eq!(transfer.relay.link(1).delivered(), 0);
        let said = stderr(&output);
        assert!(said.contains("using one path"), "{options:?}: {said}");
    }
}

#[test]
fn a_refused_port_is_a_network_error() {
    let (dirs, _) = dirs(1);
    // Bound and closed again: the kernel refuses what comes.
    let port = {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap().port()
    };
    let output = run(dirs
        .get(&["--no-verify", "--handshake-timeout", "1000"])
        .arg(format!("https://127.0.0.1:{port}/file.bin")));
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains(&port.to_string()));
    assert_eq!(dirs.names(), [""; 0]);
}

#[test]
fn a_name_that_does_not_resolve_is_a_network_error() {
    let (dirs, _) = dirs(1);
    let output = run(&mut dirs.get(&["https://name.invalid/file.bin"]));
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot resolve name.invalid"));
    assert_eq!(dirs.names(), [""; 0]);
}

#[test]
fn a_path_gets_a_new_port_from_a_nat() {
    for index in [0, 1] {
        let transfer = Transfer::new(&[]);
        let child = transfer.start(&[]);
        transfer.until_link_carries(index, SOME_BYTES);
        transfer.relay.link(index).rebind();
        // The path goes on behind its new address.
        transfer.until_link_carries(index, SOME_BYTES);
        transfer.check_whole(&finish(child));
        assert!(!transfer.relay.link(index).is_rebinding());
    }
}

#[test]
fn a_path_that_never_validates_does_not_hold_up_the_other() {
    let transfer = Transfer::new(&[]);
    transfer.relay.link(1).set_down(true);
    let output = finish(transfer.start(&[]));
    transfer.check_whole(&output);
    assert_eq!(transfer.relay.link(1).delivered(), 0);
}

#[test]
fn a_path_of_small_datagrams_does_not_hold_up_the_other() {
    let transfer = Transfer::new(&[]);
    transfer.relay.link(1).set_max_datagram(1200);
    transfer.check_whole(&finish(transfer.start(&[])));
}

#[test]
fn jumbo_frames_that_only_the_interface_carries() {
    for links in [&[0][..], &[1], &[0, 1]] {
        let transfer = Transfer::new(&[]);
        for link in links {
            transfer.relay.link(*link).set_max_datagram(1500);
        }
        transfer.check_whole(&finish(transfer.start(&[])));
    }
}

#[test]
fn jumbo_frames_that_are_not_carried_any_more() {
    for index in [0, 1] {
        let transfer = Transfer::new(&[]);
        let child = transfer.start(&[]);
        transfer.until_link_carries(index, SOME_BYTES);
        transfer.relay.link(index).set_max_datagram(1500);
        transfer.until_link_carries(index, SOME_BYTES);
        transfer.check_whole(&finish(child));
    }
}

#[test]
fn a_link_that_dies_silently_leaves_the_other() {
    for index in [0, 1] {
        let transfer = Transfer::new(&[]);
        let child = transfer.start(&[]);
        transfer.until_link_carries(index, SOME_BYTES);
        transfer.relay.link(index).set_down(true);
        transfer.check_whole(&finish(child));
    }
}

#[test]
fn both_links_die_and_one_returns() {
    for index in [0, 1] {
        let transfer = Transfer::new(&[]);
        let child = transfer.start(&[]);
        for link in [0, 1] {
            transfer.until_link_carries(link, SOME_BYTES);
        }
        for link in [0, 1] {
            transfer.relay.link(link).set_down(true);
        }
        std::thread::sleep(Duration::from_secs(3));
        transfer.relay.link(index).set_down(false);
        transfer.check_whole(&finish(child));
    }
}

#[test]
fn both_links_die_for_good() {
    let transfer = Transfer::new(&[]);
    let child = transfer.start(&["--idle-timeout", "2000"]);
    transfer.until_link_carries(1, SOME_BYTES);
    for link in [0, 1] {
        transfer.relay.link(link).set_down(true);
    }
    let output = finish(child);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("timed out"), "{}", stderr(&output));
    let names = transfer.dirs.names();
    assert!(!names.contains(&"file.bin".into()), "{names:?}");
    assert!(!names.contains(&"file.bin.part".into()), "{names:?}");
}

#[test]
fn a_server_told_to_stop_finishes_what_runs_on_two_paths() {
    let transfer = Transfer::new(&[]);
    let child = transfer.start(&[]);
    transfer.until_link_carries(1, SOME_BYTES);
    signal(&transfer.server.child, "TERM");
    transfer.check_whole(&finish(child));
}
