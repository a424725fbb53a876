//! Writing results to stdout, and lines for people to stderr.

use std::io::{self, Write};

use crate::words::{Code, Coded};

/// The result of a command could not be written.
#[derive(Debug, thiserror::Error)]
#[error("failed to write to stdout")]
pub(super) struct Error(#[from] io::Error);

impl Coded for Error {
    fn code(&self) -> Code {
        Code::CommandFailed
    }

    fn fix(&self) -> String {
        "check where stdout leads, such as a full disk behind a redirection".to_owned()
    }
}

/// Writes `text` to stdout. A reader that left early (`| head`) has seen enough: no failure.
pub(super) fn write(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes a line to stderr. Where that cannot be written there is nobody left to tell.
pub(super) fn tell(line: &str) {
    writeln!(io::stderr().lock(), "{line}").unwrap_or_default();
}
