//! `meridian set remove`: a member goes for ever, and with it what it alone has.
//!
//! What must never enter: how the set agrees on it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use server::set;
use server::{StatusError, ThawQuestion, ViewStatus};

use super::warning;
use crate::asking::runtime;
use crate::exit::{Exit, Failure};
use crate::status::failure;

/// So long it may take until what the member alone had can be given up: the others have to leave it out first, and to bring their
/// copies level.
const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(300);

pub(super) fn remove(slot: u16, discard: bool, data: &Path) -> Result<String, Failure> {
    set::check_keeper(data)?;
    if !discard && let Some(what) = at_stake(slot, data)? {
        return Err(anyhow!(
            "{what}, and once removed it never comes back to hand that over; nothing was done. Give what it alone has up with \
             `meridian set remove {slot} --discard`"
        )
        .into());
    }
    set::revoke(data, slot)?;
    let mut text = format!(
        "Replica {slot} is removed: the members refuse it as soon as they learn of it, and the set takes it out of \
         the view and counts majorities without it when they have agreed on that (`meridian view` shows it). Its slot \
         is never used again; to return, its server joins anew, with an empty data directory.\n"
    );
    if discard {
        text += &give_up(slot, data)?;
    }
    text += &warning(&set::members(data)?);
    Ok(text)
}

/// What a member may alone have, for people, as far as the server that runs here can tell.
fn at_stake(slot: u16, data: &Path) -> Result<Option<String>, Failure> {
    let runtime = runtime()?;
    let view = match runtime.block_on(server::ask_view(data)) {
        Ok(view) => view,
        Err(error @ StatusError::NotRunning(_)) => {
            let error = anyhow!(
                "{error}, so nobody can tell what replica {slot} alone has; start the server, or give that up with \
                 `meridian set remove {slot} --discard`"
            );
            return Err(Failure::new(Exit::NotRunning, error));
        }
        Err(error) => return Err(failure(error)),
    };
    if let Some(what) = of_lost(&view, slot) {
        return Ok(Some(what));
    }
    let status = runtime
        .block_on(server::ask_status(data))
        .map_err(failure)?;
    let replicated = status.exports.into_iter();
    let replicated = replicated.filter_map(|export| export.replication);
    let deciding = replicated.filter(|replica| replica.slot != slot);
    let controls = deciding.flat_map(|replica| replica.controls);
    let count = controls.filter(|control| control.holder == slot).count();
    let is_active = |member: &server::ViewMemberStatus| member.slot == slot && member.active;
    let decides = count > 0 && view.members.iter().any(is_active);
    Ok(decides.then(|| {
        format!(
            "replica {slot} is deciding about objects at this moment, and may have changes that nobody else has; stop its server first, \
             which hands them over"
        )
    }))
}

/// The same of one that has left the view.
fn of_lost(view: &ViewStatus, slot: u16) -> Option<String> {
    let mut losses = view.losses.iter();
    let loss = losses.find(|loss| loss.slot == slot && !loss.settled)?;
    loss.leaves_something.then(|| {
        format!(
            "replica {slot} is lost and may alone have changes of its last moments (`meridian frozen` lists where), which it hands over when it is back"
        )
    })
}

/// Has the set give up what the member alone had, as soon as that can be decided. Says what came of it.
fn give_up(slot: u16, data: &Path) -> Result<String, Failure> {
    let runtime = runtime()?;
    let began = Instant::now();
    let question = ThawQuestion {
        lost: slot,
        reason: "it was removed from the set with --discard".to_owned(),
        meant: true,
    };
    let mut why = String::new();
    while began.elapsed() < LIMIT {
        let view = match runtime.block_on(server::ask_view(data)) {
            Ok(view) => view,
            Err(error) => {
                why = error.to_string();
                break;
            }
        };
        let is_left = view.members.iter().any(|member| member.slot == slot);
        let loss = view.losses.iter().find(|loss| loss.slot == slot);
        match loss {
            Some(loss) if loss.settled => return Ok(GIVEN_UP.to_owned()),
            None if !is_left => return Ok(String::new()),
            None => "the others have not left it out of the view yet".clone_into(&mut why),
            Some(_) => match runtime.block_on(server::ask_thaw(data, question.clone())) {
                Ok(_) => return Ok(GIVEN_UP.to_owned()),
                Err(error) => why = error.to_string(),
            },
        }
        std::thread::sleep(PAUSE);
    }
    Ok(format!(
        "What it alone had is not given up yet ({why}). Where something of it is frozen (`meridian frozen`), that waits for \
         `meridian thaw --discard {slot} --reason TEXT`.\n"
    ))
}

const GIVEN_UP: &str = "What it alone had is given up.\n";
