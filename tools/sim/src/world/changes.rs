//! What happens to a client's paths by the scenario, not by itself.

use std::time::Duration;

use mpq_driver::multipath;

use super::World;
use crate::host;
use crate::host::Host;
use crate::scenario::End;
use crate::scenario::What;

impl World<'_> {
    /// The `k`-th event of its flow comes to a connection.
    pub(super) fn change(&mut self, connection: usize, k: usize) {
        let flow = self.flow_of(connection);
        let event = &flow.event[k];
        let Some(path) = flow.paths.iter().position(|path| path.name == event.path) else {
            return;
        };
        let at = self.base + Duration::from_nanos(self.now);
        let state = &mut self.connections[connection];
        if state.ended.is_some() {
            return;
        }
        let index = 2 * state.attempt + usize::from(event.by == End::Server);
        if event.what == What::Rebind {
            let end = &mut state.ends[path];
            end.public = end.public.next_port();
            return;
        }
        self.set_clock();
        let Some(mut host) = self.hosts[index].take() else {
            return;
        };
        let state = &mut self.connections[connection];
        match event.what {
            What::Rebind => {}
            What::CarrierLost => {
                state.ends[path].has_carrier = false;
                state.paths.go(at, path, &state.ends[path]);
            }
            What::CarrierBack => {
                state.ends[path].has_carrier = true;
                state.paths.come(at, path, &state.ends[path]);
            }
            What::NewAddress => {
                state.paths.go(at, path, &state.ends[path]);
                let end = &mut state.ends[path];
                end.local = end.local.next_ip();
                end.public = end.local;
                end.has_carrier = true;
                state.paths.come(at, path, end);
            }
            What::Open => state.paths.come(at, path, &state.ends[path]),
            What::Abandon if host.is_client => state.paths.leave(at, path, &state.ends[path]),
            What::Abandon => {
                if let Some(id) = path_id(&host, path) {
                    let _ = multipath::leave(&mut host.quic, id);
                }
            }
            What::Backup | What::Available => {
                if let Some(id) = path_id(&host, path) {
                    let is_backup = event.what == What::Backup;
                    // It may be on its way out.
                    let _ = multipath::set_status(&mut host.quic, id, is_backup);
                }
            }
        }
        self.hosts[index] = Some(host);
        self.serve(index);
    }
}

/// The ID under which a host uses a path now.
fn path_id(host: &Host, path: usize) -> Option<u64> {
    let mut all = host.quic.path_stats();
    let stats = all.find(|stats| stats.active && host::path_of(stats.local_addr) == Some(path));
    stats.map(|stats| stats.path_id)
}
