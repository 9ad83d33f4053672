//! The server: whether it runs, its program and alarms, and whether its ports are available.
//!
//! What must never enter: the meaning of alarms; the manual explains them.

use std::net::Ipv6Addr;

use server::configuration::ListenAddress;
use server::{Configuration, Status, StatusError, set};

use super::finding::{Finding, Verdict};

const SERVER: &str = "server";
const PORTS: &str = "ports";
const VERSION: &str = "version";
const ALARM: &str = "alarm";

pub(super) fn findings(
    configuration: &Configuration,
    status: &Result<Status, StatusError>,
) -> Vec<Finding> {
    match status {
        Ok(status) => running(status),
        Err(error) if error.is_of_no_server() => {
            let mut found = vec![Finding::mind(
                SERVER,
                error.to_string(),
                "start it as the message says; where this machine is a client only, nothing",
            )];
            found.extend(configuration.listen.iter().map(|wanted| port(*wanted)));
            found.extend(port_of_peers(configuration));
            found
        }
        Err(error @ StatusError::Permission(_)) => vec![Finding::new(
            SERVER,
            Verdict::Unknown,
            error.to_string(),
            Some("run this as the user of the server (`sudo -u meridian`), or as root".to_owned()),
        )],
        Err(error @ StatusError::DataDirectory(_)) => {
            vec![Finding::mend(
                SERVER,
                error.to_string(),
                "as the message says",
            )]
        }
        Err(error) => vec![Finding::mend(
            SERVER,
            error.to_string(),
            "see the log: `journalctl -u meridian`",
        )],
    }
}

fn running(status: &Status) -> Vec<Finding> {
    let listen: Vec<String> = status.listen.iter().map(ToString::to_string).collect();
    let mut found = vec![
        Finding::well(SERVER, format!("process {} runs", status.process)),
        Finding::well(
            PORTS,
            format!("clients are answered at {}", listen.join(", ")),
        ),
    ];
    let own = (env!("MERIDIAN_VERSION"), env!("MERIDIAN_COMMIT"));
    let (version, build) = (&status.version, &status.build);
    found.push(match own == (version.as_str(), build.as_str()) {
        true => Finding::well(VERSION, format!("{version} ({build})")),
        false => Finding::mind(
            VERSION,
            format!(
                "the server runs {version} ({build}), this program is {} ({})",
                own.0, own.1
            ),
            "restart the server, and it runs what is installed",
        ),
    });
    let alarms = status.alarms.iter();
    found.extend(alarms.map(|alarm| {
        let remedy = format!(
            "operating.md says what to do about `{}`; the package puts it into /usr/share/doc/meridian",
            alarm.name
        );
        Finding::mend(ALARM, alarm.to_string(), remedy)
    }));
    found
}

/// Whether a server could listen at an address.
fn port(wanted: ListenAddress) -> Finding {
    match server::try_to_listen(wanted) {
        Ok(()) => Finding::well(PORTS, format!("{} is free", wanted.0)),
        Err(error) => Finding::mend(PORTS, error.to_string(), "as the message says"),
    }
}

/// The same for the port for the other members of its set; nothing if it does not belong to one.
fn port_of_peers(configuration: &Configuration) -> Option<Finding> {
    let joined = set::members(&configuration.data).ok()?;
    let own = (joined.members.iter()).find(|member| member.slot == joined.slot)?;
    let wanted = match configuration.replication.listen {
        Some(chosen) => chosen.0,
        None => {
            let called = own.addresses.first()?;
            let port = called.rsplit_once(':')?.1.parse().ok()?;
            ListenAddress((Ipv6Addr::UNSPECIFIED, port).into())
        }
    };
    Some(match server::try_to_listen(wanted) {
        Ok(()) => Finding::well(PORTS, format!("{} is free for the other members", wanted.0)),
        Err(error) => Finding::mend(
            PORTS,
            format!("the other members would not be heard: {error}"),
            "as the message says, but with `listen` in [replication] in the place of --listen",
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_may_not_ask_is_told_as_whom_to_ask() {
        let status = Err(StatusError::Permission("/d".into()));
        let [told] = &findings(&Configuration::default(), &status)[..] else {
            panic!("one thing is to be said");
        };
        assert_eq!(told.verdict, Verdict::Unknown);
        assert!(told.remedy.as_ref().unwrap().contains("as root"), "{told}");
    }

    #[tokio::test]
    async fn a_port_that_is_not_to_be_had_is_told_with_the_reason() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        let told = port(ListenAddress(at));
        assert_eq!(told.verdict, Verdict::Mend, "{told}");
        assert!(told.what.contains("ss -ltnp"), "{told}");
        drop(taken);
        assert_eq!(port(ListenAddress(at)).verdict, Verdict::Well);
        // A documentation address (RFC 5737): no machine has it.
        let told = port(ListenAddress("192.0.2.1:2049".parse().unwrap()));
        assert!(told.what.contains("no address of this machine"), "{told}");
    }
}
