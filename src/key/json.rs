//! Finds the scalar at a JSON pointer without building a tree.
//!
//! - The whole value must be one JSON document in UTF-8; what follows it, or a fault anywhere in
//!   it, makes it unparsable. A leading byte order mark is passed over.
//! - A member that is repeated on the path is ambiguous, whatever it holds; names are compared
//!   after decoding. Off the path, names and strings are checked for their grammar only.
//! - Strings are compared decoded, so `"\u0061"` is `"a"`. Numbers are compared as they are spelt,
//!   so `1`, `1.0` and `1e0` are three keys and no digit is lost.
//! - The walk recurses once per step of the pointer, which the rule bounds; what lies beside the
//!   path is skipped without recursion, however deep it nests.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Missing;
use super::encode::{Tag, put};

/// What the walk found, once the document proved to be JSON.
type Found = Result<(), Missing>;

/// Appends the scalar at `tokens` in the document `value` to `out`, as one part of a key.
pub(super) fn extract(value: &[u8], tokens: &[String], out: &mut Vec<u8>) -> Found {
    let value = value.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(value);
    let Ok(text) = std::str::from_utf8(value) else { return Err(Missing::Unparsable) };
    let mut document = serde_json::Deserializer::from_str(text);
    let found = Walk { tokens, out }.deserialize(&mut document);
    match (found, document.end()) {
        (Ok(found), Ok(())) => found,
        _ => Err(Missing::Unparsable),
    }
}

/// Walks from one value of the document to the scalar that `tokens` leads to.
struct Walk<'t, 'o> {
    tokens: &'t [String],
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Found, D::Error> {
        match self.tokens.split_first() {
            Some((token, rest)) => value.deserialize_any(Step { token, rest, out: self.out }),
            None => take_scalar(<&RawValue>::deserialize(value)?.get(), self.out),
        }
    }
}

/// Takes one step of the walk: into the member or element called `token`.
struct Step<'t, 'o> {
    token: &'t str,
    rest: &'t [String],
    out: &'o mut Vec<u8>,
}

