//! `meridian pool`: begins a pool of data servers and metadata servers, and manages them.
//!
//! What must never enter: what a pool is, and how a server joins it.

use std::fmt::{Display, Write};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use server::configuration::{DEFAULT_TREE, PeerAddress, format_duration};
use server::pools::{self, Invited, Pool, PoolMember};
use server::set::{self, Kind};
use server::{
    Commands, DrainDataAnswer, DrainDataQuestion, ForgetAnswer, ForgetQuestion, Holding,
    HoldingText, PoolServerStatus, RebalanceAnswer, RebalanceQuestion, ShownText,
};

use crate::arguments::{CreatePoolArguments, InvitePoolArguments, JoinPoolArguments, PoolCommand};
use crate::asking::{answer, directory, runtime};
use crate::consent;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::token;

/// The default lifetime of a token.
const LIFETIME: Duration = Duration::from_secs(3600);

pub(crate) fn run(command: &PoolCommand) -> Result<Exit, Failure> {
    let told = match command {
        PoolCommand::Create(arguments) => create(arguments)?,
        PoolCommand::Invite(arguments) => invite(arguments)?,
        PoolCommand::Join(arguments) => join(arguments)?,
        PoolCommand::Members { data, json } => {
            let pool = pools::members(&directory(data))?;
            let servers = running(&pool, &directory(data))?;
            if *json {
                output::say_json(&PoolView::new(&pool, &servers))?;
                return Ok(Exit::Success);
            }
            members(&pool, &servers)
        }
        PoolCommand::Where { path, json, data } => {
            let data = directory(data);
            pools::members(&data)?;
            let found = answer(server::ask_where(&data, path.clone()))??;
            return shown(&found, *json);
        }
        PoolCommand::Token { command } => return token::run(Kind::Pool, command),
        PoolCommand::Remove { number, data } => remove(*number, &directory(data))?,
        PoolCommand::DrainData {
            number,
            stop,
            rate,
            json,
            data,
        } => {
            let question = DrainDataQuestion {
                number: *number,
                stop: *stop,
                rate_bytes: *rate,
            };
            let listed = drain_data(question, &directory(data))?;
            return shown(&listed, *json);
        }
        PoolCommand::Rebalance {
            stop,
            rate,
            json,
            data,
        } => {
            let question = RebalanceQuestion {
                stop: *stop,
                rate_bytes: *rate,
            };
            let spread = rebalance(question, &directory(data))?;
            return shown(&spread, *json);
        }
        PoolCommand::Forget {
            number,
            yes,
            json,
            data,
        } => {
            let lost = forget(*number, *yes, &directory(data))?;
            return shown(&lost, *json);
        }
        PoolCommand::Readmit { number, data } => readmit(*number, &directory(data))?,
        PoolCommand::Address {
            number,
            address,
            data,
        } => self::address(*number, address, &directory(data))?,
    };
    output::say(told.trim_end())?;
    Ok(Exit::Success)
}

/// An answer, for people or for programs.
fn shown<A: Display + Serialize>(answer: &A, json: bool) -> Result<Exit, Failure> {
    match json {
        true => output::say_json(answer)?,
        false => output::say(answer.to_string().trim_end())?,
    }
    Ok(Exit::Success)
}

/// The servers of a pool, for programs.
#[derive(Serialize)]
struct PoolView<'p> {
    pool: &'p str,
    own_number: u16,
    tree: &'p str,
    stripe_unit_bytes: u64,
    members: Vec<MemberView<'p>>,
}

#[derive(Serialize)]
struct MemberView<'p> {
    number: u16,
    role: &'static str,
    addresses: &'p [String],
    name: &'p str,
    removed: bool,
    /// Whether it serves, and what it stores; for data servers, while the metadata server runs.
    serves: Option<bool>,
    holding: Option<Holding>,
}

