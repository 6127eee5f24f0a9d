//! `mpq proxy` before `mpq serve`, and before an origin that has TCP only, as processes, over loopback.

mod common;

use std::io::Read;
use std::net::TcpStream;

use common::dirs;
use common::http::Proxy;
use common::signal;
use common::tcp::listener;
use common::tcp::Origin;
use common::until;
use common::wait;
use common::Server;
use common::TWO_PATHS;

/// A proxy before a server, over two paths.
fn before(server: &Server, options: &[&str]) -> Proxy {
    let origin = server.url("");
    let mut args = vec!["--pin", &server.fingerprint, &origin];
    args.extend(TWO_PATHS);
    args.extend(options);
    Proxy::start(&args)
}

/// What status.json says of the first origin.
fn origin(proxy: &Proxy, name: &str) -> serde_json::Value {
    proxy.status()["origins"][0][name].clone()
}

fn counter(proxy: &Proxy, name: &str) -> u64 {
    proxy.status()["requests"][name].as_u64().unwrap()
}

/// Received over all paths.
fn received(proxy: &Proxy) -> u64 {
    let paths = origin(proxy, "paths");
    let bytes = |path: &serde_json::Value| path["recv_bytes"].as_u64().unwrap();
    paths.as_array().unwrap().iter().map(bytes).sum()
}

#[test]
fn what_the_origin_says_comes_as_it_is() {
    let (dirs, data) = dirs(3_000_000);
    let server = Server::start(&dirs.www, &[]);
    let proxy = before(&server, &[]);

    let answer = proxy.get("/file.bin");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("content-length"), Some("3000000"));
    assert_eq!(answer.field("via"), Some("3 mpq"));
    let etag = answer.field("etag").unwrap().to_owned();
    assert!(answer.body() == data);

    let part = proxy.ask("GET", "/file.bin", &[("Range", "bytes=1000-1999")], b"");
    assert_eq!(part.status, 206);
    assert_eq!(part.field("content-range"), Some("bytes 1000-1999/3000000"));
    assert!(part.body() == data[1000..2000]);

    let known = proxy.ask("GET", "/file.bin", &[("If-None-Match", &etag)], b"");
    assert_eq!((known.status, known.body().len()), (304, 0));
    let head = proxy.ask("HEAD", "/file.bin", &[], b"");
    assert_eq!(head.field("content-length"), Some("3000000"));
    assert_eq!((head.status, head.body().len()), (200, 0));
    assert_eq!(proxy.get("/nothing?x=y").status, 404);
    // The origin takes none; what it says about that arrives although the body is larger than any buffer.
    let body = vec![7; 40_000_000];
    let length = [("Content-Length", "40000000")];
    let refused = proxy.ask("POST", "/file.bin", &length, &body);
    assert_eq!(refused.status, 405);
    assert_eq!(refused.text(), "method not allowed\n");

    // All of it came over both paths of one connection.
    until("both paths carry", || {
        let paths = origin(&proxy, "paths");
        let carrying = |p: &&serde_json::Value| p["state"] == "carries";
        paths.as_array().unwrap().iter().filter(carrying).count() == 2
    });
    assert_eq!(origin(&proxy, "multipath"), true);
    assert_eq!(origin(&proxy, "connections"), 1);
    assert!(received(&proxy) > 3_000_000);
}

