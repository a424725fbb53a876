//! How the text of each kind of value is read.

use super::fault::nearest;
use super::kind::{Refused, Value};
use super::model::{DropRule, TopicSelection};
use super::tree::{Item, Node, shorten};
use super::units::{parse_size, parse_span};
use crate::key::{KeyPart, KeyRule};
use crate::words::Code;

const TOPIC_RULE: &str =
    "a topic name of 1 to 249 letters, digits, `.`, `_` or `-`, other than `.` and `..`";

/// What can be left out.
pub(super) const DROPS: [&str; 2] = ["null-value", "empty-value"];

/// A text as it is meant, and as it may be shown.
pub(super) struct Typed<'a> {
    pub(super) text: &'a str,
    pub(super) raw: &'a str,
    pub(super) foreign: bool,
}

impl Typed<'_> {
    fn of(item: &Item) -> Option<Typed<'_>> {
        match &item.node {
            Node::Text { text, raw, foreign } => Some(Typed { text, raw, foreign: *foreign }),
            _ => None,
        }
    }

    pub(super) fn node(&self) -> Node {
        let (text, raw) = (self.text.to_owned(), self.raw.to_owned());
        Node::Text { text, raw, foreign: self.foreign }
    }

    fn shown(&self) -> String {
        format!("`{}`", shorten(self.raw))
    }

    fn expected(&self, what: impl std::fmt::Display, fix: impl Into<String>) -> Refused {
        let problem = format!("expected {what}, got {}", self.shown());
        refused(Code::ConfigOutOfRange, problem, fix)
    }
}

pub(super) fn refused(code: Code, problem: impl Into<String>, fix: impl Into<String>) -> Refused {
    Refused { code, problem: problem.into(), fix: fix.into() }
}

pub(super) fn one_of(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}

pub(super) fn servers(typed: &Typed<'_>) -> Result<Value, Refused> {
    let fix = "write `host:port`, several separated by commas, without scheme or user name";
    if typed.text.contains('@') {
        let problem = "expected a comma-separated `host:port` list, got something with an `@`";
        return Err(refused(Code::ConfigOutOfRange, problem, fix));
    }
    let parts: Vec<_> = typed.text.split(',').map(str::trim).collect();
    if parts.iter().all(|part| is_server(part)) {
        return Ok(Value::Text(parts.join(",")));
    }
    Err(typed.expected("a comma-separated `host:port` list", fix))
}

fn is_server(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_fits = match bracketed {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
            !host.is_empty() && host.chars().all(fits)
        }
    };
    host_fits && port.parse::<u16>().is_ok_and(|port| port > 0)
}

pub(super) fn filled(typed: &Typed<'_>) -> Result<Value, Refused> {
    if typed.text.trim().is_empty() || typed.text.contains('\0') {
        return Err(typed.expected("a text that is not empty", "write a value between the quotes"));
    }
    Ok(Value::Text(typed.text.to_owned()))
}

/// Kafka's own rule for topic names.
pub(super) fn is_topic(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.chars().all(legal)
}

pub(super) fn topic(typed: &Typed<'_>, template: bool) -> Result<Value, Refused> {
    let name = if template { typed.text.replace("{topic}", "x") } else { typed.text.to_owned() };
    if typed.text.matches("{topic}").count() > 1 {
        return Err(typed.expected("`{topic}` at most once", "use `{topic}` once"));
    }
    if is_topic(&name) {
        return Ok(Value::Text(typed.text.to_owned()));
    }
    let fix = if template {
        "use those characters, and `{topic}` for the name of the source topic"
    } else {
        "use those characters only"
    };
    Err(typed.expected(TOPIC_RULE, fix))
}

