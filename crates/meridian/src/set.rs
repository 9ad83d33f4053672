//! `meridian set`: begins a set of replicas, and works on its members.
//!
//! What must never enter: what a set is, and how a server joins it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use server::Configuration;
use server::configuration::{DEFAULT_TREE, PeerAddress, format_duration};
use server::set::{self, Joined};

use crate::arguments::{CreateSetArguments, InviteArguments, JoinArguments, SetCommand};
use crate::exit::{Exit, Failure};

/// How long a token works unless somebody says otherwise.
const LIFETIME: Duration = Duration::from_secs(3600);

pub(crate) fn run(command: &SetCommand) -> Result<Exit, Failure> {
    let told = match command {
        SetCommand::Create(arguments) => create(arguments)?,
        SetCommand::Invite(arguments) => invite(arguments)?,
        SetCommand::Join(arguments) => join(arguments)?,
        SetCommand::Members { data } => members(&set::members(&directory(data))?),
        SetCommand::Revoke { slot, data } => revoke(*slot, &directory(data))?,
    };
    print!("{told}");
    Ok(Exit::Success)
}

fn directory(data: &Option<PathBuf>) -> PathBuf {
    data.clone()
        .unwrap_or_else(|| Configuration::default().data)
}

fn create(arguments: &CreateSetArguments) -> Result<String, Failure> {
    let place = &arguments.place;
    let data = directory(&place.data);
    let created = set::create(&data, tree(&place.tree), &place.address)?;
    let shown = data.display();
    Ok(format!(
        "This server is replica {} of the new set {}.\n{}\
         Next, start it, and invite another server:\n  \
         meridian serve --data {shown}\n  \
         meridian set invite --data {shown}\n",
        created.slot,
        created.set,
        firewall(&place.address),
    ))
}

/// The token goes to standard output and nothing else does, so that a script can take it.
fn invite(arguments: &InviteArguments) -> Result<String, Failure> {
    let data = directory(&arguments.data);
    let lifetime = arguments.lifetime.unwrap_or(LIFETIME);
    let token = set::invite(&data, lifetime)?;
    eprintln!(
        "The token below lets one server join, once and within {}; treat it as a password. With the server on {} \
         running, give it on the new server to\n  meridian set join TOKEN --data DIR --address HOST:PORT",
        format_duration(lifetime),
        data.display(),
    );
    Ok(format!("{token}\n"))
}

fn join(arguments: &JoinArguments) -> Result<String, Failure> {
    let place = &arguments.place;
    let data = directory(&place.data);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let joined = runtime.context("cannot start")?.block_on(set::join(
        &arguments.token,
        &data,
        tree(&place.tree),
        &place.address,
    ))?;
    Ok(format!(
        "This server is replica {} of the set {} now.\n{}\
         Next, start it; its copy of the tree is made then:\n  \
         meridian serve --data {}\n",
        joined.slot,
        joined.set,
        firewall(&place.address),
        data.display(),
    ))
}

fn tree(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or(DEFAULT_TREE)
}

/// What the others need to get through to.
fn firewall(address: &PeerAddress) -> String {
    format!(
        "The other replicas call it at {}; let them through to that port.\n",
        address.as_str()
    )
}

fn members(joined: &Joined) -> String {
    let mut text = format!("set {}\n", joined.set);
    for member in &joined.members {
        let note = match (member.slot == joined.slot, member.revoked) {
            (_, true) => "  removed",
            (true, false) => "  this server",
            (false, false) => "",
        };
        let addresses = member.addresses.join(", ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  replica {:<5} {addresses}{note}", member.slot);
    }
    text
}

fn revoke(slot: u16, data: &Path) -> Result<String, Failure> {
    set::revoke(data, slot)?;
    Ok(format!(
        "Replica {slot} is removed: the members of the set refuse it as soon as they learn of it. Its slot is never \
         used again; to return, its server joins anew, with an empty data directory.\n"
    ))
}
