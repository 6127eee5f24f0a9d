//! Scenario files: what they come to, and what is said about a bad one.

use std::fs;
use std::path::Path;

use mpq_sim::scenario::Document;

const GOOD: &str = r#"question = "q"
expected = "e"
duration = "10 s"
seeds = [1, 2]
[[link]]
name = "wifi"
rate = "30 Mbit/s"
rtt = "20 ms"
[[link]]
name = "lte"
rate = "20 Mbit/s"
rtt = "50 ms"
[[flow]]
name = "mp"
paths = ["wifi", "lte"]
"#;

fn parse(text: &str) -> Result<Document, String> {
    Document::parse(Path::new("x.toml"), text.to_owned(), &[], None).map_err(|e| e.to_string())
}

/// What is said about [`GOOD`] with `from` replaced by `to`.
fn error_with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    parse(&GOOD.replacen(from, to, 1)).expect_err(to)
}

#[test]
fn errors_name_the_line_and_say_what_to_write() {
    for (from, to, line, hint) in [
        (
            "rtt = \"20 ms\"",
            "rrt = \"20 ms\"",
            8,
            "unknown field `rrt`",
        ),
        ("\"30 Mbit/s\"", "\"30\"", 7, "unit is missing"),
        ("\"30 Mbit/s\"", "30", 7, "unit is missing"),
        ("\"30 Mbit/s\"", "\"0 Mbit/s\"", 7, "at least 1bit"),
        ("\"20 ms\"", "\"-20 ms\"", 8, "expected a number and a unit"),
        ("\"10 s\"", "\"0 s\"", 3, "above 0"),
        ("[1, 2]", "[1, 1]", 4, "each once"),
        ("\"wifi\"\nrate", "\"wi fi\"\nrate", 6, "is no name"),
        ("\"lte\"\n", "\"wifi\"\n", 10, "exists already"),
        (
            "[\"wifi\", \"lte\"]",
            "[\"wifi\", \"5g\"]",
            15,
            "there are wifi, lte",
        ),
        (
            "[\"wifi\", \"lte\"]",
            "[\"wifi\", \"wifi\"]",
            15,
            "a [[path]] each",
        ),
        (
            "\"lte\"]",
            "{ name = \"lte\", backups = true }]",
            15,
            "unknown field `backups`",
        ),
        (
            "\"lte\"]",
            "{ name = \"lte\", stop = \"5\" }]",
            15,
            "unit is missing",
        ),
        (
            "\"lte\"]",
            "\"lte\"]\ncc = \"cubic\"\ncc_trace = true",
            17,
            "quiche's own",
        ),
        ("\"lte\"]", "5]", 15, "a name, or a table such as"),
        (
            "\"wifi\", \"lte\"]",
            "{ name = \"wifi\", start = \"1 s\" }, \"lte\"]",
            15,
            "put another path first",
        ),
        (
            "[\"wifi\", \"lte\"]",
            "[{ name = \"wifi\", backup = true }]",
            15,
            "the only path",
        ),
        (
            "\"lte\"]",
            "{ name = \"lte\", start = \"5 s\", stop = \"4 s\" }]",
            15,
            "stops before it starts",
        ),
        (
            "\"lte\"]",
            "{ name = \"lte\", start = \"10 s\" }]",
            15,
            "after the end of the run, 10 s",
        ),
        (
            "\"wifi\", \"lte\"]",
            "{ name = \"wifi\", stop = \"4 s\" }, { name = \"lte\", stop = \"5 s\" }]",
            15,
            "give the flow a stop",
        ),
        ("rtt = \"20 ms\"\n", "", 5, "needs a delay"),
        (
            "rtt = \"20 ms\"",
            "rtt = \"20 ms\"\naqm = \"fq-codel\"\necn = \"5 ms\"",
            10,
            "use fq-codel-ecn",
        ),
        (
            "rtt = \"20 ms\"",
            "rtt = \"20 ms\"\naqm = \"fq\"",
            9,
            "fq-codel-ecn",
        ),
        (
            "rtt = \"20 ms\"",
            "rtt = \"20 ms\"\ndelay = \"1 ms\"",
            9,
            "keep one",
        ),
        (
            "rtt = \"20 ms\"",
            "rtt = \"20 ms\"\nloss = \"101 %\"",
            9,
            "at most 100%",
        ),
        (
            "rtt = \"20 ms\"",
            "rtt = \"20 ms\"\nreorder = \"1 %\"",
            9,
            "1% by 5ms",
        ),
        (
            "rate = \"30 Mbit/s\"",
            "trace = \"gone.csv\"",
            7,
            "beside the scenario",
        ),
        (
            "paths = [",
            "cc = \"warp\"\npaths = [",
            15,
            "use one of: reno",
        ),
        (
            "paths = [",
            "scheduler = \"warp\"\npaths = [",
            15,
            "use one of: ",
        ),
        (
            "paths = [",
            "size = \"1 MB\"\nrequests = { response = \"1 kB\" }\npaths = [",
            16,
            "exclude each other",
        ),
        (
            "paths = [",
            "start = \"11 s\"\npaths = [",
            15,
            "after the end of the run",
        ),
        (
            "paths = [",
            "dash = { video = [\"3 Mbit/s\", \"1 Mbit/s\"], segment = \"2 s\", length = \"9 s\" }\npaths = [",
            15,
            "the lowest first",
        ),
        (
            "\"lte\"]\n",
            "\"lte\"]\n[flow.dash]\nvideo = [\"1 Mbit/s\"]\nsegment = \"2 s\"\nlength = \"9 s\"\nabr = \"warp\"\n",
            20,
            "use one of: rate, bba0",
        ),
        (
            "\"lte\"]\n",
            "\"lte\"]\n[flow.dash]\nvideo = [\"1 Mbit/s\"]\nsegment = \"2 s\"\nlength = \"9 s\"\nabr = \"mpc:horizon=0\"\n",
            20,
            "horizon=5 (1 to 8)",
        ),
        (
            "\"lte\"]\n",
            "\"lte\"]\n[flow.dash]\nvideo = [\"1 Mbit/s\"]\nsegment = \"2 s\"\nlength = \"9 s\"\nlive = true\nchunk = \"0.3 s\"\n",
            21,
            "segment a multiple of it",
        ),
        (
            "paths = [",
            "direction = \"up\"\ndash = { video = [\"1 Mbit/s\"], segment = \"2 s\", length = \"9 s\" }\npaths = [",
            15,
            "the server sends the segments",
        ),
        (
            "paths = [",
            "size = \"1 MB\"\ndash = { video = [\"1 Mbit/s\"], segment = \"2 s\", length = \"9 s\" }\npaths = [",
            16,
            "size and dash exclude each other",
        ),
        (
            "[[flow]]",
            "[sweep]\n\"flow.mq.cc\" = [\"lia\"]\n[[flow]]",
            14,
            "there is no flow \"mq\"",
        ),
        (
            "[[flow]]",
            "[sweep]\n\"flow.mp.cc\" = [\"lia\", \"warp\"]\n[[flow]]",
            15,
            "in the case cc=warp",
        ),
        (
            "[[flow]]",
            "[[accept]]\nrule = \"total.jain\"\n[[flow]]",
            14,
            "comparison is missing",
        ),
        (
            "[[flow]]",
            "[[window]]\nname = \"w\"\nfrom = \"5 s\"\nto = \"11 s\"\n[[flow]]",
            16,
            "within the duration",
        ),
        (
            "\"lte\"]\n",
            "\"lte\"]\nssthresh = \"20\"\n",
            16,
            "write one like \"20 packets\"",
        ),
        (
            "\"lte\"]\n",
            "\"lte\"]\nssthresh = \"20 packets\"\n",
            16,
            "ssthresh is ssthresh=20 of a controller that has it",
        ),
        (
            "\"lte\"]\n",
            "\"lte\"]\ncc = \"balia\"\nack_packets = \"2 packets\"\n",
            17,
            "balia has no parameter \"ack_packets\"",
        ),
        (
            "\"lte\"]\n",
            "\"lte\"]\ncc = \"lia\"\nack_packets = \"17 packets\"\n",
            17,
            "(1 to 16)",
        ),
        (
            "\"lte\"]\n",
            "\"lte\"]\ncc = \"lia\"\ntimestamps = \"1 ms\"\n",
            17,
            "lia has no parameter \"grain\"",
        ),
        (
            "\"lte\"]\n",
            "\"lte\"]\ndirection = \"up\"\nfirst_request = \"1 s\"\n",
            17,
            "of a client that downloads",
        ),
        ("expected = \"e\"\n", "", 1, "missing field `expected`"),
        ("question = \"q\"", "question = \"q", 1, ""),
    ] {
        let error = error_with(from, to);
        assert!(error.contains(hint), "{to}: {error}");
        assert!(
            error.starts_with(&format!("x.toml:{line}: ")),
            "{to}, line {line}: {error}"
        );
    }
    let missing = Document::load(Path::new("/nonexistent/x.toml"), &[], None).unwrap_err();
    assert!(
        missing.to_string().contains("cannot read the scenario"),
        "{missing}"
    );
}

