//! Who may ask for what: nothing gets past here that another site's page, another name for this host (DNS rebinding)
//! or another program's idea of a proxy would have sent.

use hyper::header;
use hyper::http::request::Parts;
use hyper::Method;
use hyper::StatusCode;
use hyper::Uri;

use super::problem::Problem;
use super::routes::Host;
use super::routes::Routes;

/// What the checks have to know.
#[derive(Debug)]
pub struct Guard {
    /// Every name that is ours.
    pub routes: Routes,
    /// `http` or `https`, as browsers reach us.
    pub scheme: &'static str,
    /// Origins of other sites that may use this one.
    pub allowed_origins: Vec<String>,
}

/// A request that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Which name it was sent to.
    pub host: Host,
    /// The proxy's own origin, as this browser sees it: `http://localhost:8080`.
    pub own_origin: String,
}

impl Guard {
    /// Lets a request in.
    ///
    /// # Errors
    /// Why not, to be answered.
    pub fn check(&self, request: &Parts) -> Result<Admitted, Problem> {
        if request.method == Method::CONNECT {
            return Err(Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this is no proxy for other sites",
                "It leads to its own origins only, which its addresses stand for. Enter one of them \
                 in place of a proxy's settings.",
            ));
        }
        if request.method == Method::TRACE {
            return Err(Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "TRACE is not passed on",
                "It would show what the browser keeps from pages.",
            ));
        }
        let authority = authority(request)?;
        let host = name_of(&authority)
            .and_then(|name| self.routes.host(&name))
            .ok_or_else(|| {
                Problem::new(
                    StatusCode::MISDIRECTED_REQUEST,
                    format!("{authority:?} is no name of this proxy"),
                    "Use an address that it printed at its start. Names of other hosts that lead here are refused, \
                     so that no other site can use this one in a browser (DNS rebinding).",
                )
            })?;
        if request
            .uri
            .scheme_str()
            .is_some_and(|scheme| scheme != self.scheme)
        {
            return Err(Problem::new(
                StatusCode::MISDIRECTED_REQUEST,
                "this is no proxy for other sites",
                format!("Its addresses begin with {}://.", self.scheme),
            ));
        }
        if wants_upgrade(request) {
            return Err(Problem::new(
                StatusCode::NOT_IMPLEMENTED,
                "WebSocket does not pass through here",
                "The way to the origin is HTTP/3, and neither nginx nor mpq serve takes WebSocket over it. \
                 Open this page at its origin, without the proxy.",
            ));
        }
        if !request.uri.path().starts_with('/') {
            return Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "the request names no path",
                "It has to begin with a slash.",
            ));
        }
        let own_origin = format!("{}://{authority}", self.scheme);
        self.check_site(request, &own_origin)?;
        Ok(Admitted { host, own_origin })
    }

    /// Refuses what a page of another site asks for, but for following a link.
    fn check_site(&self, request: &Parts, own_origin: &str) -> Result<(), Problem> {
        let refused = |who: &str| {
            Problem::new(
                StatusCode::FORBIDDEN,
                format!("a page of {who} asked for this"),
                "Pages of other sites may not use this proxy. If one of them should, start it with \
                 --allow-origin and the origin of that page.",
            )
        };
        for origin in request.headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or("?");
            if !origin.eq_ignore_ascii_case(own_origin) && !self.allows(origin) {
                return Err(refused(origin));
            }
        }
        if request.headers.contains_key(header::ORIGIN) {
            return Ok(());
        }
        // Browsers say this where they send no Origin, and no page can change it (Fetch Metadata).
        let said = |name: &str| Some(request.headers.get(name)?.to_str().unwrap_or("?"));
        let is_link = said("sec-fetch-mode") == Some("navigate")
            && said("sec-fetch-dest") == Some("document")
            && [Method::GET, Method::HEAD].contains(&request.method);
        match said("sec-fetch-site") {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) if is_link => Ok(()),
            // No way to see which one it is: an origin that is allowed says it, with CORS.
            Some(_) => Err(refused("another site")),
        }
    }

    /// Whether the pages of another site may use this one.
    pub fn allows(&self, origin: &str) -> bool {
        let same = |allowed: &String| allowed.eq_ignore_ascii_case(origin);
        self.allowed_origins.iter().any(same)
    }
}

/// Host and port that the request is for: of its target (absolute form, `:authority`) before those of `Host`
/// (RFC 9112, section 3.2.2).
fn authority(request: &Parts) -> Result<String, Problem> {
    let missing = || {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "the request names no host, or several",
            "It has to have one field Host.",
        )
    };
    let mut hosts = request.headers.get_all(header::HOST).iter();
    let (host, other) = (hosts.next(), hosts.next());
    if other.is_some() {
        return Err(missing());
    }
    if let Some(authority) = request.uri.authority() {
        return Ok(authority.as_str().to_ascii_lowercase());
    }
    let host = host
        .and_then(|host| host.to_str().ok())
        .ok_or_else(missing)?;
    Ok(host.to_ascii_lowercase())
}

