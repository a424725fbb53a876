//! The `firstseen` program: parses, dispatches, and turns failures into lines and an exit code.
//!
//! All the work is in the library; only policy lives here.

use std::io::Write;
use std::process::ExitCode;

use firstseen::error::Error;
use firstseen::{cli, commands};

fn main() -> ExitCode {
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(early) => return early.print(),
    };
    match commands::run(invocation) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Prints a line for each fault. Where stderr is closed, the exit code still tells.
fn failed(error: &Error) -> ExitCode {
    writeln!(std::io::stderr().lock(), "{error}").unwrap_or_default();
    ExitCode::from(error.exit_code())
}
