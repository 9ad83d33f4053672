//! `meridian set`: begins a set of replicas, and manages its members.
//!
//! What must never enter: what a set is, and how a server joins it.

mod removal;
mod warning;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use server::configuration::{ClientAddress, DEFAULT_TREE, NFS_PORT, PeerAddress, format_duration};
use server::set::{self, Joined, Kind, LastChance, Reached, Role};
use server::{Commands, ShownText, moment};

use crate::arguments::{
    AddressArguments, AuthorityCommand, ClientAddressArguments, CreateSetArguments,
    InviteArguments, JoinArguments, RecoverSetArguments, ReplicaPlace, SetCommand,
};
use crate::asking::{directory, runtime};
use crate::authority;
use crate::consent;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::token;
use warning::warning;

/// The default lifetime of a token.
const LIFETIME: Duration = Duration::from_secs(3600);
/// The maximum number of shown ranges of numbers of removed members.
const STRETCHES_TOLD: usize = 16;

pub(crate) fn run(command: &SetCommand) -> Result<Exit, Failure> {
    let told = match command {
        SetCommand::Create(arguments) => create(arguments)?,
        SetCommand::Invite(arguments) => invite(arguments)?,
        SetCommand::Join(arguments) => join(arguments)?,
        SetCommand::Rejoin(arguments) => rejoin(arguments)?,
        SetCommand::Members { data, json } => {
            let joined = set::members(&directory(data))?;
            if *json {
                return said_as_json(&MembersView::new(&joined));
            }
            members(&joined)
        }
        SetCommand::Remove {
            slot,
            discard,
            data,
        } => removal::remove(*slot, *discard, &directory(data))?,
        SetCommand::Address(arguments) => address(arguments)?,
        SetCommand::ClientAddress(arguments) => client_address(arguments)?,
        SetCommand::Name { slot, name, data } => rename(*slot, name, &directory(data))?,
        SetCommand::Authority {
            command: AuthorityCommand::Show {
                data, json: true, ..
            },
        } => return said_as_json(&set::authority(&directory(data))?),
        SetCommand::Token { command } => return token::run(Kind::Set, command),
        SetCommand::Authority { command } => authority::run(command)?,
        SetCommand::Recover(arguments) => recover(arguments)?,
    };
    output::say(told.trim_end())?;
    Ok(Exit::Success)
}

fn said_as_json(value: &impl Serialize) -> Result<Exit, Failure> {
    output::say_json(value)?;
    Ok(Exit::Success)
}

/// The members, for programs.
#[derive(Serialize)]
struct MembersView<'s> {
    set: &'s str,
    own_slot: u16,
    keeper: u16,
    members: &'s [set::Member],
    warning: Option<&'static str>,
}

impl MembersView<'_> {
    fn new(joined: &Joined) -> MembersView<'_> {
        MembersView {
            set: &joined.set,
            own_slot: joined.slot,
            keeper: joined.keeper,
            members: &joined.members,
            warning: set::warning(&joined.members),
        }
    }
}

fn create(arguments: &CreateSetArguments) -> Result<String, Failure> {
    let place = &arguments.place;
    let data = directory(&place.data);
    let created = set::create(
        &data,
        tree(&place.tree),
        reached(place),
        arguments.name.as_deref(),
    )?;
    warn(set::foreignness(place.address.as_str())?);
    warn(remark_on_port(place.client_address.as_ref()));
    let commands = Commands::on(&data);
    Ok(format!(
        "This server is replica {} of the new set {}.\n{}\
         Next, start it, and invite another server:\n  {}\n  {}\n",
        created.slot,
        created.set,
        firewall(&place.address),
        commands.start(),
        commands.command("set invite"),
    ))
}

