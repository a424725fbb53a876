//! From the tree as typed to checked values, each by itself; collects every fault on the way.

use std::collections::{BTreeMap, BTreeSet};

use super::client::{self, Class};
use super::fault::{Fault, Origin, closest, suggest};
use super::kind::Value;
use super::read::is_topic;
use super::settings::{CLIENT_SECTIONS, Fallback, SECTIONS, SETTINGS, Setting, meant, of_section};
use super::tree::{Item, Node, Table, join};
use super::{Environment, tree};
use crate::words::Code;

/// A value that passed by itself.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) value: Value,
    /// As typed: what faults may show.
    pub(super) shown: String,
    /// Whether any of it came from outside the file, so that only `shown` may be shown.
    pub(super) foreign: bool,
    pub(super) origin: Origin,
}

/// The values of a section of a topic, by the names of `[dedup]`.
pub(super) struct TopicSection {
    pub(super) origin: Origin,
    pub(super) values: BTreeMap<&'static str, Found>,
}

/// A client property that may be passed on.
pub(super) struct ClientValue {
    pub(super) value: String,
    pub(super) origin: Origin,
}

/// Every value that passed by itself; one that did not is absent.
#[derive(Default)]
pub(super) struct Values {
    settings: BTreeMap<&'static str, Found>,
    /// Settings that were given, well or badly.
    given: BTreeSet<&'static str>,
    pub(super) topics: BTreeMap<String, TopicSection>,
    clients: BTreeMap<&'static str, BTreeMap<String, ClientValue>>,
}

impl Values {
    /// Returns the setting `path`, or its default; `None` where it was faulty or left out.
    pub(super) fn get(&self, path: &str) -> Option<&Found> {
        self.settings.get(path)
    }

    /// Returns whether the setting `path` was given, well or badly.
    pub(super) fn was_given(&self, path: &str) -> bool {
        self.given.contains(path)
    }

    /// Returns the client properties of `section`.
    pub(super) fn client(&self, section: &str) -> impl Iterator<Item = (&str, &ClientValue)> {
        let properties = self.clients.get(section);
        properties.into_iter().flatten().map(|(name, value)| (name.as_str(), value))
    }
}

/// Checks every value of `root` by itself, and fills in the defaults.
pub(super) fn walk(root: &Table, faults: &mut Vec<Fault>) -> Values {
    let mut walker = Walker { values: Values::default(), faults };
    for (name, item) in root {
        match (SECTIONS.iter().find(|(section, _)| section == name), name.as_str()) {
            (Some((section, _)), _) => walker.section(section, item),
            (None, "topics") => walker.topics(item),
            (None, _) => walker.unknown_section(name, item),
        }
    }
    walker.fill_in();
    walker.values
}

struct Walker<'a> {
    values: Values,
    faults: &'a mut Vec<Fault>,
}

