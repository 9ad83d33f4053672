//! `meridian recovered`: discarded versions that a server has kept.
//!
//! What must never enter: where they are, and their format.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use server::configuration::DEFAULT_TREE;
use server::recovered::{self, CopiedOut, RecoveredSet};
use server::{Configuration, Counted, ShownBytes, ShownText, moment};

use crate::arguments::{RecoveredCommand, RecoveredPlace};
use crate::consent;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;

pub(crate) fn run(command: &RecoveredCommand) -> Result<Exit, Failure> {
    match command {
        RecoveredCommand::List { label, place, json } => list(label.as_deref(), place, *json),
        RecoveredCommand::Restore {
            label,
            path,
            to,
            place,
        } => restore(label, path.as_deref(), to, place),
        RecoveredCommand::Forget { label, yes, place } => forget(label, *yes, place),
    }
}

fn directory(place: &RecoveredPlace) -> PathBuf {
    let data = place.data.clone();
    data.unwrap_or_else(|| Configuration::default().data)
}

fn tree(place: &RecoveredPlace) -> &str {
    place.tree.as_deref().unwrap_or(DEFAULT_TREE)
}

/// A set of discarded versions, for programs.
#[derive(Serialize)]
struct SetView<'s> {
    label: &'s str,
    saved_at_unix_s: i64,
    objects: u64,
    bytes: u64,
    replica: u16,
    reason: &'s str,
}

impl<'s> From<&'s RecoveredSet> for SetView<'s> {
    fn from(set: &'s RecoveredSet) -> SetView<'s> {
        SetView {
            label: &set.label,
            saved_at_unix_s: set.saved_at.seconds,
            objects: set.objects,
            bytes: set.bytes,
            replica: set.replica,
            reason: &set.reason,
        }
    }
}

fn list(label: Option<&str>, place: &RecoveredPlace, json: bool) -> Result<Exit, Failure> {
    let data = directory(place);
    if let Some(label) = label {
        if json {
            let lines = recovered::contents(&data, tree(place), label)?;
            output::say_json(&lines.collect::<Result<Vec<String>, _>>()?)?;
            return Ok(Exit::Success);
        }
        for line in recovered::contents(&data, tree(place), label)? {
            output::say(line?)?;
        }
        return Ok(Exit::Success);
    }
    let sets = recovered::list(&data, tree(place))?;
    if json {
        output::say_json(&sets.iter().map(SetView::from).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    if sets.is_empty() {
        output::say("no discarded versions are kept here")?;
    }
    for set in &sets {
        output::say(line(set))?;
    }
    Ok(Exit::Success)
}

fn line(set: &RecoveredSet) -> String {
    let saved = moment(u64::try_from(set.saved_at.seconds).unwrap_or(0));
    format!(
        "{}  {saved}  {}, {} of replica {}: {}",
        set.label,
        Counted(set.objects, "object"),
        Counted(set.bytes, "byte"),
        set.replica,
        ShownText(&set.reason)
    )
}

fn restore(
    label: &str,
    path: Option<&str>,
    to: &Path,
    place: &RecoveredPlace,
) -> Result<Exit, Failure> {
    let progress = Progress::of("copying out");
    let copied = recovered::copy_out(&directory(place), tree(place), label, path, to);
    drop(progress);
    let copied = copied.context("not everything was copied")?;
    let CopiedOut {
        files,
        directories,
        symlinks,
        ..
    } = copied;
    output::say(format_args!(
        "copied into {}: {}, {} and {}. Put back through a mount what is wanted, and remove the set with \
         `meridian recovered forget {label}`",
        to.display(),
        Counted(files, "file"),
        Counted(directories, "directory"),
        Counted(symlinks, "symbolic link"),
    ))?;
    if copied.left_out > 0 {
        output::say(format_args!(
            "left out: {} (removed ones, devices, sockets and pipes)",
            Counted(copied.left_out, "object")
        ))?;
    }
    for path in copied.incomplete {
        output::say(format_args!(
            "INCOMPLETE, part of it had never arrived there: {}",
            ShownBytes(path.as_os_str().as_bytes())
        ))?;
    }
    Ok(Exit::Success)
}

fn forget(label: &str, yes: bool, place: &RecoveredPlace) -> Result<Exit, Failure> {
    let data = directory(place);
    let sets = recovered::list(&data, tree(place))?;
    if let Some(set) = sets.iter().find(|set| set.label == label) {
        output::remark(format_args!("This is removed for ever: {}", line(set)));
        consent::obtain(yes)?;
    }
    recovered::forget(&data, tree(place), label)?;
    output::say(format_args!("{label} is removed"))?;
    Ok(Exit::Success)
}
