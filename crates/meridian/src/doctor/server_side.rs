//! The server: whether it runs, as which program, with which alarms, and whether its ports are to be had.
//!
//! What must never enter: what alarms mean; the manual says that.

use std::net::{SocketAddr, TcpListener};

use server::{Configuration, Status, StatusError};

use super::{Finding, Verdict};

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
        Err(error @ StatusError::NotRunning(_)) => {
            let mut found = vec![Finding::mind(
                SERVER,
                error.to_string(),
                "start it as the message says; where this machine is a client only, nothing",
            )];
            found.extend(configuration.listen.iter().map(|wanted| port(wanted.0)));
            found
        }
        Err(error @ StatusError::Permission(_)) => vec![Finding::new(
            SERVER,
            Verdict::Unknown,
            error.to_string(),
            Some("run this as the user of the server (`sudo -u meridian`), or as root".to_owned()),
        )],
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
fn port(wanted: SocketAddr) -> Finding {
    match TcpListener::bind(wanted) {
        Ok(_) => Finding::well(PORTS, format!("{wanted} is free")),
        Err(error) => Finding::mend(
            PORTS,
            format!("{wanted} cannot be listened at: {error}"),
            format!(
                "`ss -ltnp 'sport = :{}'` shows who does; the kernel's NFS server is stopped with `systemctl disable --now nfs-server`",
                wanted.port()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_port_that_is_taken_is_told() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = taken.local_addr().unwrap();
        assert_eq!(port(at).verdict, Verdict::Mend);
        drop(taken);
        assert_eq!(port(at).verdict, Verdict::Well);
    }
}
