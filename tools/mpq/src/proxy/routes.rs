//! Which origin a request is for, and what its URLs are called on either side.

use url::Url;

use crate::client::url::authority;
use crate::client::url::host_name;
use crate::client::url::parse_url;

/// Names below this one lead to this host in every browser (RFC 6761, section 6.3).
const LOCAL_SUFFIX: &str = ".localhost";

/// The name under which browsers see the page of paths, and no origin.
pub const PAGE_HOST: &str = "mpq.localhost";

/// An ORIGIN of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Of the origin; its path is where a prefix leads, and otherwise only where `--open` begins.
    pub url: Url,
    /// What comes before the URL.
    pub place: Place,
}

/// How requests name an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// By any name of this host, and by the origin's own below `.localhost`.
    Anywhere,
    /// By a name.
    Host(String),
    /// By the beginning of the path: `/films`, without a slash at the end.
    Prefix(String),
}

/// `https://HOST`, `NAME=https://HOST` or `/PREFIX=https://HOST/PATH`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_target(text: &str) -> Result<Target, String> {
    let named = text.split_once('=').filter(|(name, _)| !name.contains(':'));
    let (place, url) = match named {
        None => (Place::Anywhere, text),
        Some((prefix, url)) if prefix.starts_with('/') => {
            let prefix = prefix.trim_end_matches('/');
            let is_path = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
            if prefix.is_empty() || !prefix.chars().all(is_path) || prefix.contains("//") {
                return Err("the prefix must be like /films".into());
            }
            if prefix.split('/').any(|part| part == "." || part == "..")
                || prefix == "/.mpq"
                || prefix.starts_with("/.mpq/")
            {
                return Err("this prefix is not free".into());
            }
            (Place::Prefix(prefix.into()), url)
        }
        Some((name, url)) => {
            let name = name.to_ascii_lowercase();
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
            if name.is_empty() || !name.chars().all(is_name) {
                return Err("the name must be like films, which is films.localhost".into());
            }
            let name = match name.contains('.') {
                true => name,
                false => name + LOCAL_SUFFIX,
            };
            if name == PAGE_HOST {
                return Err("this name is that of the page of paths".into());
            }
            (Place::Host(name), url)
        }
    };
    let url = parse_url(url)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("names and passwords do not belong into a URL".into());
    }
    Ok(Target { url, place })
}

/// A name of its own for an origin: cookies know no ports, so those of all programs at 127.0.0.1 are one.
fn local_name(url: &Url) -> String {
    let host = host_name(url).replace(':', "-");
    let host = host.trim_matches('-').trim_end_matches('.');
    match host {
        // The tests' and the experimenter's origin.
        "localhost" => format!("origin{LOCAL_SUFFIX}"),
        _ => format!("{host}{LOCAL_SUFFIX}"),
    }
}

/// Where the requests go.
#[derive(Clone, Debug)]
pub struct Routes {
    targets: Vec<Target>,
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// Which one.
    pub index: usize,
    /// Of the request's path, what stands for the origin's.
    pub prefix: &'a str,
    /// What it stands for, without a slash at the end.
    pub base: &'a str,
}

/// Which name a request was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address, or `localhost`, which is every program's.
    Shared,
    /// One that only this origin has.
    Own(usize),
    /// The page of paths.
    Page,
}

impl Routes {
    /// Those of the command line.
    ///
    /// # Errors
    /// If two of them are the same.
    pub fn new(targets: Vec<Target>) -> Result<Routes, String> {
        for (i, target) in targets.iter().enumerate() {
            let name = |target: &Target| match &target.place {
                Place::Anywhere => Some(local_name(&target.url)),
                Place::Host(name) => Some(name.clone()),
                Place::Prefix(_) => None,
            };
            let same = targets[..i].iter().any(|other| match &target.place {
                Place::Prefix(_) => other.place == target.place,
                _ => name(other) == name(target),
            });
            if same {
                return Err(format!(
                    "two origins have one place; give {} a name: NAME={}",
                    target.url, target.url
                ));
            }
        }
        Ok(Routes { targets })
    }

    /// Every origin, in the order given.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The name that is an origin's alone, if it has one.
    pub fn own_name(&self, index: usize) -> Option<String> {
        match &self.targets[index].place {
            Place::Anywhere => Some(local_name(&self.targets[index].url)),
            Place::Host(name) => Some(name.clone()),
            Place::Prefix(_) => None,
        }
    }

