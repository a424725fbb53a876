//! Membership: rebalances answered later, positions, commits, leaving.

use super::*;
use crate::words::{Code, Coded};

/// A member, and what it holds.
struct Member {
    source: Source,
    held: Vec<SourcePartition>,
}

impl Member {
    fn join(config: &Config) -> Self {
        let mut source = Source::connect(config).unwrap();
        source.subscribe().unwrap();
        Self { source, held: Vec::new() }
    }

    /// Polls once and answers a rebalance only after `later` more polls.
    fn step(&mut self, later: usize) -> Vec<(i32, i64)> {
        let mut records = Vec::new();
        match self.source.poll(Duration::from_millis(20)) {
            Polled::Record(record) => records.push((record.partition(), record.offset().0)),
            Polled::Assigned(partitions) => {
                self.wait(later);
                let all: Vec<_> = partitions.iter().map(|p| (p.clone(), None)).collect();
                self.source.accept(&all).unwrap();
                for partition in partitions {
                    self.source.begin(&partition, ResumeOffset(0), SOON).unwrap();
                    self.held.push(partition);
                }
            }
            Polled::Revoked { partitions, lost } => {
                assert!(!lost);
                self.wait(later);
                self.source.release(&partitions).unwrap();
                self.held.retain(|p| !partitions.contains(p));
            }
            Polled::Failed(error) => panic!("{error}"),
            Polled::Committed { .. } | Polled::Nothing => {}
        }
        records
    }

    /// Polls without answering: nothing but silence may come.
    fn wait(&mut self, polls: usize) {
        for _ in 0..polls {
            match self.source.poll(Duration::from_millis(20)) {
                Polled::Nothing => {}
                other => panic!("while a rebalance waits: {other:?}"),
            }
        }
    }
}

/// Runs two members until each holds two of four partitions and all records came to somebody.
fn two_members(strategy: &str) {
    let cluster = mock(&[("in", 4)]);
    let mut config = config(&cluster.bootstrap_servers(), "in");
    config.kafka.client.extend(properties(&[("partition.assignment.strategy", strategy)]));
    let raw = Raw::new(&cluster.bootstrap_servers(), "in");
    for partition in 0..4 {
        raw.write(partition, &[b"a", b"b", b"c"]);
    }
    let mut first = Member::join(&config);
    let mut seen = std::collections::BTreeSet::new();
    let start = Instant::now();
    while first.held.len() < 4 || seen.len() < 12 {
        seen.extend(first.step(25));
        assert!(start.elapsed() < 2 * SOON, "{:?} {seen:?}", first.held);
    }
    let mut second = Member::join(&config);
    let start = Instant::now();
    while (first.held.len(), second.held.len()) != (2, 2) {
        first.step(25);
        second.step(25);
        assert!(start.elapsed() < 4 * SOON, "{:?} {:?}", first.held, second.held);
    }
    // What moved is read from where the new owner begins, and goes on being read.
    for partition in 0..4 {
        raw.write(partition, &[b"d"]);
    }
    let mut fresh = std::collections::BTreeSet::new();
    let start = Instant::now();
    while fresh.len() < 4 {
        fresh.extend(first.step(0).into_iter().filter(|(_, offset)| *offset == 3));
        fresh.extend(second.step(0).into_iter().filter(|(_, offset)| *offset == 3));
        assert!(start.elapsed() < 2 * SOON, "{fresh:?}");
    }
    assert_eq!(second.source.close(SOON), Closed::Clean);
    assert_eq!(first.source.close(SOON), Closed::Clean);
}

#[test]
fn a_rebalance_can_be_answered_after_many_polls_with_eager_assignment() {
    two_members("range");
}

#[test]
fn a_rebalance_can_be_answered_after_many_polls_with_cooperative_assignment() {
    two_members("cooperative-sticky");
}

#[test]
fn closing_with_an_unanswered_rebalance_does_not_hang() {
    for strategy in ["range", "cooperative-sticky"] {
        let cluster = mock(&[("in", 2)]);
        let mut config = config(&cluster.bootstrap_servers(), "in");
        config.kafka.client.extend(properties(&[("partition.assignment.strategy", strategy)]));
        let mut source = Source::connect(&config).unwrap();
        source.subscribe().unwrap();
        until(&mut source, |polled| matches!(polled, Polled::Assigned(_)).then_some(()));
        assert_eq!(source.close(SOON), Closed::Clean, "{strategy}");
    }
}

