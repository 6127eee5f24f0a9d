//! PCDC over a network that is told, for each set of paths that carry data, what it delivers.

use super::*;

/// Bytes per second over these paths.
type Rate = fn(&[u64]) -> f64;

/// A bench whose connection delivers.
struct Network {
    bench: Bench,
    rate: Rate,
    is_wanted: bool,
    delivered: f64,
    at: Instant,
    paths: Vec<u64>,
    standing_by: Vec<u64>,
    /// Statuses that were set, with their times in ms.
    set: Vec<(u64, u64, Status)>,
}

impl Network {
    fn new(choice: &str, n: u32, rate: Rate) -> Network {
        Network::over(Bench::with(choice, n), n, rate)
    }

    fn over(mut bench: Bench, n: u32, rate: Rate) -> Network {
        bench.tell(Event::Confirmed);
        let at = bench.now;
        let mut network = Network {
            bench,
            rate,
            is_wanted: true,
            delivered: 0.0,
            at,
            paths: (0..n.into()).collect(),
            standing_by: Vec::new(),
            set: Vec::new(),
        };
        network.turn();
        network
    }

    fn carriers(&self) -> Vec<u64> {
        let paths = self.paths.iter().copied();
        paths
            .filter(|path| !self.standing_by.contains(path))
            .collect()
    }

    fn deliver(&mut self) {
        let elapsed = self.bench.now - self.at;
        self.at = self.bench.now;
        if self.is_wanted {
            self.delivered += (self.rate)(&self.carriers()) * elapsed.as_secs_f64();
        }
    }

    /// Does what is due now.
    fn turn(&mut self) {
        self.deliver();
        loop {
            let actions = self.bench.actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                match action {
                    Action::Sample => {
                        let sample = Sample {
                            delivered_bytes: self.delivered as u64,
                            is_wanted: self.is_wanted,
                        };
                        self.bench.tell(Event::Sample(sample));
                    }
                    Action::SetStatus { path, status } => {
                        self.standing_by.retain(|other| *other != path.0);
                        if status == Status::Backup {
                            self.standing_by.push(path.0);
                        }
                        let ms = (self.bench.now - self.bench.start).as_millis() as u64;
                        self.set.push((ms, path.0, status));
                    }
                    _ => {}
                }
            }
        }
    }

    fn until(&mut self, seconds: u32) {
        let end = self.bench.start + Duration::from_secs(seconds.into());
        let timer = |bench: &Bench| bench.manager.next_timer();
        while let Some(at) = timer(&self.bench).filter(|at| *at <= end) {
            self.bench.now = at;
            self.turn();
        }
        self.bench.now = end;
        self.turn();
    }

    fn event(&mut self, event: Event) {
        self.deliver();
        self.bench.tell(event);
        self.turn();
    }

    /// Omega by path, in thousandths.
    fn impacts(&self) -> Vec<(u64, i64)> {
        let impacts = self.bench.manager.impacts().into_iter();
        let rounded = |omega: f64| (omega * 1e3).round() as i64;
        impacts
            .map(|(path, _, omega)| (path.0, rounded(omega)))
            .collect()
    }

    fn is_measuring(&self) -> bool {
        let timer = self.bench.manager.next_timer();
        timer.is_some_and(|at| at < self.bench.now + Duration::from_secs(1))
    }
}

/// Path 2 costs the others more than it brings.
fn third_hurts(paths: &[u64]) -> f64 {
    match (paths.contains(&0), paths.contains(&1), paths.contains(&2)) {
        (true, true, true) => 1000.0,
        (true, true, false) => 1500.0,
        (true, false, true) => 600.0,
        (false, true, true) => 500.0,
        (true, ..) => 900.0,
        (_, true, _) => 600.0,
        _ => 100.0,
    }
}

#[test]
fn as_published() {
    let mut network = Network::new("pcdc", 3, third_hurts);
    network.until(400);
    assert_eq!(network.impacts(), [(0, 500), (1, 400), (2, -500)]);
    let (available, backup) = (Status::Available, Status::Backup);
    // T = 30 s with all and T without one, for each of the three; the last is not taken back.
    let expected = [
        (30_000, 0, backup),
        (60_000, 0, available),
        (90_000, 1, backup),
        (120_000, 1, available),
        (150_000, 2, backup),
    ];
    assert_eq!(network.set, expected);
    assert!(!network.is_measuring());
}

