//! Every use of the multipath API of the patched quiche.

use std::net::SocketAddr;

use mpq_decision::paths;
use mpq_decision::PathId;
use quiche::Connection;
use quiche::ConnectionId;
use quiche::PathEvent;

use crate::config::ConfigError;
use crate::config::TransportSettings;

/// A change of one path of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathChange {
    /// The path exists; its addresses are not validated yet.
    Opened {
        /// Path ID (RFC 10069).
        path_id: u64,
        /// Our address.
        local: SocketAddr,
        /// The peer's address.
        peer: SocketAddr,
    },

    /// Both ends have shown that they receive on the path.
    Available {
        /// Path ID (RFC 10069).
        path_id: u64,
        /// Our address.
        local: SocketAddr,
        /// The peer's address.
        peer: SocketAddr,
    },

    /// The peer did not answer on these addresses.
    Failed {
        /// Our address.
        local: SocketAddr,
        /// The peer's address.
        peer: SocketAddr,
    },

    /// The path ID is gone for good.
    Abandoned {
        /// Path ID (RFC 10069).
        path_id: u64,
        /// Why, as sent in PATH_ABANDON.
        error_code: u64,
        /// Whether the peer began it.
        by_peer: bool,
    },
}

/// Whether further paths may be opened on `quic` now.
pub fn is_ready(quic: &Connection) -> bool {
    quic.is_multipath()
}

/// Opens a path and returns its ID.
pub fn open_path(
    quic: &mut Connection,
    local: SocketAddr,
    peer: SocketAddr,
) -> quiche::Result<u64> {
    quic.open_path(local, peer)
}

/// Abandons a path whose local address is gone for good.
pub fn abandon(quic: &mut Connection, path_id: u64) -> quiche::Result<()> {
    /// RFC 10069's error code of a path that does not work reliably.
    const PATH_UNSTABLE_OR_POOR: u64 = 0x3e76;

    quic.abandon_path(path_id, PATH_UNSTABLE_OR_POOR)
}

/// Abandons a path that works but is no longer wanted. An error while it is the only one.
pub fn leave(quic: &mut Connection, path_id: u64) -> quiche::Result<()> {
    quic.abandon_path(
        path_id,
        quiche::WireErrorCode::ApplicationAbandonPath as u64,
    )
}

/// Asks the peer to use a path only while no other works, and does so here.
pub fn set_backup(quic: &mut Connection, path_id: u64) -> quiche::Result<()> {
    quic.set_path_status(path_id, quiche::PathStatus::Backup)
}

/// The same, or that it may be used again; see [`set_backup`].
pub fn set_status(quic: &mut Connection, path_id: u64, is_backup: bool) -> quiche::Result<()> {
    let status = match is_backup {
        true => quiche::PathStatus::Backup,
        false => quiche::PathStatus::Available,
    };
    quic.set_path_status(path_id, status)
}

/// What quiche's event tells the path manager, if anything.
pub fn fact(event: &PathEvent) -> Option<paths::Event> {
    Some(match event {
        PathEvent::Available { path_id, .. } => paths::Event::Validated {
            path: PathId(*path_id),
        },
        PathEvent::Abandoned {
            path_id,
            error_code,
            by_peer,
        } => paths::Event::Abandoned {
            path: PathId(*path_id),
            by_peer: *by_peer,
            error_code: *error_code,
        },
        PathEvent::Health { path_id, health } => paths::Event::Doubt {
            path: PathId(*path_id),
            doubted: *health != quiche::PathHealth::Healthy,
        },
        PathEvent::PathIdsAvailable { .. } => paths::Event::PathIdsAvailable,
        _ => return None,
    })
}

/// Why quiche opened no path, as the path manager is told.
pub fn open_error(error: quiche::Error) -> paths::OpenError {
    match error {
        quiche::Error::Done => paths::OpenError::NotYet,
        quiche::Error::OutOfIdentifiers => paths::OpenError::NoPathIds,
        _ => paths::OpenError::Refused,
    }
}

