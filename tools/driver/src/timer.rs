//! A one-shot timer that an event loop can wait on.
//!
//! `epoll` rounds its timeout up to a millisecond, which is coarser than the
//! release times of a pacer. A timerfd is not.

use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;
use std::time::Duration;
use std::time::Instant;

use rustix::time::Itimerspec;
use rustix::time::TimerfdClockId;
use rustix::time::TimerfdFlags;
use rustix::time::TimerfdTimerFlags;
use rustix::time::Timespec;

/// A monotonic one-shot timer backed by a timerfd.
pub struct Timer {
    fd: OwnedFd,
    armed: Option<Instant>,
}

impl Timer {
    /// Creates a timer that is not armed.
    pub fn new() -> io::Result<Timer> {
        let fd = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;

        Ok(Timer { fd, armed: None })
    }

    /// Makes the descriptor readable at `deadline`, or never for `None`.
    ///
    /// Costs no system call when the deadline has not changed.
    pub fn set(&mut self, deadline: Option<Instant>, now: Instant) -> io::Result<()> {
        if deadline == self.armed {
            return Ok(());
        }

        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = match deadline {
            None => zero,
            Some(at) => {
                // A zero value would disarm the timer.
                let left = at
                    .saturating_duration_since(now)
                    .max(Duration::from_nanos(1));

                Timespec {
                    tv_sec: left.as_secs() as i64,
                    tv_nsec: left.subsec_nanos().into(),
                }
            }
        };

        rustix::time::timerfd_settime(
            &self.fd,
            TimerfdTimerFlags::empty(),
            &Itimerspec {
                it_interval: zero,
                it_value: value,
            },
        )?;
        self.armed = deadline;
        Ok(())
    }

    /// Forgets the deadline that has just passed, so that the same one can be
    /// set again.
    pub fn fired(&mut self) {
        self.armed = None;
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use mio::unix::SourceFd;
    use mio::Events;
    use mio::Interest;
    use mio::Poll;
    use mio::Token;

    #[test]
    fn fires_at_the_deadline_and_not_before() {
        let mut poll = Poll::new().unwrap();
        let mut timer = Timer::new().unwrap();
        poll.registry()
            .register(
                &mut SourceFd(&timer.as_raw_fd()),
                Token(0),
                Interest::READABLE,
            )
            .unwrap();

        let mut events = Events::with_capacity(4);
        let start = Instant::now();
        let deadline = start + Duration::from_micros(1500);
        timer.set(Some(deadline), start).unwrap();
        while events.is_empty() {
            poll.poll(&mut events, Some(Duration::from_secs(5)))
                .unwrap();
        }
        assert!(Instant::now() >= deadline);

        // A deadline in the past fires too, rather than disarming the timer.
        timer.fired();
        timer.set(Some(start), Instant::now()).unwrap();
        poll.poll(&mut events, Some(Duration::from_secs(5)))
            .unwrap();
        assert!(!events.is_empty());

        // Disarmed, it stays silent.
        timer.fired();
        let now = Instant::now();
        timer
            .set(Some(now + Duration::from_millis(1)), now)
            .unwrap();
        timer.set(None, now).unwrap();
        poll.poll(&mut events, Some(Duration::from_millis(20)))
            .unwrap();
        assert!(events.is_empty());
    }
}
