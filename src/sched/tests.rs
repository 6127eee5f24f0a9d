//! Bounds of the schedulers' rules that `tests/` does not reach: what is just enough and just too little, and
//! whom a wait is for.

use super::*;
use crate::registry::PathState;
use crate::registry::Registry;
use crate::registry::Rtt;
use crate::registry::Status;

const MS: Duration = Duration::from_millis(1);
const MSS: u64 = 1200;
const NEW: Ask = Ask::New {
    stream: StreamKey(0),
};

/// A scheduler, and paths of (RTT in ms, window in packets, packets in flight).
struct Bench {
    scheduler: Chosen,
    paths: Registry,
    connection: Connection,
    now: Instant,
}

impl Bench {
    fn new(name: &str, list: &[(u32, u64, u64)]) -> Self {
        let mut paths = Registry::new();
        for ((rtt_ms, cwnd, in_flight), id) in list.iter().zip((0..).map(PathId)) {
            let path = paths.add(id, MSS);
            path.validated = true;
            path.rtt = Some(Rtt {
                var: Duration::ZERO,
                ..Rtt::first(*rtt_ms * MS)
            });
            path.cwnd_bytes = cwnd * MSS;
            path.in_flight_bytes = in_flight * MSS;
        }
        Bench {
            scheduler: by_name(name).unwrap(),
            paths,
            connection: Connection {
                unsent_bytes: 1 << 24,
                reassembly_room_bytes: 1 << 40,
                ..Connection::default()
            },
            now: Instant::now() + 3600 * 1000 * MS,
        }
    }

    fn path(&mut self, id: u64) -> &mut PathState {
        self.paths.get_mut(PathId(id)).unwrap()
    }

    /// The pacer holds the path for so long.
    fn hold(mut self, id: u64, ms: u32) -> Self {
        self.path(id).pacing_release = Some(self.now + ms * MS);
        self
    }

    /// What is in flight on the path was sent so long ago.
    fn sent(mut self, id: u64, ms_ago: u32) -> Self {
        self.path(id).oldest_unacked_eliciting_sent = Some(self.now - ms_ago * MS);
        self
    }

    /// The receiver's window holds nothing more.
    fn without_window(mut self) -> Self {
        self.connection.reassembly_room_bytes = 0;
        self
    }

    fn pick(&mut self, ask: Ask) -> Pick {
        let view = View::new(&self.paths, &self.connection);
        self.scheduler.pick(self.now, &view, &ask)
    }

    fn sends_on(&mut self, ask: Ask) -> u64 {
        match self.pick(ask) {
            Pick::Send { path, .. } => path.0,
            other => panic!("{other:?}"),
        }
    }

    /// Until when new data waits for path 0.
    fn until(&mut self) -> Option<Instant> {
        match self.pick(NEW) {
            Pick::Wait {
                on: PathId(0),
                until,
            } => until,
            other => panic!("{other:?}"),
        }
    }

    fn copies(&mut self, spare: u64, from: u64) -> Option<CopyOrder> {
        let view = View::new(&self.paths, &self.connection);
        let (spare, from) = (PathId(spare), PathId(from));
        self.scheduler
            .duplicate(self.now, &view, spare, from, Moment::NothingNew)
    }
}

fn again(from: u64, why: Why, tried: &[u64]) -> Ask {
    let mut set = PathSet::default();
    for id in tried {
        set.insert(PathId(*id));
    }
    Ask::Retransmit {
        stream: StreamKey(0),
        from: PathId(from),
        tried: set,
        why,
    }
}

#[test]
fn what_a_scheduler_need_not_say() {
    #[derive(Debug)]
    struct Plain;
    impl Scheduler for Plain {
        fn pick(&mut self, _now: Instant, _view: &View, _ask: &Ask) -> Pick {
            Pick::None
        }
    }
    let plain = Chosen::from(Box::new(Plain) as Box<dyn Scheduler>);
    assert!(!plain.listens() && !plain.copies_first());
    let listening = |entry: &&Entry| by_name(entry.name).unwrap().listens();
    let names: Vec<&str> = SCHEDULERS
        .iter()
        .filter(listening)
        .map(|entry| entry.name)
        .collect();
    assert_eq!(names, ["blest", "xlink"]);
}

