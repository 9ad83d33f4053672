//! Tells the program from which commit it was built.
//!
//! `MERIDIAN_COMMIT` says so where there is no repository, as in a package of the source; without both it is `unknown`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=MERIDIAN_COMMIT");
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
}

/// What git says of the repository, if there are both.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !said.trim().is_empty()).then(|| said.trim().to_owned())
}
