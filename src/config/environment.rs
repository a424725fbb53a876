//! The environment the process was started with, and what of it overrides the file.
//!
//! `FIRSTSEEN__STATE__DIR` overrides `state.dir`: the prefix, then the parts of the key in
//! capitals, all joined by two underscores. In the name of a client property each dot becomes
//! one underscore: `FIRSTSEEN__KAFKA__CLIENT__SASL_PASSWORD`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::client;
use super::fault::{Fault, Origin, nearest};
use super::kind::Kind;
use super::settings::{SETTINGS, Setting};
use super::tree::{Item, Node, Table};
use crate::words::Code;

/// What overriding variables begin with.
const PREFIX: &str = "FIRSTSEEN__";

/// Environment variables, taken once, so that tests can bring their own.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// Takes the variables of this process. Those whose name is not UTF-8 cannot be meant.
    pub fn of_process() -> Self {
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        Self(std::env::vars_os().filter_map(named).collect())
    }

    /// Makes an environment of these variables alone.
    pub fn from_pairs<N: Into<String>, V: Into<OsString>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// Returns the value of variable `name`.
    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(name).map(OsString::as_os_str)
    }
}

/// Names only: any value may be a secret.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Environment").field(&self.0.keys()).finish()
    }
}

/// Lays the overriding variables of `env` over the file's `root`.
pub(super) fn overlay(root: &mut Table, env: &Environment, faults: &mut Vec<Fault>) {
    for (name, value) in &env.0 {
        if !looks_like_override(name) {
            continue;
        }
        match read(name, value) {
            Ok((target, item)) => put(root, &target.path(), item),
            Err(fault) => faults.push(fault),
        }
    }
}

/// A variable with one underscore after the prefix is a typing error, not somebody else's.
fn looks_like_override(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    upper.starts_with(PREFIX) || upper.strip_prefix("FIRSTSEEN_").is_some_and(|n| n.contains("__"))
}

/// What a variable overrides.
enum Target {
    Setting(&'static Setting),
    Client(&'static str, &'static str),
}

impl Target {
    fn path(&self) -> [&'static str; 3] {
        match self {
            Target::Setting(setting) => [setting.section(), "", setting.name()],
            Target::Client(section, property) => [section, "client", property],
        }
    }

    fn variable(&self) -> String {
        let path = self.path();
        let parts = path.iter().filter(|part| !part.is_empty());
        let parts: Vec<_> = parts.map(|p| p.replace('.', "_").to_uppercase()).collect();
        format!("{PREFIX}{}", parts.join("__"))
    }

    fn all() -> impl Iterator<Item = Target> {
        let sections = ["kafka", "sink"].into_iter();
        let clients = sections
            .flat_map(|s| client::PROPERTIES.iter().map(move |p| Target::Client(s, p.name)));
        SETTINGS.iter().map(Target::Setting).chain(clients)
    }
}

fn read(name: &str, value: &OsStr) -> Result<(Target, Item), Fault> {
    let origin = Origin::Variable(name.to_owned());
    let refuse = |problem: String, fix: String| {
        Fault::of_file(
            Code::ConfigEnvironment,
            format!("environment variable `{name}` {problem}"),
            fix,
        )
    };
    let Some(target) = Target::all().find(|target| target.variable() == name) else {
        return Err(refuse("overrides no setting".into(), unknown(name)));
    };
    let Some(text) = value.to_str() else {
        return Err(refuse("is not valid UTF-8".into(), "set it to UTF-8 text".into()));
    };
    if text.is_empty() {
        return Err(refuse("is set but empty".into(), "unset it, or give it a value".into()));
    }
    let node = match &target {
        Target::Setting(setting) => typed(&setting.kind, text, &origin),
        Target::Client(..) => plain(text),
    };
    Ok((target, Item { node, origin }))
}

fn unknown(name: &str) -> String {
    if name.starts_with("FIRSTSEEN__TOPICS__") {
        return "set the rules of topics in the file; the environment overrides `dedup` only"
            .into();
    }
    let known: Vec<_> = Target::all().map(|target| target.variable()).collect();
    match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("unset it, or use {PREFIX}SECTION__KEY with a key of docs/config.md"),
    }
}

/// Gives the text the type that the setting wants, where it can be had.
fn typed(kind: &Kind, text: &str, origin: &Origin) -> Node {
    match kind {
        Kind::Flag => text.parse().map_or_else(|_| plain(text), Node::Flag),
        Kind::Count { .. } => text.parse().map_or_else(|_| plain(text), |n| Node::Integer(Some(n))),
        Kind::Topics if text.starts_with('^') => plain(text),
        Kind::Topics | Kind::Drop => {
            let item = |part: &str| Item { node: plain(part.trim()), origin: origin.clone() };
            Node::List(text.split(',').map(item).collect())
        }
        _ => plain(text),
    }
}

fn plain(text: &str) -> Node {
    Node::Text { text: text.to_owned(), raw: text.to_owned(), foreign: false }
}

/// Where the file has something else than a table on the way, its own fault says so.
fn put(root: &mut Table, [section, inner, name]: &[&'static str; 3], item: Item) {
    let mut at = root;
    for part in [section, inner].into_iter().filter(|part| !part.is_empty()) {
        let empty = || Item { node: Node::Table(Table::new()), origin: item.origin.clone() };
        match &mut at.entry((*part).to_owned()).or_insert_with(empty).node {
            Node::Table(table) => at = table,
            _ => return,
        }
    }
    at.insert((*name).to_owned(), item);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_settings_share_a_variable() {
        let mut names: Vec<_> = Target::all().map(|target| target.variable()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.contains(&"FIRSTSEEN__KAFKA__CLIENT__SASL_PASSWORD".to_owned()));
    }

    #[test]
    fn debug_shows_names_and_no_values() {
        let shown = format!("{:?}", Environment::from_pairs([("NAME", "value")]));
        assert_eq!(shown, "Environment([\"NAME\"])");
    }
}