/// The host of `HOST[:PORT]`; `None` if it is anything else.
fn name_of(authority: &str) -> Option<String> {
    let uri: Uri = format!("http://{authority}/").parse().ok()?;
    let parsed = uri.authority()?;
    let rest = authority.strip_prefix(parsed.host())?;
    let is_port = rest.is_empty() || parsed.port_u16().is_some();
    (is_port && parsed.as_str() == authority)
        .then(|| parsed.host().trim_end_matches('.').to_owned())
}

/// Whether the client wants another protocol on this connection. `h2c`, which curl offers, may be ignored.
fn wants_upgrade(request: &Parts) -> bool {
    let upgrades = request.headers.get_all(header::UPGRADE).iter();
    let mut words = upgrades.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    words.any(|word| word.trim().eq_ignore_ascii_case("websocket"))
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::super::routes::parse_target;
    use super::*;

    fn guard() -> Guard {
        let targets = ["https://a.example", "films=https://b.example"];
        let targets = targets.map(|text| parse_target(text).unwrap());
        Guard {
            routes: Routes::new(targets.into()).unwrap(),
            scheme: "http",
            allowed_origins: vec!["https://player.example".into()],
        }
    }

    /// The status of a refusal, or 200.
    fn ask(method: &str, uri: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        guard()
            .check(&parts)
            .map_or_else(|p| p.status.as_u16(), |_| 200)
    }

    fn get(headers: &[(&str, &str)]) -> u16 {
        ask("GET", "/x", headers)
    }

    const OURS: (&str, &str) = ("host", "localhost:8080");

    #[test]
    fn only_our_names() {
        for host in [
            "localhost:8080",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "127.0.0.1",
            "[::1]:8080",
            "a.example.localhost:8080",
            "films.localhost:9000",
            "mpq.localhost:8080",
            "localhost.:8080",
        ] {
            assert_eq!(get(&[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "a.example",
            "evil.example:8080",
            "127.0.0.1.evil.example:8080",
            "192.0.2.1:8080",
            "other.localhost:8080",
            "0.0.0.0:8080",
            "me@localhost:8080",
            "localhost:8080/x",
            "localhost:8080?",
            "localhost:port",
            "localhost:65536",
            "localhost:",
        ] {
            assert_eq!(get(&[("host", host)]), 421, "{host}");
        }
        assert_eq!(get(&[]), 400);
        assert_eq!(get(&[OURS, OURS]), 400);
    }

    #[test]
    fn no_open_proxy() {
        assert_eq!(ask("CONNECT", "evil.example:443", &[OURS]), 405);
        assert_eq!(ask("TRACE", "/", &[OURS]), 405);
        assert_eq!(ask("GET", "http://evil.example/", &[OURS]), 421);
        assert_eq!(ask("GET", "http://a.example/", &[OURS]), 421);
        // The target decides, and not what Host says beside it.
        let evil = ("host", "evil.example");
        assert_eq!(ask("GET", "http://localhost:8080/", &[evil]), 200);
        assert_eq!(ask("GET", "https://localhost:8080/", &[OURS]), 421);
        assert_eq!(ask("OPTIONS", "*", &[OURS]), 400);
    }

    #[test]
    fn foreign_pages_may_only_link() {
        let origin = |value| get(&[OURS, ("origin", value)]);
        assert_eq!(origin("http://localhost:8080"), 200);
        assert_eq!(origin("https://player.example"), 200);
        for foreign in [
            "https://evil.example",
            "null",
            "http://localhost:3000",
            "http://localhost",
            "https://localhost:8080",
            "http://127.0.0.1:8080",
            "http://films.localhost:8080",
        ] {
            assert_eq!(origin(foreign), 403, "{foreign}");
        }
        let site = |site, mode, dest| {
            get(&[
                OURS,
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ])
        };
        assert_eq!(site("none", "navigate", "document"), 200);
        assert_eq!(site("same-origin", "no-cors", "image"), 200);
        assert_eq!(site("cross-site", "navigate", "document"), 200);
        for site_of in ["cross-site", "same-site"] {
            assert_eq!(site(site_of, "no-cors", "script"), 403);
            assert_eq!(site(site_of, "navigate", "iframe"), 403);
        }
        let form = [
            OURS,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(ask("POST", "/x", &form), 403);
    }

    #[test]
    fn websocket_is_refused_and_h2c_ignored() {
        let upgrade = |value| get(&[OURS, ("connection", "upgrade"), ("upgrade", value)]);
        assert_eq!(upgrade("websocket"), 501);
        assert_eq!(upgrade("h2c, WebSocket"), 501);
        assert_eq!(upgrade("h2c"), 200);
    }
}