/// Only the token goes to standard output, so that a script can read it.
fn invite(arguments: &InviteArguments) -> Result<String, Failure> {
    let data = directory(&arguments.data);
    let lifetime = arguments.lifetime.unwrap_or(LIFETIME);
    let (role, who) = match arguments.witness {
        true => (Role::Witness, "server join as a witness"),
        false => (Role::Replica, "server join"),
    };
    let token = set::invite(
        &data,
        role,
        arguments.name.as_deref().unwrap_or(""),
        lifetime,
    )?;
    let progress = Progress::of("trying the address");
    let silence = set::silence_of_inviter(&data)?;
    drop(progress);
    if let Some(silence) = silence {
        warn(Some(format!(
            "the token tells a server to call here, and {silence}; it works once the server runs here (`{}`) and the \
             address is right (`meridian set address` changes it, and then invite again)",
            Commands::on(&data).start(),
        )));
    }
    output::remark(format_args!(
        "The token below lets one {who}, once and within {}; treat it as a password. With the server on {} \
         running, give it on the new server to\n  {}",
        format_duration(lifetime),
        data.display(),
        Commands::on(&data).elsewhere("set join TOKEN --address HOST:PORT"),
    ));
    Ok(format!("{token}\n"))
}

fn join(arguments: &JoinArguments) -> Result<String, Failure> {
    let place = &arguments.place;
    let data = directory(&place.data);
    let runtime = runtime()?;
    let progress = Progress::of("joining the set");
    let joined = runtime.block_on(set::join(
        &arguments.token,
        &data,
        tree(&place.tree),
        reached(place),
    ))?;
    drop(progress);
    warn(set::foreignness(place.address.as_str())?);
    warn(remark_on_port(place.client_address.as_ref()));
    warn(joined.remark.clone());
    let (kind, next) = match joined.is_witness() {
        true => (
            ", a witness,",
            "it learns the tree then, without contents, and clients cannot mount it",
        ),
        false => ("", "its copy of the tree is made then"),
    };
    Ok(format!(
        "This server is replica {}{kind} of the set {} now.\n{}\
         Next, start it; {next}:\n  {}\n{}",
        joined.slot,
        joined.set,
        firewall(&place.address),
        Commands::on(&data).start(),
        rest_of_way(&joined),
    ))
}

/// The advice about the number of members for a server that has just joined. The third member often follows the second.
fn rest_of_way(joined: &Joined) -> String {
    match set::warning(&joined.members) {
        Some(_) => "With a third server, a replica or a witness, the set goes on when one of them is lost; with these two it stops until both \
                    are back.\n"
            .to_owned(),
        None => warning(joined),
    }
}

/// Printed at once on standard error, so that standard output has only the result for scripts.
fn warn(warning: Option<String>) {
    if let Some(warning) = warning {
        output::remark(format_args!("WARNING: {warning}."));
    }
}

fn address(arguments: &AddressArguments) -> Result<String, Failure> {
    let AddressArguments {
        slot,
        address,
        data,
    } = arguments;
    let progress = Progress::of("trying the address");
    let warning = set::set_address(&directory(data), *slot, address)?;
    drop(progress);
    warn(warning);
    Ok(format!(
        "The other replicas call replica {slot} at {} from now on, as soon as they learn of it and their present \
         connections end.\n",
        address.as_str()
    ))
}

fn client_address(arguments: &ClientAddressArguments) -> Result<String, Failure> {
    let data = directory(&arguments.data);
    let (slot, address) = (arguments.slot, arguments.address.as_ref());
    let progress = Progress::of("trying the address");
    let warning = set::set_client_address(&data, slot, address)?;
    drop(progress);
    warn(warning);
    warn(remark_on_port(address));
    let members = set::members(&data)?.members;
    let member = members.iter().find(|member| member.slot == slot);
    let addresses = member.map(set::client_addresses).unwrap_or_default();
    Ok(format!(
        "Clients are told that they reach replica {slot} at {}, by each member as soon as it learns of it.\n",
        ShownText(&addresses.join(", "))
    ))
}

/// A remark for the administrator about the port for clients.
fn remark_on_port(address: Option<&ClientAddress>) -> Option<String> {
    let (_, port) = address?.as_str().rsplit_once(':')?;
    (port.parse() != Ok(NFS_PORT)).then(|| {
        format!(
            "referrals lead clients to port {NFS_PORT} whatever is written, so that servers at port {port} are not among those \
             that are told where else a tree is; `meridian domain records` names them"
        )
    })
}

