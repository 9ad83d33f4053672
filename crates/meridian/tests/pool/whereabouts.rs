//! What `meridian pool where` says, and where the bytes are.

use super::*;

#[test]
fn a_file_is_shown_to_lie_where_its_stripes_are() {
    let (metadata, names, machines, _servers) = striping_over([2, 3]);
    block_on(write(&names, "new", &striped_bytes(1)));
    let told = succeed(&pool(&metadata, &["where", "/new", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["bytes"], usize::from(STRIPES) * UNIT);
    assert_eq!(told["stripe_unit_bytes"], UNIT);
    let mut first = None;
    for (number, machine) in [2, 3].into_iter().zip(&machines) {
        let stripes = stripes_in(&shelf(machine));
        let parts = told["parts"].as_array().unwrap();
        let part = parts.iter().find(|part| part["server"] == number).unwrap();
        assert_eq!(part["bytes"], stripes.len() * UNIT, "{told}");
        if stripes.contains(&1) {
            first = Some(number);
        }
    }
    assert_eq!(told["parts"][0]["server"], first.unwrap());
    let told = succeed(&pool(&metadata, &["where", "/new"]));
    assert!(
        told.starts_with("/new: 576.0 KiB, in stripes of 64.0 KiB that go round\n  data server "),
        "{told}"
    );
}

#[test]
fn what_lies_on_no_data_server_is_said_to() {
    let (metadata, names) = founding();
    block_on(write(&names, "old", b"seven!!"));
    let told = succeed(&pool(&metadata, &["where", "/old"]));
    assert_eq!(told, "/old: 7 B, at the metadata server\n");
    let refused = |path: &str, parts: &[&str]| refuse(&pool(&metadata, &["where", path]), parts);
    refused("/", &["/ is no file", "name a file"]);
    refused(
        "/export/old",
        &["no /export/old", "without that of the export"],
    );
    refused("old", &["with a slash in front"]);
    let machine = joined(&metadata);
    refuse(&pool(&machine, &["where", "/old"]), &["no server runs"]);
    let _data_server = start(&machine);
    until_there(&metadata, 2);
    refuse(
        &pool(&machine, &["where", "/old"]),
        &["this is a data server"],
    );
}
