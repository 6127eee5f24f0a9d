//! Connections in the worst of networks: each seed draws a scenario, in which a transfer has to come
//! through whole, or to end with a reason that the network gave.
//!
//! A scenario is bad up to a certain moment and good from then on, long enough for every transfer to
//! end. What must not happen: a wrong byte, a transfer that hangs, an end that lives on for ever, a
//! protocol error between two ends that mean no harm, a timeout although a path worked all the time,
//! a panic, a loop without an end.

mod plan;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mpq_driver::CloseReason;

use crate::failure::Failure;
use crate::scenario::Document;
use crate::world;
use crate::world::Ending;
use crate::world::Options;
use crate::world::RunError;

pub use plan::Plan;

/// Events of a run that turns on the spot. The largest transfers that are drawn take a tenth.
const MOST_EVENTS: u64 = 5_000_000;

/// How long an end may take to close after its idle timeout: three of the longest probe timeouts, as
/// RFC 9000, section 10.1, allows.
const GRACE: Duration = Duration::from_secs(60);

/// How long a host whose last path was abandoned waits for another one, at least: three probe timeouts
/// of a path that nothing is known of.
const WITHOUT_PATH: Duration = Duration::from_secs(3);

/// RFC 10069's error of a host that has no path to go on with.
const NO_VIABLE_PATH: u64 = 0x10;

/// What became of a connection, by its cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Every byte arrived.
    Whole,
    /// No handshake, or not a confirmed one, and the first path had not worked all the time.
    NoHandshake,
    /// The idle timeout, and no path had worked all the time.
    IdleTimeout,
    /// The last path was abandoned, and for a new one none had worked all the time.
    NoPath,
    /// No handshake although the first path worked all the time.
    NoHandshakeInGoodWeather,
    /// The idle timeout although a path worked all the time.
    IdleTimeoutInGoodWeather,
    /// One end closed the connection with an error: its code.
    Closed(u64),
    /// A stateless reset, which nobody sends here.
    Reset,
    /// What was read is not what was sent.
    Corrupt,
    /// It had not ended when the time was over.
    Hang,
    /// An end had not closed when the time was over.
    Lingers,
    /// Time did not go on.
    Loop,
    /// A panic.
    Panic,
    /// The scenario could not be run.
    Unusable,
}

impl Cause {
    /// Whether this may happen.
    pub fn is_allowed(&self) -> bool {
        matches!(
            self,
            Cause::Whole | Cause::NoHandshake | Cause::IdleTimeout | Cause::NoPath
        )
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Cause::Whole => "whole",
            Cause::NoHandshake => "no handshake",
            Cause::IdleTimeout => "idle timeout",
            Cause::NoPath => "no path left",
            Cause::NoHandshakeInGoodWeather => "no handshake although the first path worked",
            Cause::IdleTimeoutInGoodWeather => "idle timeout although a path worked",
            Cause::Closed(code) => return write!(f, "closed with error {code:#x}"),
            Cause::Reset => "stateless reset",
            Cause::Corrupt => "not what was sent",
            Cause::Hang => "hang: not ended when the time was over",
            Cause::Lingers => "an end has not closed",
            Cause::Loop => "loop: time stands still",
            Cause::Panic => "panic",
            Cause::Unusable => "scenario refused",
        })
    }
}

/// What became of the connection of one seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The seed.
    pub seed: u64,
    /// By its kind.
    pub cause: Cause,
    /// In words, with the details.
    pub detail: String,
    /// When the flow ended, in simulated seconds; the run's length if it did not.
    pub ended_s: f64,
    /// Packets that both ends sent.
    pub packets: u64,
    /// Hash over time, sender, path and size of each.
    pub packet_log: u64,
}

/// Draws the scenario of `seed` and runs it. qlog of both ends goes to the folder `qlog`, which exists.
/// `None` if `stop` was set.
pub fn run(seed: u64, qlog: Option<&Path>, stop: &AtomicBool) -> Option<Verdict> {
    let plan = Plan::draw(seed);
    let caught = std::panic::catch_unwind(AssertUnwindSafe(|| run_plan(&plan, qlog, stop)));
    let result = caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied());
        Ok(Verdict::without_run(
            seed,
            Cause::Panic,
            text.unwrap_or("without a text").to_owned(),
        ))
    });
    match result {
        Ok(verdict) => Some(verdict),
        Err(RunError::Interrupted) => None,
        Err(error @ (RunError::Events(..) | RunError::Sends(_))) => {
            Some(Verdict::without_run(seed, Cause::Loop, error.to_string()))
        }
        Err(error @ (RunError::Write(..) | RunError::Setup(_))) => Some(Verdict::without_run(
            seed,
            Cause::Unusable,
            error.to_string(),
        )),
    }
}

