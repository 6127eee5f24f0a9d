//! The failure detector against times worked out by hand, and scenes in virtual time.

mod common;

use common::MS;
use common::MSS;

use std::time::Duration;
use std::time::Instant;

use mpq_decision::health::Action;
use mpq_decision::health::Health;
use mpq_decision::health::Monitor;
use mpq_decision::health::Params;
use mpq_decision::registry::Rtt;
use mpq_decision::PathId;
use mpq_decision::Registry;
use proptest::prelude::*;

const SUSPECT: Action = Action::Suspect { hedge_bytes: 65536 };

/// Paths on which packets leave and acks come back when the test says so. Times in ms.
struct Scene {
    monitor: Monitor,
    paths: Registry,
    start: Instant,
    now_ms: u32,
    /// Everything the detector asked for, and when.
    log: Vec<(u32, u64, Action)>,
}

impl Scene {
    /// Validated paths of (smoothed RTT, rttvar) in ms; rttvar may be a fraction.
    fn new(rtts: &[(u32, f64)]) -> Self {
        let start = Instant::now();
        let mut monitor = Monitor::new(Params::default());
        let mut paths = Registry::new();
        for (id, (srtt_ms, var_ms)) in rtts.iter().enumerate() {
            let id = PathId(id as u64);
            monitor.on_path_added(start, id);
            let path = paths.add(id, MSS);
            path.validated = true;
            path.rtt = Some(Rtt {
                var: Duration::from_secs_f64(var_ms / 1e3),
                ..Rtt::first(MS * *srtt_ms)
            });
        }
        Scene {
            monitor,
            paths,
            start,
            now_ms: 0,
            log: Vec::new(),
        }
    }

    fn at(&self, ms: u32) -> Instant {
        self.start + MS * ms
    }

    fn collect(&mut self) {
        while let Some((id, action)) = self.monitor.next_action() {
            self.log.push((self.now_ms, id.0, action));
        }
    }

    /// Runs the detector's timers to `ms`, to the millisecond.
    fn run_to(&mut self, ms: u32) {
        let mut ticks = 0;
        while let Some(due) = self
            .monitor
            .next_timer(&self.paths)
            .filter(|at| *at <= self.at(ms))
        {
            let due_ms = (due - self.start).as_nanos().div_ceil(1_000_000) as u32;
            self.now_ms = self.now_ms.max(due_ms);
            self.monitor.tick(self.at(self.now_ms), &mut self.paths);
            self.collect();
            let next = self.monitor.next_timer(&self.paths);
            assert!(
                next.is_none_or(|next| next > self.at(self.now_ms)),
                "due at once again: {:?}",
                self.log.last()
            );
            ticks += 1;
            assert!(
                ticks < 10_000,
                "the timer does not advance: {:?}",
                self.log.last()
            );
        }
        self.now_ms = ms;
    }

    fn send(&mut self, id: u64) {
        let now = self.at(self.now_ms);
        let path = self.paths.get_mut(PathId(id)).unwrap();
        path.oldest_unacked_eliciting_sent.get_or_insert(now);
        path.in_flight_bytes += MSS;
        self.monitor.on_sent_eliciting(now, PathId(id));
    }

    /// Everything sent up to `sent_ms` is acked; `left` packets stay in flight, sent just after.
    fn ack(&mut self, id: u64, sent_ms: u32, left: u64) {
        let (now, sent) = (self.at(self.now_ms), self.at(sent_ms));
        let path = self.paths.get_mut(PathId(id)).unwrap();
        path.in_flight_bytes = left * MSS;
        path.oldest_unacked_eliciting_sent = (left > 0).then_some(sent + MS);
        self.monitor
            .on_ack_progress(now, &mut self.paths, PathId(id), sent);
        self.collect();
    }

    /// A busy path: a packet and an ack per ms for `ms`, packets one `rtt_ms` in flight.
    fn busy(&mut self, id: u64, rtt_ms: u32, ms: u32) {
        for _ in 0..ms {
            self.run_to(self.now_ms + 1);
            self.ack(id, self.now_ms - rtt_ms, u64::from(rtt_ms));
            self.send(id);
        }
    }

