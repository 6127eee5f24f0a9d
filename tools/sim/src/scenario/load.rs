//! From a file to a list of runs: lines for errors, sweeps, cases, seeds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::check;
use super::Scenario;
use crate::accept::Selection;

/// A scenario that cannot be used: file, line, and what to write.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct ScenarioError {
    /// The file as it was named.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// What is wrong and what to do about it.
    pub message: String,
}

/// A place in a document: keys, and positions in arrays as numbers.
pub(super) type KeyPath = Vec<String>;

/// A scenario file, read and checked.
#[derive(Clone, Debug)]
pub struct Document {
    /// The scenario as written.
    pub scenario: Scenario,
    /// Its cases, in the order of the file.
    pub cases: Vec<Case>,
    /// The file's name without `.toml`.
    pub name: String,
    /// The folder that traces are relative to.
    pub folder: PathBuf,
    /// The text, with the changes of the command line.
    pub text: String,
}

/// One combination of what varies.
#[derive(Clone, Debug)]
pub struct Case {
    /// `cc=lia,rate=10 Mbit/s`; `base` where nothing varies.
    pub label: String,
    /// Name of the `[[case]]`.
    pub name: Option<String>,
    /// What it sets, by full keys.
    pub set: BTreeMap<String, toml::Value>,
    /// The scenario with this worked in.
    pub scenario: Scenario,
}

impl Case {
    /// Whether the case has all values of `selection`.
    pub fn matches(&self, selection: &Selection) -> bool {
        selection
            .0
            .iter()
            .all(|(key, value)| self.value_of(key).as_deref() == Some(value))
    }

    /// The value that the case sets for `key`, which may be the last part of one.
    pub fn value_of(&self, key: &str) -> Option<String> {
        if key == "case" {
            return self.name.clone();
        }
        self.set
            .iter()
            .find(|(full, _)| full.as_str() == key || full.rsplit('.').next() == Some(key))
            .map(|(_, value)| plain(value))
    }

    /// A scenario of nothing but one run of the case, as TOML. What is judged over all runs is no part of it.
    pub fn text_of_run(&self, seed: u64) -> String {
        let mut scenario = self.scenario.clone();
        scenario.seeds = vec![seed];
        scenario.accept.clear();
        toml::to_string_pretty(&scenario).expect("a scenario is TOML")
    }

    /// Its label as the name of a folder.
    pub fn folder(&self) -> String {
        let belongs = |c: char| c.is_ascii_alphanumeric() || "=._-,".contains(c);
        self.label
            .chars()
            .map(|c| if belongs(c) { c } else { '_' })
            .collect()
    }
}

impl Document {
    /// Reads and checks the file. `set` changes keys (as sweeps name them), `seeds` replaces the
    /// file's own.
    pub fn load(
        path: &Path,
        set: &[(String, String)],
        seeds: Option<&[u64]>,
    ) -> Result<Document, ScenarioError> {
        let text = fs::read_to_string(path).map_err(|e| ScenarioError {
            file: path.display().to_string(),
            line: 1,
            message: format!("cannot read the scenario: {e}"),
        })?;
        Document::parse(path, text, set, seeds)
    }

    /// The network and the flows of the file, without what varies, what is judged and what ends a run
    /// early: one case, with `set` worked in. `flow.NAME.paths.PATH.KEY` sets a key of one of a flow's
    /// paths.
    pub fn plain(path: &Path, set: &[(String, String)]) -> Result<Document, ScenarioError> {
        let error = |message: String| ScenarioError {
            file: path.display().to_string(),
            line: 1,
            message,
        };
        let text = fs::read_to_string(path)
            .map_err(|e| error(format!("cannot read the scenario: {e}")))?;
        let mut table: toml::Table =
            toml::from_str(&text).map_err(|e| error(e.message().to_owned()))?;
        for key in ["sweep", "case", "accept", "window"] {
            table.remove(key);
        }
        for (key, value) in set {
            match key.split_once(".paths.").zip(key.strip_prefix("flow.")) {
                Some(((flow, rest), _)) => assign_to_path(&mut table, flow, rest, literal(value)),
                None => assign(&mut table, key, literal(value)),
            }
            .map_err(error)?;
        }
        let text = toml::to_string_pretty(&table).expect("a table is TOML");
        Document::parse(path, text, &[], None)
    }