#[test]
fn only_who_may_gets_in() {
    let (dirs, _) = dirs(1000);
    let server = Server::start(&dirs.www, &[]);
    let proxy = before(&server, &["--allow-origin", "https://player.example"]);
    let status = |method: &str, path: &str, fields: &[(&str, &str)]| {
        proxy.ask(method, path, fields, b"").status
    };
    let get = |fields: &[(&str, &str)]| status("GET", "/file.bin", fields);
    let own = format!("127.0.0.1:{}", proxy.port);

    assert_eq!(get(&[("Host", "evil.example")]), 421);
    assert_eq!(
        get(&[("Host", &format!("evil.example:{}", proxy.port))]),
        421
    );
    assert_eq!(get(&[("Host", "127.0.0.1.localhost")]), 200);
    assert_eq!(get(&[("Origin", &format!("http://{own}"))]), 200);
    assert_eq!(get(&[("Origin", "https://evil.example")]), 403);
    assert_eq!(get(&[("Origin", "null")]), 403);
    assert_eq!(get(&[("Origin", "https://player.example")]), 200);
    assert_eq!(get(&[("Sec-Fetch-Site", "cross-site")]), 403);
    assert_eq!(get(&[("Upgrade", "websocket")]), 501);
    assert_eq!(status("CONNECT", "evil.example:443", &[]), 405);
    assert_eq!(status("GET", "http://evil.example/file.bin", &[]), 421);
    assert_eq!(status("GET", &format!("http://{own}/file.bin"), &[]), 200);
    assert_eq!(get(&[("X-Large", &"a".repeat(100_000))]), 431);

    // Two lengths, or a length and chunks, are two messages to somebody: none of them gets through.
    let both = [("Content-Length", "3"), ("Content-Length", "5")];
    assert_eq!(status("POST", "/file.bin", &both), 400);
    let spaced = [("Transfer-Encoding ", "chunked")];
    assert_eq!(status("POST", "/file.bin", &spaced), 400);
    assert_eq!(counter(&proxy, "failed"), 0);
    assert!(counter(&proxy, "refused") >= 8);
}

#[test]
fn the_page_is_for_its_user() {
    let (dirs, _) = dirs(1000);
    let server = Server::start(&dirs.www, &[]);
    let proxy = before(&server, &[]);
    assert_eq!(proxy.get("/file.bin").status, 200);
    until("two paths", || {
        origin(&proxy, "paths").as_array().unwrap().len() == 2
    });

    // A page of the origin, in a browser, under the name it came by.
    let from_page = [
        ("Sec-Fetch-Site", "same-origin"),
        ("Sec-Fetch-Mode", "cors"),
    ];
    for path in ["/.mpq/", "/.mpq/status.json", "/.mpq/metrics"] {
        assert_eq!(
            proxy.ask("GET", path, &from_page, b"").status,
            403,
            "{path}"
        );
    }
    let button = "/.mpq/paths/127.0.0.2/pause";
    assert_eq!(proxy.ask("POST", button, &from_page, b"").status, 403);
    // Its user follows a link.
    let user = [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Mode", "navigate")];
    let moved = proxy.ask("GET", "/.mpq/", &user, b"");
    let page = format!("http://mpq.localhost:{}/.mpq/", proxy.port);
    assert_eq!(
        (moved.status, moved.field("location")),
        (302, Some(page.as_str()))
    );
    let host = format!("mpq.localhost:{}", proxy.port);
    let at_page = [("Host", host.as_str()), ("Sec-Fetch-Site", "same-origin")];
    let page = proxy.ask("GET", "/.mpq/", &at_page, b"");
    assert!(page
        .field("content-security-policy")
        .unwrap()
        .contains("frame-ancestors 'none'"));
    assert!(page.text().contains("<h1>Paths</h1>"));
    assert_eq!(
        proxy
            .ask("GET", "/file.bin", &[("Host", &host)], b"")
            .status,
        404
    );

    let state = |index: usize| origin(&proxy, "paths")[index]["state"].clone();
    until("the first path carries", || state(1) == "carries");
    assert_eq!(proxy.ask("POST", button, &at_page, b"").status, 204);
    until("the path is paused", || state(1) == "paused");
    assert_eq!(proxy.ask("GET", button, &at_page, b"").status, 405);
    assert_eq!(
        proxy
            .ask("POST", "/.mpq/paths/127.0.0.2/resume", &[], b"")
            .status,
        204
    );
    until("the path is back", || state(1) == "carries");

    let metrics = proxy.get("/.mpq/metrics").text();
    assert!(
        metrics.contains("mpq_proxy_connections_total{origin="),
        "{metrics}"
    );
    assert!(metrics.contains("local=\"127.0.0.2\""), "{metrics}");
}

#[test]
fn many_at_once() {
    let (dirs, data) = dirs(60_000);
    let server = Server::start(&dirs.www, &[]);
    let proxy = before(&server, &[]);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..12 {
                    assert!(proxy.get("/file.bin").body() == data);
                }
            });
        }
    });
    assert_eq!(origin(&proxy, "connections"), 1);
    assert_eq!(counter(&proxy, "failed"), 0);
}