#[test]
fn records_come_from_exactly_where_a_partition_begins() {
    let cluster = mock(&[("in", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let raw = Raw::new(&cluster.bootstrap_servers(), "in");
    for _ in 0..10 {
        raw.write(0, &[b"v"]);
    }
    let partition = SourcePartition::new("in", 0);
    for begin in [0, 1, 7, 9] {
        let mut source = alone(&config, &partition, begin);
        let count = usize::try_from(10 - begin).unwrap();
        assert_eq!(offsets(&mut source, count), (begin..10).collect::<Vec<_>>());
        // Backwards, while the client stands at the end.
        source.pause(&partition).unwrap();
        source.begin(&partition, ResumeOffset(4), SOON).unwrap();
        assert_eq!(offsets(&mut source, 6), [4, 5, 6, 7, 8, 9]);
    }
}

#[test]
fn an_offset_given_with_the_answer_needs_no_seek() {
    let cluster = mock(&[("in", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let raw = Raw::new(&cluster.bootstrap_servers(), "in");
    for _ in 0..10 {
        raw.write(0, &[b"v"]);
    }
    let partition = SourcePartition::new("in", 0);
    let mut source = given(&config, &partition);
    source.accept(&[(partition.clone(), Some(ResumeOffset(5)))]).unwrap();
    assert!(matches!(source.poll(Duration::from_millis(300)), Polled::Nothing), "not begun");
    source.begin(&partition, ResumeOffset(5), SOON).unwrap();
    assert_eq!(offsets(&mut source, 5), [5, 6, 7, 8, 9]);
}

#[test]
fn a_paused_partition_falls_silent_and_goes_on_where_it_stopped() {
    let cluster = mock(&[("in", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let raw = Raw::new(&cluster.bootstrap_servers(), "in");
    // Many requests, so that most of it is not taken from the client yet.
    for _ in 0..30 {
        raw.write(0, &[&b"v"[..]; 100]);
    }
    let partition = SourcePartition::new("in", 0);
    let mut source = alone(&config, &partition, 0);
    let mut found = offsets(&mut source, 10);
    source.pause(&partition).unwrap();
    while let Polled::Record(record) = source.poll(Duration::from_millis(300)) {
        found.push(record.offset().0);
    }
    assert!(found.len() < 3_000, "all of it came although paused");
    source.resume(&partition).unwrap();
    found.extend(offsets(&mut source, 3_000 - found.len()));
    assert_eq!(found, (0..3_000).collect::<Vec<_>>());
}

#[test]
fn records_taken_from_the_client_are_gone_once_their_partition_moves() {
    let cluster = mock(&[("in", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    Raw::new(&cluster.bootstrap_servers(), "in").write(0, &[&b"v"[..]; 100]);
    let partition = SourcePartition::new("in", 0);
    let mut source = alone(&config, &partition, 0);
    // The rest of the hundred is taken and not handed out.
    assert_eq!(offsets(&mut source, 10), (0..10).collect::<Vec<_>>());
    source.pause(&partition).unwrap();
    source.begin(&partition, ResumeOffset(5), SOON).unwrap();
    assert_eq!(offsets(&mut source, 95), (5..100).collect::<Vec<_>>());
}

#[test]
fn a_resume_offset_that_is_gone_is_named() {
    let cluster = mock(&[("in", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    Raw::new(&cluster.bootstrap_servers(), "in").write(0, &[b"v"]);
    let mut source = alone(&config, &SourcePartition::new("in", 0), 500);
    let error = until(&mut source, |polled| match polled {
        Polled::Failed(error) => Some(error),
        _ => None,
    });
    assert_eq!(error.code(), Code::OffsetOutOfRange);
    assert_eq!(error.to_string(), "offset 500 is not in source partition in/0");
}

#[test]
fn a_commit_says_when_it_was_sent_and_is_read_back_with_its_metadata() {
    let cluster = mock(&[("in", 2)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let partition = SourcePartition::new("in", 0);
    let other = SourcePartition::new("in", 1);
    let mut source = alone(&config, &partition, 0);
    let before = Instant::now();
    source.commit(&[(partition.clone(), ResumeOffset(7), "note".to_owned())]).unwrap();
    let after = Instant::now();
    let (result, sent_at) = until(&mut source, |polled| match polled {
        Polled::Committed { result, sent_at } => Some((result, sent_at)),
        _ => None,
    });
    result.unwrap();
    assert!((before..=after).contains(&sent_at));
    source.commit_now(&[(partition.clone(), ResumeOffset(8), "note 8".to_owned())], SOON).unwrap();
    let found = source.committed(&[other, partition], SOON).unwrap();
    assert_eq!(
        found,
        [None, Some(Committed { offset: ResumeOffset(8), metadata: Some("note 8".to_owned()) })]
    );
}

#[test]
fn a_commit_that_the_group_refuses_is_reported() {
    let cluster = mock(&[("in", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    let partition = SourcePartition::new("in", 0);
    let mut source = alone(&config, &partition, 0);
    cluster.request_errors(
        rdkafka::types::RDKafkaApiKey::OffsetCommit,
        &[rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION; 5],
    );
    source.commit(&[(partition, ResumeOffset(7), String::new())]).unwrap();
    let error = until(&mut source, |polled| match polled {
        Polled::Committed { result, .. } => Some(result.unwrap_err()),
        _ => None,
    });
    assert_eq!(error.code(), Code::CommitFailed);
}

#[test]
fn lag_counts_down_to_nothing() {
    let cluster = mock(&[("in", 1)]);
    let config = config(&cluster.bootstrap_servers(), "in");
    Raw::new(&cluster.bootstrap_servers(), "in").write(0, &[&b"v"[..]; 5]);
    let partition = SourcePartition::new("in", 0);
    let mut source = alone(&config, &partition, 0);
    offsets(&mut source, 5);
    assert_eq!(source.lag(&partition, ResumeOffset(2)), Some(3));
    assert_eq!(source.lag(&partition, ResumeOffset(5)), Some(0));
    assert_eq!(source.lag(&SourcePartition::new("in", 9), ResumeOffset(0)), None);
}

#[test]
fn a_missing_source_topic_is_named() {
    let cluster = mock(&[("in", 1)]);
    cluster
        .topic_error(
            "gone",
            rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
        )
        .unwrap();
    let config = config(&cluster.bootstrap_servers(), "gone");
    let mut source = Source::connect(&config).unwrap();
    source.subscribe().unwrap();
    let error = until(&mut source, |polled| match polled {
        Polled::Failed(error) => Some(error),
        _ => None,
    });
    assert_eq!(error.to_string(), "topic `gone` does not exist");
    assert_eq!(error.code(), Code::TopicMissing);
}
