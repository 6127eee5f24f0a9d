//! The program in real network namespaces: `ci/test net` runs these.

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// For what must come: a hang is a failure, and slowness is none.
const PATIENCE: Duration = Duration::from_secs(180);
const FULL_PAYLOAD: usize = 1472;

/// Two ends and a wire between them, gone when dropped.
struct Net {
    spaces: [String; 3],
    wire: Option<Child>,
    replies: Option<BufReader<std::process::ChildStdout>>,
    report: std::path::PathBuf,
}

fn command(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .expect(line);
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Net {
    fn new(test: &str, wire: &str) -> Net {
        let space = |side| format!("mpqwire-{}-{test}-{side}", std::process::id());
        let report = std::env::temp_dir().join(space("json"));
        let mut net = Net {
            spaces: ["a", "m", "b"].map(space),
            wire: None,
            replies: None,
            report,
        };
        for space in &net.spaces {
            command(&format!("ip netns add {space}"));
        }
        let [a, m, b] = &net.spaces;
        for (space, outer, inner, address) in
            [(a, "va", "wa", "10.99.0.1"), (b, "vb", "wb", "10.99.0.2")]
        {
            command(&format!(
                "ip link add name {outer} netns {space} type veth peer name {inner} netns {m}"
            ));
            command(&format!("ip -n {space} addr add {address}/24 dev {outer}"));
            for (space, interface) in [(space, outer), (m, inner)] {
                let off = "tso off gso off gro off tx off rx off";
                command(&format!(
                    "ip netns exec {space} ethtool -K {interface} {off}"
                ));
                command(&format!(
                    "ip netns exec {space} sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=1"
                ));
                command(&format!("ip -n {space} link set dev {interface} up"));
            }
        }
        let program = env!("CARGO_BIN_EXE_mpq-wire");
        let mut child = Command::new("ip")
            .args([
                "netns",
                "exec",
                m,
                program,
                "--a",
                "wa",
                "--b",
                "wb",
                "--control",
                "--json",
            ])
            .arg(&net.report)
            .args(wire.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("mpq-wire starts");
        net.replies = child.stdout.take().map(BufReader::new);
        net.wire = Some(child);
        assert_eq!(net.reply(), "ready");
        net
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.replies.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim().into()
    }

    fn tell(&mut self, text: &str) -> String {
        let input = self.wire.as_mut().unwrap().stdin.as_mut().unwrap();
        writeln!(input, "{text}").unwrap();
        self.reply()
    }

    /// Waits until a counter of the direction from A to B has come to `count`.
    fn until_counted(&mut self, counter: &str, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.count(counter) < count {
            assert!(Instant::now() < deadline, "{counter} is not {count}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// A counter of the direction from A to B.
    fn count(&mut self, counter: &str) -> u64 {
        let stats: serde_json::Value = serde_json::from_str(&self.tell("stats")).unwrap();
        stats["a_to_b"][counter].as_u64().unwrap()
    }

    /// UDP sockets at the two ends, connected to each other; neighbours are resolved already.
    fn sockets(&self) -> (UdpSocket, UdpSocket) {
        let bind = |space: &str, address: &'static str| {
            let file = File::open(format!("/run/netns/{space}")).unwrap();
            // A thread of its own enters the namespace; the socket stays there when it is done.
            thread::spawn(move || {
                let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(result, 0, "setns: {}", std::io::Error::last_os_error());
                UdpSocket::bind(address).unwrap()
            })
            .join()
            .unwrap()
        };
        let a = bind(&self.spaces[0], "10.99.0.1:7000");
        let b = bind(&self.spaces[2], "10.99.0.2:7000");
        a.connect("10.99.0.2:7000").unwrap();
        b.connect("10.99.0.1:7000").unwrap();
        for socket in [&a, &b] {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        a.send(b"x").unwrap();
        assert_eq!(b.recv(&mut [0; 16]).unwrap(), 1);
        b.send(b"x").unwrap();
        assert_eq!(a.recv(&mut [0; 16]).unwrap(), 1);
        (a, b)
    }

    /// Ends the wire by closing its input, and returns its report.
    fn finish(mut self) -> serde_json::Value {
        let mut child = self.wire.take().unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        serde_json::from_str(&std::fs::read_to_string(&self.report).unwrap()).unwrap()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if let Some(mut child) = self.wire.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for space in &self.spaces {
            let _ = Command::new("ip").args(["netns", "del", space]).output();
        }
        let _ = std::fs::remove_file(&self.report);
    }
}

/// Datagrams that arrive at `socket` until none does for `quiet`.
fn count_until_quiet(socket: &UdpSocket, quiet: Duration) -> usize {
    socket.set_read_timeout(Some(quiet)).unwrap();
    let mut buffer = [0; 2048];
    let mut count = 0;
    while socket.recv(&mut buffer).is_ok() {
        count += 1;
    }
    count
}

#[test]
#[ignore = "needs network namespaces"]
fn netns_a_round_trip_takes_both_delays() {
    let net = Net::new("rtt", "--rate 12mbit --delay 10ms --b-to-a delay=30ms");
    let (a, b) = net.sockets();
    let mut buffer = [0; 64];
    let mut round_trip = || {
        let start = Instant::now();
        a.send(b"ping").unwrap();
        b.recv(&mut buffer).unwrap();
        b.send(b"pong").unwrap();
        a.recv(&mut buffer).unwrap();
        start.elapsed()
    };
    // The least is what the link adds, and the rest is the machine's: one in many must be without it.
    let deadline = Instant::now() + PATIENCE;
    let mut least = Duration::MAX;
    for count in 1.. {
        least = least.min(round_trip());
        assert!(least >= Duration::from_millis(40), "{least:?}");
        if count >= 11 && least < Duration::from_millis(45) {
            break;
        }
        assert!(Instant::now() < deadline, "{least:?} of {count}");
    }
    net.finish();
}

#[test]
#[ignore = "needs network namespaces"]
fn netns_below_the_queue_nothing_is_lost() {
    let net = Net::new("below", "--rate 20mbit --delay 5ms --queue 50packets");
    let (a, b) = net.sockets();
    let mut buffer = [0; 2048];
    // Never more than 40 are under way, however late this process or the wire is.
    let (mut sent, mut arrived) = (0, 0);
    while arrived < 400 {
        while sent < 400 && sent - arrived < 40 {
            a.send(&[0; FULL_PAYLOAD]).unwrap();
            sent += 1;
        }
        b.recv(&mut buffer).unwrap();
        arrived += 1;
    }
    assert_eq!(count_until_quiet(&b, Duration::from_millis(300)), 0);
    let report = net.finish();
    for counter in [
        "loss",
        "queue_drop",
        "ring_full",
        "socket_drop",
        "send_error",
        "oversize",
    ] {
        assert_eq!(report["a_to_b"][counter], 0, "{counter}");
    }
    assert_eq!(report["a_to_b"]["unfinished_checksum"], 0);
}

/// So slow that no packet of full size leaves the queue before 120 s.
const STANDSTILL: &str = "rate 100bit";

#[test]
#[ignore = "needs network namespaces"]
fn netns_overload_fills_the_queue_and_drops_the_rest() {
    let mut net = Net::new("overload", "--rate 12mbit --delay 10ms --queue 20packets");
    let (a, b) = net.sockets();
    // What resolves the neighbours has left the queue then.
    a.send(b"first").unwrap();
    b.recv(&mut [0; 64]).unwrap();
    assert!(net.tell(STANDSTILL).starts_with("ok"));
    let before = net.count("rx_frames");
    for _ in 0..100 {
        a.send(&[0; FULL_PAYLOAD]).unwrap();
    }
    net.until_counted("rx_frames", before + 100);
    // But for the queue's 20.
    assert_eq!(net.count("queue_drop"), 80);
    net.finish();
}

#[test]
#[ignore = "needs network namespaces"]
fn netns_an_outage_is_silent_and_ends() {
    let mut net = Net::new("outage", "--rate 12mbit --delay 5ms");
    let (a, b) = net.sockets();
    let mut buffer = [0; 64];
    assert!(net.tell("down").starts_with("ok"));
    for _ in 0..10 {
        a.send(b"into the void").unwrap();
    }
    net.until_counted("down_drop", 10);
    assert!(net.tell("up").starts_with("ok"));
    a.send(b"back").unwrap();
    // The first that arrives, so nothing came out of the void.
    assert_eq!(b.recv(&mut buffer).unwrap(), "back".len());
    assert!(net.tell("a-to-b loss 100%").starts_with("ok"));
    a.send(b"lost").unwrap();
    net.until_counted("loss", 1);
    b.send(b"not lost").unwrap();
    assert_eq!(a.recv(&mut buffer).unwrap(), "not lost".len());
    assert_eq!(count_until_quiet(&b, Duration::from_millis(300)), 0);
    assert!(net.tell("rate 3").contains("unit is missing"));
    let stats: serde_json::Value = serde_json::from_str(&net.tell("stats")).unwrap();
    assert_eq!(stats["a_to_b"]["down_drop"], 10);
    assert_eq!(stats["a_to_b"]["loss"], 1);
    net.finish();
}

#[test]
#[ignore = "needs network namespaces"]
fn netns_a_live_outage_drops_what_waits_and_keeps_what_was_sent() {
    let mut net = Net::new("waiting", "--rate 12mbit --delay 1s --queue 50packets");
    let (a, b) = net.sockets();
    let mut buffer = [0; 2048];
    a.send(b"first").unwrap();
    b.recv(&mut buffer).unwrap();
    let before = net.count("rx_frames");
    a.send(b"sent").unwrap();
    net.until_counted("rx_frames", before + 1);
    assert!(net.tell(STANDSTILL).starts_with("ok"));
    for _ in 0..4 {
        a.send(&[0; FULL_PAYLOAD]).unwrap();
    }
    net.until_counted("rx_frames", before + 5);
    assert!(net.tell("down").starts_with("ok"));
    assert_eq!(net.count("down_drop"), 4);
    // Of five.
    let len = b.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"sent");
    net.finish();
}

#[test]
#[ignore = "needs network namespaces"]
fn netns_signals_write_the_report_and_end_the_link() {
    let mut net = Net::new("signals", "--rate 12mbit --delay 1ms");
    let pid = net.wire.as_ref().unwrap().id() as libc::pid_t;
    // `ip netns exec` replaces itself by the program, so its pid is the wire's.
    unsafe { libc::kill(pid, libc::SIGUSR1) };
    let deadline = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(&net.report).is_ok_and(|text| text.ends_with("}\n")) {
        assert!(Instant::now() < deadline, "no report after SIGUSR1");
        thread::sleep(Duration::from_millis(10));
    }
    unsafe { libc::kill(pid, libc::SIGTERM) };
    assert!(net.wire.take().unwrap().wait().unwrap().success());
}
