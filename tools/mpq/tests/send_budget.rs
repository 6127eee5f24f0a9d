//! `mpq serve --send-budget`: many clients that read slowly.

mod common;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

use common::dirs;
use common::signal;
use common::Server;
use common::LIMIT;
use mpq_driver::h3::client::Client;
use mpq_driver::h3::client::ClientSettings;
use mpq_driver::h3::client::Request;
use mpq_driver::h3::client::RequestError;
use mpq_driver::h3::client::ResponseHead;
use mpq_driver::h3::client::ResponseSink;
use mpq_driver::h3::client::Verify;
use mpq_driver::TransportSettings;

const BUDGET: usize = 1 << 20;
const READERS: usize = 16;
const FILE: usize = 1_500_000;
/// What a client takes before it is the next one's turn.
const TURN: usize = 50_000;

#[derive(Default)]
struct Outcome {
    body: Vec<u8>,
    result: Option<Result<(), RequestError>>,
}

struct Collect(Rc<RefCell<Outcome>>);

impl ResponseSink for Collect {
    fn on_head(&mut self, head: &ResponseHead) -> ControlFlow<()> {
        assert_eq!(head.status, 200);
        ControlFlow::Continue(())
    }

    fn on_body(&mut self, chunk: &[u8]) -> ControlFlow<()> {
        self.0.borrow_mut().body.extend(chunk);
        ControlFlow::Continue(())
    }

    fn on_end(&mut self, result: Result<(), RequestError>) {
        self.0.borrow_mut().result = Some(result);
    }
}

/// Reads when it is polled, and acknowledges nothing in between.
fn reader(server: &Server) -> (Client, Rc<RefCell<Outcome>>) {
    let transport = TransportSettings {
        idle_timeout: 10 * LIMIT,
        handshake_timeout: LIMIT,
        ..Default::default()
    };
    let mut client = Client::new(ClientSettings {
        transport,
        verify: Verify::None,
        ..Default::default()
    })
    .unwrap();
    let address = ([127, 0, 0, 1], server.port).into();
    let key = client.connect("localhost", address, None).unwrap();
    let outcome = Rc::new(RefCell::new(Outcome::default()));
    let request = Request {
        method: "GET".into(),
        authority: "localhost".into(),
        path: "/file.bin".into(),
        headers: Vec::new(),
    };
    client.request(key, request, Box::new(Collect(outcome.clone())));
    (client, outcome)
}

#[test]
fn slow_readers_stay_within_the_budget_and_all_come_to_the_end() {
    let (dirs, data) = dirs(FILE);
    let size = BUDGET.to_string();
    let idle_ms = (10 * LIMIT).as_millis().to_string();
    let server = Server::start(
        &dirs.www,
        &["--send-budget", &size, "--idle-timeout", &idle_ms],
    );
    let mut readers: Vec<_> = (0..READERS).map(|_| reader(&server)).collect();
    for turn in 1..=FILE.div_ceil(TURN) {
        for (n, (client, outcome)) in readers.iter_mut().enumerate() {
            let end = Instant::now() + LIMIT;
            while outcome.borrow().result.is_none() && outcome.borrow().body.len() < turn * TURN {
                assert!(Instant::now() < end, "client {n} is stuck in turn {turn}");
                client.poll(Some(Duration::from_millis(50))).unwrap();
            }
        }
    }
    for (client, outcome) in &mut readers {
        let end = Instant::now() + LIMIT;
        while outcome.borrow().result.is_none() {
            assert!(Instant::now() < end, "no end");
            client.poll(Some(Duration::from_millis(50))).unwrap();
        }
        let outcome = outcome.borrow();
        assert!(
            matches!(outcome.result, Some(Ok(()))),
            "{:?}",
            outcome.result
        );
        assert!(outcome.body == data);
        client.close().unwrap();
    }
    signal(&server.child, "TERM");
    let (code, log) = server.wait();
    assert_eq!(code, 0, "{log}");
    let said = log.lines().find_map(|line| {
        let held = line.strip_prefix("held ")?;
        held.strip_suffix(&format!(" of {BUDGET} bytes at most"))
    });
    let held: usize = said.expect(&log).parse().unwrap();
    // It was needed, and kept.
    assert!((BUDGET / 3..=BUDGET).contains(&held), "{held}");
}
