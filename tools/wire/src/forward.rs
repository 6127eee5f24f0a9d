//! The loop that moves frames: kernel arrival times in, the model's due times out.

use std::collections::VecDeque;
use std::io;
use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use mpq_wire::histogram::Lateness;
use mpq_wire::model::Change;
use mpq_wire::model::Direction;
use mpq_wire::model::DirectionConfig;
use mpq_wire::model::Fate;
use mpq_wire::model::Nanos;
use mpq_wire::model::Way;
use serde::Serialize;

use crate::control;
use crate::control::Command;
use crate::control::Control;
use crate::ecn;
use crate::port::Batch;
use crate::port::Port;
use crate::port::Received;
use crate::port::BATCH;
use crate::port::SLOT;
use crate::report::Directions;
use crate::system;
use crate::system::Signals;

/// Batches read from one side before the other side and the due frames have their turn.
const BATCHES_A_TURN: usize = 16;

/// A kernel time stamp further than this from the wall clock is not believed.
const CREDIBLE_AGE_NS: u64 = 1_000_000_000;

const RING_LEAST: u64 = 4096;
const RING_MOST: u64 = 131_072;

/// Frames that can be in queue and delay line at once: rate x delay and the queue (taken as one
/// more round trip at the rate) in small frames of 128 bytes, within 4,096 to 131,072. Memory that
/// is never used is never touched.
pub fn ring_slots(config: &DirectionConfig, rtt: Duration) -> usize {
    let slots = match config.rate {
        None => RING_MOST,
        Some(rate) => rate.bytes_in(config.delay + 4 * rtt) / 128,
    };
    slots.clamp(RING_LEAST, RING_MOST) as usize
}

/// What happened to the frames of one direction.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counters {
    pub rx_frames: u64,
    pub rx_bytes: u64,
    pub tx_frames: u64,
    pub tx_bytes: u64,
    pub loss: u64,
    pub queue_drop: u64,
    /// Dropped because the link was down.
    pub down_drop: u64,
    /// Dropped because they were longer than the MTU.
    pub mtu_drop: u64,
    /// Marked as congested; what was lost after that included.
    pub marked: u64,
    /// Dropped because all slots were in use: the ring is too small, not the modelled queue.
    pub ring_full: u64,
    /// Dropped by the kernel because this process read too late.
    pub socket_drop: u64,
    pub send_error: u64,
    /// Dropped superframes: segmentation offload is on at the sender.
    pub oversize: u64,
    /// Forwarded although the checksum is unfinished: checksum offload is on at the sender.
    pub unfinished_checksum: u64,
}

#[derive(Clone, Copy)]
struct InFlight {
    slot: u32,
    len: u32,
    departure: Nanos,
    due: Nanos,
}

/// One direction: its sockets, its model and the frames under way.
pub struct Lane {
    rx: Port,
    tx: Port,
    model: Direction,
    ring: Vec<u8>,
    /// Slots not in use, the last used on top. [`BATCH`] more exist than may be in flight, so a
    /// full batch can always be read.
    free: Vec<u32>,
    in_flight: VecDeque<InFlight>,
    capacity: usize,
    pub counters: Counters,
    pub lateness: Lateness,
}

impl Lane {
    pub fn new(rx: Port, tx: Port, model: Direction, capacity: usize) -> Lane {
        let slots = capacity + BATCH;
        Lane {
            rx,
            tx,
            model,
            ring: vec![0; slots * SLOT],
            free: (0..slots as u32).rev().collect(),
            in_flight: VecDeque::with_capacity(capacity),
            capacity,
            counters: Counters::default(),
            lateness: Lateness::default(),
        }
    }

