//! When connections are to be served although no packet comes.

use std::cmp::Reverse;
use std::time::Instant;

use super::table::Table;
use super::Endpoint;
use crate::conn_key::ConnKey;
use crate::error::CloseReason;

impl Endpoint {
    pub(super) fn fire_timers(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((at, key))) = self.table.deadlines.peek() {
            if at > now {
                break;
            }
            self.table.deadlines.pop();

            let Some(conn) = self.table.get_mut(key) else {
                continue;
            };
            conn.queued_deadline = None;
            if conn.quic.timeout_instant().is_some_and(|at| at <= now) {
                conn.quic.on_timeout();
            }
            if conn.handshake_deadline.is_some_and(|at| at <= now)
                && !conn.quic.is_established()
                && conn.verdict.is_none()
            {
                conn.verdict = Some(CloseReason::HandshakeTimeout {
                    peer: conn.peer,
                    after: conn.handshake_timeout,
                });
            }
            self.table.mark_dirty(key);
        }
    }
}

impl Table {
    pub(super) fn set_deadline(&mut self, key: ConnKey) {
        let Some(conn) = self.get_mut(key) else {
            return;
        };
        let Some(deadline) = conn.deadline() else {
            return;
        };
        // A later deadline is found when the earlier entry comes up.
        if conn.queued_deadline.is_none_or(|queued| deadline < queued) {
            conn.queued_deadline = Some(deadline);
            self.deadlines.push(Reverse((deadline, key)));
        }
    }

    /// The earliest deadline of any connection, dropping entries of dead ones.
    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(&Reverse((at, key))) = self.deadlines.peek() {
            match self.get_mut(key) {
                Some(conn) if conn.queued_deadline == Some(at) => return Some(at),
                _ => {
                    self.deadlines.pop();
                }
            }
        }
        None
    }
}
