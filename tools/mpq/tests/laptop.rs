//! `mpq get` on a laptop, in network namespaces: Wi-Fi and LTE, each with a default route of its
//! own, no policy routing, `rp_filter` as distributions set it, and no privileges. `ci/test net`
//! runs these.

mod common;

use std::io::BufRead;
use std::io::BufReader;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use common::code;
use common::dirs;
use common::finish;
use common::json;
use common::netns;
use common::netns::command;
use common::signal;
use common::stderr;
use common::until;
use common::Dirs;
use common::Server;
use common::MPQ;

const SERVER: &str = "203.0.113.2";
const SERVER_V6: &str = "2001:db8:f::2";

/// Of Wi-Fi and LTE each.
const RATE: &str = "8mbit";

/// What [`LONG`] takes five minutes with over both: it is under way until the test makes them faster.
const SLOW: &str = "400kbit";
const LONG: usize = 30_000_000;

/// The networks that Wi-Fi finds in turn, and the one of LTE.
fn wifi(n: u32) -> [String; 2] {
    [format!("192.168.{n}.2"), format!("192.168.{n}.1")]
}

/// A laptop, a router and a server; gone when dropped.
struct Net {
    laptop: String,
    router: String,
    server: String,
}

impl Net {
    /// Without addresses on the laptop.
    fn new(test: &str) -> Net {
        let net = Net {
            laptop: netns::name(test, 'l'),
            router: netns::name(test, 'r'),
            server: netns::name(test, 's'),
        };
        let Net {
            laptop,
            router,
            server,
        } = &net;
        for space in [laptop, router, server] {
            command(&format!("ip netns add {space}"));
            command(&format!("ip -n {space} link set lo up"));
            for setting in ["all.accept_dad", "default.accept_dad"] {
                command(&format!(
                    "ip netns exec {space} sysctl -qw net.ipv6.conf.{setting}=0"
                ));
            }
        }
        for setting in ["ipv4.ip_forward", "ipv6.conf.all.forwarding"] {
            command(&format!(
                "ip netns exec {router} sysctl -qw net.{setting}=1"
            ));
        }
        for (inner, space, outer) in [
            ("wlan0", laptop, "wifi"),
            ("wwan0", laptop, "lte"),
            ("eth0", server, "net"),
        ] {
            command(&format!(
                "ip link add name {inner} netns {space} type veth peer name {outer} netns {router}"
            ));
            command(&format!("ip -n {space} link set {inner} up"));
            command(&format!("ip -n {router} link set {outer} up"));
        }
        net.set_rate("add", RATE);
        for n in 1..=21 {
            let [_, gateway] = wifi(n);
            command(&format!("ip -n {router} addr add {gateway}/24 dev wifi"));
        }
        command(&format!("ip -n {router} addr add 10.64.0.1/24 dev lte"));
        command(&format!("ip -n {router} addr add 2001:db8:1::1/64 dev lte"));
        command(&format!("ip -n {router} addr add 203.0.113.1/24 dev net"));
        command(&format!("ip -n {router} addr add 2001:db8:f::1/64 dev net"));
        command(&format!("ip -n {server} addr add {SERVER}/24 dev eth0"));
        command(&format!("ip -n {server} addr add {SERVER_V6}/64 dev eth0"));
        command(&format!("ip -n {server} route add default via 203.0.113.1"));
        command(&format!(
            "ip -n {server} -6 route add default via 2001:db8:f::1"
        ));
        net.rp_filter(2);
        net
    }

    /// As distributions have it after a while in two networks.
    fn with_both(test: &str) -> Net {
        let net = Net::new(test);
        net.join_wifi(1);
        net.join_lte();
        net
    }

    /// Of both links.
    fn set_rate(&self, action: &str, rate: &str) {
        for outer in ["wifi", "lte"] {
            command(&format!(
                "tc -n {} qdisc {action} dev {outer} root tbf rate {rate} burst 20kb latency 50ms",
                self.router
            ));
        }
    }

    fn slow_down(&self) {
        self.set_rate("change", SLOW);
    }

    fn speed_up(&self) {
        self.set_rate("change", "80mbit");
    }

    fn rp_filter(&self, value: u8) {
        for name in ["all", "wlan0", "wwan0"] {
            command(&format!(
                "ip netns exec {} sysctl -qw net.ipv4.conf.{name}.rp_filter={value}",
                self.laptop
            ));
        }
    }

    fn join_wifi(&self, n: u32) {
        let [address, gateway] = wifi(n);
        self.ip(&format!("addr add {address}/24 dev wlan0"));
        self.ip(&format!(
            "route add default via {gateway} dev wlan0 metric 600"
        ));
    }