    /// The system says now that nothing can leave by the path.
    fn link_down(&mut self, id: u64) {
        let now = self.at(self.now_ms);
        self.monitor.on_link_down(now, &mut self.paths, PathId(id));
        self.collect();
    }

    /// When the path was probed.
    fn probes(&self, id: u64) -> Vec<u32> {
        let probed = |(at, other, action): &(u32, u64, Action)| {
            (*other == id && *action == Action::ProbeNow).then_some(*at)
        };
        self.log.iter().filter_map(probed).collect()
    }

    fn health(&self, id: u64) -> Health {
        self.paths.get(PathId(id)).unwrap().health
    }

    fn when(&self, id: u64, action: Action) -> Option<u32> {
        let found = |(_, other, what): &&(u32, u64, Action)| *other == id && *what == action;
        self.log.iter().find(found).map(|(at, ..)| *at)
    }
}

#[test]
fn a_quiet_path_of_20_ms() {
    // RTT 20, 4 var 5: P = 20 + 5 + 25 = 50: suspect at 50. Failed at max(50, 75) +
    // min(50, 50 + 25) = 125. The other path's RTT is 50.
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.send(0);
    scene.run_to(49);
    assert_eq!(scene.log, []);
    scene.run_to(124);
    assert_eq!(scene.log, [(50, 0, SUSPECT), (50, 0, Action::ProbeNow)]);
    assert_eq!(scene.health(0), Health::Suspect);
    scene.run_to(125);
    assert_eq!(scene.when(0, Action::Fail), Some(125));
    assert_eq!(scene.health(0), Health::Failed);
}

#[test]
fn a_quiet_path_of_50_ms() {
    // RTT 50, 4 var 10: P = 85: suspect at 85 without an ack clock; failed at 85 + min(85, 20 + 25)
    // = 130.
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.send(1);
    scene.run_to(200);
    assert_eq!(scene.when(1, SUSPECT), Some(85));
    assert_eq!(scene.when(1, Action::Fail), Some(130));
}

#[test]
fn a_live_ack_clock_suspects_earlier() {
    // The same path, busy with an ack per ms: min(85, max(75, 1 + 25)) = 75 after the last ack. The
    // oldest packet then in flight was sent 49 ms before, so its ack could have been back 1 ms
    // later: 76. Failure stays at 130.
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.now_ms = 100;
    scene.busy(1, 50, 300);
    assert_eq!(scene.log, []);
    scene.run_to(400 + 200);
    assert_eq!(scene.when(1, SUSPECT), Some(400 + 76));
    assert_eq!(scene.when(1, Action::Fail), Some(400 + 130));
}

#[test]
fn a_trickle_on_a_dead_path_does_not_hide_it() {
    // A packet per 20 ms keeps re-arming the PTO: never less than P = 50 after the last packet.
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    for _ in 0..7 {
        scene.send(0);
        scene.run_to(scene.now_ms + 20);
    }
    assert_eq!(scene.when(0, SUSPECT), Some(50));
    assert_eq!(scene.when(0, Action::Fail), Some(125));
}

#[test]
fn an_idle_path_is_never_suspected() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.send(0);
    scene.run_to(20);
    scene.ack(0, 0, 0);
    assert_eq!(scene.monitor.next_timer(&scene.paths), None);
    scene.run_to(100_000);
    assert_eq!(scene.log, []);
}

#[test]
fn a_growing_queue_is_not_silence() {
    // The RTT grows by 2 ms per ack, far beyond the estimate, but acks keep coming.
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.now_ms = 1000;
    for delay in 0..300 {
        scene.send(0);
        scene.run_to(scene.now_ms + 3);
        scene.ack(0, scene.now_ms - 20 - 2 * delay, 30);
    }
    assert_eq!(scene.log, []);
}

