//! How much an ACK counts for in congestion avoidance.
//!
//! RFC 6356 and RFC 9002 count what was acked. Linux' coupled controllers add once for each ACK, and
//! its receivers acknowledge every second packet (RFC 5681, section 4.2), so that windows grow half as
//! fast as the equations say; slow start counts packets there too. `ack_packets=2` is that, whatever the
//! receiver does here.

use super::Ack;
use super::Param;
use super::Settings;

/// The parameter of controllers that Linux counts so.
pub(super) const PARAM: Param = Param::packets(
    "ack_packets",
    [1.0, 1.0, 16.0],
    "packets of an ACK that is counted once; 1 counts packets, 2 is Linux with delayed ACKs",
);

/// Packets of an ACK that is counted once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counting(f64);

impl Counting {
    /// From [`PARAM`].
    pub fn new(settings: &Settings) -> Counting {
        Counting(settings.get(PARAM.name))
    }

    /// The bytes that `ack` counts for.
    pub fn bytes(self, ack: &Ack) -> f64 {
        self.counted(ack.acked_bytes as f64)
    }

    /// A step for all of an ACK's bytes, as far as they count.
    pub fn counted(self, step: f64) -> f64 {
        step / self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    /// What one acked packet adds to the first of two paths of 10 packets and 100 ms, in bytes.
    fn step(text: &str) -> f64 {
        let (now, paths) = (Instant::now(), paths(&[(10, 100), (10, 100)]));
        let mut controller = super::super::by_name(text).unwrap();
        controller.on_path_added(now, PathId(0));
        controller.on_path_added(now, PathId(1));
        controller.on_round(now, &paths, PathId(0), &round(100));
        controller.increase(now, &paths, PathId(0), &ack(now))
    }

    #[test]
    fn every_second_packet_halves_the_growth() {
        // LIA: a = 0.5, 0.5/20 packets of 1000 bytes. OLIA: (10/0.01)/(200^2) = 1/40 packets. A path of
        // Coupled CUBIC that is small is LIA.
        for name in ["lia", "olia", "coupled-cubic"] {
            let class = if name == "coupled-cubic" {
                ",class=small"
            } else {
                ""
            };
            close(step(&format!("{name}:ack_packets=1{class}")), 25.0);
            close(step(&format!("{name}:ack_packets=2{class}")), 12.5);
        }
    }
}
