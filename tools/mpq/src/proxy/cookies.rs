//! Cookies of the origin, kept by the browser for a name of this host.

/// A `Set-Cookie` field as it works here: for this name alone, and, where there is no TLS, without demanding it. Names
/// that promise TLS keep what they need; browsers take a loopback host for as good.
pub fn to_browser(cookie: &str, is_secure: bool) -> String {
    let mut parts = cookie.split(';');
    let pair = parts.next().unwrap_or_default().trim();
    let promises = |prefix: &str| {
        let head = pair.get(..prefix.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(prefix))
    };
    let keeps_secure = is_secure || promises("__Secure-") || promises("__Host-");
    let mut kept = pair.to_owned();
    for attribute in parts {
        let attribute = attribute.trim();
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        let attribute = match name.trim().to_ascii_lowercase().as_str() {
            // Not ours to set one for.
            "domain" => continue,
            "secure" if !keeps_secure => continue,
            // Only with Secure.
            "samesite" if !keeps_secure && value.trim().eq_ignore_ascii_case("none") => {
                "SameSite=Lax"
            }
            _ => attribute,
        };
        kept.push_str("; ");
        kept.push_str(attribute);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_the_origin_become_ours() {
        for (given, plain, tls) in [
            ("a=b", "a=b", "a=b"),
            (
                "a=b; Domain=.films.example; Path=/; Secure; HttpOnly; SameSite=None",
                "a=b; Path=/; HttpOnly; SameSite=Lax",
                "a=b; Path=/; Secure; HttpOnly; SameSite=None",
            ),
            (
                "a=domain;SECURE;samesite=Strict;expires=Mon, 23 Nov 2026 15:00:00 GMT",
                "a=domain; samesite=Strict; expires=Mon, 23 Nov 2026 15:00:00 GMT",
                "a=domain; SECURE; samesite=Strict; expires=Mon, 23 Nov 2026 15:00:00 GMT",
            ),
            (
                "__Host-a=b; Secure; Path=/",
                "__Host-a=b; Secure; Path=/",
                "__Host-a=b; Secure; Path=/",
            ),
        ] {
            assert_eq!(to_browser(given, false), plain);
            assert_eq!(to_browser(given, true), tls);
        }
    }
}
