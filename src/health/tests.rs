//! What `tests/health.rs` does not ask of the detector: bounds, and who comes first.

use super::*;
use crate::registry::Rtt;

const MS: Duration = Duration::from_millis(1);

/// Usable paths of 100 ms without variation: P = 100 + 1 + 25 ms.
struct Scene {
    monitor: Monitor,
    paths: Registry,
    start: Instant,
}

impl Scene {
    fn new(n: u64) -> Self {
        let mut scene = Scene {
            monitor: Monitor::new(Params::default()),
            paths: Registry::new(),
            start: Instant::now(),
        };
        for id in (0..n).map(PathId) {
            scene.monitor.on_path_added(scene.start, id);
            let path = scene.paths.add(id, 1200);
            path.validated = true;
            path.rtt = Some(Rtt {
                var: Duration::ZERO,
                ..Rtt::first(100 * MS)
            });
        }
        scene
    }

    fn at(&self, ms: u32) -> Instant {
        self.start + ms * MS
    }

    fn path(&mut self, id: u64) -> &mut PathState {
        self.paths.get_mut(PathId(id)).unwrap()
    }

    fn send(&mut self, id: u64, ms: u32) {
        let at = self.at(ms);
        self.monitor.on_sent_eliciting(at, PathId(id));
        let path = self.path(id);
        path.oldest_unacked_eliciting_sent.get_or_insert(at);
        path.in_flight_bytes += 1200;
    }

    fn tick(&mut self, ms: u32) {
        self.monitor.tick(self.start + ms * MS, &mut self.paths);
    }

    fn link_down(&mut self, id: u64, ms: u32) {
        let at = self.at(ms);
        self.monitor.on_link_down(at, &mut self.paths, PathId(id));
    }

    fn actions(&mut self) -> Vec<(u64, Action)> {
        let next = || {
            self.monitor
                .next_action()
                .map(|(id, action)| (id.0, action))
        };
        std::iter::from_fn(next).collect()
    }

    fn health(&self) -> Vec<Health> {
        self.paths.iter().map(|path| path.health).collect()
    }
}

const SUSPECT: Action = Action::Suspect { hedge_bytes: 65536 };

#[test]
fn the_peers_max_ack_delay_counts() {
    let mut scene = Scene::new(1);
    scene.send(0, 0);
    let timer = |scene: &Scene| scene.monitor.next_timer(&scene.paths);
    assert_eq!(timer(&scene), Some(scene.at(126)));
    scene.monitor.set_max_ack_delay(50 * MS);
    assert_eq!(timer(&scene), Some(scene.at(151)));
}

#[test]
fn what_was_to_be_done_for_a_closed_path_is_not() {
    let mut scene = Scene::new(3);
    scene.send(0, 0);
    scene.send(1, 0);
    scene.tick(126);
    scene.monitor.on_path_closed(PathId(0));
    scene.paths.remove(PathId(0));
    assert_eq!(scene.actions(), [(1, SUSPECT), (1, Action::ProbeNow)]);
    // Nor is it watched any more.
    scene.paths.add(PathId(0), 1200).validated = true;
    scene.link_down(0, 200);
    assert!(scene.actions().is_empty());
}

#[test]
fn what_was_to_be_done_for_a_path_that_fails_is_not() {
    let mut scene = Scene::new(3);
    scene.send(0, 0);
    scene.send(1, 0);
    scene.tick(126);
    scene.link_down(0, 130);
    assert_eq!(
        scene.actions(),
        [(1, SUSPECT), (1, Action::ProbeNow), (0, Action::Fail)]
    );
}

#[test]
fn a_probe_into_silence_does_not_make_it_shorter() {
    // The sender is done before the path falls silent: nothing but its own probe leaves afterwards.
    for (packets, suspect_ms) in [(4, 50 + 126), (3, 170 + 126)] {
        let mut scene = Scene::new(2);
        (0..packets).for_each(|_| scene.send(0, 0));
        let (now, sent) = (scene.at(50), scene.at(0));
        scene
            .monitor
            .on_ack_progress(now, &mut scene.paths, PathId(0), sent);
        scene.send(0, 170);
        // Where few packets are missing they may be lost, and the probe has its time.
        let timer = scene.monitor.next_timer(&scene.paths);
        let in_flight = scene.path(0).in_flight_bytes / 1200;
        assert_eq!(timer, Some(scene.at(suspect_ms)), "{in_flight}");
    }
}

#[test]
fn the_ack_of_what_was_sent_when_the_suspicion_began_is_no_late_one() {
    for (sent_ms, spurious) in [(125, true), (126, false)] {
        let mut scene = Scene::new(2);
        scene.send(0, 0);
        scene.tick(126);
        scene.actions();
        let (now, sent) = (scene.at(200), scene.at(sent_ms));
        scene.path(0).oldest_unacked_eliciting_sent = None;
        scene
            .monitor
            .on_ack_progress(now, &mut scene.paths, PathId(0), sent);
        assert_eq!(scene.actions(), [(0, Action::Cleared { spurious })]);
    }
}

