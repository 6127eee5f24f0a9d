//! Runs quiche's own suite after every patch of the series.

use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::time::Instant;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use super::Project;
use crate::git::Git;
use crate::vendor;

/// Which patches to test, counted from 1.
#[derive(Clone, Debug)]
pub enum Selection {
    /// This one and all after it.
    From(usize),
    /// This one.
    Only(usize),
    /// The last ones above these cuts of the series.
    At(Vec<String>),
}

/// Checks out each selected commit beside `vendor/quiche`, where relative
/// paths mean the same, and runs `cargo test` there.
pub fn test_each(project: &Project, selection: Selection, cargo_args: &[String]) -> Result<()> {
    let git = project.vendor();
    vendor::require_clean(&git)?;

    let range = format!("{}..HEAD", vendor::BASE);
    let log = git.text(&["log", "--reverse", "--format=%H %s", &range])?;
    let commits: Vec<_> = log.lines().filter_map(|l| l.split_once(' ')).collect();

    // Between the cuts, a patch may prepare what a later one uses.
    let forbids_warnings = matches!(selection, Selection::At(_));

    let numbers: Vec<usize> = match selection {
        Selection::From(n) => (n..=commits.len().max(n)).collect(),
        Selection::Only(n) => vec![n],
        Selection::At(cuts) => at_cuts(project, &git, &cuts, commits.len())?,
    };

    if commits.is_empty() {
        println!("the series is empty: nothing to test");
        return Ok(());
    }

    if numbers.iter().any(|n| *n == 0 || *n > commits.len()) {
        bail!("the series has the patches 1 to {}", commits.len());
    }

    let tree = Worktree::add(&git, &project.root.join("vendor/quiche-test-each"))?;

    for number in numbers {
        let (commit, subject) = commits[number - 1];
        let started = Instant::now();

        println!("[{number}/{}] {subject}", commits.len());
        tree.check_out(commit)?;

        if forbids_warnings {
            check_warnings(project, tree.path(), cargo_args)
                .with_context(|| format!("patch {number}, `{subject}`, is no place to cut"))?;
        }

        let test = [
            &["test", "--locked", "--lib"],
            as_strs(cargo_args).as_slice(),
        ]
        .concat();
        let outcome = cargo(project, tree.path(), &test)?;

        if forbids_warnings && outcome.warns {
            bail!("the tests at patch {number}, `{subject}`, compile with warnings, shown above");
        }

        if !outcome.success {
            bail!(
                "the tests fail at patch {number}, `{subject}`.\n\
                 To mend it: cd {}, `git rebase --interactive {}` with `edit` \
                 for that commit, then `cargo xtask quiche export` and \
                 `cargo xtask quiche test-each --from {number}`.",
                project.shown(git.dir()),
                vendor::BASE
            );
        }

        println!(
            "[{number}/{}] passed in {} s",
            commits.len(),
            started.elapsed().as_secs()
        );
    }

    Ok(())
}

/// How many patches stand above each of the cuts.
fn at_cuts(project: &Project, git: &Git, cuts: &[String], commits: usize) -> Result<Vec<usize>> {
    let queue = project.queue()?;

    // Else the marks would be read in one series and the patches counted in another.
    if vendor::local_work(git, &queue)?.is_some() || queue.series.patches().count() != commits {
        bail!(
            "quiche-patches and {} are not in step: `cargo xtask quiche export` \
             or `cargo xtask quiche unpack` first",
            project.shown(git.dir())
        );
    }

    let known = queue.series.cuts();

    cuts.iter()
        .map(|cut| {
            let found = known.iter().find(|(name, _)| name == cut);

            found.map(|(_, above)| *above).with_context(|| {
                let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                format!(
                    "series has no line `# cut: {cut}`; it has {}",
                    if names.is_empty() {
                        "none".into()
                    } else {
                        names.join(", ")
                    }
                )
            })
        })
        .collect()
}

fn as_strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// Fails if the crate has warnings without its tests: with default features, and with those of
/// `args`, arguments for `cargo test`.
fn check_warnings(project: &Project, dir: &Path, args: &[String]) -> Result<()> {
    for features in [Vec::new(), features(args)] {
        let check = [&["check", "--locked", "--lib"], features.as_slice()].concat();
        let outcome = cargo(project, dir, &check)?;

        if !outcome.success || outcome.warns {
            bail!(
                "`cargo {}` says what is shown above; what is not used yet belongs to the patch \
                 that uses it",
                check.join(" ")
            );
        }
    }

    Ok(())
}

/// Those of the arguments for `cargo test` that choose features.
fn features(args: &[String]) -> Vec<&str> {
    let mut chosen = Vec::new();
    let mut args = args.iter().map(String::as_str).take_while(|a| *a != "--");

    while let Some(arg) = args.next() {
        if ["--features", "-F"].contains(&arg) {
            chosen.push(arg);
            chosen.extend(args.next());
        } else if arg.starts_with("--features=")
            || ["--all-features", "--no-default-features"].contains(&arg)
        {
            chosen.push(arg);
        }
    }

    chosen
}

/// How a call of cargo ended.
struct Outcome {
    success: bool,
    /// Whether the compiler had a warning about quiche.
    warns: bool,
}

/// Runs cargo in `dir`; what it says is shown as it says it.
fn cargo(project: &Project, dir: &Path, args: &[&str]) -> Result<Outcome> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cmd = Command::new(cargo);

    // Set by cargo for xtask itself; build scripts must not see them.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH"] {
        cmd.env_remove(name);
    }

    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        cmd.env(
            "CARGO_TARGET_DIR",
            project.root.join("target/quiche-test-each"),
        );
    }

    let mut child = cmd
        .args(args)
        .current_dir(dir)
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;

    let mut warns = false;

    for line in child
        .stderr
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(|r| r.lines())
    {
        let line = line.context("cannot read what cargo says")?;

        // The last line about a crate, also of one that was compiled before.
        warns |= line.starts_with("warning: `quiche` (lib") && line.contains(" generated ");
        eprintln!("{line}");
    }

    Ok(Outcome {
        success: child.wait().context("cannot wait for cargo")?.success(),
        warns,
    })
}

/// A second work tree of a repository, removed when dropped.
struct Worktree<'a> {
    owner: &'a Git,
    git: Git,
}

impl<'a> Worktree<'a> {
    fn add(owner: &'a Git, path: &Path) -> Result<Worktree<'a>> {
        let worktree = Worktree {
            owner,
            git: Git::at(path),
        };

        // A run that was killed leaves one behind.
        worktree.remove();
        owner
            .command()
            .args(["worktree", "add", "--quiet", "--force", "--detach"])
            .arg(path)
            .arg(vendor::BASE)
            .status()?;

        if !worktree.git.is_repository() {
            bail!("cannot make the work tree {}", path.display());
        }

        Ok(worktree)
    }

    fn path(&self) -> &Path {
        self.git.dir()
    }

    fn check_out(&self, commit: &str) -> Result<()> {
        self.git
            .text(&["checkout", "--quiet", "--force", "--detach", commit])?;
        Ok(())
    }

    fn remove(&self) {
        // Failing to tidy up is no reason to fail; the next run tries again.
        let _ = std::fs::remove_dir_all(self.git.dir());
        let _ = self.owner.output(&["worktree", "prune"]);
    }
}

impl Drop for Worktree<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}