#[test]
fn who_goes_away_ends_the_origins_work() {
    let (dirs, data) = dirs(1000);
    dirs.add_huge();
    let server = Server::start(&dirs.www, &[]);
    let proxy = before(&server, &[]);
    let mut answer = proxy.get("/huge");
    answer.take(100_000);
    drop(answer);
    server.until_answered("/huge", 1);
    assert!(server.log().contains("aborted"), "{}", server.log());
    assert!(proxy.get("/file.bin").body() == data);
    assert_eq!(origin(&proxy, "connections"), 1);
}

#[test]
fn slow_readers_hold_little_and_nobody_up() {
    let (dirs, data) = dirs(200_000);
    dirs.add_huge();
    let server = Server::start(&dirs.www, &[]);
    let proxy = before(&server, &[]);
    assert!(proxy.get("/file.bin").body() == data);
    // As many as a browser has connections, and none reads on.
    let slow: Vec<_> = (0..6)
        .map(|_| {
            let mut answer = proxy.get("/huge");
            answer.take(1000);
            answer
        })
        .collect();
    // What the proxy holds of each, besides 4 MiB in the transport the kernel may; a film is some thousand of them.
    let kernel: usize = ["rmem", "wmem"]
        .map(|name| {
            let sizes = std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{name}")).unwrap();
            sizes
                .split_whitespace()
                .last()
                .unwrap()
                .parse::<usize>()
                .unwrap()
        })
        .iter()
        .sum();
    let most = slow.len() as u64 * ((5 << 20) + kernel as u64);
    // Others are served meanwhile, until more than their files does not come.
    let (mut last, mut still, mut others) = (received(&proxy), 0, 0);
    until("all have what they may", || {
        assert!(proxy.get("/file.bin").body() == data);
        others += 1;
        let now = received(&proxy);
        let of_slow = now.saturating_sub(others * data.len() as u64);
        assert!(
            of_slow < most,
            "{of_slow} bytes for {} slow readers",
            slow.len()
        );
        still = if now - last < 2 * data.len() as u64 {
            still + 1
        } else {
            0
        };
        last = now;
        still == 5
    });
}

#[test]
fn a_film_outlives_its_connection() {
    let (dirs, data) = dirs(20_000_000);
    let mut server = Server::start(&dirs.www, &["--grace", "0"]);
    let address = format!("127.0.0.1:{}", server.port);
    let mut args = vec!["--no-verify", "--no-fallback"];
    let url = server.url("");
    args.extend(TWO_PATHS);
    args.push(&url);
    let proxy = Proxy::start(&args);

    let mut answer = proxy.get("/file.bin");
    let mut got = answer.take(1_000_000);
    // Nobody reads meanwhile, so that it cannot have ended.
    signal(&server.child, "TERM");
    wait(&mut server.child);
    let again = Server::start_in(None, &dirs.www, &address, &[]);
    got.extend(answer.body());
    assert!(got == data);
    assert_eq!(counter(&proxy, "resumed"), 1);
    assert_eq!(origin(&proxy, "lost_connections"), 1);
    assert!(proxy.log().contains("is lost"), "{}", proxy.log());
    drop(again);
}

