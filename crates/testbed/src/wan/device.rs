//! The end of the WAN in a site: a TUN device that hands every packet to the forwarder.
//!
//! With offloads on, TCP's super-frames of up to 64 KiB cross whole (`IFF_VNET_HDR`,
//! `TUN_F_CSUM | TUN_F_TSO4`, Linux's `Documentation/networking/tuntap.rst`). The device belongs to
//! the file that was opened, and vanishes with it.
//!
//! What must never enter: what happens to packets on their way.

use std::fs;

use anyhow::{Context, Result};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::addresses;
use crate::site::Site;

/// The name of the device in every site.
const NAME: &str = "wan0";

/// The number of frames that may wait for the forwarder. Each may be 64 KiB of a large window sent at once.
const QUEUE_FRAMES: &str = "8192";

/// The settings that a site needs beyond Linux's defaults; all of them belong to the network namespace.
///
/// Forwarding lets guests reach other sites.
///
/// 1 Gbit/s at a round trip of 200 ms keeps 25 MB unacknowledged, and TCP spends up to half of its
/// buffers on bookkeeping; the usual 4 MiB (`tcp_wmem`) allow at most 168 Mbit/s there. TCP
/// remembers metrics from one connection to the next, so a cut would affect the next test. IPv6 is
/// off because its discovery would count as traffic.
const SETTINGS: [(&str, &str); 5] = [
    ("ipv4/ip_forward", "1"),
    ("ipv4/tcp_rmem", "4096 131072 134217728"),
    ("ipv4/tcp_wmem", "4096 65536 134217728"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv6/conf/wan0/disable_ipv6", "1"),
];

/// Joins a site to the WAN with this index. Reads and writes of the device never wait.
pub(super) fn join(site: &Site, index: usize) -> Result<SyncDevice> {
    let open = || {
        let builder = DeviceBuilder::new().name(NAME).inherit_enable_state();
        let device = builder.with(|builder| {
            builder.offload(true);
        });
        let device = device.build_sync()?;
        device.set_nonblocking(true)?;
        std::io::Result::Ok(device)
    };
    let device = site
        .enter(open)?
        .context("could not make a TUN device; a site joins one WAN only")?;
    site.enter(adjust)??;
    site.configure(&["link", "set", NAME, "txqueuelen", QUEUE_FRAMES, "up"])?;
    let address = addresses::site(index);
    site.configure(&["addr", "add", &format!("{address}/16"), "dev", NAME])?;
    site.configure(&["route", "add", addresses::ALL_GUESTS, "dev", NAME])?;
    site.number_guests(addresses::guests(index));
    Ok(device)
}

/// Applies [`SETTINGS`] to the namespace of the calling thread.
fn adjust() -> Result<()> {
    for (name, value) in SETTINGS {
        let path = format!("/proc/sys/net/{name}");
        // A kernel without IPv6 has nothing to switch off.
        if name.starts_with("ipv6") && !fs::exists(&path)? {
            continue;
        }
        fs::write(&path, value).with_context(|| format!("could not write {path}"))?;
    }
    Ok(())
}
