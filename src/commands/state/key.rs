//! From the command line to the parts of a record that a key rule looks at.
//!
//! Two ways: one KEY for each part of the rule, in its order; or the record itself, in parts.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::Error;
use crate::key::{KeyPart, KeyRule, OwnedRecord};

/// A record as it is given on the command line.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RecordOptions {
    /// One text for each part of the key rule; or, beside parts of a record, its record key.
    pub keys: Vec<String>,
    /// The record key in hexadecimal.
    pub key_hex: Option<String>,
    /// The record key is null.
    pub key_null: bool,
    /// The file that holds the record key; `-` is stdin.
    pub key_file: Option<PathBuf>,
    /// The file that holds the value; `-` is stdin.
    pub value_file: Option<PathBuf>,
    /// Headers, as `NAME=VALUE`.
    pub headers: Vec<String>,
}

/// Says what is there, never what it is.
impl std::fmt::Debug for RecordOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordOptions")
            .field("keys", &self.keys.len())
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

impl RecordOptions {
    /// Returns a record whose key under `rule` is the one that is meant.
    pub(super) fn record(&self, rule: &KeyRule) -> Result<OwnedRecord, Error> {
        let given = [self.key_hex.is_some(), self.key_null, self.key_file.is_some()];
        let in_parts =
            given.contains(&true) || self.value_file.is_some() || !self.headers.is_empty();
        if in_parts {
            return self.in_parts(given.iter().filter(|given| **given).count());
        }
        let parts = rule.parts();
        if self.keys.len() != parts.len() {
            let expected: Vec<_> = parts.iter().map(ToString::to_string).collect();
            return Err(Error::arguments(
                format!(
                    "the key rule has {} parts ({}), got {} keys",
                    parts.len(),
                    expected.join(", "),
                    self.keys.len()
                ),
                "give one KEY for each part, in this order, or the record with `--key-hex`, \
                 `--key-null`, `--key-file`, `--value-file` and `--header`",
            ));
        }
        by_rule(parts, &self.keys)
    }

    fn in_parts(&self, record_keys: usize) -> Result<OwnedRecord, Error> {
        if record_keys + self.keys.len() > 1 {
            return Err(Error::arguments(
                "the record key is given more than once",
                "give one of KEY, `--key-hex`, `--key-null` and `--key-file`",
            ));
        }
        let key = match (self.keys.first(), &self.key_hex, &self.key_file) {
            (Some(text), ..) => Some(text.clone().into_bytes()),
            (_, Some(hex), _) => Some(bytes_of_hex(hex)?),
            (_, _, Some(path)) => Some(read(path)?),
            _ => None,
        };
        let value = self.value_file.as_deref().map(read).transpose()?;
        let headers = self.headers.iter().map(|text| header(text)).collect::<Result<_, _>>()?;
        Ok(OwnedRecord { key, value, headers })
    }
}

fn by_rule(parts: &[KeyPart], keys: &[String]) -> Result<OwnedRecord, Error> {
    let mut record = OwnedRecord::default();
    let mut document: Option<Node> = None;
    for (part, text) in parts.iter().zip(keys) {
        let bytes = text.clone().into_bytes();
        match part {
            KeyPart::RecordKey => record.key = Some(bytes),
            KeyPart::Value => record.value = Some(bytes),
            KeyPart::Header(name) => {
                record.headers.push((name.clone().into_bytes(), Some(bytes)));
            }
            KeyPart::Json(path) => {
                let root = document.get_or_insert_with(|| Node::Object(BTreeMap::new()));
                root.put(path, scalar(text)).ok_or_else(whole_value)?;
            }
        }
    }
    match document {
        Some(_) if record.value.is_some() => Err(whole_value()),
        Some(document) => {
            record.value = Some(document.text().into_bytes());
            Ok(record)
        }
        None => Ok(record),
    }
}

fn whole_value() -> Error {
    Error::arguments(
        "parts of the key rule look at the same piece of the value",
        "give the whole value with `--value-file`",
    )
}

/// A JSON document with one scalar for each pointer.
enum Node {
    /// As it is spelt: the spelling of a number is part of the key.
    Scalar(String),
    Object(BTreeMap<String, Node>),
}

impl Node {
    /// Puts a scalar at `path`; `None` where something else is there.
    fn put(&mut self, path: &[String], scalar: String) -> Option<()> {
        let Self::Object(members) = self else { return None };
        let Some((name, rest)) = path.split_first() else {
            if !members.is_empty() {
                return None;
            }
            *self = Self::Scalar(scalar);
            return Some(());
        };
        if rest.is_empty() {
            return match members.insert(name.clone(), Self::Scalar(scalar)) {
                None => Some(()),
                Some(_) => None,
            };
        }
        let inner = members.entry(name.clone()).or_insert_with(|| Self::Object(BTreeMap::new()));
        inner.put(rest, scalar)
    }

    fn text(&self) -> String {
        match self {
            Self::Scalar(text) => text.clone(),
            Self::Object(members) => {
                let members: Vec<_> = members
                    .iter()
                    .map(|(name, node)| format!("{}:{}", quoted(name), node.text()))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }
}

/// Returns `text` as a JSON scalar: itself where it is one, else as a string.
fn scalar(text: &str) -> String {
    let plain = serde_json::from_str::<&RawValue>(text).map(|raw| raw.get().to_owned());
    match plain {
        Ok(raw) if !raw.starts_with(['{', '[']) => raw,
        _ => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn header(text: &str) -> Result<(Vec<u8>, Option<Vec<u8>>), Error> {
    let Some((name, value)) = text.split_once('=') else {
        let what = "a header has no value".to_owned();
        return Err(Error::arguments(what, "write it as `--header NAME=VALUE`"));
    };
    Ok((name.as_bytes().to_vec(), Some(value.as_bytes().to_vec())))
}

/// Returns the bytes that hexadecimal digits stand for; blanks and colons may lie between them.
pub(super) fn bytes_of_hex(text: &str) -> Result<Vec<u8>, Error> {
    let wrong = || {
        let what = "`--key-hex` is not hexadecimal";
        Error::arguments(what, "write two digits for each byte, such as `00ff7a`")
    };
    let digits: Vec<char> =
        text.chars().filter(|c| !c.is_ascii_whitespace() && *c != ':').collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    let byte = |pair: &[char; 2]| {
        let [high, low] = pair.map(|digit| digit.to_digit(16));
        u8::try_from(high? * 16 + low?).ok()
    };
    pairs.iter().map(byte).collect::<Option<_>>().ok_or_else(wrong)
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex_of_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(path).map(|found| bytes = found)
    };
    read.map_err(|source| Error::File { path: path.to_owned(), source })?;
    Ok(bytes)
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
