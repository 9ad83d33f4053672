//! `meridian check`: what it finds, what it mends, and what it says.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use crate::fixture::{Place, complaint, run};

fn check(place: &Place, more: &[&str]) -> (Option<i32>, String) {
    let data = place.data();
    let arguments = [&["check", "--data", data.to_str().unwrap()], more].concat();
    let output: Output = run(&arguments);
    (
        output.status.code(),
        String::from_utf8(output.stdout.clone()).unwrap() + &complaint(&output),
    )
}

#[test]
fn a_used_data_directory_is_sound() {
    let place = Place::new("");
    place.start().stop();
    let (code, text) = check(&place, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("tree \"default\"") && text.contains("All is well."),
        "{text}"
    );
}

#[test]
fn a_reader_that_stops_hears_no_complaint() {
    let place = Place::new("");
    place.start().stop();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let data = place.data();
    let mut check = Command::new(env!("CARGO_BIN_EXE_meridian"));
    check.args(["check", "--data"]).arg(data).stdout(writer);
    let output = check.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(
        output.status.signal(),
        Some(13),
        "it ends as `head` expects"
    );
    assert_eq!(complaint(&output), "");
}

#[test]
fn a_running_server_is_not_disturbed() {
    let place = Place::new("");
    let server = place.start();
    let (code, text) = check(&place, &["--repair"]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("in use by process") && text.contains("stop"),
        "{text}"
    );
    assert!(server.answers_null());
}

#[test]
fn nothing_is_checked_where_nothing_is() {
    let place = Place::new("");
    let (code, text) = check(&place, &[]);
    assert_eq!(code, Some(1));
    assert!(text.contains("there is no data directory"), "{text}");
    assert!(!place.data().exists());
}

#[test]
fn damage_is_told_and_mended_on_demand() {
    let place = Place::new("");
    place.start().stop();
    fs::write(place.data().join("identity"), "nobody").unwrap();
    let stray = place
        .data()
        .join("trees/default/data/ff/ff/0001000000ffffff");
    fs::create_dir_all(stray.parent().unwrap()).unwrap();
    fs::write(&stray, "whose?").unwrap();

    let (code, text) = check(&place, &[]);
    assert_eq!(code, Some(3), "{text}");
    assert!(
        text.contains("identity is damaged") && text.contains("--repair"),
        "{text}"
    );
    assert!(stray.exists());
    let (code, text) = check(&place, &["--repair"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("a new identity was made"), "{text}");
    let (code, text) = check(&place, &[]);
    assert_eq!(code, Some(0), "{text}");

    assert_eq!(
        fs::read_to_string(place.data().join("damaged/identity")).unwrap(),
        "nobody"
    );
    let kept = place.data().join("trees/default/lost-data");
    let kept: Vec<_> = fs::read_dir(kept).unwrap().collect();
    assert_eq!(kept.len(), 1, "the stray data is set aside: {kept:?}");
    assert!(place.start().answers_null());
}