#[test]
fn only_what_may_be_is_sent_again() {
    let (dirs, data) = dirs(10_000);
    let mut server = Server::start(&dirs.www, &[]);
    let address = format!("127.0.0.1:{}", server.port);
    let url = server.url("");
    let mut args = vec!["--no-verify", "--no-fallback", "--idle-timeout", "3000"];
    args.extend(TWO_PATHS);
    args.push(&url);
    let proxy = Proxy::start(&args);
    assert!(proxy.get("/file.bin").body() == data);

    // It dies without a word, and another one knows nothing of the connection. Where that takes so long that the
    // proxy has noticed, the next request needs no second try: once more then.
    let mut after_restart = |method: &str, body: &str| {
        signal(&server.child, "KILL");
        // No exit code.
        let _ = server.child.wait();
        server = Server::start_in(None, &dirs.www, &address, &[]);
        let length = [("Content-Length", body.len().to_string())];
        let length: Vec<_> = length.iter().map(|(n, v)| (*n, v.as_str())).collect();
        proxy.ask(method, "/file.bin", &length, body.as_bytes())
    };
    until("a request is sent again", || {
        assert!(after_restart("GET", "").body() == data);
        counter(&proxy, "retried") == 1
    });

    // A POST, with a body and without, may have had its effect.
    for body in ["abc", ""] {
        until("a request fails", || {
            let answer = after_restart("POST", body);
            assert_eq!(counter(&proxy, "retried"), 1);
            if answer.status == 405 {
                return false;
            }
            assert_eq!(answer.status, 502);
            let text = answer.text();
            assert!(text.contains("not sent again"), "{text}");
            true
        });
    }
    assert_eq!(counter(&proxy, "failed"), 2);
    let length = [("Content-Length", "3")];
    let answer = proxy.ask("POST", "/file.bin", &length, b"abc");
    assert_eq!(answer.status, 405);
}

#[test]
fn origins_have_their_places() {
    let (one, data) = dirs(5000);
    let (two, _) = dirs(10);
    std::fs::create_dir(two.www.join("media")).unwrap();
    std::fs::write(two.www.join("media/x.txt"), b"two").unwrap();
    let servers = [Server::start(&one.www, &[]), Server::start(&two.www, &[])];
    let films = format!("films={}", servers[0].url(""));
    let live = format!("/live={}", servers[1].url("media/"));
    let proxy = Proxy::start(&["--no-verify", &films, &live]);
    let host = format!("films.localhost:{}", proxy.port);
    let film = proxy.ask("GET", "/file.bin", &[("Host", &host)], b"");
    assert!(film.body() == data);
    assert_eq!(proxy.get("/live/x.txt").text(), "two");
    assert_eq!(proxy.get("/live/../file.bin").status, 404);
    let moved = proxy.get("/live");
    let there = format!("http://127.0.0.1:{}/live/", proxy.port);
    assert_eq!(
        (moved.status, moved.field("location")),
        (308, Some(there.as_str()))
    );
    let nowhere = proxy.get("/file.bin");
    assert_eq!(nowhere.status, 404);
    assert!(nowhere.text().contains(&format!("http://{host}/")));
}

#[test]
fn what_fails_is_said_with_the_way_out() {
    let (dirs, _) = dirs(10);
    let server = Server::start(&dirs.www, &[]);
    let browser = [("Accept", "text/html,*/*")];

    // Its certificate is nobody's that is known.
    let proxy = Proxy::start(&[&server.url("")]);
    let answer = proxy.ask("GET", "/", &browser, b"");
    assert_eq!(answer.status, 502);
    assert_eq!(
        answer.field("content-type"),
        Some("text/html; charset=utf-8")
    );
    let page = answer.text();
    assert!(
        page.contains("certificate") && page.contains("--pin"),
        "{page}"
    );
    assert_eq!(origin(&proxy, "link"), "unreachable");

    // Nobody answers: this socket takes what comes and says nothing.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let options = [
        "--no-verify",
        "--handshake-timeout",
        "500",
        "--fallback-after",
        "100",
    ];
    let proxy = Proxy::start(&[&options[..], &[&url]].concat());
    let answer = proxy.get("/");
    assert_eq!(answer.status, 504);
    let text = answer.text();
    assert!(text.contains("HTTP/3") && text.contains("TCP"), "{text}");
    let url = "https://no-such-name.invalid";
    let proxy = Proxy::start(&[&options[..], &[url]].concat());
    let answer = proxy.get("/");
    assert_eq!(answer.status, 502);
    assert!(answer
        .text()
        .contains("cannot resolve no-such-name.invalid"));
}

