//! Reading the output back, and asking about topics.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::words::{Code, Coded, OutputPosition, RecordOffset};

fn read(
    reader: &OutputReader,
    from: i64,
    to: i64,
    idle_limit: Duration,
) -> Result<Vec<i64>, Error> {
    let mut found = Vec::new();
    let stop = AtomicBool::new(false);
    let (from, to) = (OutputPosition(from), OutputPosition(to));
    reader
        .read("out", 0, from, to, &stop, idle_limit, &mut |record| {
            found.push(record.offset().0);
            true
        })
        .map(|()| found)
}

#[test]
fn a_range_is_read_from_its_first_offset_to_before_its_end() {
    let cluster = mock(&[("out", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let reader = OutputReader::connect(&config, SOON).unwrap();
    assert_eq!(reader.bounds("out", 0).unwrap(), (OutputPosition(0), OutputPosition(0)));
    assert_eq!(read(&reader, 0, 0, SOON).unwrap(), [0; 0]);
    Raw::new(&cluster.bootstrap_servers(), "out").write(0, &[&b"v"[..]; 50]);
    assert_eq!(reader.bounds("out", 0).unwrap(), (OutputPosition(0), OutputPosition(50)));
    assert_eq!(read(&reader, 0, 50, SOON).unwrap(), (0..50).collect::<Vec<_>>());
    assert_eq!(read(&reader, 20, 30, SOON).unwrap(), (20..30).collect::<Vec<_>>());
    assert_eq!(read(&reader, 49, 50, SOON).unwrap(), [49]);
    let stop = AtomicBool::new(false);
    let at = reader.timestamp_at("out", 0, OutputPosition(3), &stop, SOON).unwrap();
    assert_eq!(at, Some((RecordOffset(3), Some(crate::words::Timestamp(1_000)))));
    let none = reader.timestamp_at("out", 0, OutputPosition(50), &stop, SOON).unwrap();
    assert_eq!(none, None);
}

#[test]
fn an_end_that_is_never_reached_is_an_error_with_the_offset_that_was() {
    let cluster = mock(&[("out", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    Raw::new(&cluster.bootstrap_servers(), "out").write(0, &[&b"v"[..]; 5]);
    let reader = OutputReader::connect(&config, SOON).unwrap();
    let error = read(&reader, 0, 9, Duration::from_millis(500)).unwrap_err();
    assert_eq!(error.code(), Code::CatchUpStuck);
    let text = error.to_string();
    assert!(text.contains("stands at offset 5, before 9"), "{text}");
    assert!(text.contains("the last stable offset is 5"), "{text}");
    assert_eq!(read(&reader, 0, 5, SOON).unwrap(), [0, 1, 2, 3, 4], "the reader is still good");
}

#[test]
fn a_position_behind_the_log_is_an_error_and_not_a_jump() {
    let cluster = mock(&[("out", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    Raw::new(&cluster.bootstrap_servers(), "out").write(0, &[&b"v"[..]; 5]);
    let reader = OutputReader::connect(&config, SOON).unwrap();
    let error = read(&reader, 70, 80, SOON).unwrap_err();
    assert_eq!(error.code(), Code::OutputTruncated);
    assert!(error.to_string().contains("offset 70"), "{error}");
}

#[test]
fn reading_stops_when_told_to() {
    let cluster = mock(&[("out", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let reader = OutputReader::connect(&config, SOON).unwrap();
    let (from, to, stop) = (OutputPosition(0), OutputPosition(5), AtomicBool::new(true));
    let result = reader.read("out", 0, from, to, &stop, SOON, &mut |_| true);
    assert!(matches!(result, Err(Error::Stopped { .. })), "{result:?}");
}

#[test]
fn facts_the_broker_does_not_tell_are_unknown() {
    let cluster = mock(&[("in", 3)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let asked = Cluster::connect(&config, SOON).unwrap();
    let facts = asked.topic("in").unwrap().unwrap();
    assert_eq!(facts.partitions, 3);
    assert_eq!(
        (facts.max_message_bytes, facts.retention_ms, facts.timestamp_type),
        (None, None, None)
    );
    assert_eq!(asked.topics_matching("i.").unwrap(), ["in"]);
    assert_eq!(asked.topics_matching("i").unwrap(), [""; 0], "the whole name must match");
    assert_eq!(asked.topics_matching("(").unwrap_err().code(), Code::ClientSetting);
}

#[test]
fn nobody_there_is_said_with_the_address_and_the_clients_words() {
    let config = config("127.0.0.1:1", "in");
    let start = Instant::now();
    let error = Cluster::connect(&config, Duration::from_secs(2)).unwrap_err();
    assert_eq!(error.code(), Code::BrokerUnreachable);
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("refused"), "{cause}");
    assert!(start.elapsed() < SOON);
}

#[test]
fn a_setting_the_client_does_not_know_is_named_without_its_value() {
    let mut config = config("127.0.0.1:1", "in");
    config.kafka.client.extend(properties(&[("sasl.pasword", "hunter2")]));
    let error = Source::connect(&config).unwrap_err();
    assert_eq!(error.code(), Code::ClientSetting);
    assert!(error.to_string().contains("sasl.pasword"), "{error}");
    assert!(!format!("{error:?}{error}").contains("hunter2"));
}

#[test]
fn an_output_cluster_of_its_own_gets_none_of_the_sources_credentials() {
    let output = mock(&[("out", 1)]);
    let mut config = config("127.0.0.1:1", "in");
    config
        .kafka
        .client
        .extend(properties(&[("sasl.username", "u"), ("security.protocol", "sasl_ssl")]));
    config.sink.bootstrap_servers = Some(output.bootstrap_servers());
    let reader = OutputReader::connect(&config, SOON).unwrap();
    assert_eq!(reader.bounds("out", 0).unwrap(), (OutputPosition(0), OutputPosition(0)));
}
