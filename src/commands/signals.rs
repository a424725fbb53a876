//! Signals become requests to the pipeline.
//!
//! SIGTERM and SIGINT ask it to stop; a second one leaves at once. SIGUSR1 asks for a checkpoint.

use std::io::Write;
use std::sync::atomic::Ordering;

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::pipeline::Control;
use crate::words::{Code, Coded};

/// Why signals cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up signal handlers")]
pub(super) struct Error(#[source] std::io::Error);

impl Coded for Error {
    fn code(&self) -> Code {
        Code::Internal
    }

    fn fix(&self) -> String {
        "look at the limits of this process".to_owned()
    }
}

/// The second signal.
#[derive(Debug, Default, thiserror::Error)]
#[error("stopped by a second signal before everything was drained")]
pub struct Forced;

impl Coded for Forced {
    fn code(&self) -> Code {
        Code::ForcedExit
    }

    fn fix(&self) -> String {
        "start again: what was in flight is caught up on, nothing is lost".to_owned()
    }
}

/// Turns signals into requests from now on.
pub(super) fn install(control: &Control) -> Result<(), Error> {
    crate::seen::ignore_file_size_signal().map_err(Error)?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1]).map_err(Error)?;
    let control = control.clone();
    let listen = move || {
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                control.checkpoint.store(true, Ordering::Relaxed);
            } else if control.stop.swap(true, Ordering::Relaxed) {
                leave_at_once();
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(Error)?;
    Ok(())
}

#[expect(clippy::exit, clippy::disallowed_methods, reason = "the second signal does not wait")]
fn leave_at_once() {
    let line = crate::error::render(&Forced);
    // Where stderr is closed, the exit code still tells.
    writeln!(std::io::stderr().lock(), "{line}").unwrap_or_default();
    std::process::exit(i32::from(Code::ForcedExit.exit_code()));
}