#[test]
fn a_sweep_and_cases_give_every_combination() {
    let text = format!(
        "{GOOD}[sweep]\n\"flow.mp.cc\" = [\"lia\", \"olia\"]\n\
         \"link.wifi.rate, link.lte.rate\" = [\"5 Mbit/s\"]\n\
         [[case]]\nname = \"near\"\nset = {{ \"link.lte.rtt\" = \"10 ms\" }}\n\
         [[case]]\nname = \"far\"\nset = {{ \"link.lte.delay\" = \"100 ms\" }}\n"
    );
    let document = parse(&text).unwrap();
    let labels: Vec<&str> = document
        .cases
        .iter()
        .map(|case| case.label.as_str())
        .collect();
    assert_eq!(labels.len(), 4);
    assert!(
        labels.iter().all(|label| label.starts_with("case=")),
        "{labels:?}"
    );
    let far = document
        .cases
        .iter()
        .find(|case| case.matches(&"case=far,cc=olia".parse().unwrap()))
        .unwrap();
    let lte = &far.scenario.link[1];
    // The delay took the place of the round-trip time.
    assert_eq!(lte.rtt, None);
    assert_eq!(lte.delay.as_ref().unwrap().to_string(), "100 ms");
    assert_eq!(
        lte.rate.as_ref().unwrap().value.bits_per_second(),
        5_000_000
    );
    assert_eq!(far.scenario.flow[0].cc, "olia");
    assert!(
        far.folder()
            .chars()
            .all(|c| c.is_ascii_graphic() && c != '/'),
        "{}",
        far.folder()
    );
}