#[test]
fn a_late_ack_clears_the_suspicion() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.send(0);
    scene.run_to(60);
    assert_eq!(scene.health(0), Health::Suspect);
    scene.ack(0, 0, 0);
    assert_eq!(scene.health(0), Health::Healthy);
    assert_eq!(
        scene.log.last(),
        Some(&(60, 0, Action::Cleared { spurious: true }))
    );

    scene.send(0);
    scene.run_to(115);
    scene.send(0); // the probe
    scene.run_to(120);
    scene.ack(0, 115, 0);
    assert_eq!(
        scene.log.last(),
        Some(&(120, 0, Action::Cleared { spurious: false }))
    );
}

#[test]
fn a_path_that_relapses_is_kept_if_it_is_the_last() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.send(0);
    let now = scene.at(0);
    scene.monitor.on_pto(now, &mut scene.paths, PathId(0), 2);
    scene.collect();
    assert_eq!(scene.health(0), Health::Failed);
    scene.now_ms = 10;
    scene.ack(0, 10, 0);
    assert_eq!(scene.health(0), Health::Recovering);
    // From here on both are silent: path 1 is suspect after 85 ms, and path 0 was probed by then.
    scene.send(1);
    scene.monitor.tick(scene.at(100), &mut scene.paths);
    scene.collect();
    assert_eq!(scene.health(1), Health::Suspect);
    // One late tick sees both of them fail.
    scene.monitor.tick(scene.at(400), &mut scene.paths);
    scene.collect();
    assert_eq!(scene.health(1), Health::Failed);
    assert_eq!(scene.health(0), Health::Suspect);
}

#[test]
fn the_last_path_never_fails() {
    let mut scene = Scene::new(&[(20, 1.25)]);
    scene.send(0);
    scene.link_down(0);
    scene.run_to(60_000);
    assert_eq!(scene.health(0), Health::Suspect);
    assert_eq!(scene.when(0, Action::Fail), None);

    // Probed like one that failed: P = 50 after the first probe, then 100 ... and each 250 ms.
    let mut expected = vec![0, 50, 150, 350];
    expected.extend((600..=60_000).step_by(250));
    assert_eq!(scene.probes(0), expected);

    // Another path becomes usable: now it may.
    scene.paths.add(PathId(1), MSS).validated = true;
    scene.monitor.on_path_added(scene.at(60_000), PathId(1));
    scene.collect();
    scene.monitor.tick(scene.at(60_001), &mut scene.paths);
    assert_eq!(scene.health(0), Health::Failed);
}

#[test]
fn the_last_path_is_probed_until_it_answers() {
    let mut scene = Scene::new(&[(20, 1.25)]);
    scene.send(0);
    // P = 50: suspect and probed at 50, then at 100, 200, 400 ...; nothing but a probe is sent.
    scene.run_to(250);
    assert_eq!(scene.probes(0), [50, 100, 200]);
    scene.ack(0, 200, 0);
    assert_eq!(scene.health(0), Health::Healthy);
    assert_eq!(
        scene.when(0, Action::Cleared { spurious: false }),
        Some(250)
    );
    assert_eq!(scene.monitor.next_timer(&scene.paths), None);
    scene.run_to(10_000);
    assert_eq!(scene.probes(0).len(), 3);
}

#[test]
fn when_all_are_silent_the_latest_stays() {
    let mut scene = Scene::new(&[(20, 1.25), (20, 1.25), (20, 1.25)]);
    scene.now_ms = 100;
    for (id, at) in [(0, 100), (1, 103), (2, 101)] {
        scene.now_ms = at;
        scene.ack(id, at - 20, 1);
    }
    // Silent since then; one tick, late, sees all of them.
    scene.monitor.tick(scene.at(200), &mut scene.paths);
    scene.monitor.tick(scene.at(400), &mut scene.paths);
    assert_eq!(scene.health(0), Health::Failed);
    assert_eq!(scene.health(1), Health::Suspect);
    assert_eq!(scene.health(2), Health::Failed);
}