pub(super) fn choice(
    typed: &Typed<'_>,
    allowed: &[&'static str],
    later: &[&'static str],
) -> Result<Value, Refused> {
    if let Some(name) = allowed.iter().find(|name| **name == typed.text) {
        return Ok(Value::Choice(name));
    }
    if later.contains(&typed.text) {
        return Err(refused(
            Code::ConfigUnsupported,
            format!(
                "expected {}, got {}, which is not in this build",
                one_of(allowed),
                typed.shown()
            ),
            format!("use {}", one_of(allowed)),
        ));
    }
    let fix = match nearest(typed.text, allowed.iter().copied()) {
        Some(near) if !typed.foreign => format!("did you mean `{near}`?"),
        _ => format!("use {}", one_of(allowed)),
    };
    Err(typed.expected(one_of(allowed), fix))
}

pub(super) fn span(typed: &Typed<'_>, least: &str, most: &str) -> Result<Value, Refused> {
    let fix = "write a number with `ms`, `s`, `m`, `h`, `d` or `w`, such as `1m30s`";
    let Some(span) = parse_span(typed.text) else {
        return Err(typed.expected("a length of time with its unit", fix));
    };
    if parse_span(least).is_some_and(|least| span < least) {
        return Err(typed.expected(format!("at least {least}"), format!("use {least} or more")));
    }
    if parse_span(most).is_some_and(|most| span > most) {
        return Err(typed.expected(format!("at most {most}"), format!("use {most} or less")));
    }
    Ok(Value::Span(span))
}

pub(super) fn size(typed: &Typed<'_>, least: &str) -> Result<Value, Refused> {
    let Some(size) = parse_size(typed.text) else {
        let fix = "write a number with `B`, `KiB`, `MiB` or `GiB`, such as `64MiB`";
        return Err(typed.expected("a size with its unit", fix));
    };
    if parse_size(least).is_some_and(|least| size < least) {
        return Err(typed.expected(format!("at least {least}"), format!("use {least} or more")));
    }
    Ok(Value::Size(size))
}

pub(super) fn count(int: Option<i64>, least: i64, most: i64) -> Result<Value, Refused> {
    match int {
        Some(int) if (least..=most).contains(&int) => Ok(Value::Count(int)),
        _ => {
            let got = int.map_or("a larger number".to_owned(), |int| format!("`{int}`"));
            Err(refused(
                Code::ConfigOutOfRange,
                format!("expected a whole number from {least} to {most}, got {got}"),
                "use a number in that range",
            ))
        }
    }
}

/// Reads each item of a list of strings.
fn texts<'a, T>(
    items: &'a [Item],
    expected: &str,
    read: impl Fn(&Typed<'a>) -> Result<T, Refused>,
) -> Result<Vec<T>, Refused> {
    let wrong = |item: &Item| {
        let problem = format!("expected {expected}, got a list with {}", item.node.shown());
        refused(Code::ConfigWrongType, problem, "put each item in quotes")
    };
    items.iter().map(|item| read(&Typed::of(item).ok_or_else(|| wrong(item))?)).collect()
}

pub(super) fn topic_list(items: &[Item]) -> Result<Value, Refused> {
    let names = texts(items, "a list of topic names", |typed| {
        if typed.text.starts_with('^') {
            let fix = "write the pattern alone, without the list, or list the topics by name";
            return Err(typed.expected("topic names in the list", fix));
        }
        topic(typed, false).map(|_checked| typed)?;
        Ok((typed.text.to_owned(), typed.shown()))
    })?;
    if names.is_empty() {
        let problem = "expected at least one topic, got an empty list";
        return Err(refused(Code::ConfigOutOfRange, problem, "name the topics to read"));
    }
    for (at, (name, shown)) in names.iter().enumerate() {
        if names.iter().take(at).any(|(earlier, _)| earlier == name) {
            let problem = format!("expected each topic once, got {shown} twice");
            return Err(refused(Code::ConfigOutOfRange, problem, "remove one of the two"));
        }
    }
    let names = names.into_iter().map(|(name, _)| name).collect();
    Ok(Value::Topics(TopicSelection::List(names)))
}

pub(super) fn pattern(typed: &Typed<'_>) -> Result<Value, Refused> {
    let Some(pattern) = typed.text.strip_prefix('^').filter(|pattern| !pattern.is_empty()) else {
        let fix = if is_topic(typed.text) && !typed.foreign {
            format!("write `[\"{}\"]` for one topic", typed.text)
        } else {
            "write a list of names, or a pattern that begins with `^`".into()
        };
        return Err(typed.expected("a list of topics, or a pattern that begins with `^`", fix));
    };
    match regex::Regex::new(&format!("^(?:{pattern})$")) {
        Ok(_) => Ok(Value::Topics(TopicSelection::Pattern(pattern.to_owned()))),
        Err(_) if typed.foreign => {
            Err(typed.expected("a regular expression", "correct the regular expression"))
        }
        Err(error) => Err(typed.expected(
            format!("a regular expression ({})", last_line(&error.to_string())),
            "correct the regular expression",
        )),
    }
}

/// The regex crate draws its errors over several lines; the last one says what is wrong.
fn last_line(text: &str) -> String {
    let line = text.lines().last().unwrap_or_default().trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

pub(super) fn part(typed: &Typed<'_>) -> Result<KeyPart, Refused> {
    let expected = "`record-key`, `value`, `header:NAME` or `json:/POINTER`";
    KeyPart::parse(typed.text).map_err(|error| match typed.foreign {
        true => typed.expected(expected, format!("use {expected}")),
        false => {
            let fix = format!("use {expected}, or a list of several");
            refused(Code::ConfigOutOfRange, error.to_string(), fix)
        }
    })
}

pub(super) fn rule(parts: Vec<KeyPart>) -> Result<KeyRule, Refused> {
    KeyRule::new(parts).map_err(|error| {
        refused(Code::ConfigOutOfRange, error.to_string(), "write `\"record-key\"`")
    })
}

pub(super) fn key_list(items: &[Item]) -> Result<Value, Refused> {
    Ok(Value::Key(rule(texts(items, "a list of parts of a key", part)?)?))
}

pub(super) fn drop_list(items: &[Item]) -> Result<Value, Refused> {
    let chosen = texts(items, "a list of strings", |typed| choice(typed, &DROPS, &[]))?;
    let has = |name| chosen.iter().any(|value| matches!(value, Value::Choice(c) if *c == name));
    Ok(Value::Drop(DropRule { null_value: has("null-value"), empty_value: has("empty-value") }))
}

pub(super) fn listen(typed: &Typed<'_>) -> Result<Value, Refused> {
    if typed.text == "off" {
        return Ok(Value::Listen(None));
    }
    typed.text.parse().map(|address| Value::Listen(Some(address))).map_err(|_says_less| {
        let fix = "write an IP address and a port, `127.0.0.1:9600`, or `off`";
        typed.expected("an address such as `127.0.0.1:9600`, or `off`", fix)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_follow_the_rule_of_the_broker() {
        assert!(is_topic("a") && is_topic("A.b_c-9") && is_topic(&"x".repeat(249)));
        for name in ["", ".", "..", "a b", "a/b", "\u{e9}", "a\0", &"x".repeat(250)] {
            assert!(!is_topic(name), "{name:?} was accepted");
        }
    }

    #[test]
    fn servers_are_hosts_with_ports() {
        for text in ["localhost:9092", "10.0.0.1:1", "[::1]:9092", "broker_1.x-y.org:65535"] {
            assert!(is_server(text), "{text} was refused");
        }
        for text in ["localhost", "localhost:", ":9092", "a:0", "a:65536", "::1:9092", "x//y:1"] {
            assert!(!is_server(text), "{text} was accepted");
        }
    }
}
