//! noq and quiche in both roles, and noq with itself: what fails there too is not
//! ours.

use std::time::Duration;

use mpq_interop::pair::Options;
use mpq_interop::Closed;
use mpq_interop::Event;
use mpq_interop::Pair;
use mpq_interop::PathReport;
use mpq_interop::Peer;
use mpq_interop::Request;
use mpq_interop::Roles;
use mpq_relay::LinkOptions;

const MB: u64 = 1_000_000;

const BOTH_WAYS: Request = Request {
    upload_bytes: 4 * MB,
    download_bytes: 4 * MB,
};

const UPLOAD: Request = Request {
    upload_bytes: 20 * MB,
    download_bytes: 0,
};

const DOWNLOAD: Request = Request {
    upload_bytes: 0,
    download_bytes: 20 * MB,
};

fn report(peer: &dyn Peer, path_id: u64) -> PathReport {
    let paths = peer.paths();
    let found = paths.into_iter().find(|path| path.path_id == path_id);
    found.unwrap_or_else(|| panic!("no path {path_id}"))
}

fn path_ids(peer: &dyn Peer) -> Vec<u64> {
    peer.paths().iter().map(|path| path.path_id).collect()
}

fn one_path(roles: Roles) {
    let pair = Pair::connect(roles, Options::default());
    pair.transfer(BOTH_WAYS);
    assert_eq!(path_ids(pair.client.as_ref()), [0]);
    assert_eq!(path_ids(pair.server.as_ref()), [0]);
}

/// Long and alike, so that windows fill and both paths are needed.
const SLOW: LinkOptions = LinkOptions {
    bytes_per_second: None,
    queue_bytes: 0,
    delay: Duration::from_millis(5),
    drop_one_in: None,
};

const BOTH_SLOW: Options = Options {
    chacha20: false,
    ack_detours: false,
    ack_frequency: false,
    relays: [Some(SLOW); 2],
};

/// Transfers data until either path has carried much in either direction, as both
/// sides count it. Once is mostly enough.
fn data_on_both_paths(pair: &Pair) {
    let counts = || -> Vec<u64> {
        let peers = [&pair.client, &pair.server].into_iter();
        peers
            .flat_map(|peer| [0, 1].map(|path_id| report(peer.as_ref(), path_id)))
            .flat_map(|path| [path.sent_bytes, path.received_bytes])
            .collect()
    };
    let before = counts();
    pair.until("data on both paths in both directions", || {
        pair.transfer(BOTH_WAYS);
        counts()
            .iter()
            .zip(&before)
            .all(|(now, before)| now - before > MB / 2)
    });
}

fn two_paths(roles: Roles) {
    data_on_both_paths(&Pair::with_two_paths(roles, BOTH_SLOW));
}

/// The nonce with a path ID, and the seal contexts of each path, are another
/// matter with another AEAD.
fn two_paths_chacha20(roles: Roles) {
    let options = Options {
        chacha20: true,
        ..BOTH_SLOW
    };
    data_on_both_paths(&Pair::with_two_paths(roles, options));
}

fn status_of(pair: &Pair, from: &dyn Peer, to: &dyn Peer) {
    for backup in [true, false, true] {
        let seen = |event: &Event| *event == Event::PeerStatus { path_id: 1, backup };
        let before = to.journal().count(seen);
        from.set_backup(1, backup);
        pair.until("the status arrives", || to.journal().count(seen) > before);
    }
}

fn status_by_client(roles: Roles) {
    let pair = Pair::with_two_paths(roles, Options::default());
    status_of(&pair, pair.client.as_ref(), pair.server.as_ref());

    // Ours counts for what we send: data stays on path 0.
    let before = report(pair.client.as_ref(), 1).sent_bytes;
    pair.transfer(Request {
        upload_bytes: MB,
        download_bytes: 0,
    });
    let after = report(pair.client.as_ref(), 1).sent_bytes;
    assert!(after - before < MB / 10, "{} bytes", after - before);
}

fn status_by_server(roles: Roles) {
    let pair = Pair::with_two_paths(roles, Options::default());
    status_of(&pair, pair.server.as_ref(), pair.client.as_ref());

    let before = report(pair.server.as_ref(), 1).sent_bytes;
    pair.transfer(Request {
        upload_bytes: 0,
        download_bytes: MB,
    });
    let after = report(pair.server.as_ref(), 1).sent_bytes;
    assert!(after - before < MB / 10, "{} bytes", after - before);
}