fn run_plan(plan: &Plan, qlog: Option<&Path>, stop: &AtomicBool) -> Result<Verdict, RunError> {
    let name = format!("chaos-{}.toml", plan.seed);
    let document = Document::parse(Path::new(&name), plan.text.clone(), &[], None)
        .map_err(|e| RunError::Setup(e.to_string()))?;
    let options = Options {
        folder: Path::new("."),
        seed: plan.seed,
        out: qlog,
        qlog: qlog.is_some(),
        stop,
        progress: &AtomicU64::new(0),
        linger: true,
        most_events: MOST_EVENTS,
    };
    let (outcome, endings) = world::run_closely(&document.cases[0].scenario, &options)?;
    let [ending] = &endings[..] else {
        return Err(RunError::Setup("a plan has one connection".into()));
    };
    let (cause, detail) = judge(plan, ending, outcome.simulated);
    Ok(Verdict {
        seed: plan.seed,
        cause,
        detail,
        ended_s: ending.ended.unwrap_or(outcome.simulated).as_secs_f64(),
        packets: outcome.packets,
        packet_log: outcome.packet_log,
    })
}

/// What an ending means in the weather of its plan.
fn judge(plan: &Plan, ending: &Ending, simulated: Duration) -> (Cause, String) {
    let Some(ended) = ending.ended else {
        return (
            Cause::Hang,
            format!(
                "{:.1} s after the network was good again",
                (simulated - plan.good_from).as_secs_f64()
            ),
        );
    };
    let a_path_worked = |lately: Duration| {
        let from = ended.saturating_sub(lately);
        (0..plan.paths()).any(|path| plan.worked_all_the_time(path, from, ended))
    };
    let cause = match &ending.failure {
        None => Cause::Whole,
        Some(Failure::Handshake(timeout)) => match plan.handshake_path_worked(*timeout) {
            true => Cause::NoHandshakeInGoodWeather,
            false => Cause::NoHandshake,
        },
        Some(Failure::Closed(reason)) => match reason {
            CloseReason::HandshakeTimeout { .. } => match plan.handshake_path_worked(ended) {
                true => Cause::NoHandshakeInGoodWeather,
                false => Cause::NoHandshake,
            },
            // It is the only path until the handshake is confirmed.
            CloseReason::IdleTimeout { .. } if !ending.has_opened => {
                match plan.handshake_path_worked(ended) {
                    true => Cause::NoHandshakeInGoodWeather,
                    false => Cause::NoHandshake,
                }
            }
            CloseReason::IdleTimeout { after, .. } => match a_path_worked(*after) {
                true => Cause::IdleTimeoutInGoodWeather,
                false => Cause::IdleTimeout,
            },
            CloseReason::ByPeer { app, code, .. } | CloseReason::ByUs { app, code, .. } => {
                let has_no_path = !app && *code == NO_VIABLE_PATH;
                match has_no_path && !a_path_worked(WITHOUT_PATH) {
                    true => Cause::NoPath,
                    false => Cause::Closed(*code),
                }
            }
            CloseReason::Tls { code, .. } => Cause::Closed(0x100 + u64::from(*code)),
            CloseReason::Reset => Cause::Reset,
            // Of sockets, certificates and versions, of which there is one here.
            CloseReason::Unreachable { .. } | CloseReason::Certificate(_) => Cause::Unusable,
            _ => Cause::Unusable,
        },
        Some(Failure::Wrong { .. } | Failure::Length { .. }) => Cause::Corrupt,
        Some(Failure::Player(_)) => Cause::Unusable,
    };
    let detail = match &ending.failure {
        None => "every byte arrived".to_owned(),
        Some(failure) => failure.to_string(),
    };
    let patience = plan.idle_timeout + GRACE;
    if cause.is_allowed() && simulated > ended + patience {
        let who: Vec<&str> = ["client", "server"]
            .into_iter()
            .zip(ending.is_closed)
            .filter_map(|(who, is_closed)| (!is_closed).then_some(who))
            .collect();
        if !who.is_empty() {
            let detail = format!("{} after: {cause} ({detail})", who.join(" and "));
            return (Cause::Lingers, detail);
        }
    }
    (cause, detail)
}

impl Verdict {
    fn without_run(seed: u64, cause: Cause, detail: String) -> Verdict {
        Verdict {
            seed,
            cause,
            detail,
            ended_s: 0.0,
            packets: 0,
            packet_log: 0,
        }
    }
}
