//! What must hold for any sequence of events.

mod common;

use common::Sender;
use common::MS;

use std::time::Duration;
use std::time::Instant;

use mpq_decision::cc;
use mpq_decision::cc::Ack;
use mpq_decision::cc::Loss;
use mpq_decision::health::Health;
use mpq_decision::health::Monitor;
use mpq_decision::health::Params;
use mpq_decision::registry::Rtt;
use mpq_decision::registry::Status;
use mpq_decision::sched;
use mpq_decision::sched::Ask;
use mpq_decision::sched::Connection;
use mpq_decision::sched::Event;
use mpq_decision::sched::HeadStream;
use mpq_decision::sched::Moment;
use mpq_decision::sched::PathSet;
use mpq_decision::sched::Pick;
use mpq_decision::sched::Playback;
use mpq_decision::sched::QoeReport;
use mpq_decision::sched::Scheduler;
use mpq_decision::sched::StreamKey;
use mpq_decision::sched::View;
use mpq_decision::sched::Which;
use mpq_decision::sched::Why;
use mpq_decision::PathId;
use mpq_decision::Registry;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Something that can happen to a path, with any numbers.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Ack {
        path: u64,
        bytes: u64,
        age: Duration,
        in_flight: u64,
        app_limited: bool,
    },
    Loss {
        path: u64,
        bytes: u64,
        age: Duration,
        persistent: bool,
    },
    Pto {
        path: u64,
    },
    LinkDown {
        path: u64,
    },
    Rtt {
        path: u64,
        rtt: Option<Duration>,
    },
    OneWayDelay {
        path: u64,
        micros: Option<i64>,
        ack_delay: Duration,
    },
    Timer,
    Mss {
        path: u64,
        mss_bytes: u64,
    },
    Migrate {
        path: u64,
    },
    Join {
        path: u64,
    },
    Leave {
        path: u64,
    },
    Send {
        path: u64,
    },
    Wait {
        time: Duration,
    },
}

/// Bytes from none to absurd.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 1..200_000u64, 1 => Just(0), 1 => any::<u64>()]
}

/// Times from zero to absurd.
fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => (0..400_000u64).prop_map(Duration::from_micros),
        1 => Just(Duration::ZERO),
        1 => (0..100_000u64).prop_map(Duration::from_secs),
    ]
}

/// One-way delays of unsynchronised clocks, most of them alike.
fn delay_micros() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -50_000..400_000i64, 1 => any::<i64>()]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let path = || 0..4u64;
    prop_oneof![
        30 => (path(), bytes(), time(), bytes(), any::<bool>()).prop_map(
            |(path, bytes, age, in_flight, app_limited)| Ack { path, bytes, age, in_flight, app_limited }
        ),
        8 => (path(), bytes(), time(), proptest::bool::weighted(0.1)).prop_map(
            |(path, bytes, age, persistent)| Loss { path, bytes, age, persistent }
        ),
        2 => path().prop_map(|path| Pto { path }),
        1 => path().prop_map(|path| LinkDown { path }),
        4 => (path(), option::weighted(0.9, time())).prop_map(|(path, rtt)| Rtt { path, rtt }),
        4 => (path(), option::weighted(0.7, delay_micros()), time()).prop_map(
            |(path, micros, ack_delay)| OneWayDelay { path, micros, ack_delay }
        ),
        3 => Just(Timer),
        1 => (path(), 1..9000u64).prop_map(|(path, mss_bytes)| Mss { path, mss_bytes }),
        1 => path().prop_map(|path| Migrate { path }),
        2 => path().prop_map(|path| Join { path }),
        2 => path().prop_map(|path| Leave { path }),
        10 => path().prop_map(|path| Send { path }),
        10 => time().prop_map(|time| Wait { time }),
    ]
}

