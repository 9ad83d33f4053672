//! Whether a browser's request is meant for this server.
//!
//! A page of another site can send a browser here under its own name, by making that name resolve to this machine's
//! address ("DNS rebinding"), and then read the answers as its own. The name is in the `Host` header. So a request is
//! answered only if the header contains an address, `localhost` (RFC 6761, section 6.3: it always means this machine),
//! or a configured name.
//!
//! What must never enter: names that need a lookup.

use std::net::IpAddr;

use axum::http::uri::Authority;

/// Whether the page is answered for this value of a `Host` header. `names` are in lower case.
pub(super) fn is_expected(host: &str, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host().to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    is_address(name)
        || name == "localhost"
        || name.ends_with(".localhost")
        || names.iter().any(|known| known == name)
}

fn is_address(name: &str) -> bool {
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    inner.unwrap_or(name).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_localhost_and_known_names_are_expected() {
        let names = ["alpha.example".to_owned()];
        for host in [
            "127.0.0.1:9650",
            "127.0.0.1",
            "[::1]:9650",
            "192.0.2.1:80",
            "localhost:9650",
            "LOCALHOST",
            "localhost.:9650",
            "alpha.localhost:1",
            "Alpha.Example:9650",
        ] {
            assert!(is_expected(host, &names), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9650",
            "127.0.0.1.evil.example:9650",
            "localhost.evil.example",
            "notlocalhost",
            "127.0.0.1@evil.example",
            "evil.example@127.0.0.1",
            "beta.alpha.example",
            "a b",
        ] {
            assert!(!is_expected(host, &names), "{host}");
        }
    }
}
