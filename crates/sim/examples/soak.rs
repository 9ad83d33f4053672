//! Random runs without end, or for the number of minutes in the first argument, from the seed in the second argument. Each seed runs
//! without failures, with them, and also with durability `majority`. Every failing run is reduced and printed; then the exit code is 1.

use sim::Scenario;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The number of seeds between two progress reports.
const REPORT_EVERY: u64 = 5000;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let minutes = arguments.next().and_then(|text| text.parse::<f64>().ok());
    let first = arguments.next().and_then(|text| text.parse().ok());
    let until = minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(minutes * 60.0));
    let next = AtomicU64::new(first.unwrap_or_else(fresh));
    let broken = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "from seed {}, {threads} at a time",
        next.load(Ordering::Relaxed)
    );
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while until.is_none_or(|until| Instant::now() < until) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    for kind in [
                        Scenario::whole,
                        Scenario::failing,
                        Scenario::held_by_majority,
                    ] {
                        if !holds(kind(seed)) {
                            broken.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    if seed.is_multiple_of(REPORT_EVERY) {
                        println!("at seed {seed}");
                    }
                }
            });
        }
    });
    println!("up to seed {}", next.into_inner());
    match broken.into_inner() {
        0 => ExitCode::SUCCESS,
        broken => {
            println!("{broken} runs break an invariant");
            ExitCode::FAILURE
        }
    }
}

fn holds(whole: Scenario) -> bool {
    let Err(violation) = whole.run() else {
        return true;
    };
    println!("{violation}");
    println!("  the same with SIM_SEED={}", whole.shrink());
    false
}

/// Another seed each time, so that every soak looks at new runs.
fn fresh() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs()) << 16
}
