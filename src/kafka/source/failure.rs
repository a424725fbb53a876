//! What the errors of a consumer mean.

use rdkafka::types::RDKafkaErrorCode;

use crate::kafka::error::{Cause, Class, Error, class};
use crate::words::SourcePartition;

/// What a consumer error means; `None` for what the client gets over by itself.
pub(super) fn source_error(
    code: RDKafkaErrorCode,
    cause: Cause,
    place: Option<(String, i32, i64)>,
    group: &str,
    servers: &str,
) -> Option<Error> {
    let at = |place: Option<(String, i32, i64)>| {
        let (topic, partition, offset) = place.unwrap_or_else(|| ("(unknown)".to_owned(), -1, -1));
        (SourcePartition::new(topic, partition), offset)
    };
    Some(match class(code) {
        Class::OffsetReset => {
            let (partition, offset) = at(place);
            Error::OffsetOutOfRange { partition, offset, cause }
        }
        Class::Corrupt => {
            let (partition, offset) = at(place);
            Error::RecordCorrupt { partition, offset, cause }
        }
        Class::Codec => {
            let (partition, offset) = at(place);
            Error::RecordCodec { partition, offset, cause }
        }
        Class::TopicMissing | Class::PartitionMissing => {
            Error::TopicMissing { topic: topic_of(place, &cause) }
        }
        Class::TopicAuthorization => Error::BrokerAuthorization {
            resource: format!("topic `{}`", topic_of(place, &cause)),
            cause,
        },
        Class::GroupAuthorization => {
            Error::BrokerAuthorization { resource: format!("group `{group}`"), cause }
        }
        Class::ClusterAuthorization => {
            Error::BrokerAuthorization { resource: "the cluster".to_owned(), cause }
        }
        Class::Authentication => Error::Authentication { servers: servers.to_owned(), cause },
        Class::PollExceeded => Error::PollExceeded { group: group.to_owned(), cause },
        Class::Fenced => Error::InstanceFenced { group: group.to_owned(), cause },
        Class::Fatal => Error::Client { task: "read from the group", cause },
        Class::Tls | Class::Transient | Class::Timeout | Class::Purged | Class::Record => {
            return None;
        }
    })
}

/// The topic an error is about. The client names it only in the text of a subscription error:
/// "Subscribed topic not available: NAME: reason".
fn topic_of(place: Option<(String, i32, i64)>, cause: &Cause) -> String {
    place
        .map(|(topic, ..)| topic)
        .unwrap_or_else(|| cause.to_string().split(": ").nth(1).unwrap_or("(unknown)").to_owned())
}
