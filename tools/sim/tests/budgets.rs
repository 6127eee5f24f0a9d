//! Budgets: scenarios of `experiments/scenarios/beyond`, `experiments/scenarios/schedulers` and two beside these,
//! whose rules a change of a scheduler, a controller or the transport must not break.
//!
//! The runs are deterministic, so the budgets are tight: about 1 % above what was measured. A rule with `paper` is a
//! goal or a published figure and no budget.

use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread;

use mpq_sim::campaign::Campaign;
use mpq_sim::results::Folder;
use mpq_sim::results::Origin;
use mpq_sim::scenario::Document;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../experiments/scenarios")
        .join(name)
}

/// Runs the scenarios of `beyond` whose names begin like this, and panics with the budgets that were missed.
fn hold(prefix: &str) {
    hold_in("beyond", prefix);
}

fn hold_in(of: &str, prefix: &str) {
    hold_those(of, prefix, |_| true);
}

fn hold_those(of: &str, prefix: &str, wanted: impl Fn(&str) -> bool) {
    let mut names: Vec<String> = std::fs::read_dir(folder(of))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(prefix) && name.ends_with(".toml") && wanted(name))
        .collect();
    names.sort();
    let mut missed = Vec::new();
    let mut budgets = 0;
    for name in &names {
        let document = Document::load(&folder(of).join(name), &[], None).unwrap();
        let out = tempfile::tempdir().unwrap();
        let origin = Origin::new(vec!["test".into()]);
        let results = Folder::open(&out.path().join("out"), &document, &origin).unwrap();
        let summary = Campaign {
            document: &document,
            folder: &results,
            origin: &origin,
            jobs: thread::available_parallelism().map_or(1, |n| n.get()),
            qlog: false,
            stop: &AtomicBool::new(false),
        }
        .run(&mut |_| ())
        .unwrap()
        .summary;
        for run in summary.runs.iter().filter(|run| run.reason.is_some()) {
            missed.push(format!("{name}, {}: {:?}", run.case, run.reason));
        }
        let rules = summary.acceptance.iter();
        for rule in rules.filter(|rule| rule.paper.is_none()) {
            budgets += 1;
            if !rule.holds {
                let values: Vec<String> = rule.values.iter().map(|v| format!("{v:.4}")).collect();
                let what = rule.problem.clone().unwrap_or_else(|| values.join(", "));
                missed.push(format!("{name}, {}: {} is {what}", rule.case, rule.rule));
            }
        }
    }
    assert!(budgets > 0, "no budget in the scenarios {prefix}*.toml");
    assert!(
        missed.is_empty(),
        "{} of {budgets} budgets are missed:\n  {}\n\
         See one with `mpq sim experiments/scenarios/{of}/NAME`, and another state's with the same command there. If the \
         change is meant to cost this, the budget in the scenario moves with it, in the same commit.",
        missed.len(),
        missed.join("\n  ")
    );
}

#[test]
#[ignore = "takes long; quiche's multipath::tests::ack_ways are run"]
fn controllers_by_delay_with_acknowledgments_by_the_quicker_way() {
    hold_in(".", "sim-detours-");
}

#[test]
fn completion_times_on_picoquics_links() {
    hold("picoquic-");
}

#[test]
fn completion_times_of_the_kernels_self_test() {
    hold("mptcp-");
}

#[test]
fn unlucky_starts() {
    hold("unlucky-");
}

#[test]
fn any_single_loss_in_a_first_window() {
    hold_in(".", "sim-unlucky-start");
}

#[test]
fn starts_alone() {
    hold("start-alone");
}

#[test]
#[ignore = "takes long; start-alone is run"]
fn starts_beside_others() {
    hold("start-beside");
}

/// Delays of paths that probe together move together wherever their queues are.
#[test]
fn a_group_parts_where_its_bottleneck_has_moved() {
    hold_in("sbd", "moves");
}

#[test]
fn a_group_alone() {
    hold_in("sbd", "alone");
}

#[test]
fn idle_paths_are_not_taken_for_slow_ones() {
    hold_in("sbd", "idle");
}

#[test]
fn benefits_at_points_of_the_grid() {
    hold("grid-");
}

/// Those of `schedulers` that take minutes.
const LONG: [&str; 3] = ["outages.toml", "outages-unlike.toml", "pauses.toml"];

#[test]
fn what_each_scheduler_is_for() {
    hold_those("schedulers", "", |name| !LONG.contains(&name));
}

#[test]
#[ignore = "takes long; schedulers/outages-brief.toml is run"]
fn outages_and_pauses() {
    hold_those("schedulers", "", |name| LONG.contains(&name));
}
