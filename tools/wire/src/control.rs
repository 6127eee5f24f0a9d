//! Live commands, one a line on standard input.

use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;

use mpq_wire::model::Change;
use mpq_wire::model::Way;

/// What a line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// `None`: both directions.
    Change(Option<Way>, Change),
    Stats,
    Quit,
}

/// Parses one line of input.
pub fn parse(line: &str) -> Result<Command, String> {
    let line = line.trim();
    let (way, rest) = match line.split_once(' ') {
        Some(("a-to-b", rest)) => (Some(Way::AToB), rest),
        Some(("b-to-a", rest)) => (Some(Way::BToA), rest),
        _ => (None, line),
    };
    match (way, rest) {
        (None, "stats") => Ok(Command::Stats),
        (None, "quit") => Ok(Command::Quit),
        _ => rest.parse().map(|change| Command::Change(way, change)),
    }
}

/// Longest command line, in bytes.
const LINE_MAX: usize = 4096;

/// Where commands come from. Not part of any per-frame work.
pub struct Control {
    input: Option<io::Stdin>,
    partial: Vec<u8>,
}

impl Control {
    pub fn none() -> Control {
        Control {
            input: None,
            partial: Vec::new(),
        }
    }

    pub fn stdin() -> io::Result<Control> {
        Ok(Control {
            input: Some(io::stdin()),
            partial: Vec::new(),
        })
    }

    /// The descriptor to poll; -1, which poll skips, where there is none.
    pub fn fd(&self) -> RawFd {
        self.input.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Reads once and returns the whole lines so far, or `None` at the end of the input. To be
    /// called when the descriptor is readable.
    pub fn lines(&mut self) -> io::Result<Option<Vec<String>>> {
        let mut buffer = [0u8; 1024];
        // Straight from the descriptor: a buffered reader would hide lines from poll.
        let n = unsafe { libc::read(self.fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        match n {
            0 => return Ok(None),
            n if n < 0 => {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(Some(Vec::new())),
                    _ => Err(error),
                };
            }
            n => self.partial.extend_from_slice(&buffer[..n as usize]),
        }
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            if self.partial.len() > LINE_MAX {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a command line is too long",
                ));
            }
            return Ok(Some(Vec::new()));
        };
        let whole: Vec<u8> = self.partial.drain(..=end).collect();
        let text = String::from_utf8_lossy(&whole);
        Ok(Some(
            text.lines()
                .filter(|line| !line.trim().is_empty())
                .map(String::from)
                .collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        assert_eq!(parse("down"), Ok(Command::Change(None, Change::Down)));
        assert_eq!(
            parse(" b-to-a up "),
            Ok(Command::Change(Some(Way::BToA), Change::Up))
        );
        let rate = Change::Rate("2mbit".parse().unwrap());
        assert_eq!(
            parse("a-to-b rate 2mbit"),
            Ok(Command::Change(Some(Way::AToB), rate))
        );
        assert_eq!(parse("stats"), Ok(Command::Stats));
        assert!(parse("rate 2").unwrap_err().contains("unit is missing"));
        assert!(parse("a-to-b stats").is_err());
        assert!(parse("explode").unwrap_err().contains("expected down"));
    }
}