    /// Whose name this is, in lower case and without a port; `None`: not one of ours.
    pub fn host(&self, name: &str) -> Option<Host> {
        let is_address = name
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback());
        if name == "localhost" || is_address {
            return Some(Host::Shared);
        }
        if name == PAGE_HOST {
            return Some(Host::Page);
        }
        let of = |index: &usize| self.own_name(*index).is_some_and(|own| own == name);
        (0..self.targets.len()).find(of).map(Host::Own)
    }

    /// The origin of a request for `path` at `host`.
    pub fn find(&self, host: Host, path: &str) -> Option<Route<'_>> {
        match host {
            Host::Page => None,
            Host::Own(index) => Some(Route {
                index,
                prefix: "",
                base: "",
            }),
            Host::Shared => {
                let by_prefix = self
                    .targets
                    .iter()
                    .enumerate()
                    .filter_map(|(index, target)| {
                        let Place::Prefix(prefix) = &target.place else {
                            return None;
                        };
                        let rest = path.strip_prefix(prefix.as_str())?;
                        (rest.is_empty() || rest.starts_with(['/', '?'])).then(|| Route {
                            index,
                            prefix,
                            base: target.url.path().trim_end_matches('/'),
                        })
                    });
                by_prefix
                    .max_by_key(|route| route.prefix.len())
                    .or_else(|| {
                        let anywhere = |target: &Target| target.place == Place::Anywhere;
                        Some(Route {
                            index: self.targets.iter().position(anywhere)?,
                            prefix: "",
                            base: "",
                        })
                    })
            }
        }
    }

    /// The URL to begin with for an origin, with `http` or `https` and a port of this host.
    pub fn start(&self, index: usize, scheme: &str, port: u16) -> String {
        let target = &self.targets[index];
        match (&target.place, self.own_name(index)) {
            (Place::Prefix(prefix), _) => format!("{scheme}://localhost:{port}{prefix}/"),
            (_, name) => {
                let path = crate::client::url::path_and_query(&target.url);
                format!("{scheme}://{}:{port}{path}", name.unwrap_or_default())
            }
        }
    }

    /// `https://HOST[:PORT]`, as browsers write an origin.
    pub fn origin(&self, index: usize) -> String {
        format!("https://{}", authority(&self.targets[index].url))
    }
}

impl Route<'_> {
    /// The origin's path and query for those of the request.
    pub fn to_origin(self, path_and_query: &str) -> String {
        let rest = path_and_query
            .strip_prefix(self.prefix)
            .unwrap_or(path_and_query);
        let slash = if rest.starts_with('/') { "" } else { "/" };
        format!("{}{slash}{rest}", self.base)
    }

    /// The path here for one of the origin's; `None` if none leads there.
    pub fn to_browser(self, path_and_query: &str) -> Option<String> {
        let rest = path_and_query.strip_prefix(self.base)?;
        (rest.is_empty() || rest.starts_with(['/', '?', '#']))
            .then(|| format!("{}{rest}", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(texts: &[&str]) -> Routes {
        let targets = texts.iter().map(|text| parse_target(text).unwrap());
        Routes::new(targets.collect()).unwrap()
    }

    #[test]
    fn one_origin_is_everywhere() {
        let routes = routes(&["https://Films.example:4433/begin/?a=b"]);
        assert_eq!(routes.host("films.example.localhost"), Some(Host::Own(0)));
        for shared in ["localhost", "127.0.0.1", "127.9.9.9", "[::1]"] {
            assert_eq!(routes.host(shared), Some(Host::Shared), "{shared}");
            let route = routes.find(Host::Shared, "/x/y").unwrap();
            assert_eq!(route.to_origin("/x/y?z"), "/x/y?z");
        }
        for foreign in [
            "films.example",
            "evil.example",
            "192.0.2.1",
            "",
            "x.localhost",
        ] {
            assert_eq!(routes.host(foreign), None, "{foreign}");
        }
        assert_eq!(routes.host("mpq.localhost"), Some(Host::Page));
        assert_eq!(routes.origin(0), "https://films.example:4433");
        let start = "http://films.example.localhost:8080/begin/?a=b";
        assert_eq!(routes.start(0, "http", 8080), start);
    }

    #[test]
    fn several_by_host_and_by_path() {
        let routes = routes(&[
            "films=https://a.example",
            "/live=https://b.example/media/hls/",
            "/live/old=https://c.example",
            "https://d.example",
            "https://[2001:db8::1]:4433",
        ]);
        let own = |name| routes.host(name);
        assert_eq!(own("films.localhost"), Some(Host::Own(0)));
        assert_eq!(own("d.example.localhost"), Some(Host::Own(3)));
        assert_eq!(own("2001-db8--1.localhost"), Some(Host::Own(4)));
        assert_eq!(own("b.example.localhost"), None);

        let find = |path| routes.find(Host::Shared, path).unwrap();
        let live = find("/live/a.m3u8");
        assert_eq!(live.index, 1);
        assert_eq!(live.to_origin("/live/a.m3u8?b"), "/media/hls/a.m3u8?b");
        assert_eq!(live.to_origin("/live"), "/media/hls/");
        assert_eq!(live.to_browser("/media/hls/x?y"), Some("/live/x?y".into()));
        assert_eq!(live.to_browser("/media/hlsx"), None);
        assert_eq!(live.to_browser("/elsewhere"), None);
        assert_eq!(find("/live/old/x").index, 2);
        assert_eq!(find("/live/older").index, 1);
        assert_eq!(find("/lively").index, 3);
        assert_eq!(routes.find(Host::Own(0), "/live/x").unwrap().index, 0);
        assert_eq!(routes.find(Host::Page, "/"), None);
        assert_eq!(routes.start(1, "http", 80), "http://localhost:80/live/");
    }

    #[test]
    fn what_is_no_origin() {
        for bad in [
            "http://a.example",
            "a.example",
            "/=https://a.example",
            "/a b=https://a.example",
            "/../x=https://a.example",
            "/.mpq=https://a.example",
            "/.mpq/x=https://a.example",
            "mpq=https://a.example",
            "a_b=https://a.example",
            "=https://a.example",
            "https://me:secret@a.example",
        ] {
            assert!(parse_target(bad).is_err(), "{bad}");
        }
        // An equals sign in the URL is no name.
        assert!(parse_target("https://a.example/?a=b").is_ok());
        let twice = ["https://a.example", "https://a.example/b"];
        let targets = twice.iter().map(|text| parse_target(text).unwrap());
        assert!(Routes::new(targets.collect()).is_err());
    }
}
