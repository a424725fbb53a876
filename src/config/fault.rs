//! One thing wrong with the config, and the list of all of them.

use std::fmt;

use crate::words::{Code, Coded};

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// In the file, on this line, counted from 1.
    Line(usize),
    /// By this environment variable.
    Variable(String),
    /// Nowhere: it is a default, or it is missing.
    Unset,
}

/// One thing wrong with the config.
///
/// Its text names the setting, where it was set, what was expected and what was found. It never
/// holds the value of a client property, nor of anything taken from a variable or secret file.
#[derive(Debug)]
pub struct Fault {
    code: Code,
    key: String,
    origin: Origin,
    problem: String,
    fix: String,
    cause: Option<std::io::Error>,
}

impl Fault {
    /// Describes what is wrong with setting `key` and how to mend it.
    pub(super) fn new(
        code: Code,
        key: impl Into<String>,
        origin: &Origin,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (key, origin) = (key.into(), origin.clone());
        Self { code, key, origin, problem: problem.into(), fix: fix.into(), cause: None }
    }

    /// Describes a fault of the file as a whole, which has no key.
    pub(super) fn of_file(code: Code, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(code, String::new(), &Origin::Unset, problem, fix)
    }

    /// Adds the error of the operating system behind it.
    pub(super) fn caused_by(mut self, cause: std::io::Error) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Returns the full key of the setting, such as `topics.payments.window`; empty for a fault
    /// of the file as a whole.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns where the value was set.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "config `{}`", self.key)?;
            match &self.origin {
                Origin::Line(line) => write!(f, " (line {line})")?,
                Origin::Variable(name) => write!(f, " (from `{name}`)")?,
                Origin::Unset => {}
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

impl Coded for Fault {
    fn code(&self) -> Code {
        self.code
    }

    fn fix(&self) -> String {
        self.fix.clone()
    }
}

/// Every fault of a config: at least one, in the order of the file.
///
/// Not an error with a code of its own: each fault is printed on a line of its own.
#[derive(Debug)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Returns `Err` with every fault, sorted, or `Ok` where there is none.
    pub(super) fn none_in(mut faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by(|a, b| (&a.origin, &a.key).cmp(&(&b.origin, &b.key)));
        Err(Self(faults))
    }

    /// Returns the faults, first of the file first.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl IntoIterator for Faults {
    type Item = Fault;
    type IntoIter = std::vec::IntoIter<Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Returns ``; did you mean `x`?`` as advice for a misspelt `word`, or `otherwise`.
pub(super) fn suggest<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    match nearest(word, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => otherwise(),
    }
}

/// Returns the known name nearest to `word`, if one is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    within(0.6, word, known)
}

/// Returns the known name that `word` all but is.
pub(super) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    within(0.8, word, known)
}

fn within<'a>(least: f64, word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let score = |name| strsim::normalized_damerau_levenshtein(&plain(word), &plain(name));
    let scored = known.into_iter().map(|name| (score(name), name));
    scored
        .filter(|(score, _)| *score >= least)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not_guessed() {
        assert_eq!(nearest("windw", ["window", "clock"]), Some("window"));
        assert_eq!(nearest("topic", ["topics", "source"]), Some("topics"));
        assert_eq!(nearest("colour", ["window", "clock"]), None);
    }

    #[test]
    fn faults_come_in_the_order_of_the_file_with_missing_settings_last() {
        let fault = |key: &str, origin| Fault::new(Code::ConfigMissing, key, &origin, "p", "f");
        let faults = vec![
            fault("c", Origin::Unset),
            fault("b", Origin::Line(9)),
            fault("a", Origin::Line(2)),
        ];
        let Err(faults) = Faults::none_in(faults) else { panic!("faults vanished") };
        let keys: Vec<_> = faults.iter().map(Fault::key).collect();
        assert_eq!(keys, ["a", "b", "c"]);
    }
}
