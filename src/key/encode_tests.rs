//! The encoding against a model that keeps the structure: same bytes exactly if the same key.

use proptest::prelude::*;

use super::*;
use crate::key::NoHeaders;

/// A key as a list of parts, which cannot be joined wrongly.
type ModelKey = Result<Vec<(&'static str, Vec<u8>)>, Missing>;

/// A record as the model sees it; the value is made from `document`.
#[derive(Clone, Debug)]
struct ModelRecord {
    key: Option<Vec<u8>>,
    document: Document,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

#[derive(Clone, Debug)]
enum Document {
    Tombstone,
    NotJson(Vec<u8>),
    Members(Vec<(String, Member)>),
}

#[derive(Clone, Debug)]
enum Member {
    Null,
    Text(String),
    /// A number or a boolean, as it is spelt.
    Literal(&'static str),
    Container(&'static str),
}

impl Document {
    fn value(&self) -> Option<Vec<u8>> {
        match self {
            Self::Tombstone => None,
            Self::NotJson(bytes) => Some(bytes.clone()),
            Self::Members(members) => {
                let members: Vec<_> = members.iter().map(|(name, m)| m.rendered(name)).collect();
                Some(format!("{{{}}}", members.join(",")).into_bytes())
            }
        }
    }

    fn member(&self, name: &str) -> Result<(&'static str, Vec<u8>), Missing> {
        let members = match self {
            Self::Tombstone => return Err(Missing::Null),
            Self::NotJson(_) => return Err(Missing::Unparsable),
            Self::Members(members) => members,
        };
        let found: Vec<_> = members.iter().filter(|(candidate, _)| candidate == name).collect();
        match found.as_slice() {
            [] => Err(Missing::Absent),
            [(_, Member::Null)] => Err(Missing::Null),
            [(_, Member::Container(_))] => Err(Missing::Absent),
            [(_, Member::Text(text))] => Ok(("json string", text.clone().into_bytes())),
            [(_, Member::Literal(text))] => Ok(("json literal", text.as_bytes().to_vec())),
            _ => Err(Missing::Ambiguous),
        }
    }
}

impl Member {
    /// Writes `"name":value`, spelling every letter of a string as an escape where the name is `b`.
    fn rendered(&self, name: &str) -> String {
        let value = match self {
            Self::Null => "null".to_owned(),
            Self::Literal(text) | Self::Container(text) => (*text).to_owned(),
            Self::Text(text) if name == "b" => {
                let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
                format!("\"{}\"", units.collect::<String>())
            }
            Self::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        };
        format!("{}:{value}", serde_json::Value::from(name))
    }
}

fn model_key(rule: &KeyRule, record: &ModelRecord) -> ModelKey {
    let part = |part: &KeyPart| match part {
        KeyPart::RecordKey => record.key.clone().map(|b| ("key", b)).ok_or(Missing::Null),
        KeyPart::Value => record.document.value().map(|b| ("value", b)).ok_or(Missing::Null),
        KeyPart::Json(tokens) => record.document.member(&tokens[0]),
        KeyPart::Header(name) => {
            let ours: Vec<_> =
                record.headers.iter().filter(|(n, _)| n == name.as_bytes()).collect();
            match ours.as_slice() {
                [] => Err(Missing::Absent),
                [(_, value)] => value.clone().map(|b| ("header", b)).ok_or(Missing::Null),
                _ => Err(Missing::Ambiguous),
            }
        }
    };
    rule.parts().iter().map(part).collect()
}

fn encoded(rule: &KeyRule, record: &ModelRecord) -> Result<Vec<u8>, Missing> {
    let value = record.document.value();
    let mut out = b"left over from the record before".to_vec();
    let view = RecordView {
        key: record.key.as_deref(),
        value: value.as_deref(),
        headers: record.headers.as_slice(),
    };
    encode(rule, view, &mut out).map(|()| out)
}

/// Few and short bytes, among them those that tags and lengths are made of: near misses abound.
fn small_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0_u8, 1, 2, b'a', 0xff]), 0..4)
}

fn any_member() -> impl Strategy<Value = Member> {
    prop_oneof![
        1 => Just(Member::Null),
        4 => "[a1\u{0}\"ë\u{1f600}]{0,2}".prop_map(Member::Text),
        3 => prop::sample::select(vec!["1", "1.0", "-0", "0", "true", "false"])
            .prop_map(Member::Literal),
        1 => prop::sample::select(vec!["{}", "[1]", "{\"a\":\"a\"}"]).prop_map(Member::Container),
    ]
}

fn any_record() -> impl Strategy<Value = ModelRecord> {
    let member = (prop::sample::select(vec!["a", "b", "c"]), any_member());
    let document = prop_oneof![
        1 => Just(Document::Tombstone),
        1 => prop::sample::select(vec!["", "{", "a", "{}x"])
            .prop_map(|text| Document::NotJson(text.into())),
        8 => prop::collection::vec(member, 0..4).prop_map(|members| Document::Members(
            members.into_iter().map(|(name, member)| (name.to_owned(), member)).collect()
        )),
    ];
    let header = (
        prop::sample::select(vec![b"h".to_vec(), b"i".to_vec(), vec![0xff, 0xfe]]),
        prop::option::weighted(0.8, small_bytes()),
    );
    (prop::option::weighted(0.8, small_bytes()), document, prop::collection::vec(header, 0..4))
        .prop_map(|(key, document, headers)| ModelRecord { key, document, headers })
}