    fn leave_wifi(&self) {
        self.ip("addr flush dev wlan0");
    }

    fn join_lte(&self) {
        self.ip("addr add 10.64.0.2/24 dev wwan0");
        self.ip("route add default via 10.64.0.1 dev wwan0 metric 700");
    }

    /// On the laptop.
    fn ip(&self, what: &str) {
        command(&format!("ip -n {} {what}", self.laptop));
    }

    fn serve(&self, dirs: &Dirs, address: &str) -> Server {
        Server::start_in(Some(&self.server), &dirs.www, address, &[])
    }

    /// Begins a download, without any capability.
    fn get(&self, dirs: &Dirs, args: &[&str]) -> Child {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.laptop, "setpriv"]);
        command.args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]);
        command
            .args([MPQ, "get", "--no-verify", "--json=run.json"])
            .args(args)
            .current_dir(&dirs.cwd)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Bytes that the laptop received on an interface.
    fn received(&self, interface: &str) -> u64 {
        netns::received(&self.laptop, interface)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        netns::delete(&[&self.laptop, &self.router, &self.server]);
    }
}

/// A VPN over Wi-Fi, to the router; gone when dropped.
struct Vpn {
    ends: [Child; 2],
}

impl Vpn {
    const LAPTOP: &str = "10.8.0.2";
    const ROUTER: &str = "203.0.113.1";

    /// Its default route is preferred to all others.
    fn up(net: &Net) -> Vpn {
        let [wifi, gateway] = wifi(1);
        // Else what the VPN sends would go into it again.
        let router = Vpn::ROUTER;
        net.ip(&format!("route replace {router} via {gateway} dev wlan0"));
        let end = |space: &str, from: &str, to: &str, address: &str| {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/tun.py");
            let mut child = Command::new("ip")
                .args(["netns", "exec", space, "python3", script])
                .args(["tun0", from, "5555", to])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            let stdout = child.stdout.take().unwrap();
            BufReader::new(stdout).read_line(&mut line).unwrap();
            assert_eq!(line, "up\n");
            command(&format!("ip -n {space} addr add {address}/24 dev tun0"));
            command(&format!("ip -n {space} link set tun0 mtu 1400 up"));
            child
        };
        let ends = [
            end(&net.router, router, &wifi, "10.8.0.1"),
            end(&net.laptop, &wifi, router, Vpn::LAPTOP),
        ];
        net.ip("route add default dev tun0 metric 50");
        Vpn { ends }
    }
}

impl Drop for Vpn {
    fn drop(&mut self) {
        for end in &mut self.ends {
            drop(end.stdin.take());
            let _ = end.wait();
        }
    }
}

/// The download is whole. Returns its report.
fn whole(child: Child, dirs: &Dirs, data: &[u8]) -> serde_json::Value {
    let output = finish(child);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(std::fs::read(dirs.cwd.join("file.bin")).unwrap() == data);
    json(dirs, "run.json")
}