/// `by` abandons path 0 in the middle of a transfer, which goes on; and path 1,
/// now the only one, is as good as path 0 was.
fn abandon_first(pair: &Pair, by: &dyn Peer) {
    let transfer = pair.client.start(Request {
        upload_bytes: 8 * MB,
        download_bytes: 8 * MB,
    });
    pair.until("data on path 0", || {
        report(pair.client.as_ref(), 0).received_bytes > MB / 10
    });

    by.abandon(0);
    pair.abandoned(0, by);
    transfer.wait(pair.deadline).unwrap();
    for peer in [&pair.client, &pair.server] {
        pair.until("the state of path 0 is removed", || {
            path_ids(peer.as_ref()) == [1]
        });
    }

    // A path ID is not used again.
    assert_eq!(pair.open_path(0), 2);
    pair.transfer(BOTH_WAYS);
    close(pair, pair.client.as_ref(), pair.server.as_ref());
}

fn abandon_by_client(roles: Roles) {
    let pair = Pair::with_two_paths(roles, BOTH_SLOW);
    abandon_first(&pair, pair.client.as_ref());
}

fn abandon_by_server(roles: Roles) {
    let pair = Pair::with_two_paths(roles, BOTH_SLOW);
    abandon_first(&pair, pair.server.as_ref());
}

/// More paths one after the other than INITIAL_MAX_PATH_ID allows: both sides
/// raise their limit.
fn many_paths(roles: Roles) {
    let pair = Pair::with_two_paths(roles, Options::default());

    for path_id in 1..10 {
        pair.client.abandon(path_id);
        pair.abandoned(path_id, pair.client.as_ref());
        assert_eq!(pair.open_path(1), path_id + 1);
        pair.transfer(Request {
            upload_bytes: MB / 10,
            download_bytes: MB / 10,
        });
    }
}

/// noq updates the keys while both paths carry data, more than once.
fn key_update(roles: Roles) {
    let pair = Pair::with_two_paths(roles, BOTH_SLOW);
    let received = || -> u64 {
        let paths = pair.client.paths();
        paths.iter().map(|path| path.received_bytes).sum()
    };

    for _ in 0..2 {
        let before = received();
        let transfer = pair.client.start(BOTH_WAYS);
        pair.until("some of the data", || received() > before + MB);
        assert!(pair.client.update_keys() || pair.server.update_keys());
        transfer.wait(pair.deadline).unwrap();
        data_on_both_paths(&pair);
    }
}

fn close(pair: &Pair, from: &dyn Peer, to: &dyn Peer) {
    from.close(4711, "that is all");
    let closed = Closed {
        by_peer: true,
        by_application: true,
        error_code: 4711,
        reason: "that is all".into(),
    };
    pair.event(to, Event::Closed(closed));
}

fn close_by_client(roles: Roles) {
    let pair = Pair::with_two_paths(roles, Options::default());
    close(&pair, pair.client.as_ref(), pair.server.as_ref());
}

fn close_by_server(roles: Roles) {
    let pair = Pair::with_two_paths(roles, Options::default());
    close(&pair, pair.server.as_ref(), pair.client.as_ref());
}

const LOSSY: Options = Options {
    chacha20: false,
    ack_detours: false,
    ack_frequency: false,
    relays: [
        Some(SLOW),
        Some(LinkOptions {
            drop_one_in: Some(50),
            ..SLOW
        }),
    ],
};

fn upload_with_loss(roles: Roles) {
    let pair = Pair::with_two_paths(roles, LOSSY);
    pair.transfer(UPLOAD);
    assert!(pair.dropped() > 0);
    assert!(report(pair.client.as_ref(), 1).lost_packets > 0);
}

fn download_with_loss(roles: Roles) {
    let pair = Pair::with_two_paths(roles, LOSSY);
    pair.transfer(DOWNLOAD);
    assert!(pair.dropped() > 0);
    assert!(report(pair.server.as_ref(), 1).lost_packets > 0);
}

