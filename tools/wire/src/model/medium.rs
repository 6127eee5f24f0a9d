//! What a direction is like at a moment, whatever its queue: up or down, MTU, loss and delay.

use super::delay::DelayLine;
use super::delay::Drawn;
use super::loss::Loss;
use super::Change;
use super::DirectionConfig;
use super::Event;
use super::Fate;
use super::Nanos;
use super::Seeds;

/// What was drawn for a frame when it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance {
    is_lost: bool,
    delay: Drawn,
}

#[derive(Clone, Debug)]
pub(super) struct Medium {
    loss: Loss,
    delay: DelayLine,
    mtu: Option<u64>,
    up: bool,
    schedule: Vec<Event>,
    next_event: usize,
}

impl Medium {
    pub(super) fn new(config: &DirectionConfig, seeds: &Seeds) -> Medium {
        Medium {
            loss: Loss::new(config.loss.clone(), seeds),
            delay: DelayLine::new(config.delay, config.jitter, config.reordering, seeds),
            mtu: config.mtu,
            up: true,
            schedule: config.schedule.events().to_vec(),
            next_event: 0,
        }
    }

    /// Whether a schedule decides about it.
    pub(super) fn has_schedule(&self) -> bool {
        !self.schedule.is_empty()
    }

    /// The next change that the schedule has up to `now`.
    pub(super) fn next_change(&mut self, now: Nanos) -> Option<Change> {
        let event = self.schedule.get(self.next_event)?;
        (event.at <= now).then(|| {
            self.next_event += 1;
            event.change.clone()
        })
    }

    /// Applies a change to what arrives from now on; a rate is not of the medium.
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Down => self.up = false,
            Change::Up => self.up = true,
            Change::Rate(_) => {}
            Change::Delay(delay) => self.delay.set_delay(delay),
            Change::Loss(model) => self.loss.set_model(model),
            Change::Mtu(bytes) => self.mtu = Some(bytes),
        }
    }

    /// Draws for a frame that arrives; an error is its fate if it does not come as far as a queue.
    pub(super) fn admit(&mut self, ip_bytes: u64) -> Result<Chance, Fate> {
        let chance = Chance {
            is_lost: self.loss.next_is_lost(),
            delay: self.delay.draw(),
        };
        if !self.up {
            return Err(Fate::Down);
        }
        if self.mtu.is_some_and(|mtu| ip_bytes > mtu) {
            return Err(Fate::TooLong);
        }
        Ok(chance)
    }

    /// The fate of a frame whose last bit leaves at `departure`.
    pub(super) fn pass(&mut self, departure: Nanos, chance: Chance) -> Fate {
        match chance.is_lost {
            true => Fate::Lost { departure },
            false => Fate::Deliver {
                departure,
                due: self.delay.due(departure, chance.delay),
            },
        }
    }
}
