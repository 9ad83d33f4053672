//! Tells the program which version it is, and from which commit it was built.
//!
//! `MERIDIAN_COMMIT` says the commit where there is no repository, as in a package of the source; without both it is `unknown`.
//! `MERIDIAN_VERSION` takes the place of the version in `Cargo.toml`: for `scripts/test-upgrade`, which needs a later one of the same sources.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=MERIDIAN_COMMIT");
    println!("cargo::rerun-if-env-changed=MERIDIAN_VERSION");
    for moves in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", moves]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let told = std::env::var("MERIDIAN_COMMIT").ok();
    let told = told.filter(|commit| !commit.is_empty());
    let commit = told.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=MERIDIAN_COMMIT={commit}");
    let version = std::env::var("MERIDIAN_VERSION").ok();
    let version = version.filter(|version| !version.is_empty());
    let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    println!("cargo::rustc-env=MERIDIAN_VERSION={version}");
}

/// What git says of the repository, if there are both.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !said.trim().is_empty()).then(|| said.trim().to_owned())
}