impl Walker<'_> {
    fn section(&mut self, section: &'static str, item: &Item) {
        let Some(table) = self.table(item, section) else { return };
        for (name, item) in table {
            if let Some(setting) = of_section(section).find(|s| s.name() == name) {
                self.setting(setting, item);
            } else if name == "client" && CLIENT_SECTIONS.contains(&section) {
                self.client(section, item);
            } else {
                let known = of_section(section).map(Setting::name);
                let inner = CLIENT_SECTIONS.contains(&section).then_some("client");
                self.unknown_key(section, name, item, known.chain(inner));
            }
        }
    }

    fn setting(&mut self, setting: &'static Setting, item: &Item) {
        self.values.given.insert(setting.path);
        if let Some(found) = self.read(setting, item, setting.path) {
            self.values.settings.insert(setting.path, found);
        }
    }

    fn read(&mut self, setting: &Setting, item: &Item, key: &str) -> Option<Found> {
        match setting.kind.read(item, key) {
            Ok(value) => {
                let (shown, foreign) = (item.node.shown(), item.node.is_foreign());
                Some(Found { value: value?, shown, foreign, origin: item.origin.clone() })
            }
            Err(fault) => {
                self.faults.push(fault);
                None
            }
        }
    }

    fn topics(&mut self, item: &Item) {
        let Some(topics) = self.table(item, "topics") else { return };
        for (topic, item) in topics {
            let path = join("topics", topic);
            let Some(table) = self.table(item, &path) else { continue };
            if !is_topic(topic) {
                let problem = "expected the name of a source topic";
                let fix = "name the section after a topic of `source.topics`";
                self.fault(Code::ConfigOutOfRange, &path, &item.origin, problem, fix);
            }
            let mut values = BTreeMap::new();
            for (name, item) in table {
                let Some(setting) = of_section("dedup").find(|s| s.name() == name) else {
                    self.unknown_key(&path, name, item, of_section("dedup").map(Setting::name));
                    continue;
                };
                if let Some(found) = self.read(setting, item, &join(&path, name)) {
                    values.insert(setting.name(), found);
                }
            }
            let section = TopicSection { origin: item.origin.clone(), values };
            self.values.topics.insert(topic.clone(), section);
        }
    }

    fn client(&mut self, section: &'static str, item: &Item) {
        let path = join(section, "client");
        let Some(table) = self.table(item, &path) else { return };
        let mut flat = Vec::new();
        flatten(table, "", &mut flat);
        for (name, item) in flat {
            let key = join(&path, &name);
            if let Some(value) = self.client_value(&name, item, &key) {
                let value = ClientValue { value, origin: item.origin.clone() };
                let properties = self.values.clients.entry(section).or_default();
                if properties.insert(name, value).is_some() {
                    let problem = "expected each client property once, got two spellings of one";
                    let fix = "remove one of the two";
                    self.fault(Code::ConfigConflict, &key, &item.origin, problem, fix);
                }
            }
        }
    }

    /// Checks one client property; `None` where it is refused.
    fn client_value(&mut self, name: &str, item: &Item, key: &str) -> Option<String> {
        let Some(property) = client::property(name) else {
            let fix = client::meant(name);
            let problem = "is not a property of the Kafka client";
            self.fault(Code::ConfigUnknownKey, key, &item.origin, problem, fix);
            return None;
        };
        match property.class {
            Class::Shown | Class::Masked => {}
            Class::Owned { why, fix } => {
                let problem = format!("cannot be set to `{}`: {why}", super::MASK);
                self.fault(Code::ConfigForbiddenClientKey, key, &item.origin, problem, fix);
                return None;
            }
            Class::Absent { why } => {
                self.fault(Code::ConfigUnsupported, key, &item.origin, why, "remove it");
                return None;
            }
        }
        match client_text(&item.node) {
            Some(text) if text.contains('\0') => {
                let problem = "expected a value without NUL characters";
                let fix = "remove the NUL character";
                self.fault(Code::ConfigOutOfRange, key, &item.origin, problem, fix);
                None
            }
            Some(text) => Some(text),
            None if matches!(item.node, Node::Broken) => None,
            None => {
                let kind = item.node.kind();
                let problem = format!("expected a string, a number, true or false, got {kind}");
                let fix = "write the value in quotes";
                self.fault(Code::ConfigWrongType, key, &item.origin, problem, fix);
                None
            }
        }
    }

    fn table<'i>(&mut self, item: &'i Item, path: &str) -> Option<&'i Table> {
        match &item.node {
            Node::Table(table) => Some(table),
            Node::Broken => None,
            other => {
                // Only the kind is named: what stands here by mistake may be a secret.
                let problem = format!("expected a table, got {}", other.kind());
                let fix = format!("write `[{path}]` and its settings below it");
                self.fault(Code::ConfigWrongType, path, &item.origin, problem, fix);
                None
            }
        }
    }

    fn unknown_section(&mut self, name: &str, item: &Item) {
        let known = SECTIONS.iter().map(|(section, _)| *section).chain(["topics"]);
        let is_table = matches!(item.node, Node::Table(_));
        let fix = match meant(name) {
            Some(path) if !is_table => format!("did you mean `{path}`?"),
            _ => suggest(name, known, || "see docs/config.md for the sections".into()),
        };
        let key = join("", name);
        let problem = "is not a known section";
        self.fault(Code::ConfigUnknownKey, &key, &item.origin, problem, fix);
    }

    fn unknown_key<'k>(
        &mut self,
        path: &str,
        name: &str,
        item: &Item,
        known: impl Iterator<Item = &'k str>,
    ) {
        let known: Vec<_> = known.collect();
        let is_property = client::begins_a_name(name) && CLIENT_SECTIONS.contains(&path);
        // A name that is right in another section is worth more than a similar one in this, but
        // less than one that is all but the same.
        let fix = match (closest(name, known.iter().copied()), meant(name)) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, _) if is_property => format!("put client properties into `[{path}.client]`"),
            (None, Some(meant)) => format!("did you mean `{meant}`?"),
            (None, None) => {
                suggest(name, known, || format!("see docs/config.md for the keys of `{path}`"))
            }
        };
        let key = join(path, name);
        let problem = "is not a known setting";
        self.fault(Code::ConfigUnknownKey, &key, &item.origin, problem, fix);
    }

    fn fill_in(&mut self) {
        for setting in SETTINGS {
            if self.values.given.contains(setting.path) {
                continue;
            }
            match setting.fallback {
                Fallback::Nothing(_) => {}
                Fallback::Default(text) => {
                    if let Some(value) = default_value(setting, text) {
                        let shown = format!("`{}`", text.trim_matches('"'));
                        let found = Found { value, shown, foreign: false, origin: Origin::Unset };
                        self.values.settings.insert(setting.path, found);
                    }
                }
                Fallback::Required(example) => {
                    let problem = format!("expected {}, got nothing", setting.kind.expected());
                    let (section, name) = (setting.section(), setting.name());
                    let fix = format!("set it, such as `{name} = {example}` in `[{section}]`");
                    let code = Code::ConfigMissing;
                    self.faults.push(Fault::new(code, setting.path, &Origin::Unset, problem, fix));
                }
            }
        }
    }

    fn fault(
        &mut self,
        code: Code,
        key: &str,
        origin: &Origin,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.faults.push(Fault::new(code, key, origin, problem, fix));
    }
}

/// Unquoted keys with dots, such as `sasl.username = ".."`, arrive as nested tables.
fn flatten<'i>(table: &'i Table, prefix: &str, out: &mut Vec<(String, &'i Item)>) {
    for (name, item) in table {
        let full = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match &item.node {
            Node::Table(inner) => flatten(inner, &full, out),
            _ => out.push((full, item)),
        }
    }
}

fn client_text(node: &Node) -> Option<String> {
    match node {
        Node::Text { text, .. } => Some(text.clone()),
        Node::Integer(Some(int)) => Some(int.to_string()),
        Node::Flag(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Reads a default of the table by the way every value takes. A test reads all of them.
fn default_value(setting: &Setting, text: &str) -> Option<Value> {
    let line = format!("value = {text}");
    let mut faults = Vec::new();
    let table = tree::parse(&line, "default", &Environment::default(), &mut faults).ok()?;
    setting.kind.read(table.get("value")?, setting.path).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_and_every_example_of_the_table_can_be_read() {
        for setting in SETTINGS {
            let (Fallback::Default(text) | Fallback::Required(text) | Fallback::Nothing(text)) =
                setting.fallback;
            assert!(default_value(setting, text).is_some(), "{} = {text}", setting.path);
        }
    }
}