#[test]
fn the_file_of_a_scheduler() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in SCHEDULERS {
        let text = std::fs::read_to_string(root.join(entry.file())).unwrap();
        assert!(text.contains(&format!("name: \"{}\"", entry.name)));
    }
}

#[test]
fn beyond_64_paths_the_tier_decides() {
    let mut paths = Registry::new();
    for id in (0..67).map(PathId) {
        paths.add(id, MSS).validated = true;
    }
    paths.get_mut(PathId(65)).unwrap().peer_status = Status::Backup;
    let connection = Connection::default();
    let view = View::new(&paths, &connection);
    let shown: Vec<u64> = view.paths().map(|path| path.id.0).skip(63).collect();
    assert_eq!(shown, [63, 64, 66]);
}

/// Whether what path 0 lost, of 100 ms, waits for it rather than take path 1, of 150 ms, and until when.
fn loss_waits(bench: &mut Bench, ask: Ask, path: u64) -> Option<Option<Instant>> {
    let view = View::new(&bench.paths, &bench.connection);
    let pick = measure::wait_with_loss(bench.now, &view, &ask, PathId(path))?;
    let Pick::Wait { on, until } = pick else {
        panic!("{pick:?}")
    };
    assert_eq!(on, PathId(0));
    Some(until)
}

#[test]
fn a_loss_waits_while_its_acknowledgment_comes_sooner_so() {
    let lost = again(0, Why::Lost, &[0]);
    // 14 packets and another one in a window of 10: 100 ms, and half of that until there is room.
    for (in_flight, waits) in [(13, true), (14, false)] {
        let mut bench = Bench::new("min-rtt", &[(100, 10, in_flight), (150, 10, 0)]);
        assert_eq!(loss_waits(&mut bench, lost, 1).is_some(), waits);
    }
    // 10 ms until there is room for one, and the pacer.
    for (held_ms, waits) in [(39, true), (40, false)] {
        let bench = Bench::new("min-rtt", &[(100, 10, 10), (150, 10, 0)]);
        let mut bench = bench.hold(0, held_ms);
        let until = waits.then_some(Some(bench.now + held_ms * MS));
        assert_eq!(loss_waits(&mut bench, lost, 1), until, "{held_ms}");
    }
    // A pacer that lets go now ends nothing.
    let mut bench = Bench::new("min-rtt", &[(100, 10, 10), (150, 10, 0)]).hold(0, 0);
    assert_eq!(loss_waits(&mut bench, lost, 1), Some(None));
}

#[test]
fn a_loss_waits_for_nothing_that_does_not_come() {
    let lost = again(0, Why::Lost, &[0]);
    // Nothing is in flight where the window is less than a packet.
    let mut bench = Bench::new("min-rtt", &[(100, 10, 0), (150, 10, 0)]);
    bench.path(0).cwnd_bytes = MSS - 1;
    assert_eq!(loss_waits(&mut bench, lost, 1), None);
    // There is room.
    let mut bench = Bench::new("min-rtt", &[(100, 10, 9), (150, 10, 0)]);
    assert_eq!(loss_waits(&mut bench, lost, 1), None);
    // The fast path is not the one that lost it.
    let mut bench = Bench::new("min-rtt", &[(20, 10, 10), (100, 10, 10), (300, 10, 0)]);
    assert_eq!(loss_waits(&mut bench, again(1, Why::Lost, &[1]), 2), None);
    assert!(loss_waits(&mut bench, lost, 2).is_some());
}

#[test]
fn a_packet_of_room_is_enough_for_a_copy() {
    for (spare_bytes, copies) in [(MSS, true), (MSS - 1, false)] {
        // What blocks flow control on a path of 300 ms, on one of 20 ms.
        let mut bench = Bench::new(
            "min-rtt:tail=off,opportunistic=on",
            &[(20, 10, 10), (300, 10, 5)],
        );
        bench = bench.sent(1, 10);
        bench.path(0).in_flight_bytes -= spare_bytes;
        assert_eq!(bench.copies(0, 1).is_some(), copies);
        // The tail, which is expected in 1 s.
        let mut bench = Bench::new("min-rtt", &[(20, 10, 10), (300, 10, 5)]).sent(1, 1000);
        bench.path(0).in_flight_bytes -= spare_bytes;
        assert_eq!(bench.copies(0, 1).is_some(), copies);
    }
}

