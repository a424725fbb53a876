//! Topics, sizes and open transactions.

use super::super::facts::Again;
use super::Severity::{Breaks, Ok as Good, Unknown, Weakens};
use super::*;

/// What is not judged, or judged anew, where the output cannot be seen.
const OUTPUT_UNSEEN: &[Kind] = &[Kind::OpenTransaction, Kind::TopicRights];

/// Every setting that is read from the output.
const OUTPUT_SETTINGS: &[Kind] = &[
    Kind::Timestamps,
    Kind::TimestampRange,
    Kind::RetentionTime,
    Kind::RetentionBytes,
    Kind::Cleanup,
    Kind::RecordSize,
    Kind::InSync,
    Kind::Unclean,
];

fn hide_settings(world: &mut World) {
    let output = world.output();
    output.facts = read(3, &Settings::default());
    output.settings = Err(refusal(RDKafkaErrorCode::TopicAuthorizationFailed));
}

#[test]
fn a_source_that_is_missing_or_hidden_is_told() {
    each(
        Kind::SourceTopic,
        &[Kind::OpenTransaction, Kind::TopicRights, Kind::StateSpace],
        &[
            ("it is there", Good, |_| {}),
            ("it is missing", Breaks, |w| w.facts.pairs[0].source.topic.found = Ok(None)),
            ("no topic matches the pattern", Breaks, |w| {
                w.facts.pairs[0].source.topic =
                    TopicSurvey { name: "^pay-.*".to_owned(), found: Ok(None) };
            }),
            ("it may not be described", Breaks, |w| {
                let refused = refusal(RDKafkaErrorCode::TopicAuthorizationFailed);
                w.facts.pairs[0].source.topic.found = Err(refused);
            }),
            ("nobody answers", Unknown, |w| w.facts.pairs[0].source.topic.found = Err(silence())),
        ],
    );
}

#[test]
fn an_output_that_is_missing_is_made_by_the_command_told() {
    each(
        Kind::OutputTopic,
        OUTPUT_UNSEEN,
        &[
            ("it is there", Good, |_| {}),
            ("it is missing", Breaks, |w| w.facts.pairs[0].output.topic.found = Ok(None)),
            ("it may not be described", Breaks, |w| {
                let refused = refusal(RDKafkaErrorCode::TopicAuthorizationFailed);
                w.facts.pairs[0].output.topic.found = Err(refused);
            }),
            ("nobody answers", Unknown, |w| w.facts.pairs[0].output.topic.found = Err(silence())),
        ],
    );
}

#[test]
fn a_dead_letter_topic_that_is_named_has_to_be_there() {
    each(
        Kind::DeadLetterTopic,
        &[Kind::TopicRights],
        &[
            ("it is there", Good, |w| w.facts.dead_letter = Some(topic("payments.dead"))),
            ("it is missing", Breaks, |w| {
                let name = "payments.dead".to_owned();
                w.facts.dead_letter = Some(TopicSurvey { name, found: Ok(None) });
            }),
            ("nobody answers", Unknown, |w| {
                let name = "payments.dead".to_owned();
                w.facts.dead_letter = Some(TopicSurvey { name, found: Err(silence()) });
            }),
        ],
    );
}

#[test]
fn fewer_partitions_than_the_source_break_it() {
    each(
        Kind::Partitions,
        &[],
        &[
            ("as many", Good, |_| {}),
            ("more", Good, |w| w.output().facts.partitions = 4),
            ("fewer", Breaks, |w| w.output().facts.partitions = 2),
        ],
    );
}

#[test]
fn an_output_that_replaces_timestamps_breaks_it() {
    each(
        Kind::Timestamps,
        OUTPUT_SETTINGS,
        &[
            ("the producer's", Good, |_| {}),
            ("the broker's", Breaks, |w| w.set_output("message.timestamp.type", "LogAppendTime")),
            ("not told", Unknown, |w| reset(w.output(), "message.timestamp.type", None)),
            ("settings may not be seen", Unknown, hide_settings),
        ],
    );
}

#[test]
fn an_output_that_takes_fewer_timestamps_than_the_source_weakens() {
    each(
        Kind::TimestampRange,
        OUTPUT_SETTINGS,
        &[
            ("as wide", Good, |_| {}),
            ("it refuses old ones", Weakens, |w| {
                w.set_output("message.timestamp.before.max.ms", "86400000");
            }),
            ("it refuses future ones", Weakens, |w| {
                w.set_output("message.timestamp.after.max.ms", "1000");
            }),
            ("not told", Unknown, |w| {
                reset(w.output(), "message.timestamp.after.max.ms", None);
            }),
        ],
    );
}

#[test]
fn an_output_that_keeps_less_than_the_window_weakens() {
    each(
        Kind::RetentionTime,
        OUTPUT_SETTINGS,
        &[
            ("for longer", Good, |_| {}),
            ("for ever", Good, |w| w.set_output("retention.ms", "-1")),
            ("exactly the window", Good, |w| w.set_output("retention.ms", "86400000")),
            ("a millisecond less", Weakens, |w| w.set_output("retention.ms", "86399999")),
            ("not told", Unknown, |w| reset(w.output(), "retention.ms", None)),
            ("settings may not be seen", Unknown, hide_settings),
        ],
    );
}