fn any_rule() -> impl Strategy<Value = KeyRule> {
    let parts = vec!["record-key", "value", "header:h", "header:i", "json:/a", "json:/b"];
    let part = prop::sample::select(parts).prop_map(|text| KeyPart::parse(text).unwrap());
    prop::collection::vec(part, 1..4).prop_map(|parts| KeyRule::new(parts).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn two_records_have_the_same_bytes_exactly_if_the_model_says_they_have_the_same_key(
        (rule_a, rule_b) in (any_rule(), any_rule()),
        (a, b) in (any_record(), any_record()),
    ) {
        for (one_rule, one, other_rule, other) in
            [(&rule_a, &a, &rule_a, &b), (&rule_a, &a, &rule_b, &b), (&rule_a, &a, &rule_b, &a)]
        {
            let models = (model_key(one_rule, one), model_key(other_rule, other));
            let bytes = (encoded(one_rule, one), encoded(other_rule, other));
            prop_assert_eq!(models.0.as_ref().err(), bytes.0.as_ref().err());
            prop_assert_eq!(models.1.as_ref().err(), bytes.1.as_ref().err());
            if let (Ok(one), Ok(other)) = &bytes {
                prop_assert_eq!(models.0 == models.1, one == other);
            }
        }
    }
}

proptest! {
    #[test]
    fn no_two_ways_to_cut_one_string_into_parts_have_the_same_bytes(
        bytes in prop::collection::vec(0_u8..4, 0..8),
        (one, other) in (0_usize..8, 0_usize..8),
    ) {
        let both = rule(&["header:h", "header:i"]);
        let cut = |at: usize| {
            let (h, i) = bytes.split_at(at.min(bytes.len()));
            bytes_of(&both, None, &[(b"h", Some(h)), (b"i", Some(i))]).unwrap()
        };
        let same = one.min(bytes.len()) == other.min(bytes.len());
        prop_assert_eq!(same, cut(one) == cut(other));
    }
}

fn rule(parts: &[&str]) -> KeyRule {
    KeyRule::new(parts.iter().map(|text| KeyPart::parse(text).unwrap()).collect()).unwrap()
}

fn bytes_of(
    rule: &KeyRule,
    key: Option<&[u8]>,
    headers: &[(&[u8], Option<&[u8]>)],
) -> Result<Vec<u8>, Missing> {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec))).collect();
    let mut out = Vec::new();
    encode(rule, RecordView { key, value: None, headers: headers.as_slice() }, &mut out)?;
    Ok(out)
}

#[test]
fn the_bytes_of_a_part_are_tag_length_and_content() {
    let mut out = Vec::new();
    let view = RecordView { key: Some(b"ab"), value: Some(br#"{"n":7}"#), headers: &NoHeaders };
    encode(&rule(&["record-key", "json:/n"]), view, &mut out).unwrap();
    assert_eq!(out, b"\x01\x02\0\0\0\0\0\0\0ab\x05\x01\0\0\0\0\0\0\x007");
}

#[test]
fn null_empty_and_missing_are_three_things() {
    let by_key = rule(&["record-key"]);
    assert_eq!(bytes_of(&by_key, None, &[]), Err(Missing::Null));
    assert_eq!(bytes_of(&by_key, Some(b""), &[]).map(|bytes| bytes.len()), Ok(9));
    let by_header = rule(&["header:id"]);
    assert_eq!(bytes_of(&by_header, None, &[]), Err(Missing::Absent));
    assert_eq!(bytes_of(&by_header, None, &[(b"id", None)]), Err(Missing::Null));
    assert_eq!(bytes_of(&by_header, None, &[(b"id", Some(b""))]).map(|bytes| bytes.len()), Ok(9));
    assert_eq!(bytes_of(&rule(&["value"]), None, &[]), Err(Missing::Null));
    assert_eq!(bytes_of(&rule(&["json:/id"]), None, &[]), Err(Missing::Null));
}

#[test]
fn a_header_that_is_there_twice_is_ambiguous_even_if_null_or_equal() {
    let by_header = rule(&["header:id"]);
    for second in [None, Some(b"1".as_slice()), Some(b"2")] {
        let headers: [(&[u8], _); 2] = [(b"id", Some(b"1".as_slice())), (b"id", second)];
        assert_eq!(bytes_of(&by_header, None, &headers), Err(Missing::Ambiguous));
    }
}

#[test]
fn a_header_name_that_is_not_text_is_just_another_name() {
    let headers: [(&[u8], _); 2] = [(b"\xff\xfe", Some(b"x".as_slice())), (b"id", Some(b"1"))];
    assert!(bytes_of(&rule(&["header:id"]), None, &headers).is_ok());
}

#[test]
fn one_missing_part_leaves_the_record_without_a_key() {
    let both = rule(&["header:id", "record-key"]);
    assert_eq!(bytes_of(&both, Some(b"k"), &[]), Err(Missing::Absent));
    assert_eq!(bytes_of(&both, None, &[(b"id", Some(b"1"))]), Err(Missing::Null));
}

#[test]
fn parts_are_not_joined_ambiguously_and_binary_keys_are_kept_apart() {
    let both = rule(&["header:id", "record-key"]);
    let joined = |id: &'static [u8], key: &'static [u8]| {
        bytes_of(&both, Some(key), &[(b"id".as_slice(), Some(id))]).unwrap()
    };
    assert_ne!(joined(b"a", b"bc"), joined(b"ab", b"c"));
    // The first cut looks like a tag: without lengths these would be one.
    assert_ne!(joined(b"a\x01", b"b"), joined(b"a", b"\x01b"));
    let by_key = rule(&["record-key"]);
    let keys: [&[u8]; 4] = [b"\xff\x01", b"\xfe\x01", b"\0A", b"\0B"];
    let distinct: std::collections::BTreeSet<_> =
        keys.iter().map(|key| bytes_of(&by_key, Some(key), &[]).unwrap()).collect();
    assert_eq!(distinct.len(), 4);
}
