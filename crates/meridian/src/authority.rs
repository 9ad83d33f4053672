//! `meridian set authority`: shows, moves and restores the authority that signs certificates and the list of members.
//!
//! What must never enter: the key.

use std::fmt::Write;
use std::path::Path;

use server::{moment, set};

use crate::arguments::AuthorityCommand;
use crate::asking::{answer, directory, runtime};
use crate::consent;
use crate::exit::Failure;
use crate::output;
use crate::progress::Progress;
use crate::status::failure;

/// Runs the command, and returns its output.
pub(crate) fn run(command: &AuthorityCommand) -> Result<String, Failure> {
    match command {
        AuthorityCommand::Show { export, data, .. } => show(&directory(data), export.as_deref()),
        AuthorityCommand::Move { to, data } => change_keeper(&directory(data), *to),
        AuthorityCommand::Restore { from, yes, data } => restore(&directory(data), from, *yes),
    }
}

fn show(data: &Path, export: Option<&Path>) -> Result<String, Failure> {
    if let Some(to) = export {
        set::export_authority(data, to)?;
        return Ok(format!(
            "A backup of the authority is in {}. Anybody who can read it can admit servers to the set \
             and remove members: keep it off line, and not on this machine.\n",
            to.display()
        ));
    }
    let authority = set::authority(data)?;
    let here = if authority.is_here {
        ", this server"
    } else {
        ""
    };
    let mut text = format!(
        "kept by      replica {} ({}){here}\n\
         fingerprint  {}\n\
         expires      {}\n\
         term         {}\n\
         last change  {} (version {} of the list of members)\n",
        authority.keeper,
        authority.addresses,
        authority.fingerprint,
        moment(authority.expires_unix_s),
        authority.term,
        moment(authority.version / 1000),
        authority.version,
    );
    // Writing to a string cannot fail.
    let _ = match authority.is_here {
        true => writeln!(
            text,
            "Keep a backup elsewhere: `meridian set authority show --export FILE` writes one. Without a backup, members \
             can be neither admitted nor removed once this server's disk is lost."
        ),
        false => writeln!(
            text,
            "Members are invited, admitted and removed on that server; keep a backup of its authority elsewhere."
        ),
    };
    Ok(text)
}

fn change_keeper(data: &Path, to: u16) -> Result<String, Failure> {
    // Checked here first, for a better error than the running server's, when this server does not keep it.
    let tokens = set::tokens(data)?.len();
    let _progress = Progress::of("moving the authority");
    let confirmed = runtime()?.block_on(server::ask_move_authority(data, to));
    let state = match confirmed.map_err(failure)? {
        true => "keeps the authority now; its key is not on this server any more",
        false => {
            "has the key and keeps the authority as soon as it learns of it; until then this server still has the key, \
             and does not use it"
        }
    };
    let ended = match tokens {
        0 => String::new(),
        some => format!(
            " Tokens that were outstanding here ({some}) admit nobody any more; make new ones there."
        ),
    };
    Ok(format!(
        "Replica {to} {state}. Members are invited, admitted and removed there.{ended} Make a new backup there, with \
         `meridian set authority show --export FILE`.\n"
    ))
}

fn restore(data: &Path, from: &Path, yes: bool) -> Result<String, Failure> {
    let previous = answer(set::check_restoration(data))??;
    let keeper = previous.keeper;
    output::remark(format_args!(
        "Replica {keeper} keeps the set's authority as far as this server knows, and is not in contact. From now on this \
         server keeps it. Make sure that replica {keeper} is lost for ever, or off: what it alone admits or removes from \
         now on may be undone. Do this on one server only."
    ));
    consent::obtain(yes)?;
    set::restore_authority(data, from)?;
    Ok(format!(
        "This server keeps the set's authority now, and tells the others. Next, remove the lost server and make a new \
         backup:\n  \
         meridian set remove {keeper} --data {shown}\n  \
         meridian set authority show --export FILE --data {shown}\n",
        shown = data.display(),
    ))
}
