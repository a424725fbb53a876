//! Logs through `tracing`, always on stderr, as readable lines or as JSON.
//!
//! `FIRSTSEEN_LOG` holds the filter. No log line of this crate carries a record's key or value.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::words::{Code, Coded};

/// The environment variable that holds the filter.
pub const FILTER_VARIABLE: &str = "FIRSTSEEN_LOG";

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One readable line.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The filter in the environment cannot be read.
    #[error("failed to read the log filter `{value}` in FIRSTSEEN_LOG")]
    Filter {
        /// What was set.
        value: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The filter is not text.
    #[error("failed to read FIRSTSEEN_LOG: expected UTF-8 text")]
    NotText,
    /// Something else already receives the logs of this process.
    #[error("failed to set up logging")]
    AlreadySet(#[source] tracing_subscriber::util::TryInitError),
}

impl Coded for Error {
    fn code(&self) -> Code {
        match self {
            Self::Filter { .. } | Self::NotText => Code::ConfigEnvironment,
            Self::AlreadySet(_) => Code::Internal,
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::Filter { .. } | Self::NotText => {
                "set FIRSTSEEN_LOG to a level or a list such as `info,firstseen::kafka=debug`, or unset it"
                    .to_owned()
            }
            Self::AlreadySet(_) => "set up logging once per process".to_owned(),
        }
    }
}

/// Sends logs to stderr from now on, filtered by `FIRSTSEEN_LOG` or, unset, by `default_filter`.
///
/// # Errors
/// A filter that cannot be read, or logging that was set up before.
pub fn init(format: Format, default_filter: &str) -> Result<(), Error> {
    let filter = filter(std::env::var_os(FILTER_VARIABLE), default_filter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would report a closed stderr to stderr, and panic. A log reader that went away must
        // not take the sink with it.
        .log_internal_errors(false);
    match format {
        Format::Human => builder.with_ansi(std::io::stderr().is_terminal()).finish().try_init(),
        Format::Json => builder.json().flatten_event(true).finish().try_init(),
    }
    .map_err(Error::AlreadySet)
}

fn filter(set: Option<std::ffi::OsString>, default: &str) -> Result<EnvFilter, Error> {
    let value = match set {
        None => default.to_owned(),
        Some(value) => value.into_string().map_err(|_bytes| Error::NotText)?,
    };
    let value = if value.trim().is_empty() { default.to_owned() } else { value };
    EnvFilter::try_new(&value).map_err(|source| Error::Filter { value, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unset_or_blank_filter_is_the_default() {
        for set in [None, Some("".into()), Some("  ".into())] {
            assert_eq!(filter(set, "info").expect("valid").to_string(), "info");
        }
    }

    #[test]
    fn a_bad_filter_is_a_config_error_that_names_it() {
        let error = filter(Some("firstseen=loud".into()), "info").expect_err("no such level");
        assert_eq!(error.code(), Code::ConfigEnvironment);
        assert!(error.to_string().contains("firstseen=loud"), "{error}");
    }
}
