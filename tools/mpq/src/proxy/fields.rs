//! Header fields on their way: what belongs to one connection stays there, and what names one side's origin names the
//! other's afterwards.

use hyper::header;
use hyper::header::Entry;
use hyper::header::HeaderName;
use hyper::header::HeaderValue;
use hyper::HeaderMap;
use url::Url;

use super::cookies;
use super::routes::Route;

/// Fields of one connection, besides those that `connection` names (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Fields of a response that would bind the browser to this host, or lead it past the proxy.
const NOT_FOR_HERE: [&str; 2] = ["alt-svc", "strict-transport-security"];

/// The two ends of an exchange, as URLs name them.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// The proxy's origin, as the browser sees it: `http://localhost:8080`.
    pub own: &'a str,
    /// The origin's: `https://films.example`.
    pub origin: &'a str,
    /// How paths change.
    pub route: Route<'a>,
    /// The name here is every program's, and so are its cookies.
    pub is_shared: bool,
}

/// Makes a browser's fields those for the origin. `says_via`: the origin is told of this hop.
pub fn to_origin(headers: &mut HeaderMap, ends: &Ends, says_via: bool) {
    let takes_trailers = headers
        .get_all(header::TE)
        .iter()
        .any(|te| te.to_str().is_ok_and(|te| te.contains("trailers")));
    remove_hop_by_hop(headers);
    headers.remove(header::HOST);
    // Answered here, when the way to the origin takes the body.
    headers.remove(header::EXPECT);
    if takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if ends.is_shared {
        headers.remove(header::COOKIE);
    }
    // HTTP/2 and HTTP/3 may have it in pieces; HTTP/1.1 may not.
    join(headers, header::COOKIE, b"; ");
    if let Some(origin) = headers.get_mut(header::ORIGIN) {
        if origin.as_bytes().eq_ignore_ascii_case(ends.own.as_bytes()) {
            if let Ok(value) = HeaderValue::from_str(ends.origin) {
                *origin = value;
            }
        }
    }
    if let Some(referer) = headers.get_mut(header::REFERER) {
        let rest = referer.to_str().ok().and_then(|url| after(url, ends.own));
        let mapped = rest.map(|rest| format!("{}{}", ends.origin, ends.route.to_origin(rest)));
        if let Some(Ok(value)) = mapped.map(|url| HeaderValue::from_str(&url)) {
            *referer = value;
        }
    }
    if says_via {
        headers.append(header::VIA, HeaderValue::from_static("1.1 mpq"));
    }
}

/// Makes an origin's fields those for the browser. `via` is the protocol they came by: `3`, `2.0` or `1.1`.
pub fn to_browser(headers: &mut HeaderMap, ends: &Ends, via: &str) {
    remove_hop_by_hop(headers);
    for name in NOT_FOR_HERE {
        headers.remove(name);
    }
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        replace(headers, name, |url| location(url, ends));
    }
    replace(headers, header::ACCESS_CONTROL_ALLOW_ORIGIN, |origin| {
        origin
            .eq_ignore_ascii_case(ends.origin)
            .then(|| ends.own.to_owned())
    });
    for name in [
        header::CONTENT_SECURITY_POLICY,
        header::CONTENT_SECURITY_POLICY_REPORT_ONLY,
    ] {
        replace(headers, name, |policy| Some(content_policy(policy, ends)));
    }
    if ends.is_shared {
        headers.remove(header::SET_COOKIE);
        // It would clear those of other programs.
        headers.remove("clear-site-data");
    } else {
        let is_secure = ends.own.starts_with("https:");
        replace(headers, header::SET_COOKIE, |cookie| {
            Some(cookies::to_browser(cookie, is_secure))
        });
    }
    if let Ok(via) = HeaderValue::from_str(&format!("{via} mpq")) {
        headers.append(header::VIA, via);
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    // What frames the message is not the client's to take away.
    for name in named {
        if name != header::CONTENT_LENGTH && name != header::HOST {
            headers.remove(name);
        }
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Makes the fields `name` one.
fn join(headers: &mut HeaderMap, name: HeaderName, separator: &[u8]) {
    if let Entry::Occupied(mut entry) = headers.entry(name) {
        if entry.iter().count() > 1 {
            let all: Vec<&[u8]> = entry.iter().map(HeaderValue::as_bytes).collect();
            if let Ok(value) = HeaderValue::from_bytes(&all.join(separator)) {
                entry.insert(value);
            }
        }
    }
}

/// Replaces the values of the fields `name` by what `change` makes of them, if anything.
fn replace(headers: &mut HeaderMap, name: HeaderName, change: impl Fn(&str) -> Option<String>) {
    let Entry::Occupied(mut entry) = headers.entry(name) else {
        return;
    };
    for value in entry.iter_mut() {
        let changed = value.to_str().ok().and_then(&change);
        if let Some(Ok(changed)) = changed.map(|text| HeaderValue::from_str(&text)) {
            *value = changed;
        }
    }
}

/// What follows `origin` in `url`, if that is its origin.
fn after<'a>(url: &'a str, origin: &str) -> Option<&'a str> {
    let head = url.get(..origin.len())?;
    let rest = &url[origin.len()..];
    (head.eq_ignore_ascii_case(origin) && (rest.is_empty() || rest.starts_with(['/', '?', '#'])))
        .then_some(rest)
}

