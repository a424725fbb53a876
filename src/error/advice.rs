//! What to do about each code, in general. An error at hand says it more exactly.

use crate::words::Code;

/// Returns what to do about errors with this code.
pub fn advice(code: Code) -> &'static str {
    match code {
        Code::ConfigUnreadable => {
            "Check the path given to `--config`, and that the user may read it."
        }
        Code::ConfigSyntax => "Correct the TOML at the line and column named.",
        Code::ConfigUnknownKey => "Use the name suggested; docs/config.md lists all of them.",
        Code::ConfigWrongType => "Write the value the way the line says; quotes decide the type.",
        Code::ConfigOutOfRange => "Choose a value in the range that the line gives.",
        Code::ConfigMissing => "Add the setting; config/minimal.toml has those that are required.",
        Code::ConfigConflict => "Change one of the two settings named.",
        Code::ConfigForbiddenClientKey => {
            "Remove the property, or use the setting of firstseen that the line names."
        }
        Code::ConfigEnvironment => {
            "Set the variable or mend the secret file; write `$$` for a dollar sign."
        }
        Code::ConfigSameTopic => "Give the output or dead-letter topic a name that is not read.",
        Code::ConfigUnsupported => "Use one of the values that the line lists.",
        Code::ConfigInsecure => {
            "Use `sasl_ssl`, or set `kafka.allow_insecure = true` on a network you trust."
        }
        Code::ConfigTwoClusters => {
            "Set `delivery.mode` to `dedup`, which works between clusters, or keep both topics on one."
        }
        Code::ConfigTransactionUnused => "Remove the setting, or choose another `delivery.mode`.",
        Code::ConfigTransactionShort => {
            "Raise `delivery.transaction_timeout`, or lower what it has to cover."
        }
        Code::BrokerUnreachable => {
            "Check `kafka.bootstrap_servers`, name resolution and firewalls."
        }
        Code::BrokerTls => {
            "Check `ssl.ca.location`, the host name in the certificate, its dates, and that the \
             port speaks TLS."
        }
        Code::BrokerAuthentication => "Check the SASL mechanism, user name and password.",
        Code::BrokerAuthorization => "Grant the operation named on the resource named.",
        Code::ClientSetting => "Correct the client property named.",
        Code::TopicMissing => "Create the topic; firstseen never creates one by itself.",
        Code::TopicRecreated => {
            "Make sure it was meant; then start with an empty `state.dir` for this topic."
        }
        Code::PartitionCount => "Give the output at least as many partitions as the source.",
        Code::OffsetOutOfRange => {
            "Records were deleted before they were read. Raise the source's retention; choose a \
             new start on purpose."
        }
        Code::OutputTruncated => {
            "The output lost records. Find out why, then choose `state.on_missing_state`."
        }
        Code::TimestampType => "Set `message.timestamp.type=CreateTime` on the output topic.",
        Code::SharedOutput => {
            "Put `{topic}` into `sink.topic`, or run one instance for each topic."
        }
        Code::NoTopics => "Check `source.topics` and the permission to describe topics.",
        Code::RecordTooLarge => {
            "Raise `max.message.bytes` on the output topic and `message.max.bytes` in \
             `[sink.client]`, or set `sink.on_undeliverable`."
        }
        Code::RecordRefused => {
            "See the broker's reason; `sink.on_undeliverable` sets such records aside."
        }
        Code::RecordKeyMissing => "Correct `dedup.key`, or choose `dedup.on_missing_key`.",
        Code::RecordCorrupt => "Repair or delete the source's segment; nothing is skipped.",
        Code::RecordCodec => "Have the records written with gzip, snappy, lz4 or zstd.",
        Code::StateLocked => "Stop the process named, or give this one another `state.dir`.",
        Code::StateUnwritable => "Check the owner, the mode and the mount of `state.dir`.",
        Code::StatePermissions => {
            "Take away the rights of others: `chmod -R go-rwx` on `state.dir`."
        }
        Code::StateCorrupt => {
            "The state was set aside and is rebuilt as `state.on_missing_state` says."
        }
        Code::StateNewer => "Run the newer build, or start with an empty `state.dir`.",
        Code::StateForeign => "Point `state.dir` at this config's own state.",
        Code::StateRuleChanged => {
            "Undo the change, or start with an empty `state.dir` so that the state is rebuilt by \
             the new rule."
        }
        Code::StateMissing => "Restore `state.dir`, or choose `state.on_missing_state`.",
        Code::StateNoSpace => "Make room on the disk of `state.dir`.",
        Code::StateIo => {
            "Check the disk of `state.dir`; nothing past the last checkpoint is committed."
        }
        Code::ProducerFatal => "Restart; the output is read again before anything is sent.",
        Code::DeliveryFailed => "See the broker's reason; nothing past the record is committed.",
        Code::CatchUpStuck => {
            "Check that the output's leaders are up, and for hanging transactions."
        }
        Code::PollExceeded => "Raise `max.poll.interval.ms`, or find what blocks the process.",
        Code::LeaseLost => "Check the group coordinator and the network; then restart.",
        Code::CommitFailed => "Check the group coordinator and the permission to read the group.",
        Code::DrainTimeout => "Nothing is lost: the records are read again after the restart.",
        Code::StatusListen => "Choose another `status.listen`, or `off`.",
        Code::ForcedExit => {
            "Nothing is lost: the records in flight are read again after the restart."
        }
        Code::InstanceFenced => "Give each running instance its own `source.instance_id`.",
        Code::TransactionsRefused => {
            "Grant the transactional ids, or use dedup delivery; where `auto` had chosen \
             transactions, start once with `--redecide`."
        }
        Code::TransactionFenced => {
            "Find the other program with the same group or `delivery.transactional_id_prefix`."
        }
        Code::TransactionTimeout => {
            "Lower `delivery.transaction_timeout`, or raise `transaction.max.timeout.ms`."
        }
        Code::TransactionsUnanswered => {
            "Start again when the coordinator answers, or allow `delivery.fallback_on_timeout`."
        }
        Code::TransactionFailed => {
            "Check the transaction coordinator. Nothing of the transaction counts; it is made again."
        }
        Code::Internal => "Report it as a bug, with the line and the log before it.",
        Code::LedgerFaults => "Keep both topics and the log, and report it as a bug.",
        Code::CommandFailed => "Mend what the line names, and run the command again.",
        Code::CheckFaults => {
            "Do what each line of the report says, or accept it by `--accept NAME`; docs/check.md \
             lists them."
        }
    }
}
