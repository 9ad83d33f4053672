//! `meridian clients`: lists the clients of a server, and evicts them.
//!
//! What must never enter: the state of clients.

use std::net::IpAddr;

use server::{ClientStatus, EvictQuestion};

use crate::arguments::{ClientsArguments, ClientsCommand};
use crate::asking::{answer, directory};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::status::failure;

pub(crate) fn run(arguments: &ClientsArguments) -> Result<Exit, Failure> {
    let (clients, json) = match &arguments.command {
        None => {
            let data = directory(&arguments.data);
            let clients = answer(server::ask_clients(&data))?;
            (clients.map_err(failure)?, arguments.json)
        }
        Some(ClientsCommand::Evict { client, data, json }) => {
            let question = match client.parse::<IpAddr>() {
                Ok(address) => EvictQuestion::Address(address.to_canonical()),
                Err(_) => EvictQuestion::Id(client.to_lowercase()),
            };
            let evicted = answer(server::ask_evict(&directory(data), question))?;
            let evicted = evicted.map_err(failure)?;
            if !json {
                output::say(
                    "What these clients held is let go; they may come again, as new ones:",
                )?;
            }
            (evicted, *json)
        }
    };
    match json {
        true => output::say_json(&clients.rows)?,
        false => show(&clients.rows)?,
    }
    if clients.more > 0 {
        output::remark(clients.remark());
    }
    Ok(Exit::Success)
}

fn show(clients: &[ClientStatus]) -> std::io::Result<()> {
    if clients.is_empty() {
        return output::say("no client is connected");
    }
    clients.iter().try_for_each(output::say)
}
