//! `meridian clients`: who is connected to a server, and sending clients away.
//!
//! What must never enter: what clients hold.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Context;
use server::{ClientStatus, Configuration, EvictQuestion};

use crate::arguments::{ClientsArguments, ClientsCommand};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::status::failure;

pub(crate) fn run(arguments: &ClientsArguments) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let (clients, json) = match &arguments.command {
        None => {
            let data = directory(&arguments.data);
            let clients = runtime.block_on(server::ask_clients(&data));
            (clients.map_err(failure)?, arguments.json)
        }
        Some(ClientsCommand::Evict { client, data, json }) => {
            let question = match client.parse::<IpAddr>() {
                Ok(address) => EvictQuestion::Address(address.to_canonical()),
                Err(_) => EvictQuestion::Id(client.to_lowercase()),
            };
            let evicted = runtime.block_on(server::ask_evict(&directory(data), question));
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
        true => output::say_json(&clients)?,
        false => show(&clients)?,
    }
    Ok(Exit::Success)
}

fn show(clients: &[ClientStatus]) -> std::io::Result<()> {
    if clients.is_empty() {
        return output::say("no client is connected");
    }
    clients.iter().try_for_each(output::say)
}

fn directory(data: &Option<PathBuf>) -> PathBuf {
    let data = data.clone();
    data.unwrap_or_else(|| Configuration::default().data)
}
