//! In which order a client tries its pairs of addresses for the handshake.
//!
//! When each begins, and which is kept, [`Attempts`](super::Attempts) decides. The second attempt
//! differs from the first in as much as it can, so that neither a dead interface nor a broken
//! address family costs more than its delay (RFC 8305, Section 4, interleaves families for the same
//! reason).

use super::manager::Rank;
use super::Local;
use super::Pair;
use std::net::SocketAddr;

/// Orders all pairs of `locals`, with their ranks, and `remotes`, in the resolver's order.
pub(super) fn order(locals: &[(Rank, Local)], remotes: &[SocketAddr]) -> Vec<Pair> {
    let mut left: Vec<(Rank, usize, Pair)> = Vec::new();
    for (rank, local) in locals {
        for (at, remote) in remotes.iter().enumerate() {
            let pair = Pair {
                local: *local,
                remote: *remote,
            };
            if pair.is_possible() {
                left.push((*rank, at, pair));
            }
        }
    }

    let mut order: Vec<Pair> = Vec::new();
    while let Some(next) = (0..left.len()).min_by_key(|i| {
        let (rank, at, pair) = &left[*i];
        let tried = |same: &dyn Fn(&Pair) -> bool| order.iter().filter(|p| same(p)).count();
        (
            tried(&|p| p.local.if_index == pair.local.if_index),
            tried(&|p| p.remote.is_ipv4() == pair.remote.is_ipv4()),
            *rank,
            *at,
        )
    }) {
        order.push(left.remove(next).2);
    }
    order
}