    /// The same for a text that is already there; `path` says what it is called.
    pub fn parse(
        path: &Path,
        text: String,
        set: &[(String, String)],
        seeds: Option<&[u64]>,
    ) -> Result<Document, ScenarioError> {
        let error_at = |offset: usize, message: String| ScenarioError {
            file: path.display().to_string(),
            line: 1 + text[..offset.min(text.len())].matches('\n').count(),
            message,
        };
        let from_toml = |e: toml::de::Error| {
            error_at(e.span().map_or(0, |span| span.start), e.message().into())
        };
        toml::from_str::<Scenario>(&text).map_err(from_toml)?;
        let mut table: toml::Table = toml::from_str(&text).map_err(from_toml)?;
        let tree = toml_edit::Document::parse(text.as_str()).ok();
        let at = |keys: &KeyPath| tree.as_ref().map_or(0, |tree| offset_of(tree, keys));

        for (key, value) in set {
            assign(&mut table, key, literal(value)).map_err(|e| error_at(0, e))?;
        }
        if let Some(seeds) = seeds {
            let seeds = seeds.iter().map(|s| toml::Value::Integer(*s as i64));
            table.insert("seeds".into(), toml::Value::Array(seeds.collect()));
        }
        let read = |table: &toml::Table| Scenario::deserialize_table(table);
        let scenario = read(&table).map_err(|e| error_at(0, e))?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();

        let mut cases: Vec<Case> = Vec::new();
        for (name, varied) in combinations(&scenario) {
            let mut changed = table.clone();
            for key in ["sweep", "case"] {
                changed.remove(key);
            }
            let mut set = BTreeMap::new();
            for (keys, value, place) in &varied {
                for key in keys.split(',').map(str::trim) {
                    assign(&mut changed, key, value.clone()).map_err(|e| error_at(at(place), e))?;
                    set.insert(key.to_owned(), value.clone());
                }
            }
            let label = label(name.as_deref(), &set);
            let in_case = |e: String| match label.as_str() {
                "base" => e,
                label => format!("in the case {label}: {e}"),
            };
            let place = varied.first().map_or(vec![], |(_, _, place)| place.clone());
            let scenario = read(&changed).map_err(|e| error_at(at(&place), in_case(e)))?;
            check::check(&scenario, &folder)
                .map_err(|(keys, e)| error_at(at(&keys), in_case(e)))?;
            if cases.iter().any(|case| case.label == label) {
                return Err(error_at(
                    at(&place),
                    format!("the case {label} is there twice"),
                ));
            }
            cases.push(Case {
                label,
                name,
                set,
                scenario,
            });
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = match set.is_empty() && seeds.is_none() {
            true => text,
            false => toml::to_string_pretty(&table).expect("a table is TOML"),
        };
        Ok(Document {
            scenario,
            cases,
            name: stem.into_owned(),
            folder,
            text,
        })
    }
}

impl Scenario {
    fn deserialize_table(table: &toml::Table) -> Result<Scenario, String> {
        serde::Deserialize::deserialize(toml::Value::Table(table.clone()))
            .map_err(|e: toml::de::Error| e.message().to_owned())
    }
}

type Varied = Vec<(String, toml::Value, KeyPath)>;

/// Every `[[case]]` with every combination of the sweep.
fn combinations(scenario: &Scenario) -> Vec<(Option<String>, Varied)> {
    let mut all: Vec<(Option<String>, Varied)> = match scenario.case.as_slice() {
        [] => vec![(None, vec![])],
        cases => (0..)
            .zip(cases)
            .map(|(i, case): (usize, _)| {
                let place = vec!["case".to_owned(), i.to_string()];
                let set = case.set.iter();
                let set = set.map(|(k, v)| (k.clone(), v.clone(), place.clone()));
                (Some(case.name.clone()), set.collect())
            })
            .collect(),
    };
    for (keys, values) in &scenario.sweep {
        let place = vec!["sweep".to_owned(), keys.clone()];
        all = all
            .into_iter()
            .flat_map(|(name, varied)| {
                let place = place.clone();
                values.iter().map(move |value| {
                    let mut varied = varied.clone();
                    varied.push((keys.clone(), value.clone(), place.clone()));
                    (name.clone(), varied)
                })
            })
            .collect();
    }
    all
}

/// `case=NAME,cc=lia`: last parts of keys where they are unambiguous.
fn label(name: Option<&str>, set: &BTreeMap<String, toml::Value>) -> String {
    if let Some(name) = name {
        // What a named case sets has a name already; what the sweep adds is said too.
        let mut label = format!("case={name}");
        for (key, value) in short(set) {
            label += &format!(",{key}={value}");
        }
        return label;
    }
    let pairs: Vec<String> = short(set).map(|(k, v)| format!("{k}={v}")).collect();
    match pairs.is_empty() {
        true => "base".into(),
        false => pairs.join(","),
    }
}

fn short(set: &BTreeMap<String, toml::Value>) -> impl Iterator<Item = (String, String)> + '_ {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let mut told: Vec<(String, String)> = Vec::new();
    for (key, value) in set {
        let pair = (last(key), plain(value));
        let is_ambiguous = set
            .iter()
            .any(|(k, v)| last(k) == pair.0 && plain(v) != pair.1);
        let pair = if is_ambiguous {
            (key.clone(), pair.1)
        } else {
            pair
        };
        if !told.contains(&pair) {
            told.push(pair);
        }
    }
    told.into_iter()
}

