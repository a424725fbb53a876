//! One thing that was compared, and the list of all kinds of them.

use std::fmt;

use serde::{Serialize, Serializer};

/// How bad it is. Later ones are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// As it should be.
    Ok,
    /// Nobody told; it may be any of the others.
    Unknown,
    /// The promise holds with a limit that it would not have otherwise.
    Weakens,
    /// `run` would refuse to start, stop, or not keep the promise.
    Breaks,
}

impl Severity {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Weakens => "weakens",
            Self::Breaks => "breaks",
        }
    }
}

/// What was compared on one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Which comparison; the names never change their meaning.
    #[serde(rename = "name")]
    pub(super) kind: Kind,
    /// On what: a topic, a group, a directory.
    pub(super) on: String,
    /// The setting that decides.
    pub(super) setting: &'static str,
    /// What it is.
    pub(super) found: String,
    /// What it has to be.
    pub(super) needed: String,
    /// The command or config line that mends it; empty where nothing is to be mended.
    pub(super) fix: String,
    /// How bad it is.
    pub(super) severity: Severity,
    /// Whether the user said to live with it.
    pub(super) accepted: bool,
}

impl Finding {
    pub(super) fn new(
        kind: Kind,
        on: impl Into<String>,
        found: impl Into<String>,
        needed: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            on: on.into(),
            setting: kind.setting(),
            found: found.into(),
            needed: needed.into(),
            fix: String::new(),
            severity: Severity::Ok,
            accepted: false,
        }
    }

    /// Says how bad it is and what mends it.
    pub(super) fn is(mut self, severity: Severity, fix: impl Into<String>) -> Self {
        self.severity = severity;
        self.fix = fix.into();
        self
    }

    /// The same, where `bad` holds.
    pub(super) fn when(self, bad: bool, severity: Severity, fix: impl FnOnce() -> String) -> Self {
        if bad { self.is(severity, fix()) } else { self }
    }

    /// Whether the exit code has to tell of it.
    pub(super) fn counts(&self) -> bool {
        self.severity > Severity::Ok && !self.accepted
    }
}

macro_rules! kinds {
    ($($variant:ident = $name:literal, $setting:literal, $about:literal, $fix:literal;)*) => {
        /// What is compared.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Kind { $(#[doc = $about] $variant,)* }

        impl Kind {
            /// Every kind, in the order of the report.
            pub(super) const ALL: &[Kind] = &[$(Kind::$variant,)*];

            /// Returns the name by which `--accept` and scripts know it.
            pub(super) fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)* }
            }

            /// Returns the setting that decides.
            pub(super) fn setting(self) -> &'static str {
                match self { $(Kind::$variant => $setting,)* }
            }

            /// Returns what is compared and why it matters.
            pub(super) fn about(self) -> &'static str {
                match self { $(Kind::$variant => $about,)* }
            }

            /// Returns what mends it, in general.
            pub(super) fn mend(self) -> &'static str {
                match self { $(Kind::$variant => $fix,)* }
            }
        }
    };
}

