//! The stable code of every error a user can meet.
//!
//! A code never changes its meaning; a retired one is not used again. `docs/errors.md` is made
//! from this list and a test keeps the two equal. What each number range is about:
//! E1 config, E2 connecting and permissions, E3 topics, E4 records, E5 state, E6 run time,
//! E7 audits.

use std::fmt;

/// An error that has a code, and advice for the person who meets it.
pub trait Coded: std::error::Error {
    /// Returns the stable code.
    fn code(&self) -> Code;

    /// Returns what to do about it: one sentence, imperative, naming the setting or command.
    fn fix(&self) -> String;
}

macro_rules! codes {
    ($($variant:ident = $text:literal, exit $exit:literal, $title:literal;)*) => {
        /// A stable error code such as `E1003`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code { $(#[doc = $title] $variant,)* }

        impl Code {
            /// Every code, in order.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// Returns the code as users read it, such as `E1003`.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }

            /// Returns what kind of fault it is, in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }

            /// Returns the exit code of a process that ends with this error.
            pub fn exit_code(self) -> u8 {
                match self { $(Code::$variant => $exit,)* }
            }
        }
    };
}

codes! {
    ConfigUnreadable = "E1001", exit 2, "the config file cannot be read";
    ConfigSyntax = "E1002", exit 2, "the config file is not valid TOML";
    ConfigUnknownKey = "E1003", exit 2, "a key in the config is not known";
    ConfigWrongType = "E1004", exit 2, "a value in the config has the wrong type";
    ConfigOutOfRange = "E1005", exit 2, "a value in the config is out of range";
    ConfigMissing = "E1006", exit 2, "a required setting is missing";
    ConfigConflict = "E1007", exit 2, "two settings contradict each other";
    ConfigForbiddenClientKey = "E1008", exit 2, "a client property is owned by firstseen";
    ConfigEnvironment = "E1009", exit 2, "an environment variable or secret file cannot be used";
    ConfigSameTopic = "E1010", exit 2, "source and output are the same topic";
    ConfigUnsupported = "E1011", exit 2, "a setting names something this build does not do yet";
    ConfigInsecure = "E1012", exit 2, "a password would cross the network in the clear";
    ConfigTwoClusters = "E1013", exit 2, "a transaction cannot span two clusters";
    ConfigTransactionUnused = "E1014", exit 2, "a setting of transactions is given where there are none";
    ConfigTransactionShort = "E1015", exit 2, "a transaction would time out before its commit";
    BrokerUnreachable = "E2001", exit 1, "no broker answers";
    BrokerTls = "E2002", exit 1, "the TLS handshake failed";
    BrokerAuthentication = "E2003", exit 1, "the broker refused the credentials";
    BrokerAuthorization = "E2004", exit 1, "the broker refused the permission";
    ClientSetting = "E2005", exit 2, "the Kafka client refused a setting";
    TopicMissing = "E3001", exit 1, "a topic does not exist";
    TopicRecreated = "E3002", exit 1, "a topic was deleted and made again";
    PartitionCount = "E3003", exit 1, "the output has too few partitions";
    OffsetOutOfRange = "E3005", exit 1, "the resume offset is no longer in the source";
    OutputTruncated = "E3006", exit 1, "the output ends before the stored position";
    TimestampType = "E3008", exit 1, "the output replaces record timestamps";
    SharedOutput = "E3009", exit 2, "several source partitions share an output partition";
    NoTopics = "E3010", exit 1, "no topic matches";
    RecordTooLarge = "E4001", exit 1, "a record is too large for the output";
    RecordRefused = "E4002", exit 1, "the output refused a record";
    RecordKeyMissing = "E4003", exit 1, "a record has no dedup key";
    RecordCorrupt = "E4004", exit 1, "a record cannot be read from the source";
    RecordCodec = "E4005", exit 1, "a record is compressed with an unknown codec";
    StateLocked = "E5001", exit 1, "another process holds the state";
    StateUnwritable = "E5002", exit 1, "the state directory cannot be written";
    StatePermissions = "E5003", exit 1, "the state directory is not private";
    StateCorrupt = "E5004", exit 1, "the state is damaged";
    StateNewer = "E5005", exit 1, "the state was written by a newer build";
    StateForeign = "E5006", exit 1, "the state belongs to something else";
    StateRuleChanged = "E5007", exit 1, "the key rule or hash changed";
    StateMissing = "E5008", exit 1, "the state is missing";
    StateNoSpace = "E5009", exit 1, "the disk of the state is full";
    StateIo = "E5010", exit 1, "the state could not be made durable";
    ProducerFatal = "E6001", exit 1, "the producer failed for good";
    DeliveryFailed = "E6002", exit 1, "a delivery failed for good";
    CatchUpStuck = "E6003", exit 1, "the output could not be read to its end";
    PollExceeded = "E6004", exit 1, "the group expelled this instance for not polling";
    LeaseLost = "E6005", exit 1, "the group coordinator did not renew the lease";
    CommitFailed = "E6006", exit 1, "offsets could not be committed";
    DrainTimeout = "E6007", exit 1, "records in flight did not finish in time";
    StatusListen = "E6008", exit 2, "the status address cannot be used";
    ForcedExit = "E6009", exit 1, "a second signal stopped the process at once";
    InstanceFenced = "E6010", exit 1, "another instance uses this instance id";
    TransactionsRefused = "E6011", exit 1, "the brokers do not allow transactions";
    TransactionFenced = "E6012", exit 1, "another producer uses the transactional id";
    TransactionTimeout = "E6013", exit 2, "the transaction timeout is over the brokers' ceiling";
    TransactionsUnanswered = "E6014", exit 1, "whether there are transactions could not be found out";
    TransactionFailed = "E6015", exit 1, "a transaction could not be committed";
    Internal = "E6999", exit 1, "an invariant of firstseen does not hold";
    LedgerFaults = "E7001", exit 3, "the ledger found lost or repeated records";
    CommandFailed = "E7002", exit 1, "the command could not be carried out to its end";
    CheckFaults = "E7006", exit 3, "the check found faults";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_order() {
        let texts: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        let mut sorted = texts.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(texts, sorted);
    }
}
