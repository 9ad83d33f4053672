//! The remedy for each alarm, in a sentence or two. `docs/operating.md` has the details.
//!
//! What must never enter: checking whether an alarm is active.

/// What a person has to do about the alarm with this name.
pub(super) fn remedy(alarm: &str) -> &'static str {
    match alarm {
        "member-away" => {
            "Look at its machine and at the links to it. It comes back by itself. If it never will: operating.md, “A replica is lost”."
        }
        "pool-server-away" => {
            "Look at its machine, at whether the server runs there, and at the links to it. It comes back by itself."
        }
        "pool-files-not-moved" => {
            "See that all data servers are there and have space; the file is tried again. `meridian pool drain-data NUMBER --stop` or `rebalance --stop` leaves files where they are."
        }
        "pool-server-full" => {
            "Make space there, or let another data server join: new files avoid one that is full as long as others have space."
        }
        "frozen-objects" => {
            "Bring that replica back, which thaws them by itself. The list below says what to do if it cannot be brought back."
        }
        "torn-files" => {
            "Restore the files from what was kept aside (`meridian recovered list`), from the server that was given up, or from a backup; or remove them."
        }
        "removed" => {
            "If that was a mistake, let it join again as a new member, with a new invitation and a new data directory; what only it has is still in this one."
        }
        "outside-the-view" => {
            "Mostly nothing: it is catching up. If replicas do not answer, look at the links; if the disk is full, make space."
        }
        "no-lease" => {
            "Bring servers or links back. If a majority is gone for ever: operating.md, “The majority is lost”."
        }
        "damaged-content" => {
            "Mostly nothing: contents are got back from another replica. Look at the disk. If the alarm stays, no replica in contact has a good copy: `meridian scrub --show` names the files."
        }
        "copies-differ" => {
            "`meridian scrub --show` names the objects. Look at each through a server of every site, and write it anew where it is right."
        }
        "two-voters" => {
            "Let a third replica or a witness join: `meridian set invite`, with `--witness` for one that keeps no contents."
        }
        "disk-nearly-full" => {
            "Make space. Clients of all servers of a set get “no space” from the smallest disk."
        }
        "clocks-differ" => {
            "Have a daemon set the clock of every server (chrony, systemd-timesyncd). Where one differs from all others, it is the wrong one."
        }
        "copy-rolled-back" | "member-rolled-back" => {
            "Never run a server from an older copy of its data directory. Have the one that is named begin anew: operating.md, “A member is put back”."
        }
        "member-malformed" => {
            "See that both servers run the same version of the program, and start the one that is named anew. If the alarm comes again, replace its copy: operating.md, “What to look at”."
        }
        "member-slow" => {
            "Look at the links to the member that is named, and at its disk. Bring the members that are away back, or let another one join: then the others go on without it."
        }
        "updates-wait" => {
            "Look at the links between the other servers. If all are up and it goes on, start the server whose updates wait anew: it says again what it holds. Look at its log if the alarm comes again."
        }
        "space" => {
            "Make space on the disk that is named, or give it a larger one: clients of all servers get “no space” because of it."
        }
        "storage-failed" => {
            "The server ends, and its service manager starts it again. If it fails again: replace the disk, then `meridian check`."
        }
        _ => "operating.md, “What to look at”, says what to do.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alarm_that_is_documented_has_a_remedy() {
        let page = include_str!("../../../../../docs/operating.md");
        let table = page.split("| alarm | what it means | what to do |").nth(1);
        let rows = table.unwrap().lines().skip(2);
        let rows = rows.take_while(|row| row.starts_with('|'));
        let alarms: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        assert!(alarms.len() >= 10, "{alarms:?}");
        for alarm in alarms {
            assert_ne!(remedy(alarm), remedy(""), "{alarm}");
        }
    }
}