/// Where a URL of the origin is found here. One of another site, or of a part of the origin that has no place here,
/// stays what it is, made absolute.
fn location(url: &str, ends: &Ends) -> Option<String> {
    let base = Url::parse(ends.origin).ok()?;
    // Relative to the page, it is right on both sides.
    if !url.starts_with('/') && Url::parse(url).is_err() {
        return None;
    }
    let absolute = base.join(url).ok()?;
    if absolute.origin() != base.origin() {
        return None;
    }
    let mut path = crate::client::url::path_and_query(&absolute);
    if let Some(fragment) = absolute.fragment() {
        path = format!("{path}#{fragment}");
    }
    match ends.route.to_browser(&path) {
        Some(path) => Some(format!("{}{path}", ends.own)),
        None => Some(absolute.into()),
    }
}

/// A policy (CSP) with the origin's own URLs as ours. What makes browsers ask for https is left out: here is none.
fn content_policy(policy: &str, ends: &Ends) -> String {
    let is_plain = ends.own.starts_with("http:");
    let host = ends.origin.trim_start_matches("https://");
    let directives = policy.split(';').filter_map(|directive| {
        let mut words = directive.split_ascii_whitespace();
        let name = words.next()?;
        let is_upgrade = ["upgrade-insecure-requests", "block-all-mixed-content"]
            .iter()
            .any(|upgrade| name.eq_ignore_ascii_case(upgrade));
        if is_upgrade && is_plain {
            return None;
        }
        let words = words.map(
            |word| match after(word, ends.origin).or(after(word, host)) {
                Some(rest) => match ends.route.to_browser(rest) {
                    Some(rest) => format!("{}{rest}", ends.own),
                    None => word.to_owned(),
                },
                None => word.to_owned(),
            },
        );
        Some(
            std::iter::once(name.to_owned())
                .chain(words)
                .collect::<Vec<_>>()
                .join(" "),
        )
    });
    directives.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Route = Route {
        index: 0,
        prefix: "",
        base: "",
    };

    fn ends(route: Route<'static>, is_shared: bool) -> Ends<'static> {
        Ends {
            own: "http://a.localhost:8080",
            origin: "https://a.example",
            route,
            is_shared,
        }
    }

    fn map(fields: &[(&'static str, &str)]) -> HeaderMap {
        let fields = fields.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        fields.collect()
    }

    fn text(headers: &HeaderMap, name: &str) -> Vec<String> {
        let values = headers.get_all(name).iter();
        values.map(|v| v.to_str().unwrap().to_owned()).collect()
    }

    fn mapped(name: &'static str, value: &str, ends: &Ends) -> String {
        let mut headers = map(&[(name, value)]);
        to_browser(&mut headers, ends, "3");
        text(&headers, name).concat()
    }

    #[test]
    fn what_belongs_to_a_connection_ends_with_it() {
        let mut headers = map(&[
            ("connection", "keep-alive, X-Mine, content-length"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eA=="),
            ("transfer-encoding", "chunked"),
            ("te", "gzip, trailers"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABk"),
            ("expect", "100-continue"),
            ("host", "a.localhost:8080"),
            ("x-mine", "1"),
            ("x-other", "2"),
            ("content-length", "3"),
            ("accept-encoding", "gzip, br"),
        ]);
        to_origin(&mut headers, &ends(PLAIN, false), false);
        let expected = map(&[
            ("te", "trailers"),
            ("x-other", "2"),
            ("content-length", "3"),
            ("accept-encoding", "gzip, br"),
        ]);
        assert_eq!(headers, expected);
    }

    #[test]
    fn our_origin_becomes_theirs() {
        let mut headers = map(&[
            ("origin", "http://a.localhost:8080"),
            ("referer", "http://a.localhost:8080/page?x"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
        ]);
        to_origin(&mut headers, &ends(PLAIN, false), true);
        assert_eq!(text(&headers, "origin"), ["https://a.example"]);
        assert_eq!(text(&headers, "referer"), ["https://a.example/page?x"]);
        assert_eq!(text(&headers, "cookie"), ["a=1; b=2"]);
        assert_eq!(text(&headers, "via"), ["1.1 mpq"]);

        let mut headers = map(&[
            ("origin", "https://player.example"),
            ("referer", "http://a.localhost:80801/page"),
            ("cookie", "token=of-another-program"),
        ]);
        to_origin(&mut headers, &ends(PLAIN, true), false);
        assert_eq!(text(&headers, "origin"), ["https://player.example"]);
        assert_eq!(text(&headers, "referer"), ["http://a.localhost:80801/page"]);
        assert_eq!(headers.get("cookie"), None);
        assert_eq!(headers.get("via"), None);
    }

    #[test]
    fn redirects_stay_here() {
        let here = ends(PLAIN, false);
        let location = |url| mapped("location", url, &here);
        assert_eq!(location("/x?y#z"), "http://a.localhost:8080/x?y#z");
        assert_eq!(location("https://a.example/x"), "http://a.localhost:8080/x");
        assert_eq!(
            location("https://A.example:443/"),
            "http://a.localhost:8080/"
        );
        assert_eq!(location("//a.example/x"), "http://a.localhost:8080/x");
        assert_eq!(location("x/y"), "x/y");
        for elsewhere in [
            "https://b.example/x",
            "http://a.example/x",
            "https://a.example:444/x",
            "https://a.example.evil/x",
        ] {
            assert_eq!(location(elsewhere), elsewhere);
        }
        let below = ends(
            Route {
                index: 0,
                prefix: "/live",
                base: "/media",
            },
            true,
        );
        let location = |url| mapped("location", url, &below);
        assert_eq!(location("/media/x"), "http://a.localhost:8080/live/x");
        assert_eq!(location("/login"), "https://a.example/login");
    }

    #[test]
    fn what_would_bind_this_host_is_left_out() {
        let mut headers = map(&[
            ("alt-svc", "h3=\":443\""),
            ("strict-transport-security", "max-age=1"),
            ("access-control-allow-origin", "https://a.example"),
            ("content-encoding", "br"),
            ("etag", "\"x\""),
            ("set-cookie", "a=1; Domain=a.example; Secure"),
            ("set-cookie", "b=2"),
            ("connection", "close"),
        ]);
        to_browser(&mut headers, &ends(PLAIN, false), "3");
        let expected = map(&[
            ("access-control-allow-origin", "http://a.localhost:8080"),
            ("content-encoding", "br"),
            ("etag", "\"x\""),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("via", "3 mpq"),
        ]);
        assert_eq!(headers, expected);

        let mut headers = map(&[("set-cookie", "a=1"), ("clear-site-data", "\"cookies\"")]);
        to_browser(&mut headers, &ends(PLAIN, true), "2.0");
        assert_eq!(headers, map(&[("via", "2.0 mpq")]));
    }

    #[test]
    fn a_policy_names_us() {
        let policy = "default-src 'self' https://a.example; upgrade-insecure-requests;  \
                      img-src a.example/img https://cdn.example a.example.evil";
        assert_eq!(
            mapped("content-security-policy", policy, &ends(PLAIN, false)),
            "default-src 'self' http://a.localhost:8080; \
             img-src http://a.localhost:8080/img https://cdn.example a.example.evil"
        );
    }
}
