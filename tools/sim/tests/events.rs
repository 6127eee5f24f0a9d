//! What happens to a path outside of its links: NAT, carrier, addresses, MTU, copies, either end's wishes.

mod common;

use common::event;
use common::run;
use common::took_s;
use common::two_links;
use mpq_sim::world::Outcome;

/// 5 MB over two links.
fn transfer(direction: &str, link: &str, events: &str) -> Outcome {
    let links = two_links(link);
    let outcome = run(
        &format!(
            r#"
            duration = "60 s"
            {links}
            [[flow]]
            name = "f"
            paths = ["a", "b"]
            cc = "uncoupled-cubic"
            direction = "{direction}"
            size = "5 MB"
            {events}"#
        ),
        1,
    );
    assert_eq!(outcome.failure, None, "{direction} {link} {events}");
    assert_eq!(outcome.metrics["flow.f.completed"], 1.0);
    outcome
}

#[test]
fn a_rebinding_changes_the_packets_and_not_the_outcome() {
    for direction in ["up", "down"] {
        let plain = transfer(direction, "", "");
        let rebound = transfer(direction, "", &event("1 s", "rebind"));
        assert_ne!(plain.packet_log, rebound.packet_log);
        // It was no loss of the path for good: one of 8 Mbit/s alone takes 5 s and more.
        assert!(took_s(&rebound) < 4.5, "{direction}: {}", took_s(&rebound));
    }
}

#[test]
fn a_lost_carrier_ends_the_path_until_it_is_back() {
    let lost = event("1 s", "carrier-lost");
    let for_ever = transfer("down", "", &lost);
    assert!(took_s(&for_ever) > 3.5, "{}", took_s(&for_ever));
    // It is back after the path was abandoned: another one is opened, and used.
    let back = transfer("down", "", &(lost + &event("3100 ms", "carrier-back")));
    assert!(took_s(&back) < took_s(&for_ever), "{}", took_s(&back));
}

#[test]
fn a_client_at_a_new_address_goes_on_there() {
    for direction in ["up", "down"] {
        let moved = transfer(direction, "", &event("1 s", "new-address"));
        assert!(took_s(&moved) < 3.5, "{direction}: {}", took_s(&moved));
    }
}

#[test]
fn either_end_may_abandon_a_path() {
    let by_client = transfer("down", "", &event("1 s", "abandon"));
    assert!(took_s(&by_client) > 3.5, "{}", took_s(&by_client));
    // The client opens another one in its place.
    let by_server = transfer("down", "", &(event("1 s", "abandon") + "by = \"server\"\n"));
    assert!(took_s(&by_server) < 3.5, "{}", took_s(&by_server));
}

#[test]
fn copies_of_packets_are_taken_once() {
    let copied = transfer("down", "duplicate = \"30 %\"", "");
    assert!(took_s(&copied) < 3.5, "{}", took_s(&copied));
}

#[test]
fn an_mtu_that_drops_does_not_stop_a_path() {
    for direction in ["up", "down"] {
        let dropped = transfer(direction, "schedule = \"mtu=1300bytes@1s\"", "");
        assert!(took_s(&dropped) < 4.5, "{direction}: {}", took_s(&dropped));
    }
}

#[test]
fn both_directions_have_to_end() {
    for direction in ["up", "down"] {
        let outcome = transfer(direction, "", "other_way = \"20 MB\"");
        // 20 MB at 16 Mbit/s.
        assert!(took_s(&outcome) < 4.5, "{direction}: {}", took_s(&outcome));
        let simulated = outcome.simulated.as_secs_f64();
        assert!(simulated > 10.0, "{direction}: {simulated}");
    }
}
