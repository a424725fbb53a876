//! A deterministic simulator: the core, driven as the pipeline drives it, over a broker and a
//! disk that fail in every way we know of. One thread, one seed, no wall clock.
//!
//! Each seed draws its own rules, records and mix of faults, runs through chaos, then heals and
//! must finish. `FIRSTSEEN_SIM_SEED=n` runs one seed; `FIRSTSEEN_SIM_SEEDS=n` sets how many, and
//! `FIRSTSEEN_SIM_FROM=n` where to begin. `FIRSTSEEN_SIM_TELL=1` tells what happens, step by step.

/// Tells what happens, where one seed is looked into.
macro_rules! tell {
    ($($arg:tt)*) => {
        if *crate::sim::TELL {
            println!($($arg)*);
        }
    };
}

mod broker;
#[cfg(feature = "bugs")]
mod bugs;
mod cover;
mod disk;
mod ledger;
mod rng;
mod sink;
mod source;
mod world;

use cover::Coverage;
use world::World;

const SEEDS: u64 = 6_000;

static TELL: std::sync::LazyLock<bool> =
    std::sync::LazyLock::new(|| std::env::var_os("FIRSTSEEN_SIM_TELL").is_some());

/// How many failed seeds are told before giving up.
const TOLD: usize = 12;

/// Runs many seeds. Returns how many steps that took, or what went wrong in the first few that
/// failed.
fn run(seeds: std::ops::Range<u64>, total: &mut Coverage) -> Result<u64, String> {
    let (mut steps, mut failed) = (0, Vec::new());
    for seed in seeds {
        match World::run(seed) {
            Ok(ran) => {
                if seed % 100 == 0 {
                    let again = World::run(seed).map(|again| again.trace);
                    assert_eq!(again, Ok(ran.trace), "seed {seed} does not repeat itself");
                }
                steps += ran.steps;
                total.add(&ran.cover);
            }
            Err(why) => failed.push(format!("FIRSTSEEN_SIM_SEED={seed}: {why}")),
        }
        if failed.len() == TOLD {
            break;
        }
    }
    if failed.is_empty() { Ok(steps) } else { Err(failed.join("\n")) }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn nothing_is_lost_or_repeated_through_thousands_of_seeds() {
    let mut cover = Coverage::default();
    if let Some(seed) = number("FIRSTSEEN_SIM_SEED") {
        run(seed..seed + 1, &mut cover).unwrap_or_else(|why| panic!("{why}"));
        return;
    }
    let seeds = number("FIRSTSEEN_SIM_SEEDS").unwrap_or(SEEDS);
    let from = number("FIRSTSEEN_SIM_FROM").unwrap_or(0);
    let steps = run(from..from + seeds, &mut cover).unwrap_or_else(|why| panic!("{why}"));
    println!("{seeds} seeds, {steps} steps\n{cover}");
    if seeds >= SEEDS {
        assert_eq!(cover.below(100), Vec::<&str>::new(), "too rare to prove anything");
    }
}