#[test]
fn a_late_tick_still_gives_the_probe_its_time() {
    // Suspect only at 1000: the probe may take min(50, 75) = 50.
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.send(0);
    scene.now_ms = 1000;
    scene.monitor.tick(scene.at(1000), &mut scene.paths);
    assert_eq!(scene.health(0), Health::Suspect);
    scene.run_to(1049);
    assert_eq!(scene.health(0), Health::Suspect);
    scene.run_to(1050);
    assert_eq!(scene.health(0), Health::Failed);
}

#[test]
fn a_lost_link_fails_at_once() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene
        .monitor
        .on_link_down(scene.at(5), &mut scene.paths, PathId(0));
    assert_eq!(scene.health(0), Health::Failed);
}

#[test]
fn two_probe_timeouts_fail_a_path() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene
        .monitor
        .on_pto(scene.at(5), &mut scene.paths, PathId(0), 1);
    assert_eq!(scene.health(0), Health::Healthy);
    scene
        .monitor
        .on_pto(scene.at(9), &mut scene.paths, PathId(0), 2);
    assert_eq!(scene.health(0), Health::Failed);
}

#[test]
fn probes_back_off_and_end() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.link_down(0);
    scene.log.clear();
    scene.run_to(60_000);
    // P = 50, then 100, 200 ... capped at 500, as 5 P are less; the one of 15,250 ms has seen 15 s pass.
    let times: Vec<u32> = scene.log.iter().map(|(at, ..)| *at).collect();
    let expected: Vec<u32> = [50, 150, 350]
        .into_iter()
        .chain((750..=15_750).step_by(500))
        .collect();
    assert_eq!(times, expected);
    let (last, probes) = scene.log.split_last().unwrap();
    assert!(probes
        .iter()
        .all(|(.., action)| *action == Action::ProbeNow));
    assert_eq!(last.2, Action::GiveUp);
}

#[test]
fn a_long_path_is_probed_less_often() {
    // RTT 300, 4 var 75 and so P 400, of which 5 are the 2 s that no pause exceeds.
    let mut scene = Scene::new(&[(20, 1.25), (300, 18.75)]);
    scene.link_down(1);
    scene.log.clear();
    scene.run_to(10_000);
    assert_eq!(scene.probes(1), [400, 1200, 2800, 4800, 6800, 8800]);
}

#[test]
fn a_path_is_not_given_up_while_no_other_is_healthy() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.link_down(0);
    scene.send(1);
    scene.run_to(60_000);
    assert_eq!(scene.health(1), Health::Suspect);
    assert_eq!(scene.when(0, Action::GiveUp), None);
    // Still probed, each 250 ms.
    let late = scene.probes(0).into_iter().filter(|at| *at > 50_000);
    assert_eq!(late.count(), 40);

    // Path 1 answers. Of what path 0 missed until then only the 50 ms before its first probe count, when path 1 was
    // healthy: 15 s more, the first pause being 250 ms and the others 500.
    scene.log.clear();
    scene.ack(1, 60_000, 0);
    assert_eq!(scene.health(1), Health::Healthy);
    scene.run_to(90_000);
    let times = scene.probes(0);
    assert!(times[0] < 60_250 && times[2] - times[1] == 500, "{times:?}");
    let gave_up = scene.when(0, Action::GiveUp).unwrap();
    assert!((75_000..=75_750).contains(&gave_up), "{gave_up}");
}

#[test]
fn a_path_that_waits_for_its_next_probe_is_asked_at_once_when_no_other_is_left() {
    // P = 50: probed at 50, 150, 350, 750, 1250 and so on to 3750, and then at 4250.
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.link_down(0);
    scene.run_to(4000);
    scene.log.clear();
    scene.send(1);
    scene.run_to(4500);
    // The other one is suspect 85 ms after 4000; then this one has waited long enough.
    assert_eq!(scene.when(1, SUSPECT), Some(4085));
    // The next one is 250 ms later, and not the 500 for which a healthy path would have let it wait.
    assert_eq!(scene.probes(0), [4085, 4335]);
}

