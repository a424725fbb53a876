//! Seeded bugs: the simulator must notice each of them, or it proves nothing.

use std::process::Command;

/// Each bug, and where it sits.
const BUGS: &[&str] = &[
    // In the core.
    "mark-before-ack",
    "commit-before-ack",
    "resume-past-flights",
    "settle-out-of-order",
    "position-after-unmet",
    "rewind-keeps-position",
    "expire-by-read-ahead",
    "window-exclusive",
    // In what drives it.
    "skip-catch-up",
    "catch-up-off-by-one",
    "end-before-wait",
    "ignore-failed-delivery",
    "ignore-holes",
    "checkpoint-before-hole",
    "corrupt-as-empty",
    "drop-fsync",
];

const SEEDS: &str = "2000";
const TEST: &str = "sim::nothing_is_lost_or_repeated_through_thousands_of_seeds";

/// Runs the simulator with one bug. Returns whether it passed, and what it said.
fn simulate(bug: &str) -> (bool, String) {
    let output = Command::new(std::env::current_exe().expect("the test's own path"))
        .args([TEST, "--exact", "--nocapture"])
        .env("FIRSTSEEN_BUG", bug)
        .env("FIRSTSEEN_SIM_SEEDS", SEEDS)
        .env_remove("FIRSTSEEN_SIM_SEED")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("the simulator runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_simulator_notices_every_seeded_bug() {
    let mut missed = Vec::new();
    for bug in BUGS {
        let (passed, said) = simulate(bug);
        assert!(said.contains("running 1 test"), "{bug}: the simulator did not run:\n{said}");
        let line = |start: &str| said.lines().find(|line| line.contains(start));
        let found = line("FIRSTSEEN_SIM_SEED=").or_else(|| line("panicked at"));
        println!("{bug}: {}", found.unwrap_or("not noticed"));
        if passed {
            missed.push(*bug);
        }
    }
    assert_eq!(missed, Vec::<&str>::new(), "these bugs went unnoticed through {SEEDS} seeds");
}

#[test]
fn a_name_that_is_no_bug_changes_nothing() {
    let (passed, said) = simulate("no-such-bug");
    assert!(passed, "{said}");
}
