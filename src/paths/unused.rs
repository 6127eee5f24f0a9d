//! Why there is no path from an address, in a sentence.

use std::fmt;
use std::time::Duration;

/// A possible path that does not exist, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// The interface, or `None` if it is about the connection.
    pub interface: Option<String>,
    /// The reason.
    pub why: Why,
}

/// The reason that there is no path, or no further one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The peer does not do multipath, or was not offered it.
    SinglePath,
    /// There is one interface only.
    NoOtherInterface,
    /// The interface has no carrier or is down.
    Down,
    /// The peer has no address of the interface's family.
    Family {
        /// The interface's addresses are of IPv4.
        is_ipv4: bool,
    },
    /// The default route leads into this tunnel, and nothing goes around it.
    Tunnel {
        /// Its interface.
        name: String,
    },
    /// It is a tunnel over another interface.
    OverAnother,
    /// It costs money.
    Metered,
    /// The policy does not want it.
    Policy(&'static str),
    /// There are as many paths as the rules allow.
    MaxPaths(usize),
    /// The limits on path IDs allow no further path.
    NoPathIds,
    /// The peer refused it.
    Refused,
    /// The kernel gave no socket.
    Socket(String),
    /// Nothing comes back there; the next attempt is later.
    NoAnswer {
        /// Attempts so far.
        failures: u32,
        /// Until the next one.
        next: Duration,
        /// The kernel would drop what comes back.
        strict_rp_filter: bool,
        /// The interface has a default route.
        has_route: bool,
    },
    /// The peer abandoned it; the next attempt is later.
    AbandonedByPeer {
        /// The error code of PATH_ABANDON.
        error_code: u64,
        /// Until the next attempt.
        next: Duration,
    },
    /// It came and went too often, and has to be quiet for a while.
    Flapping(Duration),
    /// Nothing speaks against it: it is being opened.
    UnderWay,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(interface) = &self.interface {
            write!(f, "{interface}: ")?;
        }
        let interface = self.interface.as_deref().unwrap_or_default();
        match &self.why {
            Why::SinglePath => write!(f, "the server does not do multipath"),
            Why::NoOtherInterface => write!(f, "no other interface leads to a network"),
            Why::Down => write!(f, "is down, or has no carrier"),
            Why::Family { is_ipv4 } => {
                let (ours, theirs) = match is_ipv4 {
                    true => ("IPv4", "IPv6"),
                    false => ("IPv6", "IPv4"),
                };
                write!(
                    f,
                    "has {ours} only, and the server is known by {theirs} addresses only"
                )
            }
            Why::Tunnel { name } => write!(
                f,
                "the default route leads into the tunnel {name}; tunnel=around allows paths beside it"
            ),
            Why::OverAnother => write!(f, "is a tunnel over another interface; name it to use it"),
            Why::Metered => write!(f, "is metered; metered=backup or metered=use allows it"),
            Why::Policy(why) => write!(f, "{why}"),
            Why::MaxPaths(max) => write!(f, "there are {max} paths already; max=N allows more"),
            Why::NoPathIds => write!(f, "the server allows no further path for now"),
            Why::Refused => write!(f, "the server forbids further paths to its address"),
            Why::Socket(error) => write!(f, "{error}"),
            Why::NoAnswer {
                failures,
                next,
                strict_rp_filter,
                has_route,
            } => {
                let times = if *failures == 1 { "time" } else { "times" };
                write!(
                    f,
                    "no answer from the server, {failures} {times}; {}",
                    Next(*next)
                )?;
                if *strict_rp_filter {
                    write!(
                        f,
                        ". rp_filter is 1 there: the kernel drops what comes back on {interface}. \
                         Set net.ipv4.conf.{interface}.rp_filter to 2"
                    )?;
                } else if !has_route {
                    write!(f, ". It has no default route")?;
                }
                Ok(())
            }
            Why::AbandonedByPeer { error_code, next } => write!(
                f,
                "the server abandoned the path (code {error_code:#x}); {}",
                Next(*next)
            ),
            Why::Flapping(wait) => write!(
                f,
                "came and went too often; it has to stay for another {:.1} s",
                wait.as_secs_f64()
            ),
            Why::UnderWay => write!(f, "a path is being opened"),
        }
    }
}

/// When there is another attempt.
struct Next(Duration);

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Duration::ZERO => write!(f, "another attempt is under way"),
            next => write!(f, "next attempt in {:.1} s", next.as_secs_f64()),
        }
    }
}
