//! What the tests stand on: a broker, a writer, a reader, the program as a child process.

pub(crate) mod admin;
pub(crate) mod audit;
pub(crate) mod broker;
pub(crate) mod config;
pub(crate) mod http;
pub(crate) mod jars;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod sink;
pub(crate) mod stage;
pub(crate) mod wait;
pub(crate) mod writer;

/// Returns the seed of everything random in a test, and prints it so that a failure can be run
/// again: `FIRSTSEEN_SEED` if it is set.
pub(crate) fn seed(test: &str) -> u64 {
    let seed = number("FIRSTSEEN_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("{test}: FIRSTSEEN_SEED={seed}");
    seed
}

/// Returns the number in an environment variable, if it is set.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

/// Returns from the test if broker tests are left out on purpose, and says so.
macro_rules! needs_broker {
    () => {
        if $crate::support::broker::left_out() {
            eprintln!("left out on purpose: FIRSTSEEN_TEST_BROKER=skip");
            return;
        }
    };
}
pub(crate) use needs_broker;
