//! What the player knows goes to the server, with each request (CTA-5004).

use clap::ValueEnum;
use mpq_cmcd::Cmcd;
use mpq_cmcd::Fields;
use url::Url;

use crate::exit::Failure;
use crate::exit::LOCAL;

/// How it goes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// As header fields: CMCD-Request and three more
    Header,
    /// As the argument CMCD of the URL's query
    Query,
    /// Not at all
    Off,
}

/// The side of a session that tells.
pub struct Teller {
    mode: Mode,
    session_id: String,
}

impl Teller {
    /// For a new session, which gets a random name: nothing links it to the one before.
    pub fn new(mode: Mode) -> Result<Teller, Failure> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|e| Failure::new(LOCAL, e))?;
        Ok(Teller {
            mode,
            session_id: uuid(random),
        })
    }

    /// The URL to ask for instead of `url`, and further header fields.
    pub fn tell(
        &self,
        url: &Url,
        cmcd: Cmcd,
        next_object: Option<&str>,
    ) -> (Url, Vec<(String, String)>) {
        let fields = Fields {
            cmcd,
            session_id: &self.session_id,
            next_object,
        };
        let mut url = url.clone();
        let mut headers = Vec::new();
        match self.mode {
            Mode::Header => {
                let fields = fields.headers().into_iter();
                headers.extend(fields.map(|(name, value)| (name.to_owned(), value)));
            }
            Mode::Query => {
                let argument = fields.argument();
                let query = match url.query() {
                    Some(query) if !query.is_empty() => format!("{query}&{argument}"),
                    _ => argument,
                };
                url.set_query(Some(&query));
            }
            Mode::Off => {}
        }
        (url, headers)
    }
}

/// A random UUID (RFC 9562, section 5.4).
fn uuid(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts: [String; 5] = [
        hex(&random[..4]),
        hex(&random[4..6]),
        hex(&random[6..8]),
        hex(&random[8..10]),
        hex(&random[10..]),
    ];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(mode: Mode, url: &str) -> (String, Vec<(String, String)>) {
        let cmcd = Cmcd {
            buffer_ms: Some(1_000),
            ..Cmcd::default()
        };
        let teller = Teller {
            mode,
            session_id: "s".into(),
        };
        let (url, headers) = teller.tell(&Url::parse(url).unwrap(), cmcd, Some("2.m4s"));
        (url.into(), headers)
    }

    #[test]
    fn headers_leave_the_url_alone() {
        let (url, headers) = told(Mode::Header, "https://a/1.m4s?x=%2F");
        assert_eq!(url, "https://a/1.m4s?x=%2F");
        let expected = [
            ("cmcd-request", "bl=1000,nor=\"2.m4s\""),
            ("cmcd-session", "sf=d,sid=\"s\",st=v"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(headers, expected);
    }

    #[test]
    fn query_keeps_what_was_there() {
        const CMCD: &str = "CMCD=bl%3D1000%2Cnor%3D%222.m4s%22%2Csf%3Dd%2Csid%3D%22s%22%2Cst%3Dv";
        for (url, with) in [
            ("https://a/1.m4s", format!("https://a/1.m4s?{CMCD}")),
            ("https://a/1.m4s?", format!("https://a/1.m4s?{CMCD}")),
            (
                "https://a/1.m4s?x=%2F",
                format!("https://a/1.m4s?x=%2F&{CMCD}"),
            ),
        ] {
            assert_eq!(told(Mode::Query, url), (with, Vec::new()));
        }
    }

    #[test]
    fn off_says_nothing() {
        let url = "https://a/1.m4s?x=1";
        assert_eq!(told(Mode::Off, url), (url.into(), Vec::new()));
    }

    #[test]
    fn session_is_a_uuid_and_another_each_time() {
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
        let id = || Teller::new(Mode::Off).unwrap().session_id;
        assert_ne!(id(), id());
    }
}
