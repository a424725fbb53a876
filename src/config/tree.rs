//! The file as typed: a tree of values that know their line.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Environment;
use super::expand::expand;
use super::fault::{Fault, Origin};
use crate::words::Code;

/// A table of the file, by key as typed.
pub(super) type Table = BTreeMap<String, Item>;

/// A value and where it was set.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) node: Node,
    pub(super) origin: Origin,
}

/// A value by its TOML type.
#[derive(Clone)]
pub(super) enum Node {
    /// `raw` is what may be shown: the text as typed, before anything secret was put in.
    Text {
        text: String,
        raw: String,
        foreign: bool,
    },
    /// Out of the range of `i64` where `None`.
    Integer(Option<i64>),
    Flag(bool),
    List(Vec<Item>),
    Table(Table),
    /// A type that no setting takes, by its name.
    Other(&'static str),
    /// Its fault is already known.
    Broken,
}

/// Parses `text`, the content of the file called `name`.
///
/// Faults of references go to `faults`; a fault of syntax is returned, as nothing else is known.
pub(super) fn parse(
    text: &str,
    name: &str,
    env: &Environment,
    faults: &mut Vec<Fault>,
) -> Result<Table, Fault> {
    let table = DeTable::parse(text).map_err(|error| syntax(text, name, &error))?;
    let mut reader = Reader { lines: Lines::new(text), env, faults };
    Ok(reader.table(table.get_ref(), ""))
}

fn syntax(text: &str, name: &str, error: &toml::de::Error) -> Fault {
    let start = error.span().map_or(0, |span| span.start);
    let (line, column) = Lines::new(text).position(text, start);
    let problem = error.message();
    Fault::of_file(
        Code::ConfigSyntax,
        format!("failed to parse config file `{name}` at line {line}, column {column}: {problem}"),
        "correct the TOML there; strings need quotes, tables are `[name]`",
    )
}

struct Reader<'a> {
    lines: Lines,
    env: &'a Environment,
    faults: &'a mut Vec<Fault>,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &str) -> Table {
        let mut out = Table::new();
        for (key, value) in table {
            let name = key.get_ref().to_string();
            let path = join(path, &name);
            let origin = Origin::Line(self.lines.line(key.span().start));
            out.insert(name, self.item(value, &path, origin));
        }
        out
    }

    fn item(&mut self, value: &Spanned<DeValue<'_>>, path: &str, origin: Origin) -> Item {
        let node = match value.get_ref() {
            DeValue::String(raw) => self.text(raw, path, &origin),
            DeValue::Integer(int) => {
                Node::Integer(i64::from_str_radix(int.as_str(), int.radix()).ok())
            }
            DeValue::Boolean(flag) => Node::Flag(*flag),
            DeValue::Array(items) => {
                let each = |item: &Spanned<DeValue<'_>>| {
                    let origin = Origin::Line(self.lines.line(item.span().start));
                    self.item(item, path, origin)
                };
                Node::List(items.iter().map(each).collect())
            }
            DeValue::Table(table) => Node::Table(self.table(table, path)),
            DeValue::Float(_) => Node::Other("a number with a fraction"),
            DeValue::Datetime(_) => Node::Other("a date"),
        };
        Item { node, origin }
    }

    fn text(&mut self, raw: &str, path: &str, origin: &Origin) -> Node {
        match expand(raw, self.env) {
            Ok(out) => Node::Text { text: out.text, raw: raw.to_owned(), foreign: out.foreign },
            Err(error) => {
                let code = Code::ConfigEnvironment;
                let fault = Fault::new(code, path, origin, error.problem, error.fix);
                self.faults.push(match error.cause {
                    Some(cause) => fault.caused_by(cause),
                    None => fault,
                });
                Node::Broken
            }
        }
    }
}

/// Returns the full key of `name` inside `path`, quoted the way TOML needs it.
pub(super) fn join(path: &str, name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.escape_default())
    };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

impl Node {
    /// Returns what kind of value it is, with its article.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Node::Text { .. } => "a string",
            Node::Integer(_) => "a number",
            Node::Flag(_) => "true or false",
            Node::List(_) => "a list",
            Node::Table(_) => "a table",
            Node::Other(name) => name,
            Node::Broken => "nothing",
        }
    }

    /// Returns whether any text in it came from a variable or a secret file.
    pub(super) fn is_foreign(&self) -> bool {
        match self {
            Node::Text { foreign, .. } => *foreign,
            Node::List(items) => items.iter().any(|item| item.node.is_foreign()),
            _ => false,
        }
    }

    /// Returns the value as it may be shown in a fault, in backticks where it has a short text.
    pub(super) fn shown(&self) -> String {
        match self {
            Node::Text { raw, .. } => format!("`{}`", shorten(raw)),
            Node::Integer(Some(int)) => format!("the number `{int}`"),
            Node::Flag(flag) => format!("`{flag}`"),
            other => other.kind().to_owned(),
        }
    }
}

/// Cuts a text that is too long for one line.
pub(super) fn shorten(text: &str) -> String {
    const MAX: usize = 120;
    let mut out: String = text.chars().take(MAX).collect();
    if out.len() < text.len() {
        out.push_str("...");
    }
    out
}

/// Where the lines of a text begin.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(std::iter::once(0).chain(after.map(|(at, _)| at + 1)).collect())
    }

    /// Returns the line of byte `at`, from 1.
    fn line(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at)
    }

    /// Returns line and column of byte `at`, both from 1.
    fn position(&self, text: &str, at: usize) -> (usize, usize) {
        let line = self.line(at);
        let start = self.0.get(line.saturating_sub(1)).copied().unwrap_or(0);
        (line, text.get(start..at).map_or(0, |before| before.chars().count()) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_counted_from_one() {
        let text = "a\nbcd\n";
        let lines = Lines::new(text);
        assert_eq!(lines.position(text, 0), (1, 1));
        assert_eq!(lines.position(text, 3), (2, 2));
        assert_eq!(lines.position(text, 99), (3, 1));
    }

    #[test]
    fn a_key_with_a_dot_is_quoted() {
        assert_eq!(join("topics", "a.b"), "topics.\"a.b\"");
        assert_eq!(join("", "kafka"), "kafka");
    }
}
