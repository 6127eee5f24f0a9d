//! What the manifests of results say about the program: its commit, its patch series, and the
//! versions of quiche and of the compiler.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use sha2::Digest;
use sha2::Sha256;

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(&root)
            .args(arguments)
            .output();
        output
            .ok()
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12"]);
    println!(
        "cargo::rustc-env=MPQ_COMMIT={}",
        commit.unwrap_or_else(|| "unknown".into())
    );
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo::rerun-if-changed={}", root.join(path).display());
        }
    }

    let patches = root.join("quiche-patches");
    println!("cargo::rerun-if-changed={}", patches.display());
    let upstream = fs::read_to_string(patches.join("UPSTREAM")).unwrap_or_default();
    let version = upstream
        .lines()
        .find_map(|line| line.strip_prefix("Version:"));
    println!(
        "cargo::rustc-env=MPQ_QUICHE={}",
        version.map_or("unknown", str::trim)
    );
    let rustc = Command::new(env::var("RUSTC").expect("cargo sets it"))
        .arg("--version")
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!(
        "cargo::rustc-env=MPQ_RUSTC={}",
        rustc.unwrap_or_else(|| "unknown".into())
    );

    let series = fs::read_to_string(patches.join("series")).unwrap_or_default();
    let mut hash = Sha256::new();
    hash.update(&series);
    for name in series.lines().filter(|line| !line.trim().is_empty()) {
        hash.update(fs::read(patches.join(name.trim())).unwrap_or_default());
    }
    let digits: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("cargo::rustc-env=MPQ_PATCH_SERIES={digits}");
}
