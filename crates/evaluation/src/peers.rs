//! The versions of the programs in comparisons.
//!
//! What must never enter: how they are used.

use std::process::Command;

use anyhow::{Context, Result};

use crate::experiment::Peer;

/// GridFTP's client; its server is built with it.
pub(crate) fn gridftp() -> Result<Peer> {
    let text = said("globus-url-copy", "-version")?;
    peer("GridFTP", text.split_whitespace().last())
}

/// GlusterFS.
pub(crate) fn gluster() -> Result<Peer> {
    let text = said("glusterfs", "--version")?;
    peer("GlusterFS", text.split_whitespace().nth(1))
}

/// rsync.
pub(crate) fn rsync() -> Result<Peer> {
    let text = said("rsync", "--version")?;
    peer("rsync", text.split_whitespace().nth(2))
}

fn peer(name: &str, version: Option<&str>) -> Result<Peer> {
    Ok(Peer {
        name: name.to_owned(),
        version: version
            .with_context(|| format!("{name} does not say its version"))?
            .to_owned(),
    })
}

/// The output of a program about its version.
fn said(program: &str, argument: &str) -> Result<String> {
    let output = Command::new(program).arg(argument).output();
    let output = output.with_context(|| format!("could not start {program}"))?;
    let text = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&text).into_owned())
}
