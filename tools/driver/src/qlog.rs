//! qlog of connections, in a file each.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use quiche::Connection;
use quiche::ConnectionId;

/// Begins qlog of `quic`, which has sent and received nothing yet, in `folder`. It is a help only: a file that cannot be
/// made is told to the log.
pub(crate) fn begin(quic: &mut Connection, scid: &ConnectionId, folder: &Path) {
    let side = if quic.is_server() { "server" } else { "client" };
    let name = format!("{side}-{scid:?}");
    let file = folder.join(&name).with_extension("sqlog");
    match File::create(&file) {
        Ok(to) => {
            // What controllers decide is in it, too.
            let level = quiche::QlogLevel::Extra;
            quic.set_qlog_with_level(Box::new(BufWriter::new(to)), name, side.into(), level);
        }
        Err(e) => log::warn!("no qlog in {}: {e}", file.display()),
    }
}
