//! What a response or its absence means to a command.

use mpq_driver::h3::client::RequestError;
use mpq_driver::h3::client::ResponseHead;
use mpq_driver::h3::field;

use crate::exit::code_of;
use crate::exit::describe;
use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::exit::NETWORK;
use crate::exit::STATUS;
use crate::exit::TRUNCATED;

/// Whether the body that follows `head` is what was asked for: a part if
/// `wants_range`, the whole otherwise.
pub fn check_head(head: &ResponseHead, wants_range: bool) -> Result<(), Failure> {
    match head.status {
        400.. => Err(Failure::new(
            STATUS,
            format!("the server answered with status {}", head.status),
        )),
        300..=399 => Err(Failure::new(
            STATUS,
            format!(
                "status {}: redirects are not followed; ask for {}",
                head.status,
                field(&head.headers, "location").unwrap_or("another URL")
            ),
        )),
        206 if !wants_range => Err(Failure::new(
            TRUNCATED,
            "the server sent a part where the whole was asked for",
        )),
        200 if wants_range => Err(Failure::new(
            STATUS,
            "the server ignores ranges and sent the whole file",
        )),
        _ => Ok(()),
    }
}

/// The failure of a command whose request ended like this.
pub fn failure_of(error: RequestError) -> Failure {
    match error {
        RequestError::Connection(reason) => Failure::new(code_of(&reason), describe(&reason)),
        RequestError::Cancelled => Failure::new(NETWORK, error),
        RequestError::Body(_) => Failure::new(LOCAL, error),
        _ => Failure::new(TRUNCATED, error),
    }
}
