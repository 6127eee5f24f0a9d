//! Downloads bytes over several paths at once, and prints what each of them carried.
//!
//!     client CERT BYTES LOCAL=SERVER [LOCAL=SERVER]...
//!     client cert.pem 8000000 127.0.0.1:0=127.0.0.1:4433 127.0.0.2:0=127.0.0.2:4433

use quiche::{Config, Error, PathEvent};
use two_paths::{content, new_cid, new_token, Net};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, cert, bytes, paths @ ..] = &args[..] else {
        return Err("usage: client CERT BYTES LOCAL=SERVER [LOCAL=SERVER]...".into());
    };

    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.load_verify_locations_from_file(cert)?;
    config.verify_peer(true); // quiche verifies nothing unless told to
    config.set_application_protos(&[b"two-paths"])?;
    config.set_max_idle_timeout(10_000);
    config.set_initial_max_data(16 << 20);
    config.set_initial_max_stream_data_bidi_local(16 << 20);
    // 1. Offer multipath: the path IDs 0 to 3 may be used at first.
    config.set_initial_max_path_id(3)?;

    // 2. A socket for each path. The handshake takes the first one.
    let (mut net, mut wanted) = (Net::default(), Vec::new());
    for path in paths {
        let (local, server) = path.split_once('=').ok_or("a path is LOCAL=SERVER")?;
        wanted.push((net.bind(local)?, server.parse()?));
    }
    let mut wanted = wanted.into_iter().peekable();
    let (local, server) = wanted.next().ok_or("no path given")?;
    let mut conn = quiche::connect(Some("localhost"), &new_cid()?, local, server, &mut config)?;

    let (mut is_asked, mut received, mut is_complete) = (false, 0, false);
    let mut buf = [0; 65_535];
    while !conn.is_closed() {
        // 3. Send what there is to send. If that fails, the path's data moves to the others.
        net.flush(&mut conn)?;

        // 4. Wait for datagrams, but no longer than quiche wants. It asks which way each came.
        for (mut datagram, info) in net.recv(conn.timeout()) {
            if let Err(e) = conn.recv(&mut datagram, info) {
                eprintln!("from {}: {e}", info.from); // if it matters, the connection closes
            }
        }
        conn.on_timeout(); // does what is due, which is often nothing

        // 5. The server needs a Connection ID of ours for each path ID that it is to use.
        for path_id in conn.path_ids_lacking_scids().collect::<Vec<_>>() {
            conn.new_scid_on_path(path_id, &new_cid()?, new_token()?, false)?;
        }

        // 6. Open the other paths. That works once the handshake is confirmed and the server's
        //    Connection IDs are there; PathEvent::PathIdsAvailable tells when to try again.
        while let Some((local, server)) = wanted.peek().filter(|_| conn.is_multipath()) {
            match conn.open_path(*local, *server) {
                Ok(_) => wanted.next(),
                Err(Error::Done | Error::OutOfIdentifiers) => break,
                Err(e) => return Err(e.into()),
            };
        }
        while let Some(event) = conn.path_event_next() {
            match event {
                PathEvent::Available { path_id, .. } => println!("path {path_id} is available"),
                PathEvent::Abandoned { path_id, .. } => println!("path {path_id} has ended"),
                _ => (),
            }
        }

        // 7. Streams know nothing of paths.
        if conn.is_established() && !is_asked {
            is_asked = conn.stream_send(0, bytes.as_bytes(), true)? > 0;
        }
        while conn.stream_readable(0) {
            let (len, is_end) = conn.stream_recv(0, &mut buf)?;
            if !buf[..len].iter().copied().eq(content(received).take(len)) {
                return Err(format!("wrong bytes behind the first {received}").into());
            }
            received += len as u64;
            if is_end {
                is_complete = received == bytes.parse()?;
                for p in conn.path_stats() {
                    let (path_id, bytes) = (p.path_id, p.recv_bytes);
                    println!("path {path_id} at {}: {bytes} bytes received", p.local_addr);
                }
                conn.close(true, 0, b"done")?;
            }
        }
    }
    if !is_complete {
        return Err(format!("{received} of {bytes} bytes, then {:?}", conn.peer_error()).into());
    }
    println!("{received} bytes, each as it should be");
    Ok(())
}
