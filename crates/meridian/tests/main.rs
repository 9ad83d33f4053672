//! The program as its users meet it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

mod administration;
mod authority;
mod check;
mod clock_jumps;
mod controls;
mod crowds;
mod damaged;
mod decoders;
mod disks;
mod failback;
mod foreign_client;
mod full_disk;
mod lacking;
mod leases;
mod moved;
mod names;
mod output;
mod page;
mod pool;
mod removed;
mod replicas;
mod restart;
mod restored;
mod rolling_restart;
mod serve;
mod service_manager;
mod set;
mod status;
mod views;
mod witness;