/// Does what the path manager wants, but for opening paths, which needs a socket. Returns what it
/// is to be told. `read_bytes` of streams were given to the application so far, and it `is_waiting`
/// for more, or for what it sends to be taken.
pub fn carry_out(
    quic: &mut Connection,
    action: paths::Action,
    read_bytes: u64,
    is_waiting: bool,
) -> Option<paths::Event> {
    let result = match action {
        paths::Action::Open(_) => return None,
        paths::Action::Sample => {
            return Some(paths::Event::Sample(paths::Sample {
                delivered_bytes: read_bytes + acked_bytes(&quic.stats()),
                is_wanted: is_waiting,
            }))
        }
        paths::Action::Traffic => {
            let open = quic.path_stats().filter(|stats| stats.active);
            return Some(paths::Event::Traffic(paths::Traffic {
                read_bytes,
                acked_bytes: quic.stats().acked_bytes,
                sent_packets: open
                    .map(|stats| (PathId(stats.path_id), stats.sent as u64))
                    .collect(),
            }));
        }
        paths::Action::Suspend(path) => {
            if let Some((local, _)) = addresses(quic, path) {
                link_down(quic, local);
            }
            Ok(())
        }
        paths::Action::Abandon { path, reason } => match reason {
            paths::Reason::AddressGone => abandon(quic, path.0),
            paths::Reason::NotWanted => leave(quic, path.0),
        },
        paths::Action::SetStatus { path, status } => set_status(
            quic,
            path.0,
            status == mpq_decision::registry::Status::Backup,
        ),
        paths::Action::KeepAlive(path) => match addresses(quic, path) {
            Some((local, peer)) => quic.send_ack_eliciting_on_path(local, peer),
            None => Ok(()),
        },
    };
    // The path may have ended in the meantime.
    let error = result.err()?;
    log::debug!("{action:?}: {error}");
    match action {
        paths::Action::Abandon { path, .. } => Some(paths::Event::AbandonRefused { path }),
        _ => None,
    }
}

/// What was acknowledged, without what copies were: of data that was sent twice, mostly both are acknowledged. Where the
/// original was lost this misses what its copy saved.
fn acked_bytes(stats: &quiche::Stats) -> u64 {
    let copies = stats.stream_copied_useful_bytes + stats.stream_copied_wasted_bytes;
    stats.acked_bytes.saturating_sub(copies)
}

fn addresses(quic: &Connection, path: PathId) -> Option<(SocketAddr, SocketAddr)> {
    quic.path_stats()
        .find(|stats| stats.path_id == path.0 && stats.active)
        .map(|stats| (stats.local_addr, stats.peer_addr))
}

/// Sends something that has to be acknowledged on every path, if nothing else is under way.
pub fn keep_alive(quic: &mut Connection) {
    let paths: Vec<_> = quic
        .path_stats()
        .map(|stats| (stats.local_addr, stats.peer_addr))
        .collect();
    for (local, peer) in paths {
        if let Err(e) = quic.send_ack_eliciting_on_path(local, peer) {
            log::debug!("no ping from {local} to {peer}: {e}");
        }
    }
}

/// Gives the peer the connection IDs that it needs: one for each path ID that may be
/// used next, a spare one for each in use; without multipath all that it has room for.
/// `new_cid` makes one, with its stateless reset token.
pub fn supply_cids(
    quic: &mut Connection,
    mut new_cid: impl FnMut() -> (ConnectionId<'static>, u128),
) {
    if quic.is_multipath() {
        loop {
            let Some(path_id) = quic.path_ids_lacking_scids().next() else {
                break;
            };
            let (cid, token) = new_cid();
            if quic.scids_left_on_path(path_id) == 0
                || quic.new_scid_on_path(path_id, &cid, token, false).is_err()
            {
                break;
            }
        }
        return;
    }

    while quic.scids_left() > 0 {
        let (cid, token) = new_cid();
        if quic.new_scid(&cid, token, false).is_err() {
            break;
        }
    }
}

/// Tells the connection that nothing can be sent from `local` any more.
pub fn link_down(quic: &mut Connection, local: SocketAddr) {
    quic.report_link_down(local);
}

/// Applies the settings that only multipath knows.
pub(crate) fn configure(
    config: &mut quiche::Config,
    settings: &TransportSettings,
) -> Result<(), ConfigError> {
    if let Some(max_path_id) = settings.max_path_id {
        config.set_initial_max_path_id(max_path_id)?;
    }
    quiche::check_scheduler_name(&settings.scheduler)?;
    config.set_scheduler_name(&settings.scheduler)?;
    config.enable_paced_sending(settings.pacing);
    config.enable_ack_detours(settings.ack_detours);

    Ok(())
}

/// Acts on quiche's event and says what it means to an application.
pub fn on_event(quic: &mut Connection, event: PathEvent) -> Option<PathChange> {
    match event {
        PathEvent::Opened {
            path_id,
            local,
            peer,
        } => Some(PathChange::Opened {
            path_id,
            local,
            peer,
        }),
        PathEvent::Available {
            path_id,
            local,
            peer,
        } => Some(PathChange::Available {
            path_id,
            local,
            peer,
        }),
        PathEvent::Abandoned {
            path_id,
            error_code,
            by_peer,
        } => Some(PathChange::Abandoned {
            path_id,
            error_code,
            by_peer,
        }),
        // A client shows up on a new address: answer there once validated.
        PathEvent::New(local, peer) => {
            let _ = quic.probe_path(local, peer);
            None
        }
        PathEvent::FailedValidation(local, peer) => Some(PathChange::Failed { local, peer }),
        _ => None,
    }
}
