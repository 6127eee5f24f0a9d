//! Runs git so that neither the user's configuration nor the environment changes a byte of the result.

use std::ffi::OsStr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

/// Identity of the commits the tool makes; the author of a patch stays whoever wrote it.
const COMMITTER: (&str, &str) = ("quiche-patches", "quiche-patches@localhost");

/// Settings that a repository's own configuration could otherwise bend.
const FIXED_CONFIG: &[&str] = &[
    "apply.ignoreWhitespace=no",
    "commit.gpgSign=false",
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.commentChar=#",
    "core.eol=lf",
    "core.fileMode=true",
    "core.hooksPath=/dev/null",
    "core.quotePath=true",
    "core.safecrlf=false",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "diff.suppressBlankEmpty=false",
    "format.encodeEmailHeaders=false",
    "gc.auto=0",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "mailinfo.scissors=false",
    "tag.gpgSign=false",
];

/// A git repository's work tree.
#[derive(Clone, Debug)]
pub struct Git {
    dir: PathBuf,
}

impl Git {
    /// Uses the work tree whose top folder is `dir`.
    pub fn at(dir: impl Into<PathBuf>) -> Git {
        Git { dir: dir.into() }
    }

    /// The top folder of the work tree.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether `dir` itself, not a folder around it, is a git work tree.
    pub fn is_repository(&self) -> bool {
        self.dir.join(".git").exists()
    }

    /// A git command with fixed configuration, ready for arguments.
    pub fn command(&self) -> Command {
        let mut cmd = Command::new("git");

        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                cmd.env_remove(name);
            }
        }

        // A broken vendor/quiche/.git must not make git act on the repository around it.
        if let Some(parent) = self.dir.parent() {
            cmd.env("GIT_CEILING_DIRECTORIES", parent);
        }

        cmd.current_dir(&self.dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", COMMITTER.0)
            .env("GIT_AUTHOR_EMAIL", COMMITTER.1)
            .env("GIT_COMMITTER_NAME", COMMITTER.0)
            .env("GIT_COMMITTER_EMAIL", COMMITTER.1)
            .env("LC_ALL", "C")
            .env("TZ", "UTC");

        for setting in FIXED_CONFIG {
            cmd.args(["-c", setting]);
        }

        cmd
    }

    /// Runs git and returns what it printed, byte for byte.
    pub fn bytes<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Vec<u8>> {
        let output = self.output(args)?;

        if !output.status.success() {
            let args: Vec<_> = args.iter().map(|a| a.as_ref().to_string_lossy()).collect();

            bail!(
                "`git {}` failed in {}:\n{}",
                args.join(" "),
                self.dir.display(),
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }

        Ok(output.stdout)
    }

    /// Runs git and returns what it printed, without the last line end.
    pub fn text<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<String> {
        let text = String::from_utf8(self.bytes(args)?)
            .context("git printed something that is not UTF-8")?;

        Ok(text.trim_end().to_string())
    }

    /// Runs git and returns its output whether it succeeded or not.
    pub fn output<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Output> {
        run(self.command().args(args))
    }

    /// The commit that `name` stands for, if there is one.
    pub fn commit(&self, name: &str) -> Result<Option<String>> {
        let rev = format!("{name}^{{commit}}");
        let output = self.output(&["rev-parse", "--verify", "--quiet", &rev])?;

        Ok(output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string()))
    }

    /// A file inside the repository's git directory.
    pub fn internal_path(&self, name: &str) -> Result<PathBuf> {
        Ok(self
            .dir
            .join(self.text(&["rev-parse", "--git-path", name])?))
    }

    /// The command of git's that was started here and not finished, if any.
    pub fn unfinished(&self) -> Result<Option<&'static str>> {
        if self.internal_path("rebase-apply/applying")?.exists() {
            return Ok(Some("git am"));
        }

        for (file, command) in [
            ("rebase-apply", "git rebase"),
            ("rebase-merge", "git rebase"),
            ("CHERRY_PICK_HEAD", "git cherry-pick"),
            ("REVERT_HEAD", "git revert"),
            ("MERGE_HEAD", "git merge"),
        ] {
            if self.internal_path(file)?.exists() {
                return Ok(Some(command));
            }
        }

        Ok(None)
    }

    /// Paths with uncommitted changes, untracked files included.
    pub fn uncommitted(&self) -> Result<Vec<String>> {
        let status = self.text(&["status", "--porcelain", "--untracked-files=all"])?;

        Ok(status.lines().map(|l| l[2..].trim().to_string()).collect())
    }
}

/// Runs `cmd` to its end; not starting at all is the only error.
pub fn run(cmd: &mut Command) -> Result<Output> {
    cmd.output().with_context(|| {
        format!(
            "cannot run `{}`; is it installed and in PATH?",
            cmd.get_program().to_string_lossy()
        )
    })
}