#[test]
fn quick() {
    let mut network = Network::new("pcdc-quick", 3, third_hurts);
    network.until(8);
    assert_eq!(network.impacts(), [(0, 500), (1, 400), (2, -500)]);
    assert_eq!(network.carriers(), [0, 1]);
    assert!(!network.is_measuring());
    // Four phases of a second, and half a second before each.
    assert_eq!(network.set.last(), Some(&(4500, 2, Status::Backup)));
}

#[test]
fn nothing_is_abandoned_and_the_best_unused_replaces_what_fails() {
    let rate: Rate = |paths| 1000.0 - 200.0 * paths.iter().filter(|p| **p > 1).count() as f64;
    let mut network = Network::new("pcdc:t=1s,keep-alive=0s", 4, rate);
    network
        .bench
        .manager
        .recall(nth(1).ip, SERVER.parse().unwrap(), 0.6);
    network
        .bench
        .manager
        .recall(nth(2).ip, SERVER.parse().unwrap(), 0.3);
    network.until(20);
    assert_eq!(
        network.impacts(),
        [(0, 600), (1, 300), (2, -333), (3, -333)]
    );
    assert_eq!(network.carriers(), [0, 1]);
    let doubt = |path, doubted| Event::Doubt {
        path: PathId(path),
        doubted,
    };
    network.event(doubt(0, true));
    assert_eq!(network.carriers(), [0, 1, 2]);
    network.event(doubt(1, true));
    assert_eq!(network.carriers(), [0, 1, 2, 3]);
    network.event(doubt(0, false));
    assert_eq!(network.carriers(), [0, 1, 2]);
    network.event(doubt(1, false));
    assert_eq!(network.carriers(), [0, 1]);
    // Its address goes: its place is taken at once, and when its path is abandoned, too.
    network.event(Event::LocalGone(nth(1)));
    network.paths.retain(|path| *path != 0);
    assert_eq!(network.carriers(), [1, 2]);
    network.until(40);
    assert_eq!(network.carriers(), [1, 2]);
    assert!(network.bench.manager.next_timer().is_none());
}

#[test]
fn a_path_that_dies_while_it_is_measured() {
    let mut network = Network::new("pcdc:t=10s", 3, third_hurts);
    let doubt = |doubted| Event::Doubt {
        path: PathId(1),
        doubted,
    };
    // In the second half of what is measured without path 0: it counts.
    network.until(17);
    assert_eq!(network.carriers(), [1, 2]);
    network.event(doubt(true));
    network.until(21);
    assert_eq!(network.bench.manager.impacts().len(), 1);
    // All of the next measurement: it is made again until the path is abandoned.
    network.until(45);
    assert_eq!(network.carriers(), [0, 1, 2]);
    network.bench.answers = false;
    network.event(gone(1, false));
    network.paths.retain(|path| *path != 1);
    network.rate = |paths| if paths.contains(&2) { 600.0 } else { 900.0 };
    network.until(70);
    assert_eq!(network.impacts(), [(0, 500), (2, -500)]);
    assert_eq!(network.carriers(), [0]);
}

#[test]
fn a_short_doubt_is_a_part_of_what_is_measured() {
    let mut network = Network::new("pcdc:t=10s", 3, third_hurts);
    for second in 0..70 {
        network.until(second);
        let path = PathId(2);
        network.event(Event::Doubt {
            path,
            doubted: true,
        });
        network.bench.now += MS * 300;
        network.turn();
        network.event(Event::Doubt {
            path,
            doubted: false,
        });
    }
    assert_eq!(network.impacts(), [(0, 500), (1, 400), (2, -500)]);
}

#[test]
fn the_address_of_a_path_goes_while_it_is_left_out() {
    let mut network = Network::new("pcdc:t=10s", 3, third_hurts);
    network.until(57);
    assert_eq!(network.carriers(), [0, 1]);
    network.event(Event::LocalGone(nth(3)));
    network.paths.retain(|path| *path != 2);
    network.until(300);
    // What was measured beside it stands; nothing is left to be measured.
    assert_eq!(network.impacts(), [(0, 500), (1, 400)]);
    assert_eq!(network.carriers(), [0, 1]);
    assert!(!network.is_measuring());
    // Back, it is a new path between the same addresses, and is measured.
    network.event(Event::LocalAddr(info(nth(3))));
    network.paths.push(3);
    network.rate = |paths| if paths.contains(&3) { 1000.0 } else { 1200.0 };
    network.until(400);
    assert_eq!(network.impacts(), [(0, 500), (1, 400), (3, -200)]);
    assert_eq!(network.carriers(), [0, 1]);
}

