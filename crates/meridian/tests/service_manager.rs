//! What the service manager hears from `meridian serve`, by the protocol of `sd_notify`.

use std::os::unix::net::UnixDatagram;

use crate::fixture::Place;

/// Receives messages until one has a line that starts so, and returns that line.
fn heard(manager: &UnixDatagram, start: &str) -> String {
    loop {
        let mut message = [0; 4096];
        let length = manager.recv(&mut message).unwrap();
        let message = String::from_utf8(message[..length].to_vec()).unwrap();
        if let Some(line) = message.lines().find(|line| line.starts_with(start)) {
            return line.to_owned();
        }
    }
}

#[test]
fn it_hears_of_readiness_life_and_the_end() {
    let place = Place::new("");
    let socket = place.directory.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let mut command = place.serve();
    let server = place.start_command(command.env("NOTIFY_SOCKET", &socket));
    heard(&manager, "READY=1");
    assert_eq!(
        heard(&manager, "STATUS="),
        "STATUS=serving /export: 0 clients, 0 opens"
    );
    heard(&manager, "WATCHDOG=1");
    server.stop();
    heard(&manager, "STOPPING=1");
}