#[test]
fn of_two_that_are_due_the_one_without_a_link_fails() {
    // The other one is silent for longer, but the last one does not fail.
    let mut scene = Scene::new(2);
    scene.send(0, 0);
    scene.tick(126);
    scene.send(1, 300);
    scene.link_down(1, 400);
    assert_eq!(scene.health(), [Health::Suspect, Health::Failed]);
    // Without such news it is the one that is silent for longer.
    let mut scene = Scene::new(2);
    scene.send(0, 0);
    scene.send(1, 10);
    scene.tick(136);
    scene.tick(1000);
    assert_eq!(scene.health(), [Health::Failed, Health::Suspect]);
}

#[test]
fn a_path_is_not_given_up_while_no_other_one_can_be_used() {
    // Who is not usable is no other one, whatever is believed of it.
    for usable in [true, false] {
        let mut scene = Scene::new(2);
        scene.link_down(0, 0);
        scene.path(1).validated = usable;
        for ms in (0..30_000).step_by(50) {
            scene.tick(ms);
        }
        let given_up = scene.actions().contains(&(0, Action::GiveUp));
        assert_eq!(given_up, usable);
    }
}

#[test]
fn a_path_without_a_sample_has_the_initial_rtt() {
    // 333 + 4 333/2 + 25 ms.
    let mut scene = Scene::new(1);
    scene.path(0).rtt = None;
    scene.send(0, 0);
    let timer = scene.monitor.next_timer(&scene.paths);
    assert_eq!(timer, Some(scene.at(1024)));
}

#[test]
fn four_packets_in_flight_make_the_clock_count() {
    // Acks every 2 ms until 40, the oldest packet left 100 ms before: silence of 75 ms, else of 126.
    for (in_flight_bytes, suspect_ms) in [(4 * 1200, 115), (4 * 1200 - 1, 166)] {
        let mut scene = Scene::new(1);
        scene.start += 1000 * MS;
        for ms in (0..=40).step_by(2) {
            let (now, id) = (scene.at(ms), PathId(0));
            scene
                .monitor
                .on_ack_progress(now, &mut scene.paths, id, now);
        }
        let oldest = scene.at(40) - 100 * MS;
        let path = scene.path(0);
        path.oldest_unacked_eliciting_sent = Some(oldest);
        path.in_flight_bytes = in_flight_bytes;
        let timer = scene.monitor.next_timer(&scene.paths);
        assert_eq!(timer, Some(scene.at(suspect_ms)));
    }
}

#[test]
fn the_rtt_starts_anew_after_more_than_three_probe_timeouts() {
    for (back_ms, rtt_restart) in [(378, false), (379, true)] {
        let mut scene = Scene::new(2);
        scene.link_down(0, 0);
        for ms in [back_ms, back_ms + 20] {
            let (now, id) = (scene.at(ms), PathId(0));
            scene
                .monitor
                .on_ack_progress(now, &mut scene.paths, id, now);
        }
        scene.actions();
        scene.tick(back_ms + 199);
        assert!(scene.health().contains(&Health::Recovering));
        // What was asked then is answered.
        let (now, id) = (scene.at(back_ms + 199), PathId(0));
        scene
            .monitor
            .on_ack_progress(now, &mut scene.paths, id, now);
        scene.tick(back_ms + 200);
        let recovered = (0, Action::Recovered { rtt_restart });
        assert_eq!(scene.actions().last(), Some(&recovered));
    }
}

#[test]
fn what_a_relapse_makes_due_is_done_at_once() {
    // Path 1 is asked at 200 and has 126 ms to answer. Path 0, suspect and probed at 186, would be probed again at 312 if
    // it were alone, and fails at no such time: its RTT has become longer.
    let mut scene = Scene::new(2);
    scene.link_down(1, 0);
    scene.send(0, 60);
    let (now, id) = (scene.at(100), PathId(1));
    scene
        .monitor
        .on_ack_progress(now, &mut scene.paths, id, now);
    scene.tick(186);
    scene.tick(200);
    scene.path(0).rtt.as_mut().unwrap().smoothed = 300 * MS;
    assert_eq!(scene.health(), [Health::Suspect, Health::Recovering]);
    scene.tick(325);
    scene.actions();
    scene.tick(326);
    assert_eq!(scene.actions(), [(1, Action::Fail), (0, Action::ProbeNow)]);
}

