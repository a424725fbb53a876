//! That what is typed has the key that a record has.

use super::*;
use crate::key::{Fingerprint, HashKind, Hasher, Missing, Secret};

fn rule(parts: &[&str]) -> KeyRule {
    let parts = parts.iter().map(|text| KeyPart::parse(text).unwrap()).collect();
    KeyRule::new(parts).unwrap()
}

fn fingerprint(rule: &KeyRule, record: &OwnedRecord) -> Result<Fingerprint, Missing> {
    let mut hasher = Hasher::new(HashKind::Xxh3, Secret::from_bytes([7; Secret::LEN]));
    hasher.fingerprint(rule, record.view())
}

fn typed(parts: &[&str], keys: &[&str]) -> Result<OwnedRecord, Error> {
    let keys = keys.iter().map(|&key| key.to_owned()).collect();
    RecordOptions { keys, ..RecordOptions::default() }.record(&rule(parts))
}

fn assert_same(parts: &[&str], keys: &[&str], record: OwnedRecord) {
    let rule = rule(parts);
    let asked = typed(parts, keys).unwrap();
    assert_eq!(fingerprint(&rule, &asked), fingerprint(&rule, &record), "{keys:?}");
    assert!(fingerprint(&rule, &asked).is_ok());
}

fn with_value(value: &str) -> OwnedRecord {
    OwnedRecord { value: Some(value.as_bytes().to_vec()), ..OwnedRecord::default() }
}

#[test]
fn one_key_for_each_part_of_the_rule_makes_the_key_of_the_record() {
    let key = |text: &str| OwnedRecord { key: Some(text.into()), ..OwnedRecord::default() };
    assert_same(&["record-key"], &["a b"], key("a b"));
    assert_same(&["record-key"], &[""], key(""));
    assert_same(&["value"], &["{\"a\":1}"], with_value("{\"a\":1}"));
    let header = (b"id".to_vec(), Some(b"7".to_vec()));
    assert_same(&["header:id"], &["7"], OwnedRecord { headers: vec![header], ..key("x") });
    assert_same(&["json:/a/0/b"], &["x y"], with_value("{\"z\":0,\"a\":[{\"b\":\"x y\"}]}"));
    assert_same(&["json:/n"], &["1.50"], with_value("{\"n\": 1.50}"));
    assert_same(&["json:/n"], &["\"1.50\""], with_value("{\"n\": \"1.50\"}"));
    assert_same(&["json:/n"], &["true"], with_value("{\"n\": true}"));
    assert_same(&["json:"], &["7"], with_value("7"));
    let both =
        OwnedRecord { key: Some(b"k".to_vec()), ..with_value("{\"a\":{\"x\":1,\"y\":\"2\"}}") };
    assert_same(&["json:/a/x", "record-key", "json:/a/y"], &["1", "k", "\"2\""], both);
}

#[test]
fn a_number_and_the_string_of_its_digits_are_two_keys() {
    let rule = rule(&["json:/n"]);
    let number = typed(&["json:/n"], &["1"]).unwrap();
    let text = typed(&["json:/n"], &["\"1\""]).unwrap();
    assert_ne!(fingerprint(&rule, &number), fingerprint(&rule, &text));
}

#[test]
fn a_wrong_number_of_keys_names_the_parts_of_the_rule() {
    let error = typed(&["record-key", "json:/a"], &["x"]).unwrap_err().to_string();
    assert_eq!(error, "the key rule has 2 parts (record-key, json:/a), got 1 keys");
}

#[test]
fn parts_that_overlap_ask_for_the_whole_value() {
    for parts in [["value", "json:/a"], ["json:/a", "json:/a/b"], ["json:/a/b", "json:/a"]] {
        let error = typed(&parts, &["1", "2"]).unwrap_err();
        assert!(error.to_string().contains("same piece"), "{parts:?}: {error}");
    }
}

#[test]
fn a_record_can_be_given_in_parts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("value");
    std::fs::write(&path, b"{\"a\":[1,2]}").unwrap();
    let options = RecordOptions {
        key_hex: Some("00 ff:7A".into()),
        value_file: Some(path),
        headers: vec!["h=a=b".into(), "h=".into()],
        ..RecordOptions::default()
    };
    let record = options.record(&rule(&["record-key"])).unwrap();
    assert_eq!(record.key.as_deref(), Some(&[0, 255, 0x7a][..]));
    assert_eq!(record.value.as_deref(), Some(&b"{\"a\":[1,2]}"[..]));
    let headers = [("h", "a=b"), ("h", "")];
    let headers = headers.map(|(name, value)| (name.into(), Some(value.into())));
    assert_eq!(record.headers, headers);
    let null = RecordOptions { key_null: true, ..RecordOptions::default() };
    assert_eq!(null.record(&rule(&["record-key"])).unwrap(), OwnedRecord::default());
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let refused = |options: RecordOptions| options.record(&rule(&["record-key"])).unwrap_err();
    let hex = |text: &str| Some(text.to_owned());
    for text in ["0", "0g", "€€"] {
        refused(RecordOptions { key_hex: hex(text), ..RecordOptions::default() });
    }
    refused(RecordOptions { headers: vec!["h".into()], ..RecordOptions::default() });
    refused(RecordOptions { key_hex: hex("00"), key_null: true, ..RecordOptions::default() });
    refused(RecordOptions { keys: vec!["k".into()], key_null: true, ..RecordOptions::default() });
    let file =
        RecordOptions { value_file: Some("/nowhere/at/all".into()), ..RecordOptions::default() };
    assert!(refused(file).to_string().contains("/nowhere/at/all"));
}

#[test]
fn a_record_on_the_command_line_is_not_shown() {
    let options = RecordOptions { keys: vec!["secret-key".into()], ..RecordOptions::default() };
    assert!(!format!("{options:?}").contains("secret-key"));
}
