//! The kinds of values that settings take.

use std::net::SocketAddr;
use std::time::Duration;

use super::fault::Fault;
use super::model::{DropRule, TopicSelection};
use super::read::{
    DROPS, Typed, choice, count, drop_list, filled, key_list, listen, one_of, part, pattern,
    refused, rule, servers, size, span, topic, topic_list,
};
use super::tree::{Item, Node};
use crate::key::KeyRule;
use crate::words::Code;

/// What a setting takes.
pub(super) enum Kind {
    /// A comma-separated `host:port` list.
    Servers,
    /// Any text with something in it.
    Text,
    /// A topic's name; `template` allows `{topic}` in it.
    Topic { template: bool },
    /// One of `allowed`; those in `later` are refused as not built yet.
    Choice { allowed: &'static [&'static str], later: &'static [&'static str] },
    /// A length of time between two bounds, both texts of this kind and inclusive.
    Span { least: &'static str, most: &'static str },
    /// A number of bytes, at least `least`.
    Size { least: &'static str },
    /// A whole number between two bounds, inclusive.
    Count { least: i64, most: i64 },
    /// `true` or `false`.
    Flag,
    /// A list of topic names, or one pattern.
    Topics,
    /// One part of a dedup key, or a list of them.
    Key,
    /// A list of what to leave out.
    Drop,
    /// A path of the file system.
    Path,
    /// An address to listen on, or `off`.
    Listen,
}

/// A value that was read.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Choice(&'static str),
    Span(Duration),
    Size(u64),
    Count(i64),
    Flag(bool),
    Topics(TopicSelection),
    Key(KeyRule),
    Drop(DropRule),
    Listen(Option<SocketAddr>),
}

/// Why a value was refused.
pub(super) struct Refused {
    pub(super) code: Code,
    pub(super) problem: String,
    pub(super) fix: String,
}

impl Kind {
    /// Reads the value of the setting `key`; `None` where its fault is known already.
    pub(super) fn read(&self, item: &Item, key: &str) -> Result<Option<Value>, Fault> {
        if has_broken(&item.node) {
            return Ok(None);
        }
        self.value(&item.node)
            .map(Some)
            .map_err(|r| Fault::new(r.code, key, &item.origin, r.problem, r.fix))
    }

    fn value(&self, node: &Node) -> Result<Value, Refused> {
        match (self, node) {
            (Kind::Count { least, most }, Node::Integer(int)) => count(*int, *least, *most),
            (Kind::Flag, Node::Flag(flag)) => Ok(Value::Flag(*flag)),
            (Kind::Topics, Node::List(items)) => topic_list(items),
            (Kind::Key, Node::List(items)) => key_list(items),
            (Kind::Drop, Node::List(items)) => drop_list(items),
            (_, Node::Text { text, raw, foreign }) => {
                self.text(&Typed { text, raw, foreign: *foreign })
            }
            _ => Err(self.wrong_type(node)),
        }
    }

    fn text(&self, typed: &Typed<'_>) -> Result<Value, Refused> {
        match self {
            Kind::Servers => servers(typed),
            Kind::Text | Kind::Path => filled(typed),
            Kind::Topic { template } => topic(typed, *template),
            Kind::Choice { allowed, later } => choice(typed, allowed, later),
            Kind::Span { least, most } => span(typed, least, most),
            Kind::Size { least } => size(typed, least),
            Kind::Topics => pattern(typed),
            Kind::Key => Ok(Value::Key(rule(vec![part(typed)?])?)),
            Kind::Listen => listen(typed),
            Kind::Count { .. } | Kind::Flag | Kind::Drop => Err(self.wrong_type(&typed.node())),
        }
    }

    fn wrong_type(&self, node: &Node) -> Refused {
        let number = matches!(node, Node::Integer(_));
        let fix = match self {
            Kind::Span { .. } if number => "give the number a unit, such as `\"30s\"`".to_owned(),
            Kind::Size { .. } if number => "give the number a unit, such as `\"64MiB\"`".to_owned(),
            _ => format!("write {}", self.example()),
        };
        refused(
            Code::ConfigWrongType,
            format!("expected {}, got {}", self.expected(), node.shown()),
            fix,
        )
    }

    /// Says what is expected, for faults and for the reference.
    pub(super) fn expected(&self) -> String {
        match self {
            Kind::Servers => "a comma-separated `host:port` list".into(),
            Kind::Text => "a text".into(),
            Kind::Topic { template: false } => "a topic name".into(),
            Kind::Topic { template: true } => "a topic name, with or without `{topic}`".into(),
            Kind::Choice { allowed, .. } => one_of(allowed),
            Kind::Span { .. } => "a length of time with its unit".into(),
            Kind::Size { .. } => "a size with its unit".into(),
            Kind::Count { .. } => "a whole number".into(),
            Kind::Flag => "true or false".into(),
            Kind::Topics => "a list of topic names, or a pattern that begins with `^`".into(),
            Kind::Key => "a part of a key, or a list of parts".into(),
            Kind::Drop => format!("a list of {}", one_of(&DROPS)),
            Kind::Path => "a path".into(),
            Kind::Listen => "an address such as `127.0.0.1:9600`, or `off`".into(),
        }
    }

    /// Says what the bounds are, where there are any.
    pub(super) fn bounds(&self) -> Option<String> {
        match self {
            Kind::Span { least, most } => Some(format!("{least} to {most}")),
            Kind::Size { least } => Some(format!("at least {least}")),
            Kind::Count { least, most } => Some(format!("{least} to {most}")),
            _ => None,
        }
    }

    fn example(&self) -> String {
        match self {
            Kind::Servers => "`\"localhost:9092\"`".into(),
            Kind::Text => "a string in quotes".into(),
            Kind::Topic { .. } => "`\"payments.dedup\"`".into(),
            Kind::Choice { allowed, .. } => format!("`\"{}\"`", allowed.first().unwrap_or(&"")),
            Kind::Span { .. } => "`\"30s\"`".into(),
            Kind::Size { .. } => "`\"64MiB\"`".into(),
            Kind::Count { .. } => "a whole number without quotes".into(),
            Kind::Flag => "`true` or `false` without quotes".into(),
            Kind::Topics => "`[\"payments\"]` or `\"^payments-.*\"`".into(),
            Kind::Key => "`\"record-key\"` or `[\"record-key\", \"header:tenant\"]`".into(),
            Kind::Drop => "`[\"null-value\"]`".into(),
            Kind::Path => "`\"./state\"`".into(),
            Kind::Listen => "`\"127.0.0.1:9600\"`".into(),
        }
    }
}

fn has_broken(node: &Node) -> bool {
    match node {
        Node::Broken => true,
        Node::List(items) => items.iter().any(|item| has_broken(&item.node)),
        _ => false,
    }
}
