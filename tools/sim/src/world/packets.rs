//! Datagrams under way, and the memory that holds them.

use mpq_wire::model::Nanos;
use quiche::EcnCodepoint;

use crate::host::ClientAddress;

/// Room for a datagram; larger than any that the connections send.
const SLOT: usize = 1500;

/// A datagram under way, without its bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Packet {
    pub(super) len: u16,
    /// Links passed.
    pub(super) hop: u8,
    pub(super) path: u8,
    /// The host that sent it.
    pub(super) from: u32,
    /// Whence or whither at the client's side.
    pub(super) client: ClientAddress,
    /// As the links so far have left it.
    pub(super) ecn: EcnCodepoint,
    /// When it left the host.
    pub(super) sent: Nanos,
}

/// Slots for packets, which are used again and again.
#[derive(Default)]
pub(super) struct Pool {
    /// Apart from the bytes, because links look at nothing else and the bytes of thousands do not
    /// fit into a cache.
    pub(super) packets: Vec<Packet>,
    pub(super) bufs: Vec<[u8; SLOT]>,
    pub(super) free: Vec<u32>,
}

impl Pool {
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.packets.push(Packet::default());
            self.bufs.push([0; SLOT]);
            (self.packets.len() - 1) as u32
        })
    }

    /// A slot with the same packet.
    pub(super) fn copy(&mut self, slot: u32) -> u32 {
        let copy = self.take();
        self.packets[copy as usize] = self.packets[slot as usize];
        self.bufs[copy as usize] = self.bufs[slot as usize];
        copy
    }
}
