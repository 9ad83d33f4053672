//! The servers of the pool, as this server knows them.
//!
//! What must never enter: the location of files.

use super::names::visible;
use super::sites::Site;
use crate::status::{Holding, PoolServerStatus, PoolStatus, is_nearly_full, size};

/// The pool in one line.
pub(super) fn view(pool: &PoolStatus) -> String {
    format!(
        "this is {} {} of pool {}, stripe unit {}",
        pool.role,
        pool.number,
        pool.pool,
        size(pool.stripe_unit_bytes)
    )
}

/// The other servers, and this one if it stores contents.
pub(super) fn servers(pool: &PoolStatus) -> Vec<Site> {
    let own = pool.holding.iter().map(|holding| Site {
        name: format!("{} {}", pool.role, pool.number),
        address: String::new(),
        state: "this server".to_owned(),
        well: !is_nearly_full(holding),
        values: values(holding),
        links: Vec::new(),
        notes: Vec::new(),
    });
    own.chain(pool.servers.iter().map(server)).collect()
}

fn server(server: &PoolServerStatus) -> Site {
    let name = match server.name.as_str() {
        "" => String::new(),
        name => format!("{}, ", visible(name)),
    };
    let mut told = server.holding.as_ref().map(values).unwrap_or_default();
    if server.waits > 0 {
        told.push(("changes that wait for it", server.waits.to_string()));
    }
    Site {
        name: format!("{name}{} {}", server.role, server.number),
        address: visible(&server.addresses.join(", ")),
        state: visible(&server.condition()),
        well: server.is_well() && !server.holding.as_ref().is_some_and(is_nearly_full),
        values: told,
        links: Vec::new(),
        notes: Vec::new(),
    }
}

fn values(holding: &Holding) -> Vec<(&'static str, String)> {
    let (available, total) = (holding.available_bytes, holding.total_bytes);
    let space = format!("{} of {} available", size(available), size(total));
    vec![
        ("space", space),
        ("files of which it has parts", holding.contents.to_string()),
        ("read since it started", size(holding.read_bytes)),
        ("written since it started", size(holding.written_bytes)),
    ]
}
