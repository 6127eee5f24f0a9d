//! The head of a patch file: what a reader and the queue's rules need to know of it.

use anyhow::bail;
use anyhow::Result;

/// Longest file name that [`file_name`] makes up, `.patch` included.
const MAX_NAME_LEN: usize = 60;

/// Every patch says what in the specification asks for it, and what becomes of it upstream.
const REQUIRED_TRAILERS: &[&str] = &["Spec", "Upstream-Status"];

/// What an `Upstream-Status:` may begin with.
const UPSTREAM_STATUSES: &[&str] = &["Submitted", "Pending", "Backport", "Inappropriate"];

/// Subject, body and trailers of a commit message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Message {
    /// First paragraph, on one line.
    pub subject: String,
    /// Paragraphs between the subject and the trailers.
    pub body: String,
    /// `Key: value` lines of the last paragraph.
    pub trailers: Vec<(String, String)>,
}

impl Message {
    /// Reads the message of a commit.
    pub fn from_commit(text: &str) -> Message {
        let (subject, rest) = text.split_once("\n\n").unwrap_or((text, ""));
        let rest = rest.trim();
        let (body, last) = rest.rsplit_once("\n\n").unwrap_or(("", rest));

        match parse_trailers(last) {
            Some(trailers) => Message {
                subject: subject.trim().replace('\n', " "),
                body: body.trim().to_string(),
                trailers,
            },

            None => Message {
                subject: subject.trim().replace('\n', " "),
                body: rest.to_string(),
                trailers: Vec::new(),
            },
        }
    }

    /// Reads the message at the head of a patch in `git format-patch` form.
    pub fn from_patch(patch: &[u8]) -> Result<Message> {
        let text = String::from_utf8_lossy(patch);
        let head = match text.find("\ndiff --git ") {
            Some(end) => &text[..=end],
            None => bail!("it has no `diff --git` line"),
        };

        if !head.starts_with("From ") {
            bail!("it does not start with git format-patch's `From ` line");
        }

        let Some((headers, body)) = head.split_once("\n\n") else {
            bail!("it has no blank line after its mail headers");
        };

        let unfolded = headers.replace("\n ", " ");
        let subject = unfolded
            .lines()
            .find_map(|l| l.strip_prefix("Subject: "))
            .unwrap_or_default();
        let subject = subject.strip_prefix("[PATCH] ").unwrap_or(subject);

        Ok(Message::from_commit(&format!("{subject}\n\n{body}")))
    }

    /// The value of the first trailer called `key`.
    pub fn trailer(&self, key: &str) -> Option<&str> {
        self.trailers
            .iter()
            .find(|(k, _)| k.eq_ignore_ascii_case(key))
            .map(|(_, v)| v.as_str())
    }

    /// Which of the queue's rules the message breaks.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();

        match self.subject.split_once(": ") {
            Some((area, what)) if !area.is_empty() && !area.contains(' ') && !what.is_empty() => {}

            _ => complaints.push(format!(
                "the subject `{}` is not `area: imperative phrase`",
                self.subject
            )),
        }

        if self.body.is_empty() {
            complaints.push("the message has no body saying why the patch exists".into());
        }

        for key in REQUIRED_TRAILERS {
            if self.trailer(key).is_none_or(str::is_empty) {
                complaints.push(format!("the trailer `{key}:` is missing"));
            }
        }

        if let Some(status) = self.trailer("Upstream-Status") {
            let word = status.split_whitespace().next().unwrap_or_default();

            if !word.is_empty() && !UPSTREAM_STATUSES.contains(&word) {
                complaints.push(format!(
                    "`Upstream-Status: {status}` does not begin with one of {}",
                    UPSTREAM_STATUSES.join(", ")
                ));
            }
        }

        complaints
    }
}

/// The `Key: value` lines of a paragraph, or `None` if it is prose. Lines that
/// begin with a space continue the line above.
fn parse_trailers(paragraph: &str) -> Option<Vec<(String, String)>> {
    let mut trailers: Vec<(String, String)> = Vec::new();

    for line in paragraph.lines() {
        if line.starts_with([' ', '\t']) {
            let (_, value) = trailers.last_mut()?;
            value.push(' ');
            value.push_str(line.trim());
            continue;
        }

        let (key, value) = line.split_once(':')?;

        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return None;
        }

        trailers.push((key.to_string(), value.trim().to_string()));
    }

    (!trailers.is_empty()).then_some(trailers)
}