impl PoolView<'_> {
    fn new<'p>(pool: &'p Pool, servers: &[PoolServerStatus]) -> PoolView<'p> {
        let members = pool.members.iter().map(|member| MemberView {
            number: member.number,
            role: role(member),
            addresses: &member.addresses,
            name: &member.name,
            removed: member.removed,
            serves: status_of(member, servers).map(|server| server.serves),
            holding: status_of(member, servers).and_then(|server| server.holding),
        });
        PoolView {
            pool: &pool.pool,
            own_number: pool.own,
            tree: &pool.tree,
            stripe_unit_bytes: pool.stripe_unit.bytes(),
            members: members.collect(),
        }
    }
}

fn role(member: &PoolMember) -> &'static str {
    match member.metadata_server {
        true => "metadata server",
        false => "data server",
    }
}

/// The state of the data servers, as the running metadata server knows them; empty on other servers, or if none runs.
fn running(pool: &Pool, data: &Path) -> Result<Vec<PoolServerStatus>, Failure> {
    let mut members = pool.members.iter();
    if !members.any(|member| member.metadata_server && member.number == pool.own) {
        return Ok(Vec::new());
    }
    let status = answer(server::ask_status(data))?;
    let pool = status.ok().and_then(|status| status.pool);
    Ok(pool.map_or_else(Vec::new, |pool| pool.servers))
}

fn status_of<'s>(
    member: &PoolMember,
    servers: &'s [PoolServerStatus],
) -> Option<&'s PoolServerStatus> {
    servers.iter().find(|server| server.number == member.number)
}

fn create(arguments: &CreatePoolArguments) -> Result<String, Failure> {
    let data = directory(&arguments.data);
    let unit = arguments.stripe_unit.unwrap_or_default();
    let tree = arguments.tree.as_deref().unwrap_or(DEFAULT_TREE);
    let pool = pools::create(&data, &arguments.address, (tree, unit))?;
    warn(set::foreignness(arguments.address.as_str())?);
    let commands = Commands::on(&data);
    Ok(format!(
        "This server is the metadata server of the new pool {}. New files of its tree \"{tree}\" are striped over data servers, once there \
         are any; a stripe has {} KiB.\n\
         The data servers call it at {}; let them through to that port.\n\
         Next, start it, and invite a data server:\n  {}\n  {}\n",
        pool.pool,
        pool.stripe_unit.bytes() >> 10,
        arguments.address.as_str(),
        commands.start(),
        commands.command("pool invite --data-server"),
    ))
}

/// Only the token goes to standard output, so that a script can read it.
fn invite(arguments: &InvitePoolArguments) -> Result<String, Failure> {
    let data = directory(&arguments.data);
    let lifetime = arguments.lifetime.unwrap_or(LIFETIME);
    let name = arguments.name.as_deref().unwrap_or("");
    let (role, what) = match arguments.metadata_server {
        true => (Invited::MetadataServer, "metadata server"),
        false => (Invited::DataServer, "data server"),
    };
    let token = pools::invite(&data, role, name, lifetime)?;
    let pool = pools::members(&data)?;
    let own = pool.members.iter().find(|member| member.number == pool.own);
    let addresses = own.map_or(&[][..], |own| &own.addresses);
    let progress = Progress::of("trying the address");
    let silences = addresses.iter().map(|address| set::silence_at(address));
    let silences = silences.collect::<Option<Vec<_>>>();
    drop(progress);
    if let Some(silences) = silences {
        warn(Some(format!(
            "the token tells a server to call here, and {}; it works once the server runs here (`{}`) and the address is \
             right (`meridian pool address {}` changes it, and then invite again)",
            silences.join("; "),
            Commands::on(&data).start(),
            pool.own,
        )));
    }
    output::remark(format_args!(
        "The token below lets one {what} join, once and within {}; treat it as a password. With the server on {} \
         running, give it on the new machine to\n  {}",
        format_duration(lifetime),
        data.display(),
        Commands::on(&data).elsewhere("pool join TOKEN --address HOST"),
    ));
    Ok(format!("{token}\n"))
}