/// Transfers over links of 5 and 60 ms, whole either way, and where what quiche received on path 1 was acknowledged:
/// on path 0 if that may be, where noq takes it for what it is. One in eight takes both ways.
fn unlike_ways_back(roles: Roles, request: Request) {
    for ack_detours in [false, true] {
        let far = LinkOptions {
            delay: Duration::from_millis(60),
            ..SLOW
        };
        let options = Options {
            ack_detours,
            relays: [Some(SLOW), Some(far)],
            ..Options::default()
        };
        let pair = Pair::with_two_paths(roles, options);
        let (quiche, noq) = match roles {
            Roles::QuicheClient => (&pair.client, &pair.server),
            _ => (&pair.server, &pair.client),
        };
        let acks = || quiche.acks_of_path_1().expect("ours tells");
        let receives = (request.upload_bytes > 0) == (roles == Roles::NoqClient);
        let carried = || match receives {
            true => report(noq.as_ref(), 1).sent_bytes,
            false => report(quiche.as_ref(), 1).sent_bytes,
        };
        // What the setting up took does not count.
        let (before, carried_before) = (acks(), carried());
        pair.until("data on path 1", || {
            pair.transfer(request);
            carried() - carried_before > 2 * MB
        });

        let acks = [0, 1].map(|path| acks()[path] - before[path]);
        if receives {
            let [fewer, more] = match ack_detours {
                true => [acks[1], acks[0]],
                false => acks,
            };
            assert!(more > 50, "{ack_detours} {acks:?}");
            assert!(4 * fewer < more, "{ack_detours} {acks:?}");
        }
    }
}

/// Whoever receives sends fewer acknowledgments if it is asked to, ours for noq and noq for ours.
fn fewer_acks(roles: Roles, request: Request) {
    let acks = [false, true].map(|ack_frequency| {
        // Packets arrive one by one, and many in the sixteenth of an RTT that an acknowledgment waits for.
        let link = LinkOptions {
            bytes_per_second: Some(4 * MB),
            queue_bytes: 160_000,
            delay: Duration::from_millis(20),
            ..SLOW
        };
        let options = Options {
            ack_frequency,
            relays: [Some(link), Some(link)],
            ..Options::default()
        };
        let pair = Pair::with_two_paths(roles, options);
        let receiver = match request.upload_bytes > 0 {
            true => &pair.server,
            false => &pair.client,
        };
        let before = receiver.path_acks();
        pair.transfer(request);
        receiver.path_acks() - before
    });
    assert!(acks[0] > 300, "{acks:?}");
    // A busy machine reads packets in larger groups, and each group is acknowledged once.
    assert!(3 * acks[1] < 2 * acks[0], "{acks:?}");
}

fn fewer_acks_up(roles: Roles) {
    fewer_acks(roles, UPLOAD);
}

fn fewer_acks_down(roles: Roles) {
    fewer_acks(roles, DOWNLOAD);
}

fn acks_over_unlike_links_up(roles: Roles) {
    unlike_ways_back(roles, UPLOAD);
}

fn acks_over_unlike_links_down(roles: Roles) {
    unlike_ways_back(roles, DOWNLOAD);
}

macro_rules! roles {
    ($($module:ident = $roles:expr => [$($case:ident),* $(,)?];)*) => {$(
        mod $module {
            $(
                #[test]
                fn $case() {
                    super::$case($roles);
                }
            )*
        }
    )*};
}

macro_rules! all_roles {
    ($($case:ident),* $(,)?) => {
        roles! {
            noq_client = mpq_interop::Roles::NoqClient => [$($case),*];
            quiche_client = mpq_interop::Roles::QuicheClient => [$($case),*];
            noq_both = mpq_interop::Roles::NoqBoth => [$($case),*];
        }
    };
}

all_roles![
    one_path,
    two_paths,
    two_paths_chacha20,
    status_by_client,
    status_by_server,
    abandon_by_client,
    abandon_by_server,
    many_paths,
    key_update,
    close_by_client,
    close_by_server,
    upload_with_loss,
    download_with_loss,
];

// noq with itself has nothing of this to try.
roles! {
    noq_client_acks = mpq_interop::Roles::NoqClient =>
        [acks_over_unlike_links_up, acks_over_unlike_links_down, fewer_acks_up, fewer_acks_down];
    quiche_client_acks = mpq_interop::Roles::QuicheClient =>
        [acks_over_unlike_links_up, acks_over_unlike_links_down, fewer_acks_up, fewer_acks_down];
}