#[test]
fn a_limit_in_bytes_weakens() {
    each(
        Kind::RetentionBytes,
        &[],
        &[
            ("none", Good, |_| {}),
            ("a limit", Weakens, |w| w.set_output("retention.bytes", "1073741824")),
            ("not told", Unknown, |w| reset(w.output(), "retention.bytes", None)),
        ],
    );
}

#[test]
fn a_compacted_output_weakens() {
    each(
        Kind::Cleanup,
        &[],
        &[
            ("deleted by age", Good, |_| {}),
            ("compacted", Weakens, |w| w.set_output("cleanup.policy", "compact")),
            ("both", Weakens, |w| w.set_output("cleanup.policy", "compact,delete")),
            ("not told", Unknown, |w| reset(w.output(), "cleanup.policy", None)),
        ],
    );
}

#[test]
fn an_output_or_dead_letter_topic_that_takes_smaller_records_weakens() {
    each(
        Kind::RecordSize,
        &[Kind::FetchSize],
        &[
            ("as large", Good, |_| {}),
            ("the output takes less", Weakens, |w| w.set_output("max.message.bytes", "1000")),
            ("the dead-letter topic takes less", Weakens, |w| {
                let mut dead = topic("payments.dead");
                reset(found(&mut dead), "max.message.bytes", Some("1000"));
                w.facts.dead_letter = Some(dead);
            }),
            ("the source does not tell", Unknown, |w| {
                reset(w.source(), "max.message.bytes", None);
            }),
        ],
    );
}

#[test]
fn a_batch_that_fits_into_no_answer_breaks_it() {
    each(
        Kind::FetchSize,
        &[Kind::RecordSize],
        &[
            ("it fits", Good, |_| {}),
            ("the source takes more", Breaks, |w| {
                reset(w.source(), "max.message.bytes", Some("200000000"));
            }),
            ("the client was told to take less", Breaks, |w| {
                let client = &mut w.config.kafka.client;
                client.insert("receive.message.max.bytes".to_owned(), "1000000".to_owned());
            }),
            ("not told", Unknown, |w| reset(w.source(), "max.message.bytes", None)),
        ],
    );
}

#[test]
fn a_single_replica_weakens() {
    each(
        Kind::Replication,
        &[],
        &[
            ("three", Good, |_| {}),
            ("one", Weakens, |w| {
                let one = |p: &mut PartitionFacts| (p.replicas, p.in_sync) = (1, 1);
                w.output().partitions.iter_mut().for_each(one);
                w.set_output("min.insync.replicas", "1");
            }),
        ],
    );
}

#[test]
fn too_few_replicas_in_sync_stop_writing_and_too_few_asked_for_weaken() {
    each(
        Kind::InSync,
        &[],
        &[
            ("two", Good, |_| {}),
            ("one is enough", Weakens, |w| w.set_output("min.insync.replicas", "1")),
            ("more than there are", Breaks, |w| w.set_output("min.insync.replicas", "4")),
            ("some are away", Breaks, |w| w.output().partitions[1].in_sync = 1),
            ("no leader", Breaks, |w| w.output().partitions[2].leader = None),
            ("not told", Unknown, |w| reset(w.output(), "min.insync.replicas", None)),
        ],
    );
}

#[test]
fn an_unclean_election_weakens() {
    each(
        Kind::Unclean,
        &[],
        &[
            ("off", Good, |_| {}),
            ("on", Weakens, |w| w.set_output("unclean.leader.election.enable", "true")),
            ("not told", Unknown, |w| {
                reset(w.output(), "unclean.leader.election.enable", None);
            }),
        ],
    );
}

/// Opens a transaction at offset 20,000 of partition 1, and says what a second look sees.
fn opened(watched: &mut Watched, stable: Result<i64, Cause>) {
    let offsets = found(&mut watched.topic).offsets.as_mut().unwrap();
    offsets[1].stable = 20_000;
    let stable = stable.map(|offset| vec![(1, offset)]);
    watched.again = Some(Again { after: seconds(3), stable });
}

#[test]
fn a_transaction_that_stands_still_is_told_with_the_command_that_ends_it() {
    each(
        Kind::OpenTransaction,
        &[],
        &[
            ("none", Good, |_| {}),
            ("one that moves", Good, |w| opened(&mut w.facts.pairs[0].output, Ok(21_000))),
            ("one on the output", Breaks, |w| {
                opened(&mut w.facts.pairs[0].output, Ok(20_000));
            }),
            ("one on the output, seen for less than two checkpoints", Unknown, |w| {
                w.config.checkpoint.interval = seconds(2);
                opened(&mut w.facts.pairs[0].output, Ok(20_000));
            }),
            ("one in the source", Unknown, |w| {
                opened(&mut w.facts.pairs[0].source, Ok(20_000));
            }),
            ("the second look fails", Unknown, |w| {
                opened(&mut w.facts.pairs[0].output, Err(silence()));
            }),
            ("not looked at again", Unknown, |w| {
                opened(&mut w.facts.pairs[0].output, Ok(20_000));
                w.facts.pairs[0].output.again = None;
            }),
            ("offsets are not told", Unknown, |w| w.output().offsets = Err(silence())),
        ],
    );
}
