//! A data server that is emptied, and goes.

use super::*;

#[test]
fn a_data_server_that_is_to_go_gets_no_new_files_and_goes_when_its_files_have_moved() {
    let (metadata, names, machines, _servers) = striping_over([2, 3]);
    let [_, other] = &machines;
    block_on(write(&names, "old", &striped_bytes(1)));
    until("the metadata server knows", || {
        data_server(&metadata, 3).holding.unwrap().contents == 1
    });
    let drain = |more: &[&str]| pool(&metadata, &[&["drain-data"], more].concat());
    refuse(
        &pool(&metadata, &["remove", "3"]),
        &["parts of 1 file lie", "`meridian pool drain-data 3`"],
    );
    let told = succeed(&drain(&["3"]));
    assert!(told.contains("over it: 1\n  /old\nThey move"), "{told}");
    let told = succeed(&drain(&["3", "--json"]));
    let told: server::DrainDataAnswer = serde_json::from_str(&told).unwrap();
    assert_eq!((told.number, told.stopped), (3, false));
    refuse(
        &drain(&["2"]),
        &["no other data server", "let another one join"],
    );
    refuse(&drain(&["1"]), &["metadata server"]);

    // That stays so over a restart.
    names.kill();
    let names = metadata.place.start();
    for number in [2, 3] {
        until("it serves", || data_server(&metadata, number).serves);
    }
    until("new files lie on the other", || {
        data_server(&metadata, 2).new_files
    });
    // While it carries out what the move asks for, that is told instead.
    until("it is told", || {
        let shown = succeed(&metadata.meridian(&["status"]));
        shown.contains("is to be emptied and gets no new files")
    });

    until("nothing lies there", || {
        status(other).holding.unwrap().contents == 0
    });
    until("that is known", || {
        data_server(&metadata, 3).holding.unwrap().contents == 0
    });
    // The file of contents goes after what says that there are any.
    until("no bytes either", || stripes_in(&shelf(other)).is_empty());
    let told = succeed(&drain(&["3"]));
    assert!(told.contains("over it: 0"), "{told}");

    // One may think better of it.
    succeed(&drain(&["3", "--stop"]));
    until("new files lie there again", || {
        data_server(&metadata, 3).new_files
    });
    succeed(&drain(&["3"]));
    succeed(&pool(&metadata, &["remove", "3"]));
    assert_eq!(block_on(read(&names, "old")), striped_bytes(1));
}