/// A value as people write it: strings without quotes.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value of the command line: TOML if it is some, else a string.
fn literal(text: &str) -> toml::Value {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

/// Sets `flow.NAME.KEY`, `link.NAME.KEY`, `path.NAME.KEY`, `window.NAME.KEY` or a key of the top.
fn assign(table: &mut toml::Table, key: &str, value: toml::Value) -> Result<(), String> {
    const HINT: &str = "write flow.NAME.KEY, link.NAME.KEY, path.NAME.KEY or a key of the top";
    let mut parts = key.split('.');
    let first = parts.next().unwrap_or_default();
    let mut at = match first {
        "flow" | "link" | "path" | "window" => {
            let name = parts.next().ok_or_else(|| format!("\"{key}\": {HINT}"))?;
            table
                .get_mut(first)
                .and_then(toml::Value::as_array_mut)
                .into_iter()
                .flatten()
                .filter_map(toml::Value::as_table_mut)
                .find(|it| it.get("name").and_then(toml::Value::as_str) == Some(name))
                .ok_or_else(|| format!("\"{key}\": there is no {first} \"{name}\""))?
        }
        "sweep" | "case" | "accept" => return Err(format!("\"{key}\" cannot vary: {HINT}")),
        _ => {
            parts = key.split('.');
            table
        }
    };
    let rest: Vec<&str> = parts.collect();
    let Some((last, inner)) = rest.split_last() else {
        return Err(format!("\"{key}\": {HINT}"));
    };
    for part in inner {
        at = at
            .entry(*part)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .ok_or_else(|| format!("\"{key}\": \"{part}\" is no table"))?;
    }
    at.insert((*last).to_owned(), value);
    // One replaces the other.
    for (a, b) in [("rate", "trace"), ("rtt", "delay")] {
        for (new, old) in [(a, b), (b, a)] {
            if *last == new {
                at.remove(old);
            }
        }
    }
    Ok(())
}

/// Sets a key of one of a flow's paths, which becomes a table if it is a name.
fn assign_to_path(
    table: &mut toml::Table,
    flow: &str,
    rest: &str,
    value: toml::Value,
) -> Result<(), String> {
    let nothing = || format!("\"{flow}.paths.{rest}\": there is no such path");
    let (name, key) = rest.split_once('.').ok_or_else(nothing)?;
    let flow = flow.strip_prefix("flow.").ok_or_else(nothing)?;
    let is_called = |it: &toml::Value, name: &str| match it {
        toml::Value::String(text) => text == name,
        other => other.get("name").and_then(toml::Value::as_str) == Some(name),
    };
    let flows = table.get_mut("flow").and_then(toml::Value::as_array_mut);
    let flow = flows.into_iter().flatten().find(|it| is_called(it, flow));
    let paths = flow.and_then(|flow| flow.get_mut("paths")?.as_array_mut());
    let path = paths.into_iter().flatten().find(|it| is_called(it, name));
    let path = path.ok_or_else(nothing)?;
    if path.is_str() {
        let mut named = toml::Table::new();
        named.insert("name".into(), toml::Value::String(name.to_owned()));
        *path = toml::Value::Table(named);
    }
    let path = path.as_table_mut().ok_or_else(nothing)?;
    path.insert(key.to_owned(), value);
    Ok(())
}

/// Where a place in the document begins: that of the nearest thing that is there.
fn offset_of(tree: &toml_edit::Document<&str>, keys: &KeyPath) -> usize {
    let mut item = tree.as_item();
    let mut offset = 0;
    for key in keys {
        let key_span = item
            .as_table_like()
            .and_then(|table| table.get_key_value(key))
            .and_then(|(key, _)| key.span());
        let next = match key.parse::<usize>() {
            Ok(index) if item.as_table_like().is_none() => item.get(index),
            _ => item.get(key.as_str()),
        };
        let Some(next) = next else { break };
        if let Some(span) = key_span.or(next.span()) {
            offset = span.start;
        }
        item = next;
    }
    offset
}
