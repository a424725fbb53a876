//! Whether a source and its output fit each other: what `run` insists on and `check` foretells.

use crate::kafka::TopicFacts;
use crate::words::Span;

/// Whether a source partition has no partition of its own in the output.
pub(crate) fn lacks_partitions(source: &TopicFacts, output: &TopicFacts) -> bool {
    output.partitions < source.partitions
}

/// Whether records of one key may go away before others.
pub(crate) fn is_compacted(output: &TopicFacts) -> bool {
    output.cleanup_policy.as_ref().is_some_and(|way| way.contains("compact"))
}

/// Whether records go away by time before `window` is over.
pub(crate) fn keeps_too_short(output: &TopicFacts, window: Span) -> bool {
    output.retention_ms.is_some_and(|kept| kept >= 0 && kept < window.as_ms())
}

/// Returns why an output cannot be read back over one window, if so.
pub(super) fn short_memory(output: &TopicFacts, window: Span) -> Option<&'static str> {
    if is_compacted(output) {
        return Some("`cleanup.policy` compacts it; set it to `delete`");
    }
    keeps_too_short(output, window)
        .then_some("`retention.ms` is less than `dedup.window`; raise it to the window")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn output(cleanup_policy: &str, retention_ms: i64) -> TopicFacts {
        TopicFacts {
            partitions: 1,
            id: None,
            timestamp_type: None,
            max_message_bytes: None,
            cleanup_policy: Some(cleanup_policy.to_owned()),
            retention_ms: Some(retention_ms),
        }
    }

    #[test]
    fn an_output_that_forgets_within_the_window_is_told() {
        let window = Span::from(Duration::from_secs(60));
        assert_eq!(short_memory(&output("delete", 60_000), window), None);
        assert_eq!(short_memory(&output("delete", -1), window), None);
        assert!(short_memory(&output("delete", 59_999), window).is_some());
        assert!(short_memory(&output("compact,delete", -1), window).is_some());
    }
}