#[test]
fn sigint_lets_responses_end() {
    let (dirs, data) = dirs(8_000_000);
    dirs.add_huge();
    let server = Server::start(&dirs.www, &[]);
    let mut proxy = before(&server, &["--grace", "150"]);
    let mut answer = proxy.get("/file.bin");
    let mut got = answer.take(100_000);
    signal(&proxy.child, "INT");
    until("nobody is let in", || {
        TcpStream::connect(("127.0.0.1", proxy.port)).is_err()
    });
    got.extend(answer.body());
    assert!(got == data);
    assert_eq!(wait(&mut proxy.child), 0);

    // One that reads nothing is waited for no longer than --grace.
    let report = format!("--json={}", dirs.cwd.join("status.json").display());
    let mut proxy = before(&server, &["--grace", "1", &report]);
    let mut answer = proxy.get("/huge");
    answer.take(1000);
    signal(&proxy.child, "INT");
    assert_eq!(wait(&mut proxy.child), 0);
    let report = common::json(&dirs, "status.json");
    assert_eq!(report["requests"]["running"], 1);
}

#[test]
fn addresses_of_others_are_refused() {
    let (dirs, _) = dirs(10);
    for args in [
        ["--listen", "0.0.0.0:0", "https://a.example"],
        ["--listen", "192.0.2.1:0", "https://a.example"],
        ["--listen", "127.0.0.1:0", "http://a.example"],
    ] {
        let output = common::run(&mut dirs.command("proxy", &args));
        assert_eq!(common::code(&output), 1, "{args:?}");
    }
}

/// An origin with TLS over TCP that says which protocol it was asked by, and sends back what it is sent.
fn tcp_origin(protocols: &'static [u8]) -> Origin {
    Origin::start(listener(), protocols, |request| {
        let said = format!("{:?} {:?}", request.version(), request.headers());
        let response = hyper::Response::builder().header("x-asked", said);
        response.body(request.into_body()).unwrap()
    })
}

#[test]
fn where_udp_is_blocked_tcp_serves() {
    for (protocols, name, via) in [
        (b"\x02h2".as_slice(), "HTTP/2", "2.0 mpq"),
        (b"\x08http/1.1".as_slice(), "HTTP/1.1", "1.1 mpq"),
    ] {
        let tcp = tcp_origin(protocols);
        let url = format!("https://localhost:{}", tcp.address.port());
        let to = tcp.address.to_string();
        let proxy = Proxy::start(&[
            "--no-verify",
            "--fallback-after",
            "100",
            "--connect-to",
            &to,
            &url,
        ]);
        // Larger than all buffers: it has to go both ways at once.
        let body: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let fields = [
            ("Transfer-Encoding", "chunked"),
            ("Expect", "100-continue"),
            ("Keep-Alive", "x"),
            ("X-Mine", "kept"),
        ];
        let framed = [
            format!("{:x}\r\n", body.len()).as_bytes(),
            &body,
            b"\r\n0\r\n\r\n",
        ]
        .concat();
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port)).unwrap();
        stream.set_read_timeout(Some(common::LIMIT)).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let head: String = fields
            .iter()
            .map(|(n, v)| format!("{n}: {v}\r\n"))
            .collect();
        let host = format!("Host: localhost:{}\r\nConnection: close\r\n", proxy.port);
        let head = format!("POST /echo HTTP/1.1\r\n{host}{head}\r\n");
        std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
        let mut interim = [0; 25];
        stream.read_exact(&mut interim).unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        let sending = std::thread::spawn(move || {
            std::io::Write::write_all(&mut writer, &framed).unwrap();
        });
        let answer = common::http::Answer::read(stream);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("via"), Some(via));
        let asked = answer.field("x-asked").unwrap();
        assert!(asked.contains("\"x-mine\": \"kept\""), "{asked}");
        assert!(
            !asked.contains("keep-alive") && !asked.contains("expect"),
            "{asked}"
        );
        assert!(answer.body() == body);
        sending.join().unwrap();

        assert_eq!(origin(&proxy, "link"), "fallback");
        assert_eq!(origin(&proxy, "tcp_bytes"), 3_000_000);
        let said = format!("using {name} over TCP");
        assert!(proxy.log().contains(&said), "{}", proxy.log());
        // The second one does not wait for HTTP/3 again.
        assert_eq!(proxy.get("/").status, 200);
    }
}