#[test]
fn probes_of_a_recovering_path_by_hand() {
    let mut scene = Scene::new(1);
    let params = Params::default();
    let start = scene.start;
    let mut path = scene.path(0).clone();
    let rtt = 100 * MS;
    let pause = rtt.max(params.min_return);
    let mut watch = watch::Watch::new(start, &params);
    watch.hold = 400 * MS;
    watch.enter(start, Health::Recovering);
    // The hold ends at 400 ms, and the last answer is to come then: its probe leaves at 300 ms at the latest.
    for (ms, next_ms) in [(0, pause.as_millis()), (250, 300), (299, 300)] {
        let at = start + ms * MS;
        watch.answered(at, &path, at, &params);
        let next_ms = u32::try_from(next_ms).unwrap().min(300);
        assert_eq!(watch.next_probe, Some(start + next_ms * MS), "{ms}");
    }
    // The longest pause is 200 ms, or the RTT.
    for (hold_ms, rtt_ms, next_ms) in [(700, 100, 175), (900, 100, 200), (9000, 300, 300)] {
        let mut path = path.clone();
        path.rtt = Some(Rtt::first(rtt_ms * MS));
        let mut watch = watch.clone();
        watch.hold = hold_ms * MS;
        watch.answered(start, &path, start, &params);
        assert_eq!(watch.next_probe, Some(start + next_ms * MS), "{hold_ms}");
    }
    // From there on, a pause later each.
    for ms in [300, 301] {
        let at = start + ms * MS;
        watch.answered(at, &path, at, &params);
        assert_eq!(watch.next_probe, Some(start + ms * MS + pause), "{ms}");
    }

    // Whether much was in flight is what it was when it failed while it carried data.
    path.in_flight_bytes = 1 << 30;
    path.cwnd_bytes = 1 << 30;
    watch.enter(start, Health::Healthy);
    watch.fail(start, &path, &params);
    path.in_flight_bytes = 0;
    watch.recover(start + 10 * MS, &path, start, &params);
    watch.fail(start + 20 * MS, &path, &params);
    let before = watch.hold;
    watch.recover(start + 30 * MS, &path, start, &params);
    assert_eq!(watch.hold, 2 * before);
}

/// An outage that fits between a probe and its answer does not go unnoticed.
#[test]
fn a_sample_as_long_as_an_outage_gives_probes_no_such_time() {
    let mut scene = Scene::new(1);
    let params = Params::default();
    let start = scene.start;
    let mut watch = watch::Watch::new(start, &params);
    watch.fail(start, scene.path(0), &params);
    scene.path(0).rtt = Some(Rtt::first(600 * MS));
    let path = scene.path(0).clone();
    let mut due_after_ms = |answers_ms: &[u32]| {
        watch.recover(start, &path, start - answers_ms[0] * MS, &params);
        for ms in &answers_ms[1..] {
            watch.answered(start, &path, start - *ms * MS, &params);
        }
        watch.probe_recovering(start, &path, &params);
        let due = watch.next_probe.unwrap() - start;
        watch.fail(start, &path, &params);
        due.as_millis()
    };
    // P was 126 ms when it worked, also after it failed again; 2 answer + 25 ms; P is 600 + 4 * 300 + 25 ms.
    assert_eq!(due_after_ms(&[10]), 126);
    assert_eq!(due_after_ms(&[50]), 126);
    assert_eq!(due_after_ms(&[51]), 127);
    // The longest one counts, of this recovery.
    assert_eq!(due_after_ms(&[100, 300, 200]), 625);
    assert_eq!(due_after_ms(&[60]), 145);
    assert_eq!(due_after_ms(&[2000]), 1825);
}

#[test]
fn a_late_acknowledgment_on_another_path_ends_no_suspicion() {
    // P is 126 ms, so the path is suspect from then on; what is acknowledged left at 14 ms or later.
    for (elsewhere, sent_ms, cleared) in [
        (true, 13, false),
        (true, 14, true),
        (true, 126, true),
        (false, 13, true),
    ] {
        let mut scene = Scene::new(2);
        scene.send(0, 0);
        scene.tick(126);
        assert_eq!(scene.health()[0], Health::Suspect);
        let (now, sent, id) = (scene.at(140), scene.at(sent_ms), PathId(0));
        let Scene { monitor, paths, .. } = &mut scene;
        match elsewhere {
            true => monitor.on_ack_elsewhere(now, paths, id, sent),
            false => monitor.on_ack_progress(now, paths, id, sent),
        }
        assert_eq!(scene.health()[0] == Health::Healthy, cleared, "{sent_ms}");
        // It is progress all the same: the path fails only after another silence.
        scene.send(0, 150);
        scene.tick(260);
        assert_ne!(scene.health()[0], Health::Failed);
    }
}

#[test]
fn a_late_acknowledgment_on_another_path_answers_no_probe() {
    let params = Params::default();
    let mut scene = Scene::new(2);
    scene.link_down(0, 0);
    let (now, id) = (scene.at(10), PathId(0));
    let Scene { monitor, paths, .. } = &mut scene;
    monitor.on_ack_progress(now, paths, id, now);
    // The second probe leaves an RTT later, and has twice the RTT that the first took, or P.
    scene.tick(110);
    let due = scene.monitor.next_timer(&scene.paths);
    assert_eq!(due, Some(scene.at(110 + 126)));
    let Scene {
        monitor,
        paths,
        start,
    } = &mut scene;
    let at = |ms| *start + ms * MS;
    monitor.on_ack_elsewhere(at(120), paths, id, at(109));
    assert_eq!(monitor.next_timer(paths), due);
    monitor.on_ack_elsewhere(at(120), paths, id, at(110));
    // Two were answered, so it is taken back when the hold ends.
    assert_eq!(monitor.next_timer(paths), Some(at(10) + params.min_hold));
}
