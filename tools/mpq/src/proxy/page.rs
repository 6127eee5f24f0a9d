//! `/.mpq/`: the live page of paths, its data, and its buttons.
//!
//! Pages of an origin run in browsers under the name they came by, and must neither read the addresses of this machine
//! nor press buttons. So browsers see this page under a name that no origin has; programs, which say nothing of who
//! asks (Fetch Metadata), find it under every name.

use std::net::IpAddr;

use bytes::Bytes;
use hyper::header;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::Method;
use hyper::Response;
use hyper::StatusCode;

use super::guard::Admitted;
use super::metrics;
use super::problem::Problem;
use super::routes::Host;
use super::routes::PAGE_HOST;
use super::status::Shared;
use super::upstream::Upstream;

/// Where all of it is.
pub const PLACE: &str = "/.mpq";

const PAGE: &str = include_str!("page/index.html");
const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");

/// Whether a path is one of these.
pub fn is_ours(path: &str) -> bool {
    path.strip_prefix(PLACE)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request for one of these paths.
pub fn answer(
    request: &Parts,
    admitted: &Admitted,
    status: &Shared,
    upstream: &Upstream,
) -> Response<Bytes> {
    find(request, admitted, status, upstream)
        .unwrap_or_else(|problem| problem.answer(&request.headers))
}

fn find(
    request: &Parts,
    admitted: &Admitted,
    status: &Shared,
    upstream: &Upstream,
) -> Result<Response<Bytes>, Problem> {
    let is_browser = request.headers.contains_key("sec-fetch-site");
    if is_browser && admitted.host != Host::Page {
        return elsewhere(request, admitted);
    }
    let path = request.uri.path().strip_prefix(PLACE).unwrap_or_default();
    let is_read = [Method::GET, Method::HEAD].contains(&request.method);
    match path {
        "" if is_read => Ok(redirect(&format!("{PLACE}/"))),
        "/" if is_read => Ok(content("text/html; charset=utf-8", PAGE)),
        "/page.js" if is_read => Ok(content("text/javascript; charset=utf-8", SCRIPT)),
        "/page.css" if is_read => Ok(content("text/css; charset=utf-8", STYLE)),
        "/status.json" if is_read => {
            // Numbers and text only: it cannot fail.
            let json = serde_json::to_string(&status.report()).unwrap_or_default();
            Ok(content("application/json", json))
        }
        "/metrics" if is_read => {
            let page = metrics::page(&status.report());
            Ok(content("text/plain; version=0.0.4; charset=utf-8", page))
        }
        _ => match button(path) {
            Some((local, is_paused)) if request.method == Method::POST => {
                upstream.pause(local, is_paused);
                Ok(Response::builder()
                    .status(StatusCode::NO_CONTENT)
                    .body(Bytes::new())
                    .unwrap_or_default())
            }
            Some(_) => Err(Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this is a button",
                "Use POST.",
            )),
            None => Err(Problem::new(
                StatusCode::NOT_FOUND,
                "the proxy has no such page",
                "It has /.mpq/, /.mpq/status.json and /.mpq/metrics.",
            )),
        },
    }
}

/// What is to become of the paths from which address: `/paths/192.0.2.7/pause`.
fn button(path: &str) -> Option<(IpAddr, bool)> {
    let (local, what) = path.strip_prefix("/paths/")?.split_once('/')?;
    let is_paused = match what {
        "pause" => true,
        "resume" => false,
        _ => return None,
    };
    Some((local.parse().ok()?, is_paused))
}

/// A browser that came by a name at which origins' pages run.
fn elsewhere(request: &Parts, admitted: &Admitted) -> Result<Response<Bytes>, Problem> {
    let mode = request.headers.get("sec-fetch-mode");
    if mode.is_some_and(|mode| mode == "navigate") {
        return Ok(redirect(&url(&admitted.own_origin)));
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "pages of an origin may not see this",
        format!("It is for you, at {}.", url(&admitted.own_origin)),
    ))
}

/// The address of the page for who sees the proxy as `own_origin`.
pub fn url(own_origin: &str) -> String {
    let (scheme, authority) = own_origin.split_once("://").unwrap_or(("http", own_origin));
    let host_end = authority.rfind(']').unwrap_or(0);
    let port = authority[host_end..].rfind(':').map(|at| host_end + at);
    let port = port.map_or("", |at| &authority[at..]);
    format!("{scheme}://{PAGE_HOST}{port}{PLACE}/")
}

fn redirect(to: &str) -> Response<Bytes> {
    let mut response = content("text/plain; charset=utf-8", format!("{to}\n"));
    *response.status_mut() = StatusCode::FOUND;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

fn content(kind: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_name_of_its_own() {
        for (own, page) in [
            ("http://127.0.0.1:8080", "http://mpq.localhost:8080/.mpq/"),
            ("http://[::1]:8080", "http://mpq.localhost:8080/.mpq/"),
            ("http://[::1]", "http://mpq.localhost/.mpq/"),
            ("https://films.localhost:1", "https://mpq.localhost:1/.mpq/"),
            ("http://localhost", "http://mpq.localhost/.mpq/"),
        ] {
            assert_eq!(url(own), page);
        }
    }

    #[test]
    fn buttons_name_an_address() {
        assert_eq!(
            button("/paths/192.0.2.7/pause"),
            Some(([192, 0, 2, 7].into(), true))
        );
        assert_eq!(
            button("/paths/2001:db8::1/resume"),
            Some(("2001:db8::1".parse().unwrap(), false))
        );
        for bad in ["/paths/x/pause", "/paths/192.0.2.7/stop", "/paths", "/"] {
            assert_eq!(button(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_paths_below_ours() {
        assert!(is_ours("/.mpq") && is_ours("/.mpq/") && is_ours("/.mpq/x"));
        assert!(!is_ours("/.mpqx") && !is_ours("/x/.mpq/") && !is_ours("/"));
    }

    #[test]
    fn nothing_of_the_page_comes_from_elsewhere() {
        for text in [PAGE, SCRIPT, STYLE] {
            assert!(!text.contains("//cdn") && !text.contains("https://"));
        }
        assert!(!PAGE.contains("<script>") && !PAGE.contains("style=\""));
    }
}