    /// Reads what has arrived and decides about it.
    fn receive(&mut self, batch: &mut Batch, epoch_ns: u64) -> io::Result<()> {
        for _ in 0..BATCHES_A_TURN {
            let first = self.free.len() - BATCH;
            let n = batch.receive(&self.rx, &mut self.ring, &self.free[first..])?;
            let now_ns = system::now_ns();
            let mut slots = [0u32; BATCH];
            slots[..n].copy_from_slice(&self.free[first..first + n]);
            self.free.drain(first..first + n);
            for (i, slot) in slots[..n].iter().enumerate() {
                if !self.accept(*slot, batch.received(i), now_ns, epoch_ns) {
                    self.free.push(*slot);
                }
            }
            if n < BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Whether the frame in `slot` is to be delivered.
    fn accept(&mut self, slot: u32, frame: Received, now_ns: u64, epoch_ns: u64) -> bool {
        self.counters.rx_frames += 1;
        self.counters.rx_bytes += frame.len as u64;
        self.counters.unfinished_checksum += u64::from(frame.unfinished_checksum);
        let arrival_ns = frame
            .arrival_ns
            .filter(|arrival| arrival.abs_diff(now_ns) < CREDIBLE_AGE_NS)
            .unwrap_or(now_ns);
        let arrival = arrival_ns.saturating_sub(epoch_ns);
        if frame.len > SLOT {
            self.counters.oversize += 1;
            return false;
        }
        let at = slot as usize * SLOT;
        let bytes = &mut self.ring[at..at + frame.len];
        let is_capable = ecn::is_capable(bytes);
        let (fate, is_marked) = self
            .model
            .offer_with_ecn(arrival, frame.len as u32, is_capable);
        if is_marked {
            ecn::mark(bytes);
            self.counters.marked += 1;
        }
        match fate {
            Fate::Lost { .. } => self.counters.loss += 1,
            Fate::QueueDrop => self.counters.queue_drop += 1,
            Fate::Down => self.counters.down_drop += 1,
            Fate::TooLong => self.counters.mtu_drop += 1,
            Fate::Deliver { .. } if self.in_flight.len() == self.capacity => {
                self.counters.ring_full += 1
            }
            Fate::Deliver { departure, due } => {
                self.in_flight.push_back(InFlight {
                    slot,
                    len: frame.len as u32,
                    departure,
                    due,
                });
                return true;
            }
        }
        false
    }

    /// Sends what is due.
    fn send_due(&mut self, batch: &mut Batch, epoch_ns: u64) {
        loop {
            let now = system::now_ns().saturating_sub(epoch_ns);
            let due = self
                .in_flight
                .iter()
                .take(BATCH)
                .take_while(|frame| frame.due <= now);
            let due = due.map(|frame| (frame.slot, frame.len as usize)).peekable();
            if self.next_due().is_none_or(|next| next > now) {
                return;
            }
            match batch.send(&self.tx, &mut self.ring, due) {
                Ok(sent) => {
                    for frame in self.in_flight.drain(..sent) {
                        self.counters.tx_frames += 1;
                        self.counters.tx_bytes += u64::from(frame.len);
                        self.lateness.record(now - frame.due);
                        self.free.push(frame.slot);
                    }
                }
                Err(_) => {
                    if let Some(frame) = self.in_flight.pop_front() {
                        self.counters.send_error += 1;
                        self.free.push(frame.slot);
                    }
                }
            }
        }
    }

    fn next_due(&self) -> Option<Nanos> {
        self.in_flight.front().map(|frame| frame.due)
    }

    fn change(&mut self, now: Nanos, change: Change) -> Result<(), String> {
        let is_down = change == Change::Down;
        self.model
            .change(now, change)
            .map_err(|error| error.to_string())?;
        if is_down {
            while let Some(frame) = self.in_flight.back().filter(|frame| frame.departure > now) {
                self.free.push(frame.slot);
                self.counters.down_drop += 1;
                self.in_flight.pop_back();
            }
        }
        Ok(())
    }

    /// The counters, with the kernel's drops added.
    pub fn totals(&mut self) -> &Counters {
        self.counters.socket_drop += self.rx.take_socket_drops();
        &self.counters
    }
}

/// A running link.
pub struct Wire {
    /// A to B, B to A.
    pub lanes: [Lane; 2],
    batch: Batch,
    /// `CLOCK_REALTIME` when the link came up: the model's time 0.
    epoch_ns: u64,
    /// Longest time to sleep without reading, and shortest time to sleep.
    nap: Duration,
    tick: Duration,
    control: Control,
    signals: Signals,
}

impl Wire {
    /// `least_delay`: the shorter one-way delay. Frames may wait unread for half of it.
    pub fn new(
        lanes: [Lane; 2],
        least_delay: Duration,
        tick: Duration,
        control: Control,
        signals: Signals,
    ) -> io::Result<Wire> {
        Ok(Wire {
            lanes,
            batch: Batch::new(),
            epoch_ns: system::now_ns(),
            nap: (least_delay / 2).max(tick),
            tick,
            control,
            signals,
        })
    }

    /// Time since the link came up.
    pub fn now(&self) -> Nanos {
        system::now_ns().saturating_sub(self.epoch_ns)
    }

    /// Moves frames until a signal or a command ends it. `report` writes the counters on request.
    pub fn run(
        &mut self,
        mut report: impl FnMut(&mut Wire) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        loop {
            self.wait()?;
            while let Some(signal) = self.signals.next() {
                match signal {
                    libc::SIGUSR1 => report(self)?,
                    _ => return Ok(()),
                }
            }
            for lane in &mut self.lanes {
                lane.receive(&mut self.batch, self.epoch_ns).context(
                    "cannot receive; both interfaces must be up: `ip link set dev NAME up`",
                )?;
            }
            for lane in &mut self.lanes {
                lane.send_due(&mut self.batch, self.epoch_ns);
            }
            if self.control_is_readable()? && !self.obey()? {
                return Ok(());
            }
        }
    }

    /// Sleeps until there is something to do. With frames under way it does not wake for each
    /// arrival, as the kernel's time stamp is the frame's clock, but at the next due time.
    fn wait(&self) -> io::Result<()> {
        let next_due = self.lanes.iter().filter_map(Lane::next_due).min();
        let [a, b] = &self.lanes;
        let readable = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut fds = [
            readable(self.signals.fd()),
            readable(self.control.fd()),
            readable(a.rx.fd()),
            readable(b.rx.fd()),
        ];
        let (count, timeout) = match next_due {
            None => (fds.len(), None),
            Some(due) => {
                let left = Duration::from_nanos(due.saturating_sub(self.now()));
                (2, Some(left.min(self.nap).max(self.tick)))
            }
        };
        poll(&mut fds[..count], timeout).map(drop)
    }

    fn control_is_readable(&self) -> io::Result<bool> {
        let mut fds = [libc::pollfd {
            fd: self.control.fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        Ok(fds[0].fd >= 0 && poll(&mut fds, Some(Duration::ZERO))? > 0)
    }

    /// Carries out the commands that have come in; false ends the link.
    fn obey(&mut self) -> anyhow::Result<bool> {
        let Some(lines) = self.control.lines()? else {
            return Ok(false);
        };
        for line in lines {
            let answer = match control::parse(&line) {
                Ok(Command::Quit) => return Ok(false),
                Ok(Command::Stats) => serde_json::to_string(&Directions::of(self))?,
                Ok(Command::Change(way, change)) => match self.change(way, change) {
                    Ok(()) => format!("ok {} at {:.6} s", line.trim(), self.now() as f64 / 1e9),
                    Err(error) => format!("error {error}"),
                },
                Err(error) => format!("error {error}"),
            };
            writeln!(io::stdout(), "{answer}")?;
        }
        Ok(true)
    }

    fn change(&mut self, way: Option<Way>, change: Change) -> Result<(), String> {
        let now = self.now();
        let [a_to_b, b_to_a] = &mut self.lanes;
        if way != Some(Way::BToA) {
            a_to_b.change(now, change.clone())?;
        }
        if way != Some(Way::AToB) {
            b_to_a.change(now, change.clone())?;
        }
        if let Change::Delay(delay) = change {
            self.nap = self.nap.min(Duration::from_nanos(delay) / 2).max(self.tick);
        }
        Ok(())
    }
}

fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<libc::c_int> {
    let timeout = timeout.map(|time| libc::timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: time.subsec_nanos() as _,
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    system::check(unsafe {
        libc::ppoll(fds.as_mut_ptr(), fds.len() as _, timeout, std::ptr::null())
    })
}