kinds! {
    Mode = "mode", "delivery.mode",
        "Which delivery `delivery.mode` comes to on these brokers, and why. `auto` that has to do without transactions weakens; a broker that does not answer leaves it unknown; a misconfigured one breaks.",
        "Grant what the reason names, or write `mode = \"dedup\"` to choose it.";
    Config = "config", "the config",
        "What the config allows although it weakens safety: the warnings that `run` logs at its start.",
        "Change the setting that the line names.";
    Membership = "membership", "source.membership",
        "With `alone` there is no group, so nothing keeps a second instance away.",
        "`membership = \"group\"`";
    SourceTopic = "source-topic", "source.topics",
        "Whether each source topic is there and may be seen.",
        "`kafka-topics.sh --create`, or the Describe permission.";
    OutputTopic = "output-topic", "sink.topic",
        "Whether each output topic is there and may be seen; firstseen makes none.",
        "`kafka-topics.sh --create` with the partitions and settings that the line gives.";
    DeadLetterTopic = "dead-letter-topic", "sink.dead_letter_topic",
        "Whether the dead-letter topic is there and may be seen, where a policy needs it.",
        "`kafka-topics.sh --create`";
    Partitions = "partitions", "partitions",
        "The output needs at least as many partitions as the source, since a record keeps its partition number.",
        "`kafka-topics.sh --alter --partitions N`";
    Timestamps = "timestamp-type", "message.timestamp.type",
        "The output has to keep the records' own timestamps: windows are rebuilt from them.",
        "`kafka-configs.sh --add-config message.timestamp.type=CreateTime`";
    TimestampRange = "timestamp-range", "message.timestamp.*.max.ms",
        "The output must not refuse timestamps that the source takes.",
        "`kafka-configs.sh --add-config` with the source's limits.";
    RetentionTime = "retention-time", "retention.ms",
        "The output has to keep records for at least the window: a lost state is rebuilt from it.",
        "`kafka-configs.sh --add-config retention.ms=WINDOW`";
    RetentionBytes = "retention-bytes", "retention.bytes",
        "A limit in bytes can cut the output inside the window, whatever `retention.ms` says.",
        "`kafka-configs.sh --add-config retention.bytes=-1`";
    Cleanup = "cleanup-policy", "cleanup.policy",
        "A compacted output forgets records inside the window, and refuses records without a key.",
        "`kafka-configs.sh --add-config cleanup.policy=delete`";
    RecordSize = "record-size", "max.message.bytes",
        "What the source takes, the output and the dead-letter topic have to take. Where records are compressed in the source and not on the way out, even equal limits can be too small.",
        "`kafka-configs.sh --add-config max.message.bytes=N`";
    FetchSize = "fetch-size", "receive.message.max.bytes",
        "A batch that the source takes has to fit into one answer to this client.",
        "`\"receive.message.max.bytes\" = \"N\"` in `[kafka.client]`";
    Replication = "replication", "replication factor",
        "With one replica, one lost disk loses records that were acknowledged.",
        "`kafka-reassign-partitions.sh` to a replication factor of 3.";
    InSync = "in-sync-replicas", "min.insync.replicas",
        "`acks=all` waits for the replicas in sync; how many that are at least is this setting. Fewer in sync than it asks for, or no leader, stops writing.",
        "`kafka-configs.sh --add-config min.insync.replicas=2`";
    Unclean = "unclean-election", "unclean.leader.election.enable",
        "A leader that was not in sync may lose records that were acknowledged.",
        "`kafka-configs.sh --add-config unclean.leader.election.enable=false`";
    OpenTransaction = "open-transaction", "last stable offset",
        "A transaction that stays open keeps `read_committed` readers, and reading the output back, below it. One that stands still while the check watches, for two checkpoints or longer, breaks on the output; in the source it may be a slow writer's. Where it does not end by its own timeout it is hanging and has to be aborted.",
        "`kafka-transactions.sh find-hanging`, then `kafka-transactions.sh abort --topic T --partition P --start-offset O`";
    TransactionTimeout = "transaction-timeout", "transaction.max.timeout.ms",
        "The broker has to allow our transaction timeout, and a checkpoint has to fit into it.",
        "`transaction.max.timeout.ms=N` in the brokers' configuration, or a shorter `checkpoint.interval`.";
    SessionTimeout = "session-timeout", "source.session_timeout",
        "The broker takes session timeouts between its `group.min.session.timeout.ms` and `group.max.session.timeout.ms`.",
        "`session_timeout` within these, or other limits on the brokers.";
    DeliveryTimeout = "delivery-timeout", "sink.delivery_timeout",
        "It has to end 2 s before `source.session_timeout`, so that an instance that lost its partitions has stopped writing.",
        "A shorter `delivery_timeout` or a longer `session_timeout`.";
    PollInterval = "poll-interval", "max.poll.interval.ms",
        "Partitions that are taken away are drained first: the group has to wait for a delivery and a checkpoint.",
        "`\"max.poll.interval.ms\" = \"N\"` in `[kafka.client]`";
    Heartbeat = "heartbeat", "heartbeat.interval.ms",
        "Three heartbeats have to fit into the session timeout.",
        "`\"heartbeat.interval.ms\" = \"N\"` in `[kafka.client]`";
    OffsetsRetention = "offsets-retention", "offsets.retention.minutes",
        "The broker forgets committed offsets of a group that is away for longer; with a lost state besides, `source.start` decides.",
        "`offsets.retention.minutes=N` in the brokers' configuration.";
    TopicRights = "topic-rights", "ACL",
        "Describe and Read on the source; Describe, Read and Write on the output; Describe and Write on the dead-letter topic.",
        "`kafka-acls.sh --add --allow-principal User:NAME --operation OP --topic T`";
    GroupRights = "group-rights", "ACL",
        "Describe and Read on the group: to join it and to commit offsets.",
        "`kafka-acls.sh --add --allow-principal User:NAME --operation Read --group G`";
    IdempotentWrite = "idempotent-write", "ACL",
        "Whether a producer gets an id. Without one `run` writes one request at a time, and an answer that is lost can repeat a record. Tried.",
        "`kafka-acls.sh --add --allow-principal User:NAME --operation IdempotentWrite --cluster`";
    TransactionalId = "transactional-id", "ACL",
        "Whether transactions can begin under this user's ids. Tried with an id of the check's own.",
        "`kafka-acls.sh --add --allow-principal User:NAME --operation Write --operation Describe --transactional-id PREFIX --resource-pattern-type prefixed`";
    Features = "broker-features", "ApiVersions",
        "Which requests the brokers take, and by them what they can.",
        "Brokers of Kafka 2.5 or newer.";
    Clock = "clock", "wall clock",
        "How far this machine's clock is from the broker's, by the time that the coordinator noted when the probe's transactions began. Retention goes by the one, `max_future` and arrival windows by the other.",
        "Time synchronisation (NTP) on this machine and the brokers.";
    GroupMembers = "group-members", "source.group",
        "Who is in the group now: another client takes partitions away, the same `source.instance_id` is fenced, another assignor keeps us out.",
        "A group of its own for this config, and an `instance_id` for each instance.";
    StateLock = "state-lock", "state.dir",
        "Whether a process holds the state now.",
        "Stop the process named, or give this instance another `state.dir`.";
    StateOwner = "state-owner", "state.dir",
        "The directory has to be this user's, closed to others' writes, and writable.",
        "`chown` and `chmod` as the line says.";
    StateFileSystem = "state-file-system", "state.dir",
        "On which kind of file system the state lies: memory and container layers vanish, and locks and syncs over a network promise less.",
        "A directory on a local disk that stays.";
    StateSpace = "state-space", "state.dir",
        "Whether the disk holds the keys of one window at the present rate of the source, taking every record for a new key.",
        "A larger disk, or a shorter window.";
    StatusPort = "status-port", "status.listen",
        "Whether metrics and health can be served there.",
        "Another `listen`, or `listen = \"off\"`.";
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