#[test]
fn min_rtt_waits_for_a_pacer_if_the_faster_paths_take_all() {
    // Ten packets of room, held for 5 ms; the other one has room for five and is slower by 80 ms.
    for (packets, waits) in [(10, true), (11, false)] {
        let mut bench = Bench::new("min-rtt", &[(20, 20, 10), (100, 10, 5)]).hold(0, 5);
        bench.connection.unsent_bytes = packets * MSS;
        let is_wait = matches!(bench.pick(NEW), Pick::Wait { .. });
        assert_eq!(is_wait, waits, "{packets}");
    }
}

#[test]
fn min_rtt_probes_with_less_than_two_packets_in_flight() {
    for (in_flight_bytes, probes) in [(2 * MSS - 1, true), (2 * MSS, false)] {
        let mut bench = Bench::new("min-rtt", &[(20, 10, 0), (20, 10, 0)]);
        bench.path(1).rtt = None;
        bench.path(1).in_flight_bytes = in_flight_bytes;
        assert_eq!(bench.sends_on(NEW) == 1, probes);
    }
}

#[test]
fn min_rtt_takes_small_steps_when_less_than_a_window_is_left() {
    for (unsent_bytes, quantum_bytes) in [(10 * MSS, 10 * MSS), (10 * MSS - 1, 2 * MSS)] {
        let mut bench = Bench::new("min-rtt", &[(20, 10, 0)]);
        bench.connection.unsent_bytes = unsent_bytes;
        let send = Pick::Send {
            path: PathId(0),
            quantum_bytes,
        };
        assert_eq!(bench.pick(NEW), send);
    }
}

#[test]
fn what_waited_in_vain_avoids_all_that_were_tried() {
    for (from, tried, path) in [
        (0, &[][..], 1),
        (0, &[0, 1][..], 2),
        (0, &[1][..], 2),
        (1, &[0][..], 2),
    ] {
        let mut bench = Bench::new("min-rtt", &[(20, 10, 0), (100, 10, 0), (300, 10, 0)]);
        let ask = again(from, Why::Moved, tried);
        assert_eq!(bench.sends_on(ask), path, "{from} {tried:?}");
    }
}

/// A stream of this urgency with so much left, and with `all_bytes` to be sent before it is done.
fn head(bench: &mut Bench, urgency: u8, left_bytes: u64, all_bytes: u64) {
    bench.connection.unsent_bytes = all_bytes;
    bench.connection.unsent_by_urgency_bytes[0] = all_bytes - left_bytes;
    bench.connection.head = Some(HeadStream {
        key: StreamKey(0),
        urgency,
        incremental: false,
        unsent_bytes: left_bytes,
        unacked_bytes: 0,
        written_bytes: left_bytes,
        fin: true,
        announced_bytes: None,
        deadline: None,
    });
}

/// Whether a stream waits for path 0, once it has waited: (1 + k/25,000) 10 ms are less than 300 ms up to
/// 725,000 bytes, and less than (1 + beta) 300 ms up to 912,500.
fn is_patient(name: &str, urgency: u8, left_bytes: u64) -> bool {
    let mut bench = Bench::new(name, &[(10, 0, 0), (300, 100, 0)]);
    (bench.path(0).cwnd_bytes, bench.path(0).in_flight_bytes) = (25_000, 25_000);
    head(&mut bench, urgency, left_bytes, 724_000);
    assert!(matches!(bench.pick(NEW), Pick::Wait { .. }), "{name}");
    head(&mut bench, urgency, left_bytes, 800_000);
    matches!(bench.pick(NEW), Pick::Wait { .. })
}

