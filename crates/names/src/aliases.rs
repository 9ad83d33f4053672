//! Where the aliases of a name lead (CNAME; RFC 1034, section 3.6.2) if they lead to no record. DNS servers and resolvers stop at
//! a circle and report "no record", or a failure. The administrator who has to correct the zone needs the aliases themselves.
//!
//! What must never enter: names whose records are found.

use std::fmt;

use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::{Name, TokioResolver};

/// At most this number of aliases is followed: more than resolvers follow.
const ALIASES_MAX: usize = 16;

/// The end of aliases that lead to no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Astray {
    /// A circle: the names in their order; the last name occurred before.
    Circle(Vec<String>),
    /// Too many aliases: the first name and the last one that was followed.
    OnAndOn(String, String),
}

impl fmt::Display for Astray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Astray::Circle(names) => {
                let way = names.join(" -> ");
                write!(f, "aliases (CNAME) lead in a circle, {way}")
            }
            Astray::OnAndOn(first, last) => {
                write!(
                    f,
                    "more than {ALIASES_MAX} aliases (CNAME) follow each other, from {first} to {last} and on"
                )
            }
        }
    }
}

/// Follows the aliases of a name without records. Nothing if there are none, or they end.
pub(crate) async fn astray(resolver: &TokioResolver, name: &Name) -> Option<Astray> {
    let mut way = vec![name.to_lowercase()];
    while way.len() <= ALIASES_MAX {
        let next = alias(resolver, way.last()?).await?;
        let was_there = way.contains(&next);
        way.push(next);
        if was_there {
            return Some(Astray::Circle(way.iter().map(shown).collect()));
        }
    }
    let (first, last) = (way.first()?, way.last()?);
    Some(Astray::OnAndOn(shown(first), shown(last)))
}

/// The target of an alias.
async fn alias(resolver: &TokioResolver, name: &Name) -> Option<Name> {
    let found = resolver.lookup(name.clone(), RecordType::CNAME).await;
    found.ok()?.iter().find_map(|record| match record {
        RData::CNAME(alias) => Some(alias.0.to_lowercase()),
        _ => None,
    })
}

/// A name as in a zone file: everything except letters, digits and some signs is escaped.
fn shown(name: &Name) -> String {
    name.to_ascii()
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use super::*;
    use crate::{Lookup, LookupError, NamedServer, Trouble};

    const ALIAS: u16 = 5;
    const SERVER: u16 = 33;

    /// A DNS server with these records, at most one for each name: its name, its kind and the name in it. It answers
    /// every query for an alias with the alias, and does not follow it.
    fn dns(records: Vec<(String, u16, String)>) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                let _ = socket.send_to(&answer(&question[..length], &records), from);
            }
        });
        at
    }

    fn answer(question: &[u8], records: &[(String, u16, String)]) -> Vec<u8> {
        let name = question[12..].to_ascii_lowercase();
        let end = 12 + name.iter().position(|byte| *byte == 0).unwrap() + 5;
        let mut answer = question[..end].to_vec();
        answer[2..4].copy_from_slice(&[0x81, 0x80]);
        // The query, and no records yet.
        answer[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        let asked = records
            .iter()
            .find(|(of, ..)| name.starts_with(&encoded(of)));
        if let Some((_, kind, to)) = asked {
            answer[7] = 1;
            let fields: &[u8] = if *kind == SERVER {
                &[0, 0, 0, 0, 8, 1]
            } else {
                &[]
            };
            let data = [fields, &encoded(to)].concat();
            answer.extend([
                0xc0,
                12,
                0,
                u8::try_from(*kind).unwrap(),
                0,
                1,
                0,
                0,
                0,
                60,
                0,
            ]);
            answer.push(u8::try_from(data.len()).unwrap());
            answer.extend(data);
        }
        answer
    }

    fn encoded(name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for label in name.split('.') {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes
    }

    fn found(records: &[(&str, u16, &str)]) -> Result<Vec<NamedServer>, LookupError> {
        let owned = records
            .iter()
            .map(|(name, kind, to)| ((*name).to_owned(), *kind, (*to).to_owned()));
        let lookup = Lookup::at(dns(owned.collect()));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let domain = "example.org".parse().unwrap();
        runtime.unwrap().block_on(lookup.servers(&domain))
    }

    const SERVICE: &str = "_nfs-domainroot._tcp.example.org";

    #[test]
    fn a_circle_of_aliases_is_named() {
        let circle = [
            (SERVICE, ALIAS, "a.example.org"),
            ("a.example.org", ALIAS, "B.example.org"),
            ("b.example.org", ALIAS, "a.example.org"),
        ];
        let error = found(&circle).unwrap_err();
        let way = format!("{SERVICE}. -> a.example.org. -> b.example.org. -> a.example.org.;");
        assert!(matches!(error, LookupError::Astray(..)) && error.is_of_the_zone());
        assert!(error.to_string().contains(&way), "{error}");
        let itself = found(&[(SERVICE, ALIAS, SERVICE)]).unwrap_err();
        let way = format!("{SERVICE}. -> {SERVICE}.;");
        assert!(itself.to_string().contains(&way), "{itself}");
        // An alias of a missing name is not a circle.
        let nowhere = found(&circle[..2]).unwrap_err();
        assert!(matches!(nowhere, LookupError::None(..)), "{nowhere}");
    }

    #[test]
    fn a_server_whose_aliases_go_in_a_circle_or_on_and_on_is_told_apart() {
        let servers = found(&[
            (SERVICE, SERVER, "a.example.org"),
            ("a.example.org", ALIAS, "a.example.org"),
        ]);
        let trouble = servers.unwrap().remove(0).trouble;
        let circle = Astray::Circle(vec!["a.example.org.".to_owned(); 2]);
        assert_eq!(trouble, Some(Trouble::Aliases(circle)));

        let names: Vec<String> = (0..40).map(|at| format!("n{at}.example.org")).collect();
        let mut records = vec![(SERVICE, ALIAS, names[0].as_str())];
        records.extend(names.windows(2).map(|two| (&*two[0], ALIAS, &*two[1])));
        let told = found(&records).unwrap_err().to_string();
        assert!(told.contains("more than 16 aliases"), "{told}");
        assert!(
            told.contains(SERVICE) && told.contains("n15.example.org"),
            "{told}"
        );
    }
}
