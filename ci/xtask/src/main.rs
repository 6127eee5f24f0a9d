//! The project's chores. `cargo xtask quiche` keeps the patch queue on quiche:
//!
//! ```text
//!             unpack                    export
//! quiche-patches/ --> vendor/quiche (git) --> quiche-patches/
//! UPSTREAM, series    tag `upstream`,         byte for byte what
//! *.patch             a commit per patch      `check` rebuilds
//! ```

mod commands;
mod git;
mod patch;
mod published;
mod queue;
mod readme;
mod series;
mod upstream;
mod vendor;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use clap::Args;
use clap::Parser;
use clap::Subcommand;

use commands::LocalWork;
use commands::Project;
use commands::Selection;
use published::Source;

const EXAMPLES: &str = "\
Day to day:
  cargo xtask quiche unpack            make vendor/quiche
  cd vendor/quiche                     edit, test, then one of
    git commit                           a new patch
    git commit --fixup COMMIT            a change to a patch, then
    git rebase -i --autosquash upstream
  cargo xtask quiche export            write quiche-patches/
  cargo xtask quiche check             what CI runs
  cargo xtask quiche package           out/package/, for projects elsewhere

A commit's subject is `area: imperative phrase`; its body says why the patch
exists; its trailers are `Spec:`, `Upstream-Status:` and, to choose the file's
name, `Patch-File: name.patch`.";

const PACKAGE_HELP: &str = "\
The folder DIR/quiche-multipath-VERSION holds quiche with the patches, the
decision layer it depends on, examples, and a README.md that says how to take
it as a dependency in Rust and how to install it for C. It is made from the
published crate and quiche-patches/; if vendor/quiche is there, it must say the
same. The archive has the same bytes whenever what it holds is the same.

Examples:
  cargo xtask quiche package
  cargo xtask quiche package --to /tmp/mpq
  tar -xzmf out/package/quiche-multipath-*.tar.gz -C ../my-project/vendor";

/// The project's chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Keep the patches on quiche: quiche-patches/ <-> vendor/quiche.
    Quiche(QuicheArgs),
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
struct QuicheArgs {
    /// The project's root, if not the one this xtask lies in.
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Take NAME-VERSION.crate from DIR instead of from cargo.
    #[arg(long, global = true, value_name = "DIR", env = "XTASK_CRATES")]
    crates: Option<PathBuf>,

    #[command(subcommand)]
    command: QuicheCommand,
}

#[derive(Subcommand)]
enum QuicheCommand {
    /// Make vendor/quiche: the verified crate, then one commit per patch.
    Unpack {
        /// Discard work in vendor/quiche that is not exported.
        #[arg(long)]
        force: bool,

        /// Succeed and leave vendor/quiche alone if it holds such work.
        #[arg(long, conflicts_with = "force")]
        keep_work: bool,
    },

    /// Write the commits of vendor/quiche to quiche-patches/.
    Export,

    /// Fail on a byte of difference between the patches, the crate and vendor/quiche.
    Check,

    /// Move the patches to another published version of quiche.
    #[command(after_help = "Example: cargo xtask quiche bump 0.31.0")]
    Bump {
        /// The exact version.
        version: String,
    },

    /// Write a folder and a .tar.gz of the patched quiche, for projects elsewhere.
    #[command(after_help = PACKAGE_HELP)]
    Package {
        /// Where the folder and the archive go [default: out/package]
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },

    /// Run quiche's own tests after every patch; stop at the first failure.
    #[command(after_help = "Example: cargo xtask quiche test-each --from 4 -- --features qlog")]
    TestEach {
        /// Begin with patch N of the series, counted from 1.
        #[arg(long, value_name = "N", default_value_t = 1)]
        from: usize,

        /// Test patch N alone.
        #[arg(long, value_name = "N", conflicts_with = "from")]
        only: Option<usize>,

        /// Test the series up to the line `# cut: NAME` of the file `series`, and no other patch; can be given again.
        /// A cut must compile without warnings, too.
        #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "only"])]
        at: Vec<String>,

        /// Further arguments of `cargo test --locked --lib`.
        #[arg(last = true, value_name = "CARGO_ARGS")]
        cargo_args: Vec<String>,
    },
}

fn main() -> ExitCode {
    let Chore::Quiche(args) = Cli::parse().chore;

    match run(args) {
        Ok(()) => ExitCode::SUCCESS,

        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: QuicheArgs) -> Result<()> {
    let root = args.root.unwrap_or_else(own_root);
    let root = std::fs::canonicalize(&root)
        .with_context(|| format!("no such folder: {}", root.display()))?;

    let project = Project {
        root,
        source: args.crates.map_or(Source::Cargo, Source::Folder),
    };

    match args.command {
        QuicheCommand::Unpack { force, keep_work } => {
            let local = match (force, keep_work) {
                (true, _) => LocalWork::Discard,
                (_, true) => LocalWork::Keep,
                _ => LocalWork::Refuse,
            };

            commands::unpack(&project, local)
        }

        QuicheCommand::Export => commands::export(&project),

        QuicheCommand::Check => commands::check(&project),

        QuicheCommand::Bump { version } => commands::bump(&project, &version),

        QuicheCommand::Package { to } => commands::package(&project, to),

        QuicheCommand::TestEach {
            from,
            only,
            at,
            cargo_args,
        } => {
            let selection = match only {
                Some(n) => Selection::Only(n),
                None if !at.is_empty() => Selection::At(at),
                None => Selection::From(from),
            };

            commands::test_each(&project, selection, &cargo_args)
        }
    }
}

/// The repository this package lies in, two folders up. `cargo run` says where
/// it runs from; a binary that is shared between checkouts would not know.
fn own_root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
        .join("../..")
}