impl<'de> Visitor<'de> for Step<'_, '_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Found, A::Error> {
        let Self { token, rest: tokens, out } = self;
        let mut found = None;
        while let Some(is_ours) = members.next_key_seed(NameIs(token))? {
            if is_ours && found.is_none() {
                found = Some(members.next_value_seed(Walk { tokens, out })?);
                continue;
            }
            members.next_value::<IgnoredAny>()?;
            if is_ours {
                found = Some(Err(Missing::Ambiguous));
            }
        }
        Ok(found.unwrap_or(Err(Missing::Absent)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Found, A::Error> {
        if let Some(index) = array_index(self.token) {
            for _ in 0..index {
                if elements.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(Err(Missing::Absent));
                }
            }
            let walk = Walk { tokens: self.rest, out: self.out };
            if let Some(found) = elements.next_element_seed(walk)? {
                skip(elements)?;
                return Ok(found);
            }
        } else {
            skip(elements)?;
        }
        Ok(Err(Missing::Absent))
    }

    // A scalar where the pointer goes on: there is nothing at its end.

    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(Err(Missing::Absent))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Found, E> {
        Ok(Err(Missing::Absent))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Found, E> {
        Ok(Err(Missing::Absent))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Found, E> {
        Ok(Err(Missing::Absent))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Found, E> {
        Ok(Err(Missing::Absent))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Found, E> {
        Ok(Err(Missing::Absent))
    }
}

/// Passes over the elements that are left, so that all of the document is checked.
fn skip<'de, A: SeqAccess<'de>>(mut elements: A) -> Result<(), A::Error> {
    while elements.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Returns the index a pointer token stands for: `0`, or digits without a leading zero.
fn array_index(token: &str) -> Option<usize> {
    let canonical = token == "0" || !token.starts_with('0');
    let digits = token.bytes().all(|byte| byte.is_ascii_digit());
    if canonical && digits { token.parse().ok() } else { None }
}

/// Tells whether a member's name, decoded, is this one. Allocates nothing.
struct NameIs<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for NameIs<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for NameIs<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// Appends the value spelt `raw`, which is known to be JSON, if it is a scalar.
fn take_scalar<E: Error>(raw: &str, out: &mut Vec<u8>) -> Result<Found, E> {
    match raw.as_bytes() {
        [b'{' | b'[', ..] => return Ok(Err(Missing::Absent)),
        [b'n', ..] => return Ok(Err(Missing::Null)),
        [b'"', plain @ .., b'"'] if !plain.contains(&b'\\') => put(out, Tag::JsonString, plain),
        [b'"', ..] => {
            let mut escaped = serde_json::Deserializer::from_str(raw);
            escaped.deserialize_str(Decoded(out)).map_err(E::custom)?;
        }
        literal => put(out, Tag::JsonLiteral, literal),
    }
    Ok(Ok(()))
}

/// Appends a string whose escapes the parser resolves.
struct Decoded<'o>(&'o mut Vec<u8>);

impl Visitor<'_> for Decoded<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        put(self.0, Tag::JsonString, text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::KeyPart;
    use super::*;

    fn at(pointer: &str, document: impl AsRef<[u8]>) -> Result<Vec<u8>, Missing> {
        let Ok(KeyPart::Json(tokens)) = KeyPart::parse(&format!("json:{pointer}")) else {
            panic!("`{pointer}` is no pointer");
        };
        let mut out = Vec::new();
        extract(document.as_ref(), &tokens, &mut out).map(|()| out)
    }

    fn string(text: &str) -> Result<Vec<u8>, Missing> {
        let mut out = Vec::new();
        put(&mut out, Tag::JsonString, text.as_bytes());
        Ok(out)
    }

    fn literal(text: &str) -> Result<Vec<u8>, Missing> {
        let mut out = Vec::new();
        put(&mut out, Tag::JsonLiteral, text.as_bytes());
        Ok(out)
    }

    #[test]
    fn scalars_are_found_through_objects_and_arrays() {
        let document = r#" {"a":{"b":[10,{"c":"x"},true]},"a.b":7,"":"e","0":"zero"} "#;
        assert_eq!(at("/a/b/0", document), literal("10"));
        assert_eq!(at("/a/b/1/c", document), string("x"));
        assert_eq!(at("/a/b/2", document), literal("true"));
        assert_eq!(at("/a.b", document), literal("7"));
        assert_eq!(at("/", document), string("e"));
        assert_eq!(at("/0", document), string("zero"));
        assert_eq!(at("", " \"whole\" "), string("whole"));
    }

    #[test]
    fn a_dotted_name_and_a_nested_path_are_different_places() {
        assert_eq!(at("/foo/bar", r#"{"foo":{"bar":1}}"#), literal("1"));
        assert_eq!(at("/foo/bar", r#"{"foo.bar":1}"#), Err(Missing::Absent));
        assert_eq!(at("/foo.bar", r#"{"foo.bar":1}"#), literal("1"));
        assert_eq!(at("/foo.bar", r#"{"foo":{"bar":1}}"#), Err(Missing::Absent));
    }

    #[test]
    fn the_wrong_shape_counts_as_absent() {
        for document in [
            r#"{"id":1}"#,
            r#"{"a":1}"#,
            r#"{"a":-1}"#,
            r#"{"a":1.5}"#,
            r#"{"a":"b"}"#,
            r#"{"a":"\u0062"}"#,
            r#"{"a":null}"#,
            r#"{"a":false}"#,
            r#"{"a":[1,2]}"#,
            r#"{"a":{"b":{}}}"#,
            r#"{"a":{"b":[1]}}"#,
            "[1,2]",
            "{}",
            "[]",
            "7",
        ] {
            assert_eq!(at("/a/b", document), Err(Missing::Absent), "{document}");
        }
    }

    #[test]
    fn an_index_is_canonical_or_none() {
        assert_eq!(at("/1", "[1,2]"), literal("2"));
        for pointer in ["/2", "/-", "/01", "/00", "/+1", "/", "/1.0", "/99999999999999999999999"] {
            assert_eq!(at(pointer, "[1,2]"), Err(Missing::Absent), "{pointer}");
        }
        assert_eq!(at("/18446744073709551615", "[1,2]"), Err(Missing::Absent));
    }

    #[test]
    fn null_is_no_key_and_the_string_null_is_one() {
        assert_eq!(at("/id", r#"{"id":null,"n":1}"#), Err(Missing::Null));
        assert_eq!(at("/id", r#"{"id":"null"}"#), string("null"));
        assert_eq!(at("", "null"), Err(Missing::Null));
    }

    #[test]
    fn empty_zero_and_false_are_keys() {
        assert_eq!(at("/id", r#"{"id":""}"#), string(""));
        assert_eq!(at("/id", r#"{"id":0}"#), literal("0"));
        assert_eq!(at("/id", r#"{"id":false}"#), literal("false"));
        assert_ne!(at("/id", r#"{"id":"1"}"#), at("/id", r#"{"id":1}"#));
    }

    #[test]
    fn strings_are_compared_decoded_and_otherwise_byte_by_byte() {
        assert_eq!(at("/id", r#"{"id":"\u007a\u006f\u00eb\n\ud83d\ude00"}"#), string("zoë\n😀"));
        assert_eq!(at("/id", r#"{"id":"\u0000"}"#), string("\0"));
        assert_ne!(at("/id", "{\"id\":\"zo\u{eb}\"}"), at("/id", "{\"id\":\"zoe\u{308}\"}"));
        assert_ne!(at("/id", r#"{"id":"a"}"#), at("/id", r#"{"id":"a "}"#));
        assert_ne!(at("/id", r#"{"id":"ID-7"}"#), at("/id", r#"{"id":"id-7"}"#));
        assert_eq!(at("/id", r#"{"id":"\ud800"}"#), Err(Missing::Unparsable));
    }

    #[test]
    fn numbers_are_compared_as_they_are_spelt() {
        for number in ["1", "1.0", "1e0", "-0", "1e999", "123456789012345678901234567890.10"] {
            assert_eq!(at("/id", format!("{{\"id\": {number} }}")), literal(number));
        }
    }

    #[test]
    fn a_repeated_member_on_the_path_is_ambiguous() {
        for document in [
            r#"{"id":1,"id":2}"#,
            r#"{"id":1,"id":1}"#,
            r#"{"id":null,"id":1}"#,
            r#"{"id":1,"n":0,"id":{}}"#,
            r#"{"id":1,"\u0069d":2}"#,
            r#"{"id":1,"id":2,"id":3}"#,
        ] {
            assert_eq!(at("/id", document), Err(Missing::Ambiguous), "{document}");
        }
        assert_eq!(at("/a/b", r#"{"a":{"b":1,"b":1}}"#), Err(Missing::Ambiguous));
        assert_eq!(at("/a/b", r#"{"a":{"b":1},"a":{}}"#), Err(Missing::Ambiguous));
        assert_eq!(at("/id", r#"{"x":1,"x":2,"id":3,"y":{"id":4}}"#), literal("3"));
    }

    #[test]
    fn what_is_not_json_from_end_to_end_is_unparsable() {
        for document in [
            "",
            " ",
            "not json",
            r#"{"id":1"#,
            r#"{"id":1} x"#,
            r#"{"id":1}{"id":2}"#,
            r#"{"id":1,}"#,
            r#"{"id":1,"x":[1,}"#,
            r#"{"id":01}"#,
            r#"{"id":NaN}"#,
            r#"{"id":'1'}"#,
            r#"{"id":1,2:3}"#,
            "{\"id\":\"a\u{1}\"}",
            "\u{feff}\u{feff}{\"id\":1}",
        ] {
            assert_eq!(at("/id", document), Err(Missing::Unparsable), "{document:?}");
        }
        assert_eq!(at("/0", "[1,2"), Err(Missing::Unparsable));
        assert_eq!(at("/0", "[1,2}"), Err(Missing::Unparsable));
        assert_eq!(at("/5", "[1,2"), Err(Missing::Unparsable));
        assert_eq!(at("/x", "[1,2"), Err(Missing::Unparsable));
        assert_eq!(at("/id", b"{\"id\":1,\"x\":\"\xff\"}"), Err(Missing::Unparsable));
        assert_eq!(at("", "1 2"), Err(Missing::Unparsable));
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        assert_eq!(at("/id", "\u{feff}{\"id\":1}"), literal("1"));
    }

    #[test]
    fn nesting_beside_the_path_is_skipped_at_any_depth() {
        let deep = format!("{{\"x\":{}{},\"id\":1}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(at("/id", &deep), literal("1"));
        assert_eq!(at("/x", &deep), Err(Missing::Absent));
        assert_eq!(at("/id", "[".repeat(200_000)), Err(Missing::Unparsable));
        let path = "/a".repeat(64);
        let document = format!("{}1{}", "{\"a\":".repeat(64), "}".repeat(64));
        assert_eq!(at(&path, document), literal("1"));
    }
}
