//! `mpq get` where interfaces change, in network namespaces: `ci/test net`
//! runs these.

mod common;

use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use common::code;
use common::dirs;
use common::finish;
use common::netns;
use common::netns::command;
use common::sha256;
use common::stderr;
use common::until;
use common::Dirs;
use common::Server;
use common::MPQ;

/// A client and a server, joined by two shaped links; gone when dropped.
struct Net {
    client: String,
    server: String,
}

impl Net {
    fn new(test: &str) -> Net {
        let net = Net {
            client: netns::name(test, 'c'),
            server: netns::name(test, 's'),
        };
        let Net { client, server } = &net;
        for space in [client, server] {
            command(&format!("ip netns add {space}"));
            command(&format!("ip -n {space} link set lo up"));
        }
        for n in [1, 2] {
            command(&format!(
                "ip link add name c{n} netns {client} type veth peer name s{n} netns {server}"
            ));
            for (space, side, host) in [(client, 'c', 2), (server, 's', 1)] {
                command(&format!(
                    "ip -n {space} addr add 10.98.{n}.{host}/24 dev {side}{n}"
                ));
                command(&format!("ip -n {space} link set {side}{n} up"));
            }
            command(&format!(
                "tc -n {server} qdisc add dev s{n} root tbf rate 8mbit burst 20kb latency 50ms"
            ));
        }
        // The server is at 10.98.1.1, and behind the other link too.
        command(&format!(
            "ip -n {client} route add 10.98.1.1/32 via 10.98.2.1 metric 500"
        ));
        command(&format!(
            "ip -n {client} rule add from 10.98.2.2 lookup 102"
        ));
        command(&format!(
            "ip -n {client} route add default via 10.98.2.1 table 102"
        ));
        for name in ["all", "c1", "c2"] {
            command(&format!(
                "ip netns exec {client} sysctl -qw net.ipv4.conf.{name}.rp_filter=0"
            ));
        }
        for name in ["all", "s1", "s2"] {
            command(&format!(
                "ip netns exec {server} sysctl -qw net.ipv4.conf.{name}.rp_filter=0"
            ));
        }
        net
    }

    fn get(&self, dirs: &Dirs, args: &[&str]) -> Child {
        Command::new("ip")
            .args(["netns", "exec", &self.client, MPQ, "get", "--no-verify"])
            .args(args)
            .current_dir(&dirs.cwd)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Bytes that the client received on an interface.
    fn received(&self, interface: &str) -> u64 {
        netns::received(&self.client, interface)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        netns::delete(&[&self.client, &self.server]);
    }
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_an_address_that_vanishes_leaves_the_other() {
    let (dirs, data) = dirs(6_000_000);
    for gone in [1, 2] {
        let net = Net::new(&format!("addr{gone}"));
        let server = Server::start_in(Some(&net.server), &dirs.www, "10.98.1.1:0", &[]);
        let url = format!("https://10.98.1.1:{}/file.bin", server.port);
        let child = net.get(
            &dirs,
            &["-q", "--path", "10.98.1.2", "--path", "10.98.2.2", &url],
        );
        until("both links carry data", || {
            net.received("c1") > 500_000 && net.received("c2") > 500_000
        });
        command(&format!(
            "ip -n {} addr del 10.98.{gone}.2/24 dev c{gone}",
            net.client
        ));
        let output = finish(child);
        assert_eq!(code(&output), 0, "c{gone}: {}", stderr(&output));
        assert_eq!(dirs.names(), ["file.bin"]);
        let file = std::fs::read(dirs.cwd.join("file.bin")).unwrap();
        assert_eq!(sha256(&file), sha256(&data));
    }
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_no_route_is_a_network_error() {
    let (dirs, _) = dirs(1);
    let net = Net::new("route");
    // Every path is bound to its interface, where the kernel takes any address
    // for a neighbour: only without interfaces is it sure.
    for (are_up, said) in [(true, "no answer"), (false, "unreachable")] {
        if !are_up {
            for n in [1, 2] {
                command(&format!("ip -n {} link set c{n} down", net.client));
            }
        }
        let mut args = vec!["--handshake-timeout", "1000"];
        args.push("https://192.0.2.1/file.bin");
        let output = finish(net.get(&dirs, &args));
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert_eq!(dirs.names(), [""; 0]);
    }
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_a_full_file_system_keeps_no_part() {
    let (dirs, _) = dirs(1_000_000);
    let server = Server::start(&dirs.www, &[]);
    let script = "mount -t tmpfs -o size=200k tmpfs . && cd \"$PWD\" && \
                  { \"$@\"; code=$?; ls -A; exit $code; }";
    let output = common::run(
        Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh", MPQ, "get"])
            .args(["--no-verify", &server.url("file.bin")])
            .current_dir(&dirs.cwd),
    );
    assert_eq!(code(&output), 6, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("No space left"),
        "{}",
        stderr(&output)
    );
    assert!(output.stdout.is_empty());
}
