//! From a file to a config.

use std::io::Read;
use std::path::Path;

use super::fault::{Fault, Faults};
use super::{Config, Environment, build, cross, environment, security, tree, walk};
use crate::words::Code;

/// The most that a config file may hold, in bytes: far more than any needs.
const MAX_BYTES: u64 = 1 << 20;

/// Reads the config file at `path`, with secrets and overrides from `env`.
///
/// # Errors
/// Every fault there is, except that a file which cannot be read or is not TOML has only that one.
pub fn load(path: &Path, env: &Environment) -> Result<Config, Faults> {
    load_text(&read(path)?, &path.display().to_string(), env)
}

/// Reads a config from `text`, which faults call `name`.
///
/// # Errors
/// As [`load`].
pub fn load_text(text: &str, name: &str, env: &Environment) -> Result<Config, Faults> {
    let mut faults = Vec::new();
    let mut root = tree::parse(text, name, env, &mut faults)?;
    environment::overlay(&mut root, env, &mut faults);
    let values = walk::walk(&root, &mut faults);
    cross::check(&values, &mut faults);
    security::check(&values, &mut faults);
    Faults::none_in(faults)?;
    build::build(&values).ok_or_else(|| {
        let problem = "the config passed every check and still could not be built";
        Faults::from(Fault::of_file(Code::Internal, problem, "report this as a bug"))
    })
}

fn read(path: &Path) -> Result<String, Fault> {
    let name = path.display();
    let bytes = read_limited(path).map_err(|cause| {
        let problem = format!("failed to read config file `{name}`");
        let fix = "check the path given to `--config`, and that this user may read the file";
        Fault::of_file(Code::ConfigUnreadable, problem, fix).caused_by(cause)
    })?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_BYTES) {
        let problem = format!("expected a config file of at most 1 MiB, got more in `{name}`");
        let fix = "check the path given to `--config`";
        return Err(Fault::of_file(Code::ConfigUnreadable, problem, fix));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = error.as_bytes().iter().take(valid);
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        let problem = format!("failed to parse config file `{name}` at line {line}: not UTF-8");
        Fault::of_file(Code::ConfigSyntax, problem, "save the file as UTF-8")
    })
}

fn read_limited(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
