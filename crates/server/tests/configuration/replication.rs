//! The section `[replication]`.

use std::time::Duration;

use control::{Contention, Strategies};
use replica::{Durability, Frozen, NameSpace, WithoutMajority};

use super::parse;

#[test]
fn replication_has_its_settings() {
    let all = parse(
        r#"
        [[export]]
        path = "/src"
        tree = "source"

        [replication]
        tree = "source"
        listen = "192.0.2.1"
        data_lanes = 8
        compression = false
        merging = false
        data_delay = "0 ms"
        busy_data_delay = "20 s"
        directory_contention = "wait"
        namespace = "relaxed"
        durability = "majority"
        deep_control_idle = "5 s"
        file_control_idle = "10 s"
        open_file_control_idle = "1 min"
        revoke_grace = "50 ms"
        standing_back = "0 ms"
        site_lease = "1 s"
        clock_drift_ppm = 1000
        without_majority = "stale-reads"
        frozen_reads = "last-synchronised"
        kept_updates = 10
        kept_memory = "64 MiB"
        return_rate = "2 MiB"
        space_reserve = "1 MiB"
        scrub_interval = "0 s"
        scrub_rate = "100 MiB"
        strategies = { idle_timer = false, upgrade = false }
        "#,
    )
    .unwrap()
    .replication;
    assert_eq!(all.tree, "source");
    assert_eq!(all.listen.unwrap().0.to_string(), "192.0.2.1:7643");
    let own = all.replica;
    assert_eq!(
        (own.peer.data_lanes, own.peer.compression, own.merging),
        (8, false, false)
    );
    assert_eq!(own.control.directory_contention, Contention::Wait);
    assert_eq!(own.name_space, NameSpace::Relaxed);
    assert_eq!(own.durability, Durability::Majority);
    let times = [
        own.data_delay,
        own.busy_data_delay,
        own.control.deep_control_idle,
        own.control.file_control_idle,
        own.control.open_file_control_idle,
        own.control.revoke_grace,
        own.control.standing_back,
    ];
    assert_eq!(
        times.map(|time| time.as_millis()),
        [0, 20_000, 5000, 10_000, 60_000, 50, 0]
    );
    let wanted = Strategies {
        idle_timer: false,
        upgrade: false,
        ..Strategies::default()
    };
    assert_eq!(own.control.strategies, wanted);
    assert_eq!(own.site_lease.as_millis(), 1000);
    assert_eq!(own.suspicion.as_millis(), 600, "as a part of the lease");
    assert_eq!((own.clock_drift_ppm, own.kept_updates), (1000, 10));
    assert_eq!(own.kept_memory, 64 << 20);
    assert_eq!(own.return_bytes_per_second, Some(2 << 20));
    assert_eq!(own.space_reserve, Some(1 << 20));
    assert_eq!(
        (own.scrub_interval, own.scrub_rate),
        (Duration::ZERO, 100 << 20)
    );
    assert_eq!(own.without_majority, WithoutMajority::StaleReads);
    assert_eq!(own.frozen, Frozen::LastSynchronised);
}

#[test]
fn what_is_wrong_with_replication_is_told_with_a_remedy() {
    for (line, parts) in [
        ("tree = \"other\"", &["no export shows", "\"default\""][..]),
        (
            "data_delay = 5",
            &["`data_delay` is 5", "\"0 ms\" to \"1 min\""],
        ),
        ("revoke_grace = \"2 min\"", &["from \"0 ms\""]),
        ("durability = \"majorty\"", &["did you mean \"majority\""]),
        ("compression = \"no\"", &["true or false"]),
        ("data_lane = 3", &["did you mean `data_lanes`"]),
        (
            "strategies = { revok = true }",
            &["[replication.strategies]", "`revoke`"],
        ),
        ("listen = \"here\"", &["192.0.2.1:7643"]),
        ("site_lease = \"100 ms\"", &["500 ms", "10 min"]),
        (
            "suspicion = \"5 s\"",
            &["`site_lease` is \"5 s\"", "shorter than the `site_lease`"],
        ),
        (
            "frozen_reads = \"last-synchronised\"\nfrozen_access = \"error\"",
            &["`frozen_access` is \"error\"", "`frozen_access = \"wait\"`"],
        ),
        ("without_majority = \"stale\"", &["\"stale-reads\""]),
    ] {
        let message = parse(&format!("[replication]\n{line}\n"))
            .unwrap_err()
            .to_string();
        assert!(message.starts_with("meridian.toml:2:"), "{message}");
        for part in parts {
            assert!(message.contains(part), "`{part}` is not in: {message}");
        }
    }
}
