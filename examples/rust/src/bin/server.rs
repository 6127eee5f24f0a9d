//! Serves as many bytes as a client asks for, over all the paths that it opens.
//!
//!     server cert.pem key.pem 30 127.0.0.1:4433 127.0.0.2:4433
//!
//! No path sends more than 30 Mbit/s here: loopback bounds nothing, so that one path would do.

use quiche::{Config, Connection, ConnectionId, Header, PathEvent, Type};
use two_paths::{new_cid, new_token, Net, Request, CID_LEN};

struct Client {
    conn: Connection,
    /// What the client calls us in its first packets.
    first_dcid: ConnectionId<'static>,
    request: Request,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, cert, key, rate, addresses @ ..] = &args[..] else {
        return Err("usage: server CERT KEY RATE ADDRESS...".into());
    };

    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.load_cert_chain_from_pem_file(cert)?;
    config.load_priv_key_from_pem_file(key)?;
    config.set_application_protos(&[b"two-paths"])?;
    config.set_max_idle_timeout(10_000);
    config.set_initial_max_data(1 << 16);
    config.set_initial_max_stream_data_bidi_remote(1 << 16);
    config.set_initial_max_streams_bidi(1);
    // 1. Agree to multipath, with a congestion controller that looks at all paths.
    config.set_initial_max_path_id(3)?;
    config.set_cc_algorithm_name("olia")?;
    // send() holds back what is not due yet, and timeout() tells until when.
    config.enable_paced_sending(true);
    config.set_max_pacing_rate(rate.parse()?);

    let mut net = Net::default();
    for address in addresses {
        println!("listening on {}", net.bind(address)?);
    }

    let mut clients: Vec<Client> = Vec::new();
    loop {
        let timeout = clients.iter().filter_map(|c| c.conn.timeout()).min();
        for (mut datagram, info) in net.recv(timeout) {
            let Ok(header) = Header::from_slice(&mut datagram, CID_LEN) else {
                continue;
            };
            // 2. The Connection ID says whose a datagram is, never the address.
            let mut known = clients.iter().position(|c| c.is_called(&header.dcid));
            if known.is_none() && header.ty == Type::Initial {
                known = Some(clients.len());
                clients.push(Client {
                    conn: quiche::accept(&new_cid()?, None, info.to, info.from, &mut config)?,
                    first_dcid: header.dcid.into_owned(),
                    request: Request::default(),
                });
            }
            if let Some(Err(e)) = known.map(|i| clients[i].conn.recv(&mut datagram, info)) {
                eprintln!("from {}: {e}", info.from); // if it matters, the connection closes
            }
        }
        for client in &mut clients {
            if let Err(e) = client.serve(&net) {
                eprintln!("{e}");
                client.conn.close(true, 1, b"").ok(); // an error if it is closed already
            }
        }
        // Without a timer it is closed, or no packet of it was ever a good one.
        clients.retain(|client| client.conn.timeout().is_some());
    }
}

impl Client {
    /// Each path ID has Connection IDs of its own. A server of many clients keeps a table.
    fn is_called(&self, dcid: &ConnectionId) -> bool {
        self.first_dcid == *dcid || self.conn.source_ids().any(|id| id == dcid)
    }

    fn serve(&mut self, net: &Net) -> Result<(), Box<dyn std::error::Error>> {
        let conn = &mut self.conn;
        conn.on_timeout(); // does what is due, which is often nothing

        // 3. The client opens the paths, and needs a Connection ID of ours for each.
        for path_id in conn.path_ids_lacking_scids().collect::<Vec<_>>() {
            conn.new_scid_on_path(path_id, &new_cid()?, new_token()?, false)?;
        }
        while let Some(event) = conn.path_event_next() {
            if let PathEvent::Opened { path_id, peer, .. } = event {
                println!("path {path_id} to {peer}");
            }
        }

        // 4. Streams know nothing of paths. Each datagram leaves from where quiche says.
        self.request.answer(conn)?;
        Ok(net.flush(conn)?)
    }
}