#[test]
fn the_command_line_changes_keys_and_seeds() {
    let set = [
        ("flow.mp.cc".to_owned(), "olia".to_owned()),
        ("link.lte.up.loss".into(), "1 %".into()),
    ];
    let document = Document::parse(Path::new("x.toml"), GOOD.into(), &set, Some(&[7])).unwrap();
    let scenario = &document.cases[0].scenario;
    assert_eq!(scenario.flow[0].cc, "olia");
    assert_eq!(scenario.seeds, [7]);
    assert!(scenario.link[1].up.as_ref().unwrap().loss.is_some());
    // The text that is kept says it too.
    let again = parse(&document.text).unwrap();
    assert_eq!(again.cases[0].scenario, *scenario);
    let wrong = [("flow.mq.cc".to_owned(), "olia".to_owned())];
    let error = Document::parse(Path::new("x.toml"), GOOD.into(), &wrong, None).unwrap_err();
    assert!(error.to_string().contains("there is no flow"), "{error}");
}

#[test]
fn the_scenarios_of_the_tree_are_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/scenarios");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ext| ext == "toml") {
            Document::load(&path, &[], None).unwrap_or_else(|e| panic!("{e}"));
            count += 1;
        }
    }
    assert!(count >= 2);
}

#[test]
fn a_scenario_written_out_reads_the_same() {
    let with_tables = GOOD.replace(
        "\"lte\"]",
        "{ name = \"lte\", backup = true, start = \"1 s\", stop = \"9 s\" }]\n\
         dash = { video = [\"1 Mbit/s\"], segment = \"2 s\", length = \"9.5 s\", abr = \"fixed:0\" }",
    );
    for text in [GOOD, &with_tables] {
        let scenario = parse(text).unwrap().scenario;
        let text = toml::to_string_pretty(&scenario).unwrap();
        assert_eq!(parse(&text).unwrap().scenario, scenario);
    }
    let flow = &parse(&with_tables).unwrap().scenario.flow[0];
    assert!(!flow.paths[0].backup && flow.paths[1].backup);
}