/// The file name for a commit: its `Patch-File:` trailer, or else its subject
/// with everything but letters and digits turned into dashes.
pub fn file_name(message: &Message) -> Result<String> {
    if let Some(name) = message.trailer("Patch-File") {
        if !crate::series::is_patch_name(name) {
            bail!(
                "`Patch-File: {name}` of the commit `{}` is not a patch name \
                 (lower-case letters, digits, `-`, `.`; ending in .patch)",
                message.subject
            );
        }

        return Ok(name.to_string());
    }

    let mut stem = String::new();

    for word in message
        .subject
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
    {
        let dash = usize::from(!stem.is_empty());

        if stem.len() + dash + word.len() + ".patch".len() > MAX_NAME_LEN {
            break;
        }

        if dash == 1 {
            stem.push('-');
        }

        stem.push_str(&word.to_ascii_lowercase());
    }

    if stem.is_empty() {
        bail!(
            "no file name can be made of the subject `{}`: \
             add a `Patch-File: name.patch` trailer to the commit",
            message.subject
        );
    }

    Ok(stem + ".patch")
}

/// The first line of a message's text that `git am` would take for the start of the diff.
pub fn line_ending_the_message(text: &str) -> Option<&str> {
    text.lines().find(|l| {
        *l == "---" || l.starts_with("--- ") || l.starts_with("diff -") || l.starts_with("Index: ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n\
        From: A <a@b>\n\
        Date: Thu, 1 Jan 2026 00:00:00 +0000\n\
        Subject: [PATCH] paths: keep one packet number space\n per path\n\
        \n\
        quiche has three spaces.\n\
        \n\
        Note: this is prose: it has spaces in a key\n\
        \n\
        Spec: RFC 10069\n section 4\n\
        Upstream-Status: Pending\n\
        \n\
        diff --git a/quiche/src/a b/quiche/src/a\n";

    fn message(subject: &str, trailers: &str) -> Message {
        Message::from_commit(&format!("{subject}\n\nWhy.\n\n{trailers}"))
    }

    #[test]
    fn reads_folded_subject_and_trailers() {
        let m = Message::from_patch(PATCH.as_bytes()).unwrap();
        assert_eq!(m.subject, "paths: keep one packet number space per path");
        assert!(m.body.starts_with("quiche has three spaces."));
        assert_eq!(m.trailer("spec"), Some("RFC 10069 section 4"));
        assert_eq!(m.complaints(), Vec::<String>::new());
    }

    #[test]
    fn complains_about_each_rule() {
        let m = Message::from_commit("do things\n");
        let all = m.complaints().join("\n");
        assert!(all.contains("is not `area: imperative phrase`"), "{all}");
        assert!(all.contains("no body"), "{all}");
        assert!(all.contains("`Spec:` is missing"), "{all}");
        assert!(all.contains("`Upstream-Status:` is missing"), "{all}");

        let m = message("a: b", "Spec: x\nUpstream-Status: maybe");
        assert_eq!(m.complaints().len(), 1);
        assert!(m.complaints()[0].contains("does not begin with one of"));
    }

    #[test]
    fn trailers_alone_are_no_rationale() {
        let m = Message::from_commit("a: b\n\nSpec: x\nUpstream-Status: Pending\n");
        assert_eq!(m.trailers.len(), 2);
        assert_eq!(m.complaints().len(), 1);
    }

    #[test]
    fn names_come_from_subject_or_trailer() {
        let name = |s: &str, t: &str| file_name(&message(s, t));

        assert_eq!(
            name("paths: keep `x`, not Y", "Spec: a").unwrap(),
            "paths-keep-x-not-y.patch"
        );
        assert_eq!(
            name("paths: keep", "Patch-File: one.patch").unwrap(),
            "one.patch"
        );
        assert!(name("paths: keep", "Patch-File: ../one.patch").is_err());
        assert!(name("---", "Spec: a").is_err());

        // 54 letters and `.patch` make 60; one more does not fit.
        let word = "a".repeat(54);
        assert_eq!(name(&word, "Spec: a").unwrap(), word.clone() + ".patch");
        assert_eq!(
            name(&format!("b {word}"), "Spec: a").unwrap(),
            "b.patch".to_string()
        );
    }

    #[test]
    fn finds_lines_that_would_cut_the_message() {
        assert_eq!(line_ending_the_message("a\n\nb -- c\n----\n"), None);
        assert_eq!(line_ending_the_message("a\n---\nb"), Some("---"));
        assert_eq!(
            line_ending_the_message("a\ndiff --git x y"),
            Some("diff --git x y")
        );
    }
}