impl Operation {
    fn apply(self, sender: &mut Sender) {
        let now = sender.now;
        let before = |age: Duration| now.checked_sub(age).unwrap_or(now);
        let Sender { group, paths, .. } = sender;
        match self {
            Operation::Ack {
                path,
                bytes,
                age,
                in_flight,
                app_limited,
            } => {
                let rtt_sample = paths.get(PathId(path)).and_then(|path| path.rtt);
                let ack = Ack {
                    acked_bytes: bytes,
                    acked_packets: bytes / 1200,
                    newest_sent: before(age),
                    in_flight_before_bytes: in_flight,
                    rtt_sample: rtt_sample.map(|rtt| rtt.latest),
                    app_limited,
                };
                group.on_ack(now, paths, PathId(path), &ack);
            }
            Operation::Loss {
                path,
                bytes,
                age,
                persistent,
            } => {
                let loss = Loss {
                    lost_bytes: bytes,
                    lost_packets: 1,
                    newest_lost_sent: before(age),
                    persistent,
                };
                group.on_loss(now, paths, PathId(path), &loss);
            }
            Operation::Rtt { path, rtt } => {
                if let Some(path) = paths.get_mut(PathId(path)) {
                    path.rtt = rtt.map(Rtt::first);
                }
            }
            Operation::OneWayDelay {
                path,
                micros,
                ack_delay,
            } => {
                if let Some(path) = paths.get_mut(PathId(path)) {
                    path.one_way_delay_micros = micros;
                    path.ack_delay = ack_delay;
                }
            }
            Operation::Timer => group.on_timer(now, paths),
            Operation::Mss { path, mss_bytes } => {
                if let Some(path) = paths.get_mut(PathId(path)) {
                    path.mss_bytes = mss_bytes;
                }
                group.on_mss_changed(paths, PathId(path), 10 * mss_bytes);
            }
            Operation::Migrate { path } => group.on_path_migrated(now, paths, PathId(path)),
            Operation::Join { path } => sender.join(PathId(path)),
            Operation::Leave { path } => sender.leave(PathId(path)),
            Operation::Wait { time } => sender.now += time,
            Operation::Pto { .. } | Operation::LinkDown { .. } | Operation::Send { .. } => (),
        }
    }

    /// The path it concerns.
    fn path(self) -> Option<u64> {
        match self {
            Operation::Ack { path, .. }
            | Operation::Loss { path, .. }
            | Operation::Pto { path }
            | Operation::LinkDown { path }
            | Operation::Rtt { path, .. }
            | Operation::OneWayDelay { path, .. }
            | Operation::Mss { path, .. }
            | Operation::Migrate { path }
            | Operation::Join { path }
            | Operation::Leave { path }
            | Operation::Send { path } => Some(path),
            Operation::Wait { .. } | Operation::Timer => None,
        }
    }
}

/// Those that shrink by congestion events only.
const NEVER_SHRINK: &[&str] = &[
    "uncoupled-reno",
    "uncoupled-cubic",
    "hybla",
    "scalable",
    "sqrt",
    "iiad",
    "ewtcp",
    "ewtcp-printed",
    "coupled",
    "lia",
    "balia",
    "mpcubic",
    "mpsqrt",
    "mpiiad",
];

