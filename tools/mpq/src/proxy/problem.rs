//! What is answered in place of an origin: what failed, and the way out.

use bytes::Bytes;
use hyper::header;
use hyper::header::HeaderValue;
use hyper::HeaderMap;
use hyper::Response;
use hyper::StatusCode;

/// A request that failed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Of the answer.
    pub status: StatusCode,
    /// What failed, in a line.
    pub what: String,
    /// What to do about it.
    pub way_out: String,
}

impl Problem {
    /// A problem that is answered with `status`.
    pub fn new(status: StatusCode, what: impl Into<String>, way_out: impl Into<String>) -> Problem {
        Problem {
            status,
            what: what.into(),
            way_out: way_out.into(),
        }
    }

    /// The origin answers nothing that could be passed on.
    pub fn bad_gateway(what: impl Into<String>, way_out: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_GATEWAY, what, way_out)
    }

    /// The answer: a page for who accepts one, and else text.
    pub fn answer(&self, request: &HeaderMap) -> Response<Bytes> {
        let status = self.status.as_u16();
        let reason = self.status.canonical_reason().unwrap_or("refused");
        let (kind, body) = if accepts_pages(request) {
            let [what, way_out] = [&self.what, &self.way_out].map(|text| escape(text));
            let page = format!(
                "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width\">\n\
                 <meta name=\"color-scheme\" content=\"light dark\">\n\
                 <title>{status} {reason}</title>\n\
                 <body style=\"font: 1.1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; \
                 padding: 0 1rem\">\n<h1>{what}</h1>\n<p>{way_out}</p>\n\
                 <p><small>{status} {reason}, from mpq proxy and not from the origin. \
                 <a href=\"/.mpq/\">Its paths</a></small></p>\n</html>\n"
            );
            ("text/html; charset=utf-8", page)
        } else {
            let text = format!("mpq proxy: {}\n{}\n", self.what, self.way_out);
            ("text/plain; charset=utf-8", text)
        };
        let mut response = Response::new(body.into());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            let all = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
            headers.insert(header::ALLOW, HeaderValue::from_static(all));
        }
        if self.status.is_server_error() || self.status.is_client_error() {
            let none = "default-src 'none'; style-src 'unsafe-inline'";
            headers.insert(
                header::CONTENT_SECURITY_POLICY,
                HeaderValue::from_static(none),
            );
        }
        response
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

fn accepts_pages(request: &HeaderMap) -> bool {
    let accept = request.get(header::ACCEPT);
    accept.is_some_and(|accept| accept.to_str().is_ok_and(|text| text.contains("text/html")))
}

/// As text in a page.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_for_browsers_and_text_for_others() {
        let problem = Problem::bad_gateway("no <answer> from \"a & b\"", "Try again.");
        let mut browser = HeaderMap::new();
        let accept = HeaderValue::from_static("text/html,application/xml;q=0.9,*/*;q=0.8");
        browser.insert(header::ACCEPT, accept);
        let page = problem.answer(&browser);
        assert_eq!(page.status(), 502);
        let body = std::str::from_utf8(page.body()).unwrap();
        assert!(body.contains("<h1>no &lt;answer&gt; from &quot;a &amp; b&quot;</h1>"));
        assert!(body.contains("Try again."));

        let text = problem.answer(&HeaderMap::new());
        assert_eq!(
            std::str::from_utf8(text.body()).unwrap(),
            "mpq proxy: no <answer> from \"a & b\"\nTry again.\n"
        );
    }
}
