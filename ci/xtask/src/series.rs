//! The file `series`: the order of the patches, with comments that head groups of them.

use std::collections::HashMap;
use std::collections::HashSet;

use anyhow::bail;
use anyhow::Result;

/// How a line begins that names a place where the series can be cut: what is above needs nothing below.
const CUT: &str = "# cut: ";

/// Lines of comment, and the patches under them up to the next comment.
#[derive(Clone, Debug, Default)]
struct Group {
    heading: Vec<String>,
    patches: Vec<String>,
}

/// Contents of `series`.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Comments at the top that belong to the whole file: everything up to the
    /// last blank line before the first patch.
    preamble: Vec<String>,
    groups: Vec<Group>,
    /// Comments after the last patch.
    trailer: Vec<String>,
}

impl Series {
    /// Parses the text of `series`; names are checked for form and duplicates.
    pub fn parse(text: &str) -> Result<Series> {
        let mut series = Series::default();
        let mut comments: Vec<String> = Vec::new();
        let mut seen = HashSet::new();

        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();

            if line.is_empty() || line.starts_with('#') {
                comments.push(line.to_string());
                continue;
            }

            if !is_patch_name(line) {
                bail!(
                    "series line {}: `{line}` is not a patch name \
                     (lower-case letters, digits, `-`, `.`; ending in .patch)",
                    number + 1
                );
            }

            if !seen.insert(line.to_string()) {
                bail!("series line {}: {line} is listed twice", number + 1);
            }

            if series.groups.is_empty() {
                // All of it when nothing but comments precede, so that the
                // first group's heading is what follows the last blank line.
                let split = comments
                    .iter()
                    .rposition(String::is_empty)
                    .map_or(0, |i| i + 1);
                let heading = comments.split_off(split);
                series.preamble = std::mem::take(&mut comments);
                comments = heading;
            }

            if series.groups.is_empty() || !comments.is_empty() {
                series.groups.push(Group {
                    heading: std::mem::take(&mut comments),
                    patches: Vec::new(),
                });
            }

            if let Some(group) = series.groups.last_mut() {
                group.patches.push(line.to_string());
            }
        }

        if series.groups.is_empty() {
            series.preamble = comments;
        } else {
            series.trailer = comments;
        }

        Ok(series)
    }

    /// The patches in order.
    pub fn patches(&self) -> impl Iterator<Item = &str> {
        self.groups
            .iter()
            .flat_map(|g| g.patches.iter().map(String::as_str))
    }

    /// The names of the lines `# cut: NAME`, each with the number of patches above it.
    pub fn cuts(&self) -> Vec<(&str, usize)> {
        let mut cuts = Vec::new();
        let mut above = 0;

        for group in &self.groups {
            let names = group.heading.iter().filter_map(|l| l.strip_prefix(CUT));
            cuts.extend(names.map(|name| (name.trim(), above)));
            above += group.patches.len();
        }

        let names = self.trailer.iter().filter_map(|l| l.strip_prefix(CUT));
        cuts.extend(names.map(|name| (name.trim(), above)));
        cuts
    }

    /// The text of a series of `names`, with this one's comments. A heading
    /// stays while one of its patches does; a new patch joins the group of the
    /// patch before it.
    pub fn rewrite(&self, names: &[String]) -> String {
        let group_of: HashMap<&str, usize> = self
            .groups
            .iter()
            .enumerate()
            .flat_map(|(i, g)| g.patches.iter().map(move |p| (p.as_str(), i)))
            .collect();

        let mut lines = self.preamble.clone();
        let mut written = HashSet::new();

        for name in names {
            if let Some(&i) = group_of.get(name.as_str()) {
                if written.insert(i) {
                    lines.extend_from_slice(&self.groups[i].heading);
                }
            }

            lines.push(name.clone());
        }

        lines.extend_from_slice(&self.trailer);
        lines.iter().map(|l| format!("{l}\n")).collect()
    }
}

/// Whether `name` can be the file name of a patch.
pub fn is_patch_name(name: &str) -> bool {
    name.strip_suffix(".patch").is_some_and(|stem| {
        stem.starts_with(|c: char| c.is_ascii_alphanumeric())
            && stem
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# The order.\n\n# transport: upstreamable\n\
        a.patch\nb.patch\n\n# paths\nc.patch\n\n# the end\n";

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| n.to_string()).collect()
    }

    #[test]
    fn unchanged_names_give_unchanged_text() {
        let series = Series::parse(TEXT).unwrap();
        let order: Vec<_> = series.patches().map(String::from).collect();
        assert_eq!(order, ["a.patch", "b.patch", "c.patch"]);
        assert_eq!(series.rewrite(&order), TEXT);
    }

    #[test]
    fn heading_moves_to_the_next_patch_of_its_group() {
        let series = Series::parse(TEXT).unwrap();
        assert_eq!(
            series.rewrite(&names(&["b.patch", "new.patch", "c.patch"])),
            "# The order.\n\n# transport: upstreamable\nb.patch\nnew.patch\n\n\
             # paths\nc.patch\n\n# the end\n"
        );
    }

    #[test]
    fn heading_goes_with_its_last_patch() {
        let series = Series::parse(TEXT).unwrap();
        assert_eq!(
            series.rewrite(&names(&["a.patch", "b.patch"])),
            "# The order.\n\n# transport: upstreamable\na.patch\nb.patch\n\n# the end\n"
        );
    }

    #[test]
    fn reordered_groups_keep_their_headings() {
        let series = Series::parse(TEXT).unwrap();
        assert_eq!(
            series.rewrite(&names(&["c.patch", "a.patch"])),
            "# The order.\n\n\n# paths\nc.patch\n# transport: upstreamable\na.patch\n\n# the end\n"
        );
    }

    #[test]
    fn comments_alone_stay_above_the_first_patch() {
        let series = Series::parse("# The order.\n").unwrap();
        assert_eq!(series.patches().count(), 0);
        assert_eq!(
            series.rewrite(&names(&["a.patch"])),
            "# The order.\na.patch\n"
        );
    }

    #[test]
    fn cuts_count_the_patches_above() {
        let text =
            "# The order.\n\n# one\na.patch\nb.patch\n\n# cut: fixes\n# two\nc.patch\n# cut: all\n";
        let series = Series::parse(text).unwrap();
        assert_eq!(series.cuts(), [("fixes", 2), ("all", 3)]);
        assert_eq!(Series::parse(TEXT).unwrap().cuts(), []);
    }

    #[test]
    fn refuses_duplicates_and_paths() {
        let err = Series::parse("a.patch\na.patch\n").unwrap_err();
        assert_eq!(err.to_string(), "series line 2: a.patch is listed twice");
        assert!(Series::parse("../a.patch\n").is_err());
        assert!(Series::parse("a.diff\n").is_err());
        assert!(Series::parse(".patch\n").is_err());
    }
}
