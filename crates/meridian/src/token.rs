//! `meridian set token` and `meridian pool token`: tokens that were issued and not used.
//!
//! What must never enter: how a token is made, and what it admits a server to.

use std::fmt::Write;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::Serialize;
use server::set::{Kind, Outstanding};
use server::{moment, pools, set};

use crate::arguments::TokenCommand;
use crate::asking::directory;
use crate::exit::{Exit, Failure};
use crate::output;

/// A valid token, for programs. The keys differ between the two.
#[derive(Serialize)]
#[serde(untagged)]
enum TokenView {
    Set {
        slot: u16,
        witness: bool,
        expires_unix_s: u64,
    },
    Pool {
        number: u16,
        metadata_server: bool,
        expires_unix_s: u64,
    },
}

pub(crate) fn run(of: Kind, command: &TokenCommand) -> Result<Exit, Failure> {
    match command {
        TokenCommand::List { data, json } => {
            let tokens = outstanding(of, &directory(data))?;
            match json {
                true => {
                    let views = tokens.iter().map(|token| view(of, token));
                    output::say_json(&views.collect::<Vec<_>>())?;
                }
                false => output::say(list(of, &tokens).trim_end())?,
            }
        }
        TokenCommand::Revoke { number, data } => {
            revoke(of, &directory(data), *number)?;
            output::say(format!(
                "The token for {} {number} admits nobody any more; its number is free again.",
                member(of)
            ))?;
        }
    }
    Ok(Exit::Success)
}

fn outstanding(of: Kind, data: &Path) -> Result<Vec<Outstanding>, Failure> {
    Ok(match of {
        Kind::Set => set::tokens(data)?,
        Kind::Pool => pools::tokens(data)?,
    })
}

fn revoke(of: Kind, data: &Path, number: u16) -> Result<(), Failure> {
    match of {
        Kind::Set => set::revoke_token(data, number)?,
        Kind::Pool => pools::revoke_token(data, number)?,
    }
    Ok(())
}

fn member(of: Kind) -> &'static str {
    match of {
        Kind::Set => "replica",
        Kind::Pool => "server",
    }
}

fn view(of: Kind, token: &Outstanding) -> TokenView {
    let (number, expires_unix_s) = (token.slot.0, expires_unix_s(token));
    match of {
        Kind::Set => TokenView::Set {
            slot: number,
            witness: token.witness,
            expires_unix_s,
        },
        Kind::Pool => TokenView::Pool {
            number,
            metadata_server: token.metadata_server,
            expires_unix_s,
        },
    }
}

fn list(of: Kind, tokens: &[Outstanding]) -> String {
    if tokens.is_empty() {
        return "no token is outstanding\n".to_owned();
    }
    let mut text = String::new();
    for token in tokens {
        let kind = match (of, token.witness) {
            (Kind::Set, true) => "  witness",
            (Kind::Set, false) => "  replica",
            (Kind::Pool, _) if token.metadata_server => "  metadata server",
            (Kind::Pool, _) => "  data server",
        };
        let (member, number) = (member(of), token.slot.0);
        let until = moment(expires_unix_s(token));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{member} {number:<5}{kind}  works until {until}");
    }
    text
}

fn expires_unix_s(token: &Outstanding) -> u64 {
    let expires = token.expires.duration_since(UNIX_EPOCH);
    expires.unwrap_or_default().as_secs()
}