#[test]
fn who_is_in_haste_has_no_patience() {
    // By urgency.
    for (name, urgency, patient) in [
        ("ecf", 1, false),
        ("ecf", 2, true),
        ("ecf:urgent=2", 2, false),
        ("ecf:urgent=0", 1, true),
    ] {
        assert_eq!(is_patient(name, urgency, 700_000), patient, "{name}");
    }
    // By what is left: 54 packets of 1200 bytes, or ten.
    for (name, left_bytes, patient) in [
        ("ecf", 54 * MSS, false),
        ("ecf", 54 * MSS + 1, true),
        ("ecf:short=10", 10 * MSS, false),
        ("ecf:short=10", 10 * MSS + 1, true),
    ] {
        assert_eq!(is_patient(name, 3, left_bytes), patient, "{name}");
    }
    // 320 ms are less than (1 + beta) 300.
    for (name, patient) in [("ecf:beta=0", false), ("ecf:beta=0.1", true)] {
        let mut bench = Bench::new(name, &[(10, 0, 0), (300, 100, 0)]);
        (bench.path(0).cwnd_bytes, bench.path(0).in_flight_bytes) = (25_000, 25_000);
        head(&mut bench, 3, 700_000, 724_000);
        assert!(matches!(bench.pick(NEW), Pick::Wait { .. }));
        head(&mut bench, 3, 700_000, 775_000);
        assert_eq!(matches!(bench.pick(NEW), Pick::Wait { .. }), patient);
    }
}

#[test]
fn whose_pacer_a_wait_is_for() {
    for name in ["ecf", "blest", "otias"] {
        // Another window would be blocked, or the fast path is done sooner.
        let list = [(10, 10, 10), (300, 100, 0)];
        let bench = || {
            let mut bench = Bench::new(name, &list).without_window();
            bench.connection.unsent_bytes = 10 * MSS;
            bench
        };
        assert_eq!(bench().until(), None, "{name}");
        assert_eq!(bench().hold(0, 0).until(), None, "{name}");
        let mut held = bench().hold(0, 5);
        assert_eq!(held.until(), Some(held.now + 5 * MS), "{name}");
    }
}

#[test]
fn nobody_waits_for_a_path_with_room_or_one_without_anything_in_flight() {
    for name in ["ecf", "blest"] {
        // Equal RTTs: the larger room decides, and the fast path has room, too.
        let mut bench = Bench::new(name, &[(100, 10, 8), (101, 100, 0)]).without_window();
        assert_eq!(bench.sends_on(NEW), 1, "{name}");
        // Its window is less than a packet, and no acknowledgment will come.
        let mut bench = Bench::new(name, &[(20, 10, 0), (300, 100, 0)]).without_window();
        (bench.path(0).cwnd_bytes, bench.path(0).ssthresh_bytes) = (MSS - 1, 0);
        assert_eq!(bench.sends_on(NEW), 1, "{name}");
        // Nor for itself.
        let mut bench = Bench::new(name, &[(20, 10, 5)]).without_window();
        assert_eq!(bench.sends_on(NEW), 0, "{name}");
    }
}

#[test]
fn otias_does_not_wait_for_what_comes_no_sooner() {
    // A window of ten packets more takes path 0 150 ms, as long as the first of them on path 1.
    let mut bench = Bench::new("otias", &[(100, 10, 10), (300, 100, 0)]);
    bench.connection.unsent_bytes = 10 * MSS;
    assert_eq!(bench.sends_on(NEW), 1);
    bench.path(1).rtt = Some(Rtt::first(301 * MS));
    assert!(matches!(bench.pick(NEW), Pick::Wait { .. }));
}

#[test]
fn a_turn_is_eight_packets_by_weight() {
    for (name, packets) in [("round-robin", 8), ("round-robin:w1=4", 2)] {
        let mut bench = Bench::new(name, &[(20, 100, 0), (20, 100, 0)]);
        let send = Pick::Send {
            path: PathId(0),
            quantum_bytes: packets * MSS,
        };
        assert_eq!(bench.pick(NEW), send, "{name}");
    }
}

