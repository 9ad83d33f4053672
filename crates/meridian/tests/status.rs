//! `meridian status` and `meridian config check`.

use std::fs;

use crate::fixture::{Place, complaint, run};

#[test]
fn a_running_server_tells_how_it_is() {
    let place = Place::new("commit = \"async\"");
    let server = place.start();
    let status = place.status();
    assert_eq!(status.listen, [server.address]);
    assert_eq!(status.data, place.data());
    assert_eq!((status.commit.as_str(), status.clients), ("async", 0));
    assert!(
        !status.in_grace,
        "nobody has anything to reclaim on a new data directory"
    );

    let output = run(&["status", "--data", place.data().to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    let listening = format!("listening    {}", server.address);
    for part in [
        "export /export",
        "commit       async",
        "0 opens, 0 locks",
        &listening,
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn without_a_server_the_exit_code_tells() {
    let place = Place::new("");
    for prepare in [|_: &Place| {}, |place: &Place| place.start().kill()] {
        prepare(&place);
        let output = run(&["status", "--data", place.data().to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(4));
        assert!(output.stdout.is_empty());
        let message = complaint(&output);
        assert!(
            message.contains("no server runs on") && message.contains("meridian serve"),
            "{message}"
        );
    }
}

#[test]
fn configuration_files_can_be_checked_without_a_server() {
    let place = Place::new("");
    let file = place.configuration();
    let path = file.to_str().unwrap();
    let output = run(&["config", "check", path]);
    assert!(output.status.success(), "{}", complaint(&output));
    fs::write(&file, "[limits]\nconnections = 0\n").unwrap();
    let output = run(&["config", "check", path]);
    assert_eq!(output.status.code(), Some(78));
    let message = complaint(&output);
    assert!(
        message.contains(&format!("{path}:2:15: `connections` is 0")),
        "{message}"
    );
    assert!(message.contains("from 1 to"), "{message}");
}
