//! `testbed wan measure`: the accuracy of delays, and the throughput of TCP.

use std::time::Duration;

use anyhow::Result;
use testbed::measure::{round_trips, throughput};
use testbed::{LinkSettings, Site, Wan};

use super::wan::require;

/// Round trips that are measured, in microseconds.
const ROUND_TRIPS: [u64; 5] = [200, 60_000, 120_000, 200_000, 300_000];

/// The number of packets for each round trip.
const PACKETS: u32 = 50;

/// Round trips at which throughput is measured, in microseconds.
const DISTANCES: [u64; 3] = [200, 120_000, 200_000];

/// How long TCP sends.
const TIME: Duration = Duration::from_secs(10);

/// Prints two tables.
pub(crate) fn measure() -> Result<()> {
    require()?;
    let (near, far) = (Site::new()?, Site::new()?);
    let wan = Wan::join(&[("near", &near), ("far", &far)], &LinkSettings::default())?;
    println!(
        "round trips of {PACKETS} UDP packets, and how late the forwarder was with each frame, ms\n"
    );
    println!("| configured |   least |  median |     90 % |    most | late, mean | late, most |");
    println!("|-----------:|--------:|--------:|---------:|--------:|-----------:|-----------:|");
    for micros in ROUND_TRIPS {
        delays(&wan, Duration::from_micros(micros))?;
    }
    println!("\nTCP payload, Mbit/s, over {TIME:?}: whole time / second half\n");
    println!("| round trip | bandwidth |   1 connection |  4 connections |");
    println!("|-----------:|----------:|---------------:|---------------:|");
    for micros in DISTANCES {
        for bandwidth in [None, Some(1_000_000_000)] {
            let mut settings = LinkSettings::round_trip(Duration::from_micros(micros));
            settings.bandwidth = bandwidth;
            flows(&wan, &settings)?;
        }
    }
    Ok(())
}

fn delays(wan: &Wan, round_trip: Duration) -> Result<()> {
    wan.set(&LinkSettings::round_trip(round_trip))?;
    let (near, far) = (wan.site("near")?, wan.site("far")?);
    let times = round_trips(near, far, wan.address("far")?, PACKETS)?;
    let at = |share: f64| millis(times[((times.len() - 1) as f64 * share) as usize]);
    let late = wan.link("near", "far")?.report()?.lateness;
    println!(
        "| {:10.3} | {:7.3} | {:7.3} | {:8.3} | {:7.3} | {:10.3} | {:10.3} |",
        millis(round_trip),
        at(0.0),
        at(0.5),
        at(0.9),
        at(1.0),
        millis(late.mean()),
        millis(late.max)
    );
    Ok(())
}

fn flows(wan: &Wan, settings: &LinkSettings) -> Result<()> {
    wan.set(settings)?;
    let (near, far) = (wan.site("near")?, wan.site("far")?);
    let run = |flows| -> Result<String> {
        let seen = throughput(near, far, wan.address("far")?, flows, TIME)?;
        Ok(format!(
            "{:5.0} / {:5.0}",
            seen.whole / 1e6,
            seen.second_half / 1e6
        ))
    };
    println!(
        "| {:7.1} ms | {:>9} | {:>14} | {:>14} |",
        millis(settings.delay * 2),
        if settings.bandwidth.is_some() {
            "1 Gbit/s"
        } else {
            "unlimited"
        },
        run(1)?,
        run(4)?
    );
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
