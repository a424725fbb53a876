//! The bytes that are hashed for a record: which keys are equal is decided here.
//!
//! Each part of the rule, in order, becomes
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | tag: where the bytes come from (below) |
//! | 8 | length in bytes, little-endian |
//! | length | the bytes |
//!
//! Every part tells its own end, so two lists of parts have the same bytes only if they are the
//! same list: `("a", "bc")` is not `("ab", "c")`. Names of headers and pointers are not among
//! them; they belong to the rule, which is stored beside the fingerprints. This is stored format:
//! a change makes every stored fingerprint worthless, and needs a new hash name.

use super::json;
use super::{Headers, KeyPart, KeyRule, Missing, RecordView};

/// Where the bytes of a part come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tag {
    RecordKey = 1,
    Value = 2,
    Header = 3,
    /// A JSON string, decoded.
    JsonString = 4,
    /// A JSON number, `true` or `false`, as it is spelt.
    JsonLiteral = 5,
    /// Null, where content is encoded.
    Null = 6,
    /// A timestamp, where content is encoded.
    Timestamp = 7,
}

/// Replaces what is in `out` with the key of `record`. After an error `out` holds no key.
pub(super) fn encode<H: Headers + ?Sized>(
    rule: &KeyRule,
    record: RecordView<'_, H>,
    out: &mut Vec<u8>,
) -> Result<(), Missing> {
    out.clear();
    rule.parts().iter().try_for_each(|part| encode_part(part, record, out))
}

/// Replaces what is in `out` with the content of `record`: key, value and timestamp.
///
/// For records without a dedup key; starts with a tag that no key starts with.
pub(super) fn encode_content<H: Headers + ?Sized>(
    record: RecordView<'_, H>,
    timestamp_ms: i64,
    out: &mut Vec<u8>,
) {
    out.clear();
    put(out, Tag::Timestamp, &timestamp_ms.to_le_bytes());
    for (tag, bytes) in [(Tag::RecordKey, record.key), (Tag::Value, record.value)] {
        match bytes {
            Some(bytes) => put(out, tag, bytes),
            None => put(out, Tag::Null, &[]),
        }
    }
}

fn encode_part<H: Headers + ?Sized>(
    part: &KeyPart,
    record: RecordView<'_, H>,
    out: &mut Vec<u8>,
) -> Result<(), Missing> {
    match part {
        KeyPart::RecordKey => put(out, Tag::RecordKey, record.key.ok_or(Missing::Null)?),
        KeyPart::Value => put(out, Tag::Value, record.value.ok_or(Missing::Null)?),
        KeyPart::Header(name) => put(out, Tag::Header, only_header(record.headers, name)?),
        KeyPart::Json(tokens) => json::extract(record.value.ok_or(Missing::Null)?, tokens, out)?,
    }
    Ok(())
}

/// Returns the value of the one header named `name`.
fn only_header<'a, H: Headers + ?Sized>(headers: &'a H, name: &str) -> Result<&'a [u8], Missing> {
    let mut found = Err(Missing::Absent);
    let mut count = 0_u32;
    headers.each_named(name.as_bytes(), &mut |value| {
        count = count.saturating_add(1);
        found = value.ok_or(Missing::Null);
    });
    if count > 1 { Err(Missing::Ambiguous) } else { found }
}

/// Appends one part.
pub(super) fn put(out: &mut Vec<u8>, tag: Tag, bytes: &[u8]) {
    out.push(tag as u8);
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