#[test]
fn only_time_counts_in_which_data_is_wanted() {
    let mut network = Network::new("pcdc:t=10s", 2, |paths| 100.0 * paths.len() as f64);
    network.until(5);
    network.is_wanted = false;
    network.deliver();
    network.until(65);
    assert_eq!(network.set, []);
    network.is_wanted = true;
    network.until(69);
    assert_eq!(network.set, []);
    network.until(71);
    assert_eq!(network.set.len(), 1);
    network.until(200);
    assert_eq!(network.impacts(), [(0, 500), (1, 500)]);
}

#[test]
fn nothing_that_is_delivered_gives_no_factor() {
    let mut network = Network::new("pcdc:t=1s", 2, |_| 0.0);
    network.until(60);
    assert_eq!((network.impacts(), network.set.len()), (vec![], 0));
}

#[test]
fn what_an_earlier_connection_found_is_not_measured() {
    let mut network = Network::new("pcdc-quick", 3, third_hurts);
    for (n, omega) in [(1, 0.5), (2, 0.4), (3, -0.5)] {
        let remote = SERVER.parse().unwrap();
        network.bench.manager.recall(nth(n).ip, remote, omega);
    }
    network.turn();
    network.until(60);
    assert_eq!(network.set, [(0, 2, Status::Backup)]);
    // Another network is.
    network.event(Event::LocalAddr(info(nth(4))));
    network.paths.push(3);
    assert!(network.carriers().contains(&3));
    network.until(64);
    assert_eq!(network.impacts().len(), 4);
}

#[test]
fn what_is_known_to_hurt_is_not_used_while_others_are_measured() {
    let mut network = Network::new("pcdc:t=10s", 3, third_hurts);
    let remote = SERVER.parse().unwrap();
    network.bench.manager.recall(nth(3).ip, remote, -0.4);
    network.bench.tell(Event::Doubt {
        path: PathId(1),
        doubted: false,
    });
    network.turn();
    let mut seen = Vec::new();
    for second in 1..60 {
        network.until(second);
        seen.push(network.carriers());
    }
    assert!(
        seen[12..].iter().all(|carriers| !carriers.contains(&2)),
        "{seen:?}"
    );
    assert!(seen.contains(&vec![0]) && seen.contains(&vec![1]));
    // Of 1500 with both: 900 and 600 alone.
    assert_eq!(network.impacts(), [(0, 600), (1, 400), (2, -400)]);
    assert_eq!(network.carriers(), [0, 1]);
}

#[test]
fn again_after_a_while() {
    let mut network = Network::new("pcdc:t=1s,again=60s", 3, third_hurts);
    network.until(50);
    assert_eq!(network.carriers(), [0, 1]);
    network.rate = |paths| 100.0 * paths.len() as f64;
    network.until(80);
    assert_eq!(network.impacts(), [(0, 333), (1, 333), (2, 333)]);
    assert_eq!(network.carriers(), [0, 1, 2]);
}

#[test]
fn the_median_of_several_rounds() {
    // Without path 1 half as much in the first round, then more than with it.
    let mut network = Network::new("pcdc:t=1s,rounds=3", 2, |paths| match paths {
        [0] => 50.0,
        _ => 100.0,
    });
    network.until(5);
    network.rate = |paths| if paths == [0] { 150.0 } else { 100.0 };
    network.until(20);
    assert_eq!(network.impacts(), [(0, 0), (1, -500)]);
    // Path 0 brings nothing either, but something has to carry data: all but the worst.
    assert_eq!(network.carriers(), [0]);
}

#[test]
fn what_stands_by_anyway_is_not_measured() {
    let mut standby = info(nth(3));
    standby.standby = true;
    let mut bench = Bench::new("pcdc:t=1s", &[info(nth(1)), standby]);
    bench.event(Event::Confirmed);
    // One path that carries data has nothing to be compared with.
    assert!(bench
        .until(20_000)
        .iter()
        .all(|(_, a)| *a != Action::Sample));
}

/// What stands by because of its interface is neither measured nor used.
#[test]
fn a_metered_link_takes_no_part() {
    let locals = [1, 2, 3].map(|n| LocalAddr {
        metered: n == 2,
        ..info(nth(n))
    });
    let bench = Bench::new("pcdc:t=1s", &locals);
    let mut network = Network::over(bench, 3, third_hurts);
    network.until(20);
    // Its path is opened last, 2, and stands by from the start.
    assert_eq!(network.impacts(), [(0, 600), (1, 400)]);
    assert_eq!(network.carriers(), [0, 1]);
    let of_it = network.set.iter().filter(|(_, path, _)| *path == 2);
    assert_eq!(of_it.collect::<Vec<_>>(), [&(0, 2, Status::Backup)]);
}