/// The addresses of a server that becomes a replica.
fn reached(place: &ReplicaPlace) -> Reached<'_> {
    Reached {
        peers: &place.address,
        clients: place.client_address.as_ref(),
    }
}

fn rename(slot: u16, name: &str, data: &Path) -> Result<String, Failure> {
    set::set_name(data, slot, name)?;
    Ok(match name {
        "" => format!("Replica {slot} has no name any more.\n"),
        name => format!(
            "Replica {slot} is called {name} from now on, at each member as soon as it learns of it.\n"
        ),
    })
}

fn rejoin(arguments: &JoinArguments) -> Result<String, Failure> {
    let place = &arguments.place;
    let data = directory(&place.data);
    let runtime = runtime()?;
    let progress = Progress::of("joining the set anew");
    let done = runtime.block_on(set::rejoin(
        &arguments.token,
        &data,
        tree(&place.tree),
        reached(place),
    ))?;
    drop(progress);
    warn(done.joined.remark.clone());
    let old = match done.before {
        Some(slot) => format!(
            "It was replica {slot}; unless that was removed, do so on the server that keeps the authority: `meridian set remove {slot}`.\n"
        ),
        None => String::new(),
    };
    Ok(format!(
        "This server is replica {} of the set {} now.\n{old}\
         What it had lies in {}, and is read by nobody any more. What only that copy had is nowhere else: \
         keep it until you are sure that nothing is missing.\n{}\
         Next, start it; its copy of the tree is made then:\n  {}\n",
        done.joined.slot,
        done.joined.set,
        done.aside.display(),
        firewall(&place.address),
        Commands::on(&data).start(),
    ))
}

fn tree(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or(DEFAULT_TREE)
}

/// The firewall rule that the other members need.
fn firewall(address: &PeerAddress) -> String {
    format!(
        "The other replicas call it at {}; let them through to that port.\n",
        address.as_str()
    )
}

fn members(joined: &Joined) -> String {
    let mut text = format!("set {}\n", joined.set);
    for member in joined.members.iter().filter(|member| !member.revoked) {
        let note = match member.slot == joined.slot {
            true => "  this server",
            false => "",
        };
        let kind = match (member.witness, member.slot == joined.keeper) {
            (true, true) => "  witness  keeps the authority",
            (true, false) => "  witness",
            (false, true) => "  keeps the authority",
            (false, false) => "",
        };
        let addresses = member.addresses.join(", ");
        let addresses = ShownText(&addresses);
        let name = match member.name.as_str() {
            "" => String::new(),
            name => format!("  {}", ShownText(name)),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  replica {:<5} {addresses}{name}{kind}{note}",
            member.slot
        );
        if !member.client_addresses.is_empty() {
            let clients = member.client_addresses.join(", ");
            let _ = writeln!(
                text,
                "                clients reach it at {}",
                ShownText(&clients)
            );
        }
    }
    text += &removed(joined);
    text += &warning(joined);
    text
}

/// The removed members in one line, however many there are: their numbers are never used again.
fn removed(joined: &Joined) -> String {
    let gone = joined.members.iter().filter(|member| member.revoked);
    let mut stretches: Vec<(u16, u16)> = Vec::new();
    for slot in gone.map(|member| member.slot) {
        match stretches.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(slot) => *last = slot,
            _ => stretches.push((slot, slot)),
        }
    }
    if stretches.is_empty() {
        return String::new();
    }
    let more = stretches.len().saturating_sub(STRETCHES_TOLD);
    let told = stretches.iter().take(STRETCHES_TOLD);
    let told = told.map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    });
    let mut told: Vec<String> = told.collect();
    if more > 0 {
        told.push("…".to_owned());
    }
    let this = joined
        .members
        .iter()
        .any(|member| member.revoked && member.slot == joined.slot);
    let this = if this {
        "  this server is one of them"
    } else {
        ""
    };
    format!("  removed       {}{this}\n", told.join(", "))
}

