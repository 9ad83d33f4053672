//! Guests on processors with more registers than their kernel knows.
//!
//! The kernel of a guest (Debian 12, Linux 6.1) keeps the floating-point registers of its programs in 2696 bytes, which
//! it reads and writes by ptrace. A host only accepts all registers of its processor, which are 11 008 bytes with AMX.
//! Otherwise the guest ends when it starts its first program ("ptrace set fp regs failed, errno = 14"). So
//! a library between the two completes the registers. It is compiled where it is used, by the C compiler that Rust links with.
//!
//! What must never enter: the rest of a guest's start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The library.
const SOURCE: &str = include_str!("../guest/registers.c");

/// Makes the library that the kernel of a guest preloads, in a folder.
///
/// # Errors
/// Fails without a C compiler.
pub(crate) fn library(folder: &Path) -> Result<PathBuf> {
    let source = folder.join("registers.c");
    let library = folder.join("registers.so");
    fs::write(&source, SOURCE)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]);
    let compiled = compiler.args([&library, &source]).output();
    let compiled = compiled.context("could not start `cc`, of Debian's package gcc")?;
    ensure!(
        compiled.status.success(),
        "cc failed: {}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    Ok(library)
}
