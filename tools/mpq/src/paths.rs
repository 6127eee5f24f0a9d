//! `mpq paths`: the policies that decide which paths are opened, and what this host offers them.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use mpq_decision::params::Param;
use mpq_decision::paths::Entry;
use mpq_decision::paths::LocalAddr;
use mpq_decision::paths::POLICIES;
use mpq_decision::paths::RULES;
use mpq_driver::facts::Facts;
use mpq_driver::facts::Selection;
use serde::Serialize;

use crate::algorithms::markdown::code;
use crate::algorithms::markdown::table;
use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::report::write_json;

/// List path policies, and the addresses that paths can be opened from here
///
/// What is listed can be given to --paths of `mpq get` and `mpq play`, and to path_policy in
/// scenarios.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mpq paths
  mpq paths --to 192.0.2.1:443
  mpq get --paths backup https://example.com/a
  mpq get --paths full-mesh:metered=use,max=3 --metered wwan0 https://example.com/a")]
pub struct Args {
    /// Show which interface the system sends to this server by
    #[arg(long, value_name = "ADDR:PORT")]
    to: Option<SocketAddr>,

    /// Write JSON to FILE [default: standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "-")]
    json: Option<PathBuf>,

    /// Print a table of docs/paths.md
    #[arg(long, value_name = "PART", conflicts_with_all = ["to", "json"], hide = true)]
    markdown: Option<Part>,
}

/// What can be printed as a table.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Part {
    Policies,
    Rules,
    Parameters,
}

#[derive(Serialize)]
struct Listing {
    policies: Vec<Named>,
    rules: Vec<Rule>,
    addresses: Vec<Address>,
}

#[derive(Serialize)]
struct Named {
    name: &'static str,
    summary: &'static str,
    /// Of this policy alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<Rule>,
}

#[derive(Serialize)]
struct Rule {
    name: &'static str,
    default: String,
    range: String,
    about: &'static str,
}

#[derive(Serialize)]
struct Address {
    interface: String,
    address: String,
    up: bool,
    /// Of the default route; nothing without one.
    metric: Option<u32>,
    tunnel: bool,
    metered: bool,
    strict_rp_filter: bool,
    /// The system sends to the server by this interface.
    is_route: bool,
}

/// Runs `mpq paths`.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(part) = args.markdown {
        print!("{}", markdown(part));
        return Ok(());
    }
    let facts = Facts::new(Selection::default(), Instant::now())
        .map_err(|e| Failure::new(LOCAL, format!("cannot list the addresses: {e}")))?;
    let route = args.to.and_then(|to| facts.interface_to(to));
    let policies = POLICIES.iter().map(|entry| Named {
        name: entry.name,
        summary: entry.summary,
        parameters: own_params(entry).iter().map(rule).collect(),
    });
    let rules = RULES.iter().map(rule);
    let address = |fact: &LocalAddr| Address {
        interface: fact.interface.clone(),
        address: fact.local.ip.to_string(),
        up: fact.up,
        metric: fact.metric,
        tunnel: fact.tunnel,
        metered: fact.metered,
        strict_rp_filter: fact.strict_rp_filter,
        is_route: route == Some(fact.local.if_index),
    };
    let listing = Listing {
        policies: policies.collect(),
        rules: rules.collect(),
        addresses: facts.addresses().iter().map(address).collect(),
    };
    match &args.json {
        Some(file) => write_json(file, &listing),
        None => {
            print!("{}", page(&listing));
            Ok(())
        }
    }
}

/// What a policy has besides the rules of all.
fn own_params(entry: &Entry) -> &'static [Param] {
    &entry.params[RULES.len()..]
}

fn rule(param: &Param) -> Rule {
    Rule {
        name: param.name,
        default: param.default_text(),
        range: param.range_text(),
        about: param.about,
    }
}

fn markdown(part: Part) -> String {
    match part {
        Part::Policies => {
            let row = |entry: &Entry| vec![code(entry.name), entry.summary.into()];
            table(&["policy", "what it does"], POLICIES.iter().map(row))
        }
        // Those who share parameters differ in defaults.
        Part::Parameters => {
            let with: Vec<_> = POLICIES
                .iter()
                .filter(|e| !own_params(e).is_empty())
                .collect();
            let first = with.first().map_or(&[][..], |entry| own_params(entry));
            let rows = first.iter().enumerate().map(|(i, param)| {
                let of = |entry: &&&Entry| code(&own_params(entry)[i].default_text());
                let mut row = vec![code(param.name)];
                row.extend(with.iter().map(|entry| of(&entry)));
                row.extend([param.range_text(), param.about.to_owned()]);
                row
            });
            let mut head = vec!["parameter"];
            head.extend(with.iter().map(|entry| entry.name));
            head.extend(["range", "what it is"]);
            table(&head, rows)
        }
        Part::Rules => table(
            &["rule", "range", "what it is"],
            RULES.iter().map(|param| {
                vec![
                    code(&format!("{}={}", param.name, param.default_text())),
                    param.range_text(),
                    param.about.to_owned(),
                ]
            }),
        ),
    }
}

fn page(listing: &Listing) -> String {
    let mut page = String::from("Policies (--paths NAME):\n");
    for policy in &listing.policies {
        let _ = writeln!(page, "  {:<15} {}", policy.name, policy.summary);
    }
    let list = |page: &mut String, rules: &[Rule]| {
        for rule in rules {
            let value = format!("{}={} ({})", rule.name, rule.default, rule.range);
            let _ = writeln!(page, "  {value:<30} {}", rule.about);
        }
    };
    page += "\nRules of all of them (--paths NAME:KEY=VALUE,...):\n";
    list(&mut page, &listing.rules);
    for policy in listing.policies.iter().filter(|p| !p.parameters.is_empty()) {
        let _ = writeln!(page, "\nBesides, of {}:", policy.name);
        list(&mut page, &policy.parameters);
    }
    page += "\nAddresses here:\n";
    for address in &listing.addresses {
        let metric = address
            .metric
            .map(|metric| format!("default route with metric {metric}"));
        let notes = [
            (!address.up).then(|| "down".to_owned()),
            metric.or_else(|| Some("no default route".into())),
            address.is_route.then(|| "the system's way".to_owned()),
            address.tunnel.then(|| "tunnel".to_owned()),
            address.metered.then(|| "metered".to_owned()),
            address.strict_rp_filter.then(|| "rp_filter=1".to_owned()),
        ];
        let notes: Vec<_> = notes.into_iter().flatten().collect();
        let _ = writeln!(
            page,
            "  {:<15} {:<22} {}",
            address.interface,
            address.address,
            notes.join(", ")
        );
    }
    if listing.addresses.is_empty() {
        page += "  none that leads to a network\n";
    }
    page
}