fn recover(arguments: &RecoverSetArguments) -> Result<String, Failure> {
    let data = directory(&arguments.data);
    let tree = tree(&arguments.tree);
    let survivors: BTreeSet<u16> = arguments.survivors.iter().copied().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start")?;
    let chance = runtime.block_on(set::last_chance(&data, tree, &survivors))?;
    output::remark(last_words(&chance, &survivors).trim_end());
    consent::obtain(arguments.yes)?;
    let _progress = Progress::of("going on with the survivors");
    let done = runtime.block_on(set::go_on_with(&data, tree, &survivors))?;
    Ok(format!(
        "The set consists of {} now; {} are given up for ever. Start this server first, then the other survivors: \
         they follow when they reach it. What the others alone had stays frozen until \
         `meridian thaw --discard REPLICA --reason TEXT`.\n",
        replicas(&survivors),
        replicas(&done.gone),
    ))
}

/// The exact list of what is given up.
fn last_words(chance: &LastChance, survivors: &BTreeSet<u16>) -> String {
    let LastChance {
        own, known, gone, ..
    } = chance;
    let (members, gone) = (known.members.iter(), replicas(gone));
    let members: Vec<u16> = members.map(|member| member.slot).collect();
    let mut text = format!(
        "This server, replica {own}, knows the set in view {}: {}.\n",
        known.epoch,
        replicas(&members)
    );
    if let Some((at, what)) = &known.last_decision {
        text += &format!(
            "The last decision it heard of, at {}: {}\n",
            moment(*at),
            ShownText(what)
        );
    }
    text += &format!(
        "From now on {} alone is the set. What is given up:\n\
         - {gone}: for ever. If one of them still runs somewhere with others of them, there will be two file systems \
         under one name, and clients of both are told that all is well. Make sure first that their machines are off.\n\
         - Every change that only they had, answered with `majority` durability too.\n\
         - Every decision about the set that only they knew: choose the survivor that knows the latest view, and \
         run this command on that one only.\n",
        replicas(survivors),
    );
    if known.rolled_back {
        text += "- Everything that was answered since this copy was taken: it was put back from an older one, or has lost its end. If another survivor's was not, use that one.\n";
    }
    if !chance.keeps_authority {
        text += "- New members, until the authority is restored: only the server that keeps it can admit any, and this is another one.\n";
    }
    text
}

fn replicas<'s>(slots: impl IntoIterator<Item = &'s u16>) -> String {
    let slots: Vec<String> = slots.into_iter().map(ToString::to_string).collect();
    match &slots[..] {
        [one] => format!("replica {one}"),
        many => format!("replicas {}", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: u16) -> Joined {
        let member = |slot| set::Member {
            slot,
            addresses: Vec::new(),
            client_addresses: Vec::new(),
            revoked: false,
            witness: false,
            metadata_server: false,
            name: String::new(),
        };
        Joined {
            set: "s".to_owned(),
            slot: 1,
            members: (1..=count).map(member).collect(),
            keeper: 1,
            remark: None,
        }
    }

    #[test]
    fn removed_members_are_one_line_however_many_there_were() {
        let mut joined = of(600);
        for slot in (2..400).chain((401..600).step_by(2)) {
            joined.members[slot - 1].revoked = true;
        }
        let text = members(&joined);
        assert!(
            text.contains("  removed       2 to 399, 401, 403, "),
            "{text}"
        );
        assert!(
            text.contains(", 429, …\n") && !text.contains("431"),
            "{text}"
        );
        assert!(!text.contains("replica 401 ") && text.contains("replica 402 "));
        joined.slot = 2;
        assert!(members(&joined).contains("this server is one of them"));
        assert_eq!(removed(&of(3)), "");
    }

    #[test]
    fn numbers_of_members_that_are_no_safer_are_told() {
        assert_eq!(warning(&of(1)), "");
        assert!(warning(&of(2)).starts_with("WARNING: two servers cannot outvote"));
        assert_eq!(warning(&of(3)), "");
        assert!(
            warning(&of(4)).starts_with("Hint: 4 servers can lose 1 at a time, no more than 3 can")
        );
        assert_eq!(warning(&of(5)), "");
        assert!(warning(&of(6)).contains("can lose 2 at a time, no more than 5 can"));
        assert!(
            !rest_of_way(&of(2)).contains("WARNING"),
            "the third may be about to join"
        );
    }
}
