//! The effective config as TOML, secrets masked.

use std::time::Duration;

use super::client::printable;
use super::model::{ClientProperties, Config, DedupRule};
use super::settings::{CLIENT_SECTIONS, SECTIONS, Setting, Show, of_section};
use super::tree::join;
use super::units::format_span;
use crate::key::KeyRule;

/// Writes the config as it will be used, defaults included.
///
/// A client property is printed only where its value is known to be harmless.
pub fn print(config: &Config) -> String {
    let mut out = String::new();
    for (section, _) in SECTIONS {
        out.push_str(&format!("[{section}]\n"));
        for setting in of_section(section) {
            if let Some(value) = show(setting, config, &config.dedup) {
                out.push_str(&format!("{} = {value}\n", setting.name()));
            }
        }
        out.push('\n');
        if CLIENT_SECTIONS.contains(&section) {
            let client = if section == "sink" { &config.sink.client } else { &config.kafka.client };
            client_section(section, client, &mut out);
        }
    }
    for (topic, rule) in &config.topics {
        out.push_str(&format!("[{}]\n", join("topics", topic)));
        for setting in of_section("dedup") {
            if let Some(value) = show(setting, config, rule) {
                out.push_str(&format!("{} = {value}\n", setting.name()));
            }
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn show(setting: &Setting, config: &Config, rule: &DedupRule) -> Option<String> {
    match setting.show {
        Show::Whole(show) => show(config),
        Show::Rule(show) => Some(show(rule)),
    }
}

fn client_section(section: &str, client: &ClientProperties, out: &mut String) {
    if client.is_empty() {
        return;
    }
    out.push_str(&format!("[{section}.client]\n"));
    for (name, value) in client {
        out.push_str(&format!("{} = {}\n", join("", name), quote(printable(name, value))));
    }
    out.push('\n');
}

/// Writes a string that reads back as `text`: escaped for TOML, and each dollar doubled.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '$' => out.push_str("$$"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

pub(super) fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", items.map(quote).collect::<Vec<_>>().join(", "))
}

pub(super) fn flag(flag: bool) -> String {
    flag.to_string()
}

pub(super) fn span(span: Duration) -> String {
    quote(&format_span(span))
}

pub(super) fn key(rule: &KeyRule) -> String {
    let parts: Vec<_> = rule.parts().iter().map(ToString::to_string).collect();
    match parts.as_slice() {
        [one] => quote(one),
        several => list(several.iter().map(String::as_str)),
    }
}
