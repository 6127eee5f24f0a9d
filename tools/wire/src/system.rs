//! Scheduling, signals and the clock.

use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;

/// Nanoseconds of `CLOCK_REALTIME`, the clock of the kernel's packet time stamps.
pub fn now_ns() -> u64 {
    let mut now: libc::timespec = unsafe { mem::zeroed() };
    // Cannot fail: the clock exists and the pointer is good.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) };
    timespec_ns(&now)
}

pub fn timespec_ns(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Turns a system call's -1 into its error.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Asks for `SCHED_FIFO` at `priority`, the setting that keeps frames on time on a busy machine.
/// 0 asks for nothing and is reported as an error, so that the report says `"realtime": false`.
pub fn become_realtime(priority: u8) -> io::Result<()> {
    if priority == 0 {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "real-time priority 0 was asked for",
        ));
    }
    let mut parameters: libc::sched_param = unsafe { mem::zeroed() };
    parameters.sched_priority = i32::from(priority);
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) }).map(drop)
}

/// Timers of a task with normal scheduling are 50 us late by default; this makes it 1 ns.
pub fn least_timer_slack() {
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

/// SIGINT, SIGTERM and SIGUSR1 as a descriptor.
pub struct Signals(OwnedFd);

impl Signals {
    pub fn block() -> io::Result<Signals> {
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1] {
                libc::sigaddset(&mut set, signal);
            }
            check(libc::sigprocmask(
                libc::SIG_BLOCK,
                &set,
                std::ptr::null_mut(),
            ))?;
            let fd = check(libc::signalfd(
                -1,
                &set,
                libc::SFD_NONBLOCK | libc::SFD_CLOEXEC,
            ))?;
            Ok(Signals(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// The next pending signal.
    pub fn next(&self) -> Option<libc::c_int> {
        let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        let size = mem::size_of_val(&info);
        let n = unsafe { libc::read(self.fd(), (&raw mut info).cast(), size) };
        (n == size as isize).then_some(info.ssi_signo as libc::c_int)
    }
}