#[test]
fn probes_of_a_long_path_leave_each_other_time_for_an_answer() {
    // RTT, 4 var and so P: 60, 10, 95, of which 5 are 475; 600, 40, 665, of which 5 are more than 1000; 1200, 40, 1265.
    let cases = [
        (60, 2.5, [0, 95, 285, 665, 1140, 1615]),
        (600, 10.0, [0, 665, 1665, 2665, 3665, 4665]),
        (1200, 10.0, [0, 1265, 2530, 3795, 5060, 6325]),
    ];
    for (rtt_ms, var_ms, expected) in cases {
        let mut scene = Scene::new(&[(rtt_ms, var_ms)]);
        scene.send(0);
        scene.link_down(0);
        scene.run_to(8000);
        assert_eq!(scene.probes(0)[..6], expected);
    }
}

/// Fails path 0 by its link and lets it answer probes from then on; returns when it is back.
fn fail_and_return(scene: &mut Scene, at_ms: u32) -> u32 {
    scene.run_to(at_ms);
    scene.link_down(0);
    assert_eq!(scene.health(0), Health::Failed);
    scene.log.clear();
    let mut answered = 0;
    while scene.health(0) != Health::Healthy {
        let probes = scene.probes(0).len();
        if probes > answered {
            answered = probes;
            let sent_ms = scene.now_ms;
            scene.run_to(sent_ms + 20);
            scene.ack(0, sent_ms, 0);
        } else {
            scene.run_to(scene.now_ms + 1);
        }
        assert!(scene.now_ms < at_ms + 60_000);
    }
    scene
        .when(0, Action::Recovered { rtt_restart: false })
        .unwrap()
}

#[test]
fn a_path_returns_after_two_probes_and_the_hold_time() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    // Failed at 0, probed at 50, answered at 70, held for 200 ms.
    assert_eq!(fail_and_return(&mut scene, 0), 270);
    assert_eq!(scene.when(0, Action::Recovering), Some(70));
    // Failed for 70 ms, less than 3 P = 150: the RTT estimate is kept.
    assert_eq!(
        scene.when(0, Action::Recovered { rtt_restart: false }),
        Some(270)
    );
}

#[test]
fn short_returns_hold_longer() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    let held = |scene: &mut Scene, at| fail_and_return(scene, at) - at - 70;
    assert_eq!(held(&mut scene, 0), 200);
    // It worked for five hold times, 1 s, and more.
    assert_eq!(held(&mut scene, 10_000), 200);
    // From 10.27 on for less; from 11.67 on for less than 2 s.
    assert_eq!(held(&mut scene, 11_200), 400);
    assert_eq!(held(&mut scene, 13_500), 800);
    // From 14.37 on for 4 s and more: half.
    assert_eq!(held(&mut scene, 18_500), 400);
    // From 18.97 on for 2 s of 0.4 s each, and of what is left for 1 s of 0.2 s each.
    assert_eq!(held(&mut scene, 21_000), 200);
    // From 21.27 on.
    assert_eq!(held(&mut scene, 22_200), 400);
}

#[test]
fn a_long_hold_time_wears_off() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    let mut at = 0;
    let mut longest = 0;
    for _ in 0..12 {
        let back = fail_and_return(&mut scene, at);
        longest = back - at - 70;
        at = back + 100;
    }
    assert_eq!(longest, 10_000);
    // 50 + 25 + 12.5 + 6.25 + 3.125 + 1.5625 s leave the shortest, 200 ms.
    let at = at + 98_500;
    assert_eq!(fail_and_return(&mut scene, at) - at - 70, 200);
}

#[test]
fn a_late_ack_of_old_packets_is_no_return() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.send(0);
    scene.run_to(130);
    assert_eq!(scene.health(0), Health::Failed);
    scene.ack(0, 0, 0);
    assert_eq!(scene.health(0), Health::Failed);
}