/// What the report says of an interface without a path.
fn why(report: &serde_json::Value, interface: &str) -> String {
    let unused = report["unused_paths"].as_array().unwrap();
    let found = unused
        .iter()
        .find(|unused| unused["interface"] == interface);
    let found = found.unwrap_or_else(|| panic!("{interface} in {unused:?}"));
    found["why"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_both_default_routes_carry_data() {
    let (dirs, data) = dirs(4_000_000);
    let net = Net::with_both("both");
    let server = net.serve(&dirs, &format!("{SERVER}:0"));
    let url = format!("https://{SERVER}:{}/file.bin", server.port);
    let report = whole(net.get(&dirs, &[&url]), &dirs, &data);
    for interface in ["wlan0", "wwan0"] {
        let received = net.received(interface);
        assert!(received > 1_000_000, "{interface} {received}");
    }
    // The default route of the smaller metric comes first.
    let first = &report["paths"][0];
    assert!(first["local"].as_str().unwrap().starts_with("192.168.1.2:"));
    assert_eq!(report["unused_paths"].as_array().unwrap().len(), 0);
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_a_strict_rp_filter_is_named() {
    let (dirs, data) = dirs(8_000_000);
    let net = Net::with_both("strict");
    net.rp_filter(1);
    let server = net.serve(&dirs, &format!("{SERVER}:0"));
    let url = format!("https://{SERVER}:{}/file.bin", server.port);
    let report = whole(net.get(&dirs, &[&url]), &dirs, &data);
    let why = why(&report, "wwan0");
    assert!(
        why.contains("Set net.ipv4.conf.wwan0.rp_filter to 2"),
        "{why}"
    );
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_one_family_on_each_interface() {
    let (dirs, data) = dirs(4_000_000);
    let net = Net::new("family");
    net.join_wifi(1);
    net.ip("addr add 2001:db8:1::2/64 dev wwan0");
    net.ip("-6 route add default via 2001:db8:1::1 dev wwan0");
    let [four, six] = [format!("{SERVER}:4433"), format!("[{SERVER_V6}]:4433")];
    // Responses name no wildcards.
    let both = ["--listen", "[::]:4433"];
    let _server = Server::start_in(Some(&net.server), &dirs.www, "0.0.0.0:4433", &both);
    let url = format!("https://{four}/file.bin");

    let known = ["--connect-to", &four, "--connect-to", &six, &url];
    whole(net.get(&dirs, &known), &dirs, &data);
    for interface in ["wlan0", "wwan0"] {
        let received = net.received(interface);
        assert!(received > 1_000_000, "{interface} {received}");
    }

    // Of the server that is known by one address only, it is said.
    let report = whole(net.get(&dirs, &[&url]), &dirs, &data);
    let why = why(&report, "wwan0");
    assert!(why.contains("has IPv6 only"), "{why}");
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_the_other_family_by_an_address_that_the_server_names() {
    let (dirs, data) = dirs(4_000_000);
    let net = Net::new("named");
    net.join_wifi(1);
    net.ip("addr add 2001:db8:1::2/64 dev wwan0");
    net.ip("-6 route add default via 2001:db8:1::1 dev wwan0 metric 700");
    // Both, by ports of which only the first is told.
    let (port, port_v6) = (4433, 4434);
    let v6 = format!("[{SERVER_V6}]:{port_v6}");
    let args = ["--listen", &v6];
    let address = format!("{SERVER}:{port}");
    let _server = Server::start_in(Some(&net.server), &dirs.www, &address, &args);
    let url = format!("https://{address}/file.bin");
    whole(net.get(&dirs, &[&url]), &dirs, &data);
    for interface in ["wlan0", "wwan0"] {
        let received = net.received(interface);
        assert!(received > 1_000_000, "{interface} {received}");
    }
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_nothing_goes_around_a_vpn() {
    let (dirs, data) = dirs(4_000_000);
    let net = Net::with_both("vpn");
    let server = net.serve(&dirs, &format!("{SERVER}:0"));
    let url = format!("https://{SERVER}:{}/file.bin", server.port);
    let vpn = Vpn::up(&net);
    let report = whole(net.get(&dirs, &[&url]), &dirs, &data);
    let paths = report["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 1, "{paths:?}");
    let local = paths[0]["local"].as_str().unwrap();
    assert!(local.starts_with(Vpn::LAPTOP), "{local}");
    let beside = net.received("wwan0");
    assert!(beside < 100_000, "{beside} bytes beside the tunnel");
    let said = why(&report, "wwan0");
    assert!(said.contains("leads into the tunnel tun0"), "{said}");

    // Unless that is wanted.
    let around = ["--paths", "full-mesh:tunnel=around", &url];
    whole(net.get(&dirs, &around), &dirs, &data);
    assert!(net.received("wwan0") - beside > 1_000_000);
    drop(vpn);
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_a_vpn_that_comes_up_takes_a_download_over() {
    let (dirs, data) = dirs(LONG);
    let net = Net::with_both("late");
    net.slow_down();
    let server = net.serve(&dirs, &format!("{SERVER}:0"));
    let url = format!("https://{SERVER}:{}/file.bin", server.port);
    let child = net.get(&dirs, &["-v", &url]);
    until("both links carry data", || {
        net.received("wlan0") > 100_000 && net.received("wwan0") > 100_000
    });
    let vpn = Vpn::up(&net);
    // What was under way comes still.
    until("LTE falls silent", || {
        let (tunnel, before) = (net.received("tun0"), net.received("wwan0"));
        until("the tunnel carries data", || {
            net.received("tun0") > tunnel + 50_000
        });
        net.received("wwan0") < before + 2_000
    });
    net.speed_up();
    let (tunnel, before) = (net.received("tun0"), net.received("wwan0"));
    until("the tunnel carries more", || {
        net.received("tun0") > tunnel + 3_000_000
    });
    let beside = net.received("wwan0") - before;
    assert!(beside < 100_000, "{beside} bytes beside the tunnel");
    whole(child, &dirs, &data);
    drop(vpn);
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_twenty_networks_in_one_download() {
    let (dirs, data) = dirs(LONG);
    let net = Net::with_both("roam");
    net.slow_down();
    let server = net.serve(&dirs, &format!("{SERVER}:0"));
    let url = format!("https://{SERVER}:{}/file.bin", server.port);
    let child = net.get(&dirs, &["-v", &url]);
    until("both links carry data", || {
        net.received("wlan0") > 50_000 && net.received("wwan0") > 50_000
    });
    for n in 2..=21 {
        net.leave_wifi();
        std::thread::sleep(Duration::from_millis(50));
        let before = net.received("wlan0");
        net.join_wifi(n);
        until("the new network carries data", || {
            net.received("wlan0") > before + 20_000
        });
    }
    net.speed_up();
    whole(child, &dirs, &data);
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_a_metered_link_stands_by() {
    let (dirs, data) = dirs(LONG);
    let net = Net::with_both("metered");
    net.slow_down();
    let logs = dirs.cwd.join("qlog");
    let options = ["--qlog", logs.to_str().unwrap()];
    let listen = format!("{SERVER}:0");
    let server = Server::start_in(Some(&net.server), &dirs.www, &listen, &options);
    let url = format!("https://{SERVER}:{}/file.bin", server.port);
    let child = net.get(&dirs, &["--metered", "wwan0", &url]);
    until("Wi-Fi carries data", || net.received("wlan0") > 300_000);
    net.leave_wifi();
    net.speed_up();
    let report = whole(child, &dirs, &data);
    assert!(net.received("wwan0") > 1_000_000);

    // On a busy machine Wi-Fi may seem to be silent at times: the metered link carries data then, and no other time.
    let last = report["paths"].as_array().unwrap().last().unwrap();
    assert!(last["local"].as_str().unwrap().starts_with("10.64.0.2:"));
    let (wifi, metered) = (0, last["path_id"].as_u64().unwrap());
    signal(&server.child, "TERM");
    assert_eq!(server.wait().0, 0);
    let (mut was_backup, mut is_wifi_healthy, mut by_wifi) = (false, true, 0);
    for event in common::qlog(&logs, "server") {
        let (name, data) = (event["name"].as_str().unwrap(), &event["data"]);
        match name {
            "multipath:path_status_updated" if data["path_id"] == metered => {
                was_backup |= data["status"] == "backup";
            }
            "multipath:path_health_updated" if data["path_id"] == wifi => {
                is_wifi_healthy = data["health"] == "healthy";
            }
            "multipath:path_abandoned" if data["path_id"] == wifi => is_wifi_healthy = false,
            "quic:packet_sent" => {
                let frames = data["frames"].as_array();
                let has_data =
                    frames.is_some_and(|all| all.iter().any(|f| f["frame_type"] == "stream"));
                let path_id = &data["header"]["path_id"];
                by_wifi += (has_data && *path_id == wifi) as u32;
                let is_wrong = has_data && *path_id == metered && is_wifi_healthy;
                assert!(!is_wrong, "{event} while Wi-Fi works");
            }
            _ => (),
        }
    }
    assert!(was_backup);
    assert!(by_wifi > 100, "{by_wifi}");
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_a_dead_first_interface_does_not_hold_up_the_handshake() {
    let (dirs, data) = dirs(500_000);
    let net = Net::with_both("dead");
    // Wi-Fi has a carrier, and nothing comes back.
    command(&format!("ip -n {} addr flush dev wifi", net.router));
    let server = net.serve(&dirs, &format!("{SERVER}:0"));
    let url = format!("https://{SERVER}:{}/file.bin", server.port);
    let report = whole(net.get(&dirs, &[&url]), &dirs, &data);
    let first = &report["paths"][0];
    assert!(first["local"].as_str().unwrap().starts_with("10.64.0.2:"));
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_an_interface_that_comes_later_joins() {
    let (dirs, data) = dirs(LONG);
    let net = Net::new("later");
    net.join_wifi(1);
    let server = net.serve(&dirs, &format!("{SERVER}:0"));
    let url = format!("https://{SERVER}:{}/file.bin", server.port);
    let named = ["--path", "wlan0", "--path", "wwan0", &url];
    for args in [&named[4..], &named] {
        net.slow_down();
        let child = net.get(&dirs, args);
        let before = net.received("wlan0");
        until("Wi-Fi carries data", || {
            net.received("wlan0") > before + 50_000
        });
        let before = net.received("wwan0");
        net.join_lte();
        until("LTE carries data", || {
            net.received("wwan0") > before + 50_000
        });
        net.speed_up();
        whole(child, &dirs, &data);
        net.ip("addr flush dev wwan0");
    }
}
