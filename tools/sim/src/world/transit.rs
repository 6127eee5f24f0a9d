//! A datagram's way: out of a host, from link to link, into the other host.

use std::hash::Hasher;

use mpq_decision::paths::Progress;
use mpq_wire::model::Nanos;

use super::packets::Packet;
use super::RunError;
use super::World;
use crate::host;
use crate::host::ClientAddress;
use crate::host::Host;
use crate::network::Offered;
use crate::scenario::Way;

/// Datagrams that a host may send at one moment: more than any window holds, and too few to fill the
/// memory with. A connection that goes beyond never comes to an end of sending.
pub(super) const MOST_AT_ONCE: u32 = 1 << 18;

impl World<'_> {
    /// Sends what may be sent, and keeps one packet that is to leave later.
    pub(super) fn send(&mut self, index: usize, host: &mut Host) {
        let due = self.now + self.gather;
        // What was written last, which others may follow without being planned anew.
        let mut last = None;
        for sent in 0u32.. {
            if sent > MOST_AT_ONCE {
                self.sends_endlessly = true;
                return;
            }
            let (slot, path) = match host.held.take() {
                Some((slot, at, path)) if at > due => {
                    host.held = Some((slot, at, path));
                    return;
                }
                Some((slot, _, path)) => (slot, path),
                None => {
                    let slot = self.pool.take();
                    let buf = &mut self.pool.bufs[slot as usize];
                    let more = last.and_then(|(len, info)| {
                        let len = host.quic.send_train(&mut buf[..len]).ok()?;
                        Some((len, info))
                    });
                    let Ok((len, info)) = more.map_or_else(|| host.quic.send(buf), Ok) else {
                        self.pool.free.push(slot);
                        return;
                    };
                    last = Some((len, info));
                    let Some(path) = host::path_between(info.from, info.to) else {
                        // No link joins addresses of two paths.
                        self.pool.free.push(slot);
                        continue;
                    };
                    let client = if host.is_client { info.from } else { info.to };
                    self.pool.packets[slot as usize] = Packet {
                        len: len as u16,
                        hop: 0,
                        path: path as u8,
                        from: index as u32,
                        client: ClientAddress::of(client),
                        ecn: info.ecn,
                        sent: self.now,
                    };
                    let at = info.at.saturating_duration_since(self.base).as_nanos() as Nanos;
                    if at > due {
                        host.held = Some((slot, at, path));
                        return;
                    }
                    (slot, path)
                }
            };
            let packet = &mut self.pool.packets[slot as usize];
            packet.sent = self.now;
            let len = packet.len;
            if host.is_client {
                let end = &self.connections[host.connection].ends[path];
                // Nothing leaves from an address that is gone.
                if !(end.has_carrier && packet.client == end.local) {
                    self.pool.free.push(slot);
                    continue;
                }
                packet.client = end.public;
            }
            let traffic = &mut host.traffic[path];
            traffic.sent_packets += 1;
            traffic.sent_bytes += u64::from(len);
            self.packets += 1;
            self.log.write_u64(self.now);
            self.log
                .write_u64((index as u64) << 32 | (path as u64) << 16 | u64::from(len));
            self.queue
                .line_up(self.network.directions.len(), self.now, slot);
        }
    }

    /// Sends the packet in `slot` into its next link, or hands it over.
    pub(super) fn arrive(&mut self, slot: u32) -> Result<(), RunError> {
        let packet = &mut self.pool.packets[slot as usize];
        let (from, path, hop, len) = (
            packet.from as usize,
            usize::from(packet.path),
            usize::from(packet.hop),
            usize::from(packet.len),
        );
        packet.hop += 1;
        let connection = self.attempts[from / 2].connection;
        let route = &self.connections[connection].routes[path];
        let links = match from.is_multiple_of(2) {
            true => &route.up,
            false => &route.down,
        };
        let Some(link) = links.get(hop) else {
            return self.deliver(slot, from ^ 1);
        };
        let ip_bytes = len as u64 + route.header_bytes();
        let direction = &mut self.network.directions[*link];
        let flow = packet.client.flow(connection, path);
        match direction.offer(self.now, flow, ip_bytes, slot, &mut packet.ecn) {
            Offered::Due(due) => {
                let copy = direction.is_duplicated().then(|| self.pool.copy(slot));
                let link = *link;
                self.queue.line_up(link, due, slot);
                if let Some(copy) = copy {
                    self.queue.line_up(link, due, copy);
                }
            }
            Offered::Gone => self.pool.free.push(slot),
            Offered::Waits(turn) => {
                let link = *link;
                self.settle(link, turn);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, slot: u32, to: usize) -> Result<(), RunError> {
        self.set_clock();
        let attempt = to / 2;
        let connection = self.attempts[attempt].connection;
        let is_client = to.is_multiple_of(2);
        let packet = self.pool.packets[slot as usize];
        let (path, len) = (usize::from(packet.path), usize::from(packet.len));
        let end = self.connections[connection].ends[path];
        // The NAT knows no other address, and without a carrier nothing comes in.
        if is_client && !(end.has_carrier && packet.client == end.public) {
            self.pool.free.push(slot);
            return Ok(());
        }
        if self.hosts[to].is_none() {
            let quic = self.connect(attempt, is_client, packet.client)?;
            let host = Host::new(quic, is_client, connection, attempt);
            self.hosts[to] = Some(Box::new(host));
        }
        let is_receiver = is_client == (self.flow_of(connection).direction == Way::Down);
        let delays = self.connections[connection].delays.as_mut();
        if let Some(delays) = delays.filter(|_| is_receiver) {
            delays.on_arrival(self.now, path, packet.sent);
        }
        let host = self.hosts[to].as_mut().expect("was made");
        let server = host::address(connection, path, false);
        let info = match is_client {
            true => quiche::RecvInfo {
                from: server,
                to: end.local.on(connection, path),
            },
            false => quiche::RecvInfo {
                from: packet.client.on(connection, path),
                to: server,
            },
        };
        let traffic = &mut host.traffic[path];
        traffic.received_packets += 1;
        traffic.received_bytes += len as u64;
        let datagram = &mut self.pool.bufs[slot as usize][..len];
        if let Err(e) = host.quic.recv_with_ecn(datagram, info, packet.ecn) {
            if e != quiche::Error::Done {
                host.last_recv_error = Some(e);
            }
        }
        self.pool.free.push(slot);
        let at = host
            .served_at
            .map_or(self.now, |served| self.now.max(served + self.gather));
        if is_client {
            self.note(connection, attempt, Progress::Heard);
        }
        self.wake(to, at);
        Ok(())
    }
}
