//! `quiche-patches/README.md`: the series told to a maintainer of quiche, and the text of each pull
//! request in `quiche-patches/upstream/`. Neither may drift from the patches.

use std::collections::BTreeSet;
use std::path::Path;

/// What the check needs to know of a patch.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    pub file: &'a str,
    pub subject: String,
    pub status: String,
}

impl Entry<'_> {
    /// Whether the patch is to be sent as it is, with nothing else of ours.
    fn stands_alone(&self) -> bool {
        self.status == "Pending"
    }

    fn text(&self) -> String {
        format!("{}.md", self.file.trim_end_matches(".patch"))
    }
}

/// What is wrong with the text of the README: each patch has one line, `- [subject](file): ...`, in the
/// order of the series.
pub fn complaints(text: &str, patches: &[Entry]) -> Vec<String> {
    let mut complaints = Vec::new();
    let told: Vec<(&str, &str)> = text.lines().filter_map(link).collect();

    for patch in patches {
        match told.iter().filter(|(_, file)| *file == patch.file).count() {
            0 => complaints.push(format!("README.md has no line for {}", patch.file)),
            1 => {}
            n => complaints.push(format!("README.md has {n} lines for {}", patch.file)),
        }
    }

    for (subject, file) in &told {
        match patches.iter().find(|p| p.file == *file) {
            Some(patch) if patch.subject == *subject => {}
            Some(patch) => complaints.push(format!(
                "README.md: the subject of {file} is `{}`, not `{subject}`",
                patch.subject
            )),
            None => complaints.push(format!("README.md: the series has no {file}")),
        }
    }

    let order = patches.iter().map(|p| p.file);

    if complaints.is_empty() && !order.eq(told.iter().map(|(_, file)| *file)) {
        complaints.push("README.md: the patches are not in the order of the series".into());
    }

    complaints
}

/// What is wrong with the pull requests in `dir`: each patch that stands alone has one, with the patch's
/// subject for a title, and nothing else is there.
pub fn upstream_complaints(dir: &Path, patches: &[Entry]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut there: BTreeSet<String> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();

    for patch in patches.iter().filter(|p| p.stands_alone()) {
        let name = patch.text();

        if !there.remove(&name) {
            complaints.push(format!("upstream/{name} is missing"));
            continue;
        }

        let text = std::fs::read_to_string(dir.join(&name)).unwrap_or_default();
        let title = text.lines().next().unwrap_or_default();

        if title != format!("# {}", patch.subject) {
            complaints.push(format!(
                "upstream/{name}: the title is not `# {}`",
                patch.subject
            ));
        }
    }

    complaints.extend(
        there.iter().map(|name| {
            format!("upstream/{name}: no patch that is to be sent alone has that name")
        }),
    );
    complaints
}

/// Subject and file of a line `- [subject](name.patch): ...`.
fn link(line: &str) -> Option<(&str, &str)> {
    let (subject, rest) = line.strip_prefix("- [")?.split_once("](")?;
    let (file, _) = rest.split_once(')')?;

    file.ends_with(".patch").then_some((subject, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patches() -> Vec<Entry<'static>> {
        [("a.patch", "a: b"), ("c.patch", "c: d [1]")]
            .map(|(file, subject)| Entry {
                file,
                subject: subject.into(),
                status: "Pending".into(),
            })
            .to_vec()
    }

    #[test]
    fn one_line_for_each_patch() {
        let good = "# T\n\n- [a: b](a.patch): x\n- [other](x.md)\n- [c: d [1]](c.patch): y\n";
        assert_eq!(complaints(good, &patches()), Vec::<String>::new());

        for (from, to, what) in [
            ("- [a: b](a.patch): x\n", "", "no line for a.patch"),
            ("[other](x.md)", "[a: b](a.patch)", "2 lines for a.patch"),
            ("[other](x.md)", "[e](e.patch)", "has no e.patch"),
            ("a: b", "a: x", "is `a: b`, not `a: x`"),
        ] {
            let all = complaints(&good.replacen(from, to, 1), &patches()).join("\n");
            assert!(all.contains(what), "{all}");
        }

        let swapped = "- [c: d [1]](c.patch)\n- [a: b](a.patch)\n";
        assert!(complaints(swapped, &patches())[0].contains("order"));
    }
}