fn join(arguments: &JoinPoolArguments) -> Result<String, Failure> {
    let data = directory(&arguments.data);
    let runtime = runtime()?;
    let progress = Progress::of("joining the pool");
    let joined = pools::join(&arguments.token, &data, &arguments.address);
    let pool = runtime.block_on(joined)?;
    drop(progress);
    warn(set::foreignness(arguments.address.as_str())?);
    warn(pool.remark.clone());
    let mut members = pool.members.iter();
    let own = members.find(|member| member.number == pool.own);
    let (is, reached_by) = match own {
        Some(own) if own.metadata_server => ("metadata server", "Clients reach"),
        _ => ("data server", "Clients and the metadata server reach"),
    };
    Ok(format!(
        "This server is {is} {} of the pool {} now.\n\
         {reached_by} it at {}; let them through to that port.\n\
         Next, start it:\n  {}\n",
        pool.own,
        pool.pool,
        arguments.address.as_str(),
        Commands::on(&data).start(),
    ))
}

fn address(number: u16, address: &PeerAddress, data: &Path) -> Result<String, Failure> {
    pools::set_address(data, number, address)?;
    let at = address.as_str();
    Ok(match pools::members(data)?.own == number {
        true => format!(
            "Servers that join from now on call this server at {at}. Those that have joined go on to call the address before.\n"
        ),
        false => format!("Clients reach server {number} at {at} from now on.\n"),
    })
}

fn remove(number: u16, data: &Path) -> Result<String, Failure> {
    // Reports problems of the directory before the error that no server runs on it.
    pools::members(data)?;
    answer(server::ask_remove_data_server(data, number))??;
    Ok(format!(
        "Server {number} is removed: it is refused from now on, and its number is never used again. Its machine can be switched \
         off; to return, it joins anew, with an empty data directory.\n"
    ))
}

fn rebalance(question: RebalanceQuestion, data: &Path) -> Result<RebalanceAnswer, Failure> {
    pools::members(data)?;
    Ok(answer(server::ask_rebalance(data, question))??)
}

fn drain_data(question: DrainDataQuestion, data: &Path) -> Result<DrainDataAnswer, Failure> {
    pools::members(data)?;
    Ok(answer(server::ask_drain_data(data, question))??)
}

fn forget(number: u16, yes: bool, data: &Path) -> Result<ForgetAnswer, Failure> {
    pools::members(data)?;
    let question = ForgetQuestion {
        number,
        meant: false,
    };
    let lost = answer(server::ask_forget_data_server(data, question))??;
    if lost.done {
        return Ok(lost);
    }
    output::remark(&lost);
    consent::obtain(yes)?;
    let question = ForgetQuestion {
        meant: true,
        ..question
    };
    Ok(answer(server::ask_forget_data_server(data, question))??)
}

fn readmit(number: u16, data: &Path) -> Result<String, Failure> {
    pools::members(data)?;
    let serves = answer(server::ask_readmit_data_server(data, number))??;
    Ok(match serves {
        true => format!("Data server {number} is readmitted, and serves.\n"),
        false => {
            format!("Data server {number} is readmitted; `meridian status` shows when it serves.\n")
        }
    })
}

fn members(pool: &Pool, servers: &[PoolServerStatus]) -> String {
    let unit = pool.stripe_unit.bytes() >> 10;
    let mut text = format!(
        "pool {}, tree \"{}\", stripe unit {unit} KiB\n",
        pool.pool, pool.tree
    );
    for member in &pool.members {
        let note = match (member.number == pool.own, member.removed) {
            (_, true) => "  removed",
            (true, false) => "  this server",
            (false, false) => "",
        };
        let addresses = member.addresses.join(", ");
        let name = match member.name.as_str() {
            "" => String::new(),
            name => format!("  {}", ShownText(name)),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {:<15} {:<5} {}{name}{note}",
            role(member),
            member.number,
            ShownText(&addresses),
        );
        if let Some(server) = status_of(member, servers) {
            let holding = server.holding.as_ref();
            let holding = holding.map(|holding| format!("; {}", HoldingText(holding)));
            let condition = server.condition();
            let _ = writeln!(text, "      {condition}{}", holding.unwrap_or_default());
        }
    }
    text
}

/// Printed at once on standard error, so that standard output has only the result for scripts.
fn warn(warning: Option<String>) {
    if let Some(warning) = warning {
        output::remark(format_args!("WARNING: {warning}."));
    }
}
