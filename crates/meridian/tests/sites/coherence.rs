//! What is closed at one site, and what the next open sees at another.
//!
//! What must never enter: several writers of one file at once; see `together`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testbed::LinkSettings;

use crate::inside::hand::Act;
use crate::scene::{NAMES, Sites, in_sites};

/// Round trips in microseconds, and how many rounds are told at each, over and over.
const DISTANCES: [(u64, usize); 3] = [(200, 40), (60_000, 24), (120_000, 16)];

/// How often each distance has its turn.
const CYCLES: usize = 4;

/// How many files are written and read at the same time.
const FILES: usize = 4;

/// Numbers that look random and are the same in every run (Steele, Lea, Flood: SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed >> 33) as usize % bound
    }
}

/// Sets the distance of all sites when this round is the first at it.
fn set_distance(sites: &Sites, round: usize) -> Result<()> {
    let cycle: usize = DISTANCES.iter().map(|(_, rounds)| rounds).sum();
    let mut first = 0;
    for (micros, rounds) in DISTANCES {
        if round % cycle == first {
            let time = Duration::from_micros(micros);
            sites.wan().set(&LinkSettings::round_trip(time))?;
        }
        first += rounds;
    }
    Ok(())
}

pub fn what_is_made_at_one_site_is_there_at_every_other() -> Result<()> {
    in_sites(|sites| {
        for (site, name) in NAMES.iter().enumerate() {
            let make = format!("mkdir /run/m/{name} && echo {name} > /run/m/{name}/note");
            sites.run(site, make)?;
            for other in 0..NAMES.len() {
                let note = sites.run(other, format!("cat /run/m/{name}/note"))?.text();
                ensure!(note == format!("{name}\n"), "{note}");
            }
        }
        sites.equal_everywhere(".")?;
        Ok(())
    })
}

/// Versions of a file have the same length, so that only the change attribute tells them apart. Every third
/// round makes a new file instead, which the readers have never seen.
pub fn what_is_closed_at_one_site_opens_at_every_other_whatever_the_distance() -> Result<()> {
    in_sites(|sites| {
        sites.run(0, "mkdir /run/m/coherence")?;
        let told = AtomicUsize::new(0);
        let files = std::thread::scope(|scope| {
            let told = &told;
            let begin = |file| scope.spawn(move || tell_rounds(sites, file, told));
            let files: Vec<_> = (0..FILES).map(begin).collect();
            let ended = files.into_iter().map(|file| file.join());
            ended.collect::<Vec<_>>()
        });
        for file in files {
            file.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        sites.wan().set(&crate::scene::far())?;
        sites.equal_everywhere("coherence")?;
        Ok(())
    })
}

fn tell_rounds(sites: &Sites, file: usize, told: &AtomicUsize) -> Result<()> {
    let all = CYCLES * DISTANCES.iter().map(|(_, rounds)| rounds).sum::<usize>();
    let mut hands = sites.hands()?;
    let mut random = Random(file as u64);
    loop {
        let round = told.fetch_add(1, Ordering::Relaxed);
        if round >= all {
            return Ok(());
        }
        set_distance(sites, round)?;
        let name = match random.below(3) {
            0 => format!("coherence/new-{round}"),
            _ => format!("coherence/file-{file}"),
        };
        let text = format!("version {round:05} of file {file}");
        let writer = random.below(NAMES.len());
        let reader = (writer + 1 + random.below(NAMES.len() - 1)) % NAMES.len();
        let about = || {
            format!(
                "round {round}, {} to {}, {name}",
                NAMES[writer], NAMES[reader]
            )
        };
        hands[writer]
            .does(Act::WriteFile(name.clone(), text.clone()))
            .with_context(about)?;
        let seen = hands[reader]
            .does(Act::ReadFile(name.clone()))
            .with_context(about)?;
        ensure!(seen == text, "{}: '{seen}' instead of '{text}'", about());
    }
}