#[test]
fn what_ours_add_is_off_where_the_controller_has_it() {
    let controller = |cc: &str, keys: &str| {
        let text = GOOD.replace("[[flow]]\n", &format!("[[flow]]\n{keys}\n"));
        let set = [("flow.mp.cc".to_owned(), cc.to_owned())];
        let document = Document::parse(Path::new("x.toml"), text, &set, None).unwrap();
        document.cases[0].scenario.flow[0].controller()
    };
    for (key, cc, off) in [
        ("re_entry", "lia", "lia:re-entry=off"),
        (
            "re_entry",
            "mcompound:w_low=0",
            "mcompound:w_low=0,re-entry=off",
        ),
        ("re_entry", "lia:re-entry=on", "lia:re-entry=on"),
        ("re_entry", "uncoupled-cubic", "uncoupled-cubic"),
        ("re_entry", "cubic", "cubic"),
        ("re_entry", "dc-ledbat", "dc-ledbat"),
        ("fast_start", "lia", "lia:start=slow,min-window=2"),
        (
            "fast_start",
            "mcompound:w_low=0",
            "mcompound:w_low=0,start=slow,min-window=2",
        ),
        ("fast_start", "lia:start=rho", "lia:start=rho,min-window=2"),
        ("fast_start", "uncoupled-cubic", "uncoupled-cubic"),
        ("fast_start", "dc-ledbat", "dc-ledbat"),
    ] {
        assert_eq!(controller(cc, &format!("{key} = false")), off);
        assert_eq!(controller(cc, &format!("{key} = true")), cc);
        assert_eq!(controller(cc, ""), cc);
    }
    for (cc, keys, expected) in [
        (
            "lia",
            "ssthresh = \"330 packets\"\nack_packets = \"2 packets\"\nre_entry = false",
            "lia:re-entry=off,ssthresh=330,ack_packets=2",
        ),
        (
            "dc-ledbat:ret=10s",
            "timestamps = \"1 ms\"",
            "dc-ledbat:ret=10s,grain=1000us",
        ),
    ] {
        assert_eq!(controller(cc, &format!("cc = \"{cc}\"\n{keys}")), expected);
    }
    let both = "re_entry = false\nfast_start = false";
    assert_eq!(
        controller("lia", both),
        "lia:re-entry=off,start=slow,min-window=2"
    );
}

#[test]
fn the_papers_scenarios_have_nothing_of_ours() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/scenarios/papers");
    let mut off = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ext| ext != "toml") {
            continue;
        }
        let document = Document::load(&path, &[], None).unwrap();
        for flow in document.cases.iter().flat_map(|case| &case.scenario.flow) {
            // Either it says so, or its controller has no such parameter.
            let cc = flow.controller();
            let separator = if cc.contains(':') { ',' } else { ':' };
            for parameter in ["re-entry=off", "start=slow"] {
                let once_more = format!("{cc}{separator}{parameter}");
                let error = quiche::check_cc_algorithm_name(&once_more);
                assert!(error.is_err(), "{}: {cc}", path.display());
            }
            off += u32::from(flow.controller() != flow.cc);
        }
    }
    assert!(off > 20, "{off}");
}