#[test]
fn a_returning_path_that_falls_silent_fails_again() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.link_down(0);
    scene.run_to(70);
    scene.ack(0, 50, 0);
    assert_eq!(scene.health(0), Health::Recovering);
    // Probed at 70 + 50, no answer for P = 50.
    scene.run_to(169);
    assert_eq!(scene.health(0), Health::Recovering);
    scene.run_to(170);
    assert_eq!(scene.health(0), Health::Failed);
}

#[test]
fn lost_packets_are_no_outages() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    // Time after time two probe timeouts fail the path and it answers the first probe: it is held for 200 ms.
    for at_ms in (0..20_000).step_by(1000) {
        scene.run_to(at_ms);
        let now = scene.at(at_ms);
        scene.monitor.on_pto(now, &mut scene.paths, PathId(0), 2);
        scene.collect();
        assert_eq!(scene.health(0), Health::Failed);
        for sent_ms in [50, 120, 190, 250] {
            scene.run_to(at_ms + sent_ms + 20);
            scene.ack(0, at_ms + sent_ms, 0);
        }
        scene.run_to(at_ms + 270);
        assert_eq!(scene.health(0), Health::Healthy, "{at_ms}");
    }
}

#[test]
fn a_returning_path_is_not_taken_back_unanswered() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.link_down(0);
    // Answers the probes of 50, 120 and 190, and then dies: its hold time is over at 270.
    for sent_ms in [50, 120, 190] {
        scene.run_to(sent_ms + 20);
        scene.ack(0, sent_ms, 0);
    }
    // It is probed an RTT before that, at 250, and has P = 50.
    scene.run_to(299);
    assert_eq!(scene.health(0), Health::Recovering);
    scene.run_to(300);
    assert_eq!(scene.health(0), Health::Failed);
}

#[test]
fn a_long_failure_restarts_the_rtt() {
    let mut scene = Scene::new(&[(20, 1.25), (50, 2.5)]);
    scene.link_down(0);
    // Answers the probe of 150 at 170 > 3 P = 150.
    scene.run_to(170);
    scene.ack(0, 150, 0);
    scene.run_to(220);
    scene.run_to(240);
    scene.ack(0, 220, 0);
    scene.run_to(310);
    scene.ack(0, 290, 0);
    scene.run_to(370);
    scene.ack(0, 350, 0);
    scene.run_to(370);
    assert_eq!(
        scene.when(0, Action::Recovered { rtt_restart: true }),
        Some(370)
    );
}

/// What may happen to a path.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    /// Of all that was sent.
    Ack,
    LinkDown,
    Pto,
    /// In ms.
    Wait(u32),
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let step = prop_oneof![
        4 => Just(Step::Send),
        2 => Just(Step::Ack),
        1 => Just(Step::LinkDown),
        1 => Just(Step::Pto),
        4 => (1..400u32).prop_map(Step::Wait),
    ];
    (0..3u64, step)
}

proptest! {
    /// Whatever happens, a tick leaves no timer that is due (`Scene::run_to`), and never do all paths fail.
    #[test]
    fn timers_advance_and_a_path_is_left(
        steps in proptest::collection::vec(step(), 1..120),
        rtts in proptest::array::uniform3((0..200u32, 0.0..50.0f64)),
    ) {
        let mut scene = Scene::new(&rtts);
        for (id, step) in steps {
            match step {
                Step::Send => scene.send(id),
                Step::Ack => scene.ack(id, scene.now_ms, 0),
                Step::LinkDown => {
                    let now = scene.at(scene.now_ms);
                    scene.monitor.on_link_down(now, &mut scene.paths, PathId(id));
                }
                Step::Pto => {
                    let now = scene.at(scene.now_ms);
                    scene.monitor.on_pto(now, &mut scene.paths, PathId(id), 1);
                }
                Step::Wait(ms) => scene.run_to(scene.now_ms + ms),
            }
            prop_assert!((0..3).any(|id| scene.health(id) != Health::Failed));
        }
    }
}