proptest! {
    #[test]
    fn windows_stay_within_reason(operations in prop::collection::vec(operation(), 1..300)) {
        for entry in cc::CONTROLLERS {
            let mut sender = Sender::new(entry.name, &[20, 80]);
            let mut seen = None;
            for operation in &operations {
                let before = sender.paths.clone();
                operation.apply(&mut sender);

                for path in sender.paths.iter() {
                    let name = entry.name;
                    let trace = sender.group.trace(sender.now, &sender.paths, path.id).unwrap();
                    for (value, number) in trace.values() {
                        prop_assert!(number.is_finite(), "{name}: {value} is {number}");
                    }
                    let columns: Vec<_> = trace.values().iter().map(|(name, _)| *name).collect();
                    let first = seen.get_or_insert_with(|| columns.clone());
                    prop_assert_eq!(first, &columns, "{}: other columns", name);
                    prop_assert!(path.cwnd_bytes >= 2 * path.mss_bytes, "{name}: {path:?}");
                    prop_assert!(path.cwnd_bytes <= 1 << 36, "{name}: {path:?}");
                    prop_assert!(path.ssthresh_bytes > 0, "{name}: {path:?}");

                    let Some(old) = before.get(path.id) else { continue };
                    if operation.path() != Some(path.id.0) && !matches!(operation, Operation::Timer) {
                        prop_assert_eq!(path.cwnd_bytes, old.cwnd_bytes, "{}: another's event", name);
                    }
                    if let Operation::Loss { .. } = operation {
                        prop_assert!(path.cwnd_bytes <= old.cwnd_bytes, "{name}: grew by a loss");
                    }
                    if let (Operation::Ack { bytes, .. }, true) = (operation, old.in_recovery && path.in_recovery && name != "dc-ledbat") {
                        prop_assert_eq!(path.cwnd_bytes, old.cwnd_bytes, "{}: {} acked in recovery", name, bytes);
                    }
                    if let (Operation::Ack { .. }, true) = (operation, NEVER_SHRINK.contains(&name)) {
                        prop_assert!(path.cwnd_bytes >= old.cwnd_bytes, "{name}: shrank by an ack");
                    }
                }
            }
        }
    }

    #[test]
    fn any_text_is_a_controller_or_an_error(text in "(hybla|mpmtp|dc-ledbat|\\PC{0,6})[:=,]{0,2}\\PC{0,30}") {
        if let Err(error) = cc::by_name(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn any_value_in_range_is_accepted_and_works(part in 0.0..=1.0f64, which in any::<prop::sample::Index>()) {
        for entry in cc::CONTROLLERS.iter().filter(|entry| !entry.params.is_empty()) {
            let param = which.get(entry.params);
            let value = param.min + part * (param.max - param.min);
            let text = match param.unit {
                cc::Unit::Number | cc::Unit::Packets => format!("{value}"),
                cc::Unit::Whole => format!("{}", value.round()),
                cc::Unit::Time => format!("{value}s"),
                cc::Unit::Choice(words) => words[value.round() as usize].to_owned(),
            };
            let mut sender = Sender::new(&format!("{}:{}={text}", entry.name, param.name), &[20, 80]);
            for step in 0..200_u32 {
                sender.now += 3 * MS;
                match step % 67 {
                    66 => sender.lose_and_recover(u64::from(step % 2)),
                    _ => sender.ack(u64::from(step % 2), 1),
                }
            }
            prop_assert!(sender.paths.iter().all(|path| path.cwnd_bytes >= 2 * path.mss_bytes));
        }
    }

    #[test]
    fn coupled_controllers_are_never_faster_than_reno(
        windows in prop::collection::vec((2..500u64, 1..500u32), 2..8),
        acked in 0..8usize,
    ) {
        let acked = (acked % windows.len()) as u64;
        let rtts: Vec<u32> = windows.iter().map(|(_, rtt_ms)| *rtt_ms).collect();
        let grown = |controller: &str| {
            let mut sender = Sender::new(controller, &rtts);
            for (id, (packets, _)) in windows.iter().enumerate() {
                // Slow start to twice the window, then one loss.
                while sender.cwnd_packets(id as u64) < 2.0 * *packets as f64 {
                    sender.ack(id as u64, 1);
                }
                sender.lose(id as u64, Duration::ZERO);
            }
            sender.now += 501 * MS;
            let before = sender.cwnd(acked);
            for _ in 0..10 {
                sender.ack(acked, 1);
            }
            sender.cwnd(acked) - before
        };
        prop_assert!(grown("lia") <= grown("uncoupled-reno") + 1);
    }

    #[test]
    fn the_failure_detector_keeps_a_path_and_its_timer_advances(
        operations in prop::collection::vec(operation(), 1..300),
    ) {
        let mut monitor = Monitor::new(Params::default());
        let mut paths = Registry::new();
        let mut now = Instant::now();
        for operation in operations {
            let path = PathId(operation.path().unwrap_or(0));
            match operation {
                Operation::Join { .. } => {
                    paths.add(path, 1200).validated = true;
                    monitor.on_path_added(now, path);
                }
                Operation::Leave { .. } => {
                    monitor.on_path_closed(path);
                    paths.remove(path);
                }
                Operation::Send { .. } => {
                    if let Some(state) = paths.get_mut(path) {
                        state.oldest_unacked_eliciting_sent.get_or_insert(now);
                        state.in_flight_bytes += 1200;
                    }
                    monitor.on_sent_eliciting(now, path);
                }
                Operation::Ack { age, .. } => {
                    if let Some(state) = paths.get_mut(path) {
                        state.oldest_unacked_eliciting_sent = None;
                        state.in_flight_bytes = 0;
                    }
                    let sent = now.checked_sub(age).unwrap_or(now);
                    monitor.on_ack_progress(now, &mut paths, path, sent);
                }
                Operation::Pto { .. } => monitor.on_pto(now, &mut paths, path, 2),
                Operation::LinkDown { .. } => monitor.on_link_down(now, &mut paths, path),
                Operation::Rtt { rtt, .. } => {
                    if let Some(state) = paths.get_mut(path) {
                        state.rtt = rtt.map(Rtt::first);
                    }
                }
                Operation::Wait { time } => now += time,
                _ => (),
            }
            // Some path that was usable and not failed stays so: failing is never complete.
            let usable_before = paths.iter().filter(|path| path.health != Health::Failed).count();
            monitor.tick(now, &mut paths);
            let usable_after = paths.iter().filter(|path| path.health != Health::Failed).count();
            let recovering = paths.iter().any(|path| path.health == Health::Recovering);
            prop_assert!(usable_after > 0 || usable_before <= 1 || recovering);

            // A timer that is due now would make the caller spin.
            monitor.tick(now, &mut paths);
            if let Some(timer) = monitor.next_timer(&paths) {
                prop_assert!(timer > now, "{:?} ago", now - timer);
            }
            while monitor.next_action().is_some() {}
        }
    }
}

fn health() -> impl Strategy<Value = Health> {
    prop_oneof![
        Just(Health::Healthy),
        Just(Health::Suspect),
        Just(Health::Failed),
        Just(Health::Recovering),
    ]
}

/// Any registry a scheduler may meet.
fn registry() -> impl Strategy<Value = Registry> {
    let path = (
        option::weighted(0.8, 0..500u64),
        0..100_000u64,
        0..100_000u64,
        option::of(0..50u32),
        health(),
        any::<bool>(),
        proptest::bool::weighted(0.9),
    );
    prop::collection::vec(path, 0..8).prop_map(|list| {
        let start = reference();
        let mut paths = Registry::new();
        for (id, (rtt, cwnd, in_flight, held, health, backup, validated)) in
            list.into_iter().enumerate()
        {
            let path = paths.add(PathId(id as u64), 1200);
            path.rtt = rtt.map(|ms| Rtt::first(Duration::from_millis(ms)));
            path.cwnd_bytes = cwnd;
            path.in_flight_bytes = in_flight;
            path.pacing_release = held.map(|ms| start + MS * ms);
            path.health = health;
            path.peer_status = if backup {
                Status::Backup
            } else {
                Status::Available
            };
            path.validated = validated;
        }
        paths
    })
}

/// One moment for all cases, so that strategies and tests agree on what "now" is.
fn reference() -> Instant {
    static REFERENCE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *REFERENCE.get_or_init(Instant::now)
}

/// Any state of a connection.
fn connection() -> impl Strategy<Value = Connection> {
    let stream = (
        0..8u8,
        any::<bool>(),
        any::<bool>(),
        option::of(0..10_000_000u64),
        option::of(0..5_000u32),
    );
    let playback = (0..10_000u32, 0..10_000u32, any::<bool>());
    (
        prop::array::uniform8(prop_oneof![Just(0), 0..1_000_000u64]),
        any::<bool>(),
        option::of(stream),
        prop_oneof![Just(0), 0..1u64 << 24],
        (0..1u64 << 40, 0..1u64 << 36),
        option::of(playback),
        (0..3u64, bytes(), bytes()),
    )
        .prop_map(
            |(unsent, more_expected, stream, room, sent, playback, sizes)| {
                let start = reference();
                let head = stream.map(|(urgency, incremental, fin, announced, due)| HeadStream {
                    key: StreamKey(sizes.0),
                    urgency,
                    incremental,
                    unsent_bytes: unsent[usize::from(urgency)].max(1),
                    unacked_bytes: sizes.1,
                    written_bytes: sizes.2,
                    fin,
                    announced_bytes: announced,
                    deadline: due.map(|ms| start + MS * ms),
                });
                let mut by_urgency = unsent;
                if let Some(head) = &head {
                    by_urgency[usize::from(head.urgency)] = head.unsent_bytes + unsent[0] % 7;
                }
                Connection {
                    unsent_bytes: by_urgency.iter().sum::<u64>().max(1),
                    unsent_by_urgency_bytes: by_urgency,
                    flow_control_room_bytes: room,
                    send_buffer_room_bytes: room,
                    reassembly_room_bytes: room,
                    head,
                    more_expected,
                    sent_bytes: sent.0,
                    copied_bytes: sent.1,
                    playback: playback.map(|(buffered, at, stalled)| Playback {
                        report: QoeReport {
                            buffered: MS * buffered,
                            bitrate_bits_per_sec: 0,
                            stalled,
                        },
                        at: start + MS * at,
                    }),
                }
            },
        )
}

/// Something that a scheduler may hear of.
fn event() -> impl Strategy<Value = Event> {
    let report = (0..10_000u32, any::<bool>()).prop_map(|(buffered, stalled)| QoeReport {
        buffered: MS * buffered,
        bitrate_bits_per_sec: 0,
        stalled,
    });
    let path = || (0..8u64).prop_map(PathId);
    let stream = || (0..3u64).prop_map(StreamKey);
    let time = || option::of((0..10_000u32).prop_map(|ms| reference() + MS * ms));
    prop_oneof![
        report.prop_map(Event::Qoe),
        (path(), 0..100_000u64, option::of(0..1_000u32)).prop_map(|(path, bytes, rtt)| {
            Event::Acked {
                path,
                bytes,
                newest_sent: reference(),
                rtt: rtt.map(|rtt| MS * rtt),
            }
        }),
        (path(), 0..100_000u64).prop_map(|(path, bytes)| Event::Lost { path, bytes }),
        (path(), 0..5u32).prop_map(|(path, count)| Event::Pto { path, count }),
        path().prop_map(|path| Event::Spurious { path }),
        (path(), health(), health()).prop_map(|(path, old, new)| Event::PathState {
            path,
            old,
            new
        }),
        path().prop_map(|path| Event::Status { path }),
        Just(Event::AppLimited),
        Just(Event::Resumed),
        stream().prop_map(|stream| Event::StreamEnd { stream }),
        stream().prop_map(|stream| Event::StreamAcked { stream }),
        option::of(stream()).prop_map(|stream| Event::FlowBlocked { stream }),
        (stream(), option::of(0..1_000_000u64), time()).prop_map(
            |(stream, announced_bytes, deadline)| Event::Segment {
                stream,
                announced_bytes,
                deadline
            }
        ),
        (0..100_000u64, any::<bool>())
            .prop_map(|(bytes, useful)| Event::CopyResult { bytes, useful }),
    ]
}

/// Which kind of event it is. A new one stops here, until `event()` draws it.
fn kind(event: &Event) -> usize {
    match event {
        Event::Acked { .. } => 0,
        Event::Lost { .. } => 1,
        Event::Pto { .. } => 2,
        Event::Spurious { .. } => 3,
        Event::PathState { .. } => 4,
        Event::Status { .. } => 5,
        Event::AppLimited => 6,
        Event::Resumed => 7,
        Event::StreamEnd { .. } => 8,
        Event::StreamAcked { .. } => 9,
        Event::FlowBlocked { .. } => 10,
        Event::Qoe(_) => 11,
        Event::Segment { .. } => 12,
        Event::CopyResult { .. } => 13,
    }
}

#[test]
fn every_kind_of_event_is_drawn() {
    let mut runner = TestRunner::deterministic();
    let mut drawn = [false; 14];
    for _ in 0..1000 {
        drawn[kind(&event().new_tree(&mut runner).unwrap().current())] = true;
    }
    assert_eq!(drawn, [true; 14]);
}

fn ask() -> impl Strategy<Value = Ask> {
    let stream = || (0..3u64).prop_map(StreamKey);
    prop_oneof![
        stream().prop_map(|stream| Ask::New { stream }),
        (1..1500u32).prop_map(|len_bytes| Ask::Datagram { len_bytes }),
        (stream(), 0..8u64, 0..3usize).prop_map(|(stream, from, why)| {
            let from = PathId(from);
            let mut tried = PathSet::default();
            tried.insert(from);
            Ask::Retransmit {
                stream,
                from,
                tried,
                why: [Why::Lost, Why::Pto, Why::Moved][why],
            }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_pick_keeps_the_contract(
        paths in registry(), asks in prop::collection::vec((ask(), connection(), 0..300u32), 1..4),
    ) {
        for entry in sched::SCHEDULERS {
            let mut scheduler = sched::by_name(entry.name).unwrap();
            let mut now = reference();
            // Of one after the other: most have a memory.
            for (ask, connection, pause) in &asks {
                let view = View::new(&paths, connection);
                let backups = view.backups().filter(|_| entry.name == "cost-aware");
                let returning = match entry.name {
                    "xlink" => view.with_returning(),
                    _ => view,
                };
                let shown = |id| returning.path(id).or_else(|| backups?.path(id));
                match scheduler.pick(now, &view, ask) {
                    Pick::Send { path, quantum_bytes } => {
                        let path = shown(path).expect("a path that the view shows");
                        prop_assert!(quantum_bytes > 0 && quantum_bytes <= path.room_bytes());
                        prop_assert!(path.pacing_release.is_none_or(|release| release <= now));
                    }
                    Pick::Wait { on, until } => {
                        let path = shown(on).expect("a path that the view shows");
                        // The wait ends: by an ack, or by the pacer.
                        prop_assert!(until.map_or(path.room_bytes() < 1500, |until| until > now), "{}: {until:?} {now:?}", entry.name);
                    }
                    Pick::Skip => {
                        let head = connection.head.expect("a stream to skip");
                        let is_new = matches!(ask, Ask::New { .. });
                        prop_assert!(is_new);
                        prop_assert!(connection.unsent_bytes > head.unsent_bytes, "nothing to skip for");
                    }
                    Pick::None => prop_assert_eq!(view.paths().count(), 0),
                }
                now += MS * *pause;
            }
        }
    }

    #[test]
    fn more_room_never_turns_a_send_into_a_wait(
        paths in registry(), ask in ask(), connection in connection(), path in 0..8u64, more in 1..100_000u64,
    ) {
        let now = reference();
        for entry in sched::SCHEDULERS {
            let pick = |paths: &Registry| {
                sched::by_name(entry.name).unwrap().pick(now, &View::new(paths, &connection), &ask)
            };
            let before = pick(&paths);
            let Pick::Send { path: chosen, .. } = before else { continue };
            let mut roomier = paths.clone();
            let Some(state) = roomier.get_mut(PathId(path)) else { continue };
            state.cwnd_bytes += more;
            let after = pick(&roomier);
            if chosen == PathId(path) {
                let sends = matches!(after, Pick::Send { path, .. } if path == chosen);
                prop_assert!(sends, "{}: {:?} became {:?}", entry.name, before, after);
            }
        }
    }

    #[test]
    fn a_copy_keeps_the_contract(
        paths in registry(),
        steps in prop::collection::vec((connection(), ask(), event(), 0..2_000u32), 1..5),
        rate in any::<u64>(),
        ages in prop::array::uniform3(0..5_000u32),
    ) {
        let mut paths = paths;
        let opportunistic = |entry: &sched::Entry| entry.params.iter().any(|p| p.name == "opportunistic");
        let bare = sched::SCHEDULERS.iter().map(|entry| (entry, ""));
        let repeats = bare.clone().filter(|(entry, _)| opportunistic(entry)).map(|(entry, _)| (entry, ":opportunistic=on"));
        for (entry, params) in bare.chain(repeats) {
            let mut scheduler = sched::by_name(&format!("{}{params}", entry.name)).unwrap();
            let mut now = reference() + MS * 5_000;
            // Of one after the other: most have a memory.
            for (connection, ask, event, pause) in &steps {
                for (id, age) in ages.iter().enumerate() {
                    if let Some(path) = paths.get_mut(PathId(id as u64)) {
                        path.delivery_rate_bytes_per_sec = Some(rate);
                        path.oldest_unacked_eliciting_sent = Some(now - MS * *age);
                    }
                }
                let view = View::new(&paths, connection);
                if scheduler.listens() {
                    scheduler.on_event(now, &view, event);
                }
                scheduler.pick(now, &view, ask);
                for (spare, from) in (0..9).flat_map(|a| (0..9).map(move |b| (PathId(a), PathId(b)))) {
                    for moment in [Moment::BeforeNew, Moment::NothingNew] {
                        let order = scheduler.duplicate(now, &view, spare, from, moment);
                        if let Some(order) = order {
                            is_kept(entry, &order, &view, now, spare)?;
                            prop_assert!(moment == Moment::NothingNew || scheduler.copies_first());
                        }
                        prop_assert!(scheduler.next_wake().is_none_or(|wake| wake > now), "{}", entry.name);
                    }
                }
                now += MS * *pause;
            }
        }
    }
}

/// Whether an order for copies may be given.
fn is_kept(
    entry: &sched::Entry,
    order: &sched::CopyOrder,
    view: &View,
    now: Instant,
    spare: PathId,
) -> Result<(), TestCaseError> {
    let spare = view.path(spare).expect("a path that the view shows");
    prop_assert!(spare.room_bytes() >= spare.mss_bytes, "{}", entry.name);
    prop_assert!(order.most_bytes > 0 && order.most_bytes <= spare.room_bytes());
    prop_assert!(order.sent_after.is_none_or(|sent| sent <= now));
    prop_assert!(order.sent_before.is_none_or(|sent| sent <= now));
    // What has all data again has no budget.
    let sched::Connection {
        sent_bytes,
        copied_bytes,
        ..
    } = *view.connection();
    let burst = entry.params.iter().find(|param| param.name == "burst");
    let burst_bytes = burst.map_or(64 * 1024, |burst| burst.default as u64 * spare.mss_bytes);
    prop_assert!(order.again || order.most_bytes <= burst_bytes + sent_bytes / 20);
    let is_tail = order.which == Which::Newest;
    prop_assert!(!is_tail || copied_bytes < 64 * 1024 + sent_bytes / 20);
    Ok(())
}