#[test]
fn who_was_full_gets_one_turn_back() {
    let mut bench = Bench::new("round-robin", &[(20, 100, 0), (20, 100, 0)]);
    for _ in 0..20 {
        assert_eq!(bench.sends_on(NEW), 0);
        bench.connection.sent_bytes += 8 * MSS;
        bench.path(1).in_flight_bytes = 100 * MSS;
    }
    // Two packets at a time: eight for the turn that it gets back, and eight to be level.
    bench.path(1).in_flight_bytes = 98 * MSS;
    let turns = (0..20)
        .take_while(|_| {
            let path = bench.sends_on(NEW);
            bench.connection.sent_bytes += 2 * MSS;
            path == 1
        })
        .count();
    assert_eq!(turns, 8);
}

/// Path 0 of 50 ms has waited for an acknowledgment for a second, path 1 has room; playback goes on for
/// `left_ms`.
fn late(name: &str, left_ms: u32) -> Bench {
    let mut bench = Bench::new(name, &[(50, 10, 5), (60, 10, 0)]).sent(0, 1000);
    bench.connection.playback = Some(Playback {
        report: QoeReport {
            buffered: left_ms * MS,
            bitrate_bits_per_sec: 0,
            stalled: true,
        },
        at: bench.now,
    });
    bench
}

#[test]
fn xlink_heeds_the_rtt_of_paths_with_data_in_flight() {
    // Two seconds left, between the thresholds.
    for (in_flight, copies) in [(1, true), (0, false)] {
        let mut bench = late("xlink:tail=off,t1=1s", 2000);
        let slow = bench.paths.add(PathId(2), MSS);
        slow.validated = true;
        slow.rtt = Some(Rtt::first(3000 * MS));
        (slow.cwnd_bytes, slow.in_flight_bytes) = (12_000, in_flight * MSS);
        assert_eq!(bench.copies(1, 0).is_some(), copies);
    }
}

#[test]
fn xlink_needs_a_packet_of_budget_and_of_room() {
    // A burst of one packet.
    let mut bench = late("xlink:tail=off,burst=1", 500);
    assert_eq!(bench.copies(1, 0).unwrap().most_bytes, MSS);
    bench.path(1).in_flight_bytes = 9 * MSS;
    assert!(bench.copies(1, 0).is_some());
    bench.path(1).in_flight_bytes += 1;
    assert!(bench.copies(1, 0).is_none());
    // A byte of it is used.
    bench.path(1).in_flight_bytes = 0;
    bench.connection.copied_bytes += 1;
    assert!(bench.copies(1, 0).is_none());
}

#[test]
fn xlink_earns_its_budget_by_small_steps_too() {
    // 2 % of 25 bytes are half a byte: 2,400 times that is a packet.
    let mut bench = late("xlink:tail=off,burst=1", 500);
    assert!(bench.copies(1, 0).is_some());
    bench.connection.copied_bytes += MSS;
    for step in 1..=2400 {
        bench.connection.sent_bytes += 25;
        assert_eq!(bench.copies(1, 0).is_some(), step == 2400);
    }
}

#[test]
fn xlink_wakes_when_a_path_will_be_overdue() {
    // Without variation 50 ms, and 25 ms that an acknowledgment may be held back.
    let mut bench = late("xlink:tail=off", 500).sent(0, 10);
    assert!(bench.copies(1, 0).is_none());
    let wake = Some(bench.now + 65 * MS);
    assert_eq!(bench.scheduler.next_wake(), wake);
    // A question about another path leaves it, until the time has come.
    bench.copies(0, 1);
    assert_eq!(bench.scheduler.next_wake(), wake);
    bench.now += 65 * MS;
    bench.copies(0, 1);
    assert_eq!(bench.scheduler.next_wake(), None);
}

#[test]
fn xlink_hears_what_the_player_reports() {
    let mut bench = late("xlink", 500);
    assert!(!bench.scheduler.copies_first());
    let report = bench.connection.playback.unwrap().report;
    let view = View::new(&bench.paths, &bench.connection);
    bench
        .scheduler
        .on_event(bench.now, &view, &Event::Qoe(report));
    assert!(bench.scheduler.copies_first());
}
