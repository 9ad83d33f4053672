//! `[page]`: the address of the status page, and the names under which browsers may request it.
//!
//! What must never enter: the content of the page.

use std::net::SocketAddr;
use std::str::FromStr;

use super::offer::Offer;
use super::section::Section;
use super::{Configuration, PAGE_PORT};

/// The address of the status page. The page asks for no password and shows file names, so only this machine can reach
/// it, unless an administrator explicitly allows more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageConfiguration {
    /// Where it is offered.
    pub listen: Offer,
    /// Whether other machines may reach that address.
    pub allow_remote: bool,
    /// The names, in addition to `localhost` and addresses, under which browsers may request it, in lower case.
    pub names: Vec<String>,
}

impl Default for PageConfiguration {
    fn default() -> PageConfiguration {
        PageConfiguration {
            listen: Offer::here(PAGE_PORT),
            allow_remote: false,
            names: Vec::new(),
        }
    }
}

pub(super) fn read(section: &Section<'_>, all: &mut Configuration) {
    let page = &mut all.page;
    let wanted = "ADDRESS:PORT, such as \"127.0.0.1:9650\" or \"[::1]:9650\", or \"off\"";
    page.listen = section.parsed("listen", wanted).unwrap_or(page.listen);
    page.allow_remote = section.switch("allow_remote").unwrap_or(page.allow_remote);
    let names = section.list::<HostName>("names", HostName::WANTED);
    page.names = names.into_iter().flatten().map(|name| name.0).collect();
    if let Offer::At(address) = page.listen
        && !page.allow_remote
        && !is_local(address)
    {
        let port = address.port();
        section.complain(
            section.place_of("listen"),
            format!("`listen` is {address}, which other machines reach, and the page asks nobody for a password"),
            format!(
                "write \"127.0.0.1:{port}\", and look at it from elsewhere through ssh: `ssh -L {port}:127.0.0.1:{port} SERVER`, then http://127.0.0.1:{port}/. If everybody who reaches {address} may read it, add `allow_remote = true`"
            ),
        );
    }
}

/// A name under which browsers may request the page, in lower case, without a port, which browsers may add.
struct HostName(String);

impl HostName {
    /// The expected format, for messages.
    const WANTED: &'static str = "a host name such as \"alpha.example\", or a list of them";
}

impl FromStr for HostName {
    type Err = ();

    fn from_str(text: &str) -> Result<HostName, ()> {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        let is_name = !text.is_empty() && text.chars().all(fits);
        is_name
            .then(|| HostName(text.to_ascii_lowercase()))
            .ok_or(())
    }
}

/// Whether an address is reachable only from this machine.
fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
