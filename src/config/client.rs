//! The client properties that may be passed through, by librdkafka name.
//!
//! Each is in one of four classes, so that a new one is masked until somebody decides otherwise
//! and a misspelt one is found before any broker is asked.

use super::fault::nearest;

/// A client property and what may be done with it.
pub(super) struct Property {
    pub(super) name: &'static str,
    pub(super) class: Class,
}

/// What may be done with a client property.
pub(super) enum Class {
    /// Passed on; its value is harmless and may be printed.
    Shown,
    /// Passed on; its value is a secret, or says where one is, and is never printed.
    Masked,
    /// Refused, for this reason: passing it on would break what firstseen promises.
    Owned { why: &'static str, fix: &'static str },
    /// Refused: this build lacks what it needs.
    Absent { why: &'static str },
}

const REMOVE: &str = "remove it";
const ACKS: Class = Class::Owned {
    why: "a record counts as delivered only once all in-sync replicas have it",
    fix: REMOVE,
};
const ORDER: Class =
    Class::Owned { why: "retries must neither repeat nor reorder records", fix: REMOVE };
const OFFSETS: Class =
    Class::Owned { why: "offsets are committed only behind a durable checkpoint", fix: REMOVE };
const TRANSACTIONS: Class =
    Class::Owned { why: "firstseen decides how records are delivered", fix: "use `delivery.mode`" };
const GROUP: Class =
    Class::Owned { why: "firstseen's hand-over of partitions depends on it", fix: REMOVE };
const REPORTS: Class =
    Class::Owned { why: "every record needs a delivery report of its own", fix: REMOVE };
const SERVERS: Class = Class::Owned {
    why: "there is a setting of its own for it",
    fix: "use `kafka.bootstrap_servers`, or `sink.bootstrap_servers` for the output's cluster",
};
const DELIVERY: Class = Class::Owned {
    why: "there is a setting of its own for it",
    fix: "use `sink.delivery_timeout`",
};
const INTERNAL: Class =
    Class::Owned { why: "it belongs to the program that embeds the client", fix: REMOVE };
const FOREIGN: Class =
    Class::Owned { why: "it would load foreign code into the process", fix: REMOVE };
const KERBEROS: Class = Class::Absent { why: "Kerberos is not in this build" };
const OIDC: Class = Class::Absent { why: "fetching tokens over HTTP is not in this build" };

macro_rules! properties {
    ($($class:expr => [$($name:literal),* $(,)?]),* $(,)?) => {
        /// Every client property known, by class.
        pub(super) const PROPERTIES: &[Property] =
            &[$($(Property { name: $name, class: $class },)*)*];
    };
}

properties! {
    Class::Shown => [
        "security.protocol", "sasl.mechanism", "sasl.mechanisms",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "ssl.ca.location", "ssl.ca.certificate.stores", "ssl.certificate.location",
        "ssl.crl.location", "ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list",
        "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification",
        "ssl.providers",
        "client.id", "client.rack", "client.dns.lookup", "debug", "log_level",
        "log.connection.close", "log.thread.name", "statistics.interval.ms",
        "enable.metrics.push", "enable.random.seed",
        "linger.ms", "queue.buffering.max.ms", "queue.buffering.max.messages",
        "queue.buffering.max.kbytes", "queue.buffering.backpressure.threshold",
        "batch.num.messages", "batch.size", "sticky.partitioning.linger.ms",
        "compression.codec", "compression.type", "compression.level",
        "message.max.bytes", "message.copy.max.bytes", "receive.message.max.bytes",
        "request.timeout.ms", "check.crcs",
        "fetch.wait.max.ms", "fetch.queue.backoff.ms", "fetch.message.max.bytes",
        "max.partition.fetch.bytes", "fetch.max.bytes", "fetch.min.bytes",
        "fetch.error.backoff.ms", "queued.min.messages", "queued.max.messages.kbytes",
        "heartbeat.interval.ms", "max.poll.interval.ms", "coordinator.query.interval.ms",
        "socket.timeout.ms", "socket.send.buffer.bytes", "socket.receive.buffer.bytes",
        "socket.keepalive.enable", "socket.nagle.disable", "socket.max.fails",
        "socket.connection.setup.timeout.ms", "socket.blocking.max.ms",
        "connections.max.idle.ms", "broker.address.ttl", "broker.address.family",
        "reconnect.backoff.ms", "reconnect.backoff.max.ms", "reconnect.backoff.jitter.ms",
        "retry.backoff.ms", "retry.backoff.max.ms",
        "metadata.max.age.ms", "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms",
        "topic.metadata.refresh.interval.ms", "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.fast.cnt", "topic.metadata.refresh.sparse",
        "topic.metadata.propagation.max.ms",
        "api.version.request", "api.version.request.timeout.ms", "api.version.fallback.ms",
        "broker.version.fallback",
    ],
    Class::Masked => [
        "sasl.username", "sasl.password", "sasl.oauthbearer.config",
        "ssl.key.location", "ssl.key.password", "ssl.key.pem", "ssl.certificate.pem",
        "ssl.ca.pem", "ssl.keystore.location", "ssl.keystore.password",
        "ssl.engine.id",
    ],
    ACKS => ["acks", "request.required.acks"],
    ORDER => [
        "enable.idempotence", "max.in.flight", "max.in.flight.requests.per.connection",
        "retries", "message.send.max.retries", "enable.gapless.guarantee", "queuing.strategy",
    ],
    OFFSETS => [
        "enable.auto.commit", "auto.commit.enable", "auto.commit.interval.ms",
        "enable.auto.offset.store", "offset.store.method", "offset.store.path",
        "offset.store.sync.interval.ms",
    ],
    Class::Owned {
        why: "a lost position must be noticed, not jumped over",
        fix: "use `source.start`",
    } => ["auto.offset.reset"],
    Class::Owned {
        why: "firstseen decides which records each of its readers may see",
        fix: REMOVE,
    } => ["isolation.level"],
    TRANSACTIONS => ["transactional.id", "transaction.timeout.ms"],
    Class::Owned { why: "there is a setting of its own for it", fix: "use `source.group`" }
        => ["group.id"],
    Class::Owned { why: "there is a setting of its own for it", fix: "use `source.instance_id`" }
        => ["group.instance.id"],
    Class::Owned {
        why: "there is a setting of its own for it",
        fix: "use `source.session_timeout`",
    } => ["session.timeout.ms"],
    Class::Owned {
        why: "there is a setting of its own for it",
        fix: "use `source.topics`",
    } => ["topic.blacklist"],
    SERVERS => ["bootstrap.servers", "metadata.broker.list"],
    DELIVERY => ["delivery.timeout.ms", "message.timeout.ms"],
    GROUP => [
        "partition.assignment.strategy", "group.protocol", "group.protocol.type",
        "group.remote.assignor", "enable.partition.eof",
    ],
    Class::Owned {
        why: "a record goes to the partition number it came from",
        fix: "use `sink.partition`",
    } => ["partitioner", "partitioner_cb", "msg_order_cmp"],
    REPORTS => ["delivery.report.only.error", "produce.offset.report"],
    Class::Owned {
        why: "a topic made by accident has the wrong partitions and retention",
        fix: "create the topics yourself",
    } => ["allow.auto.create.topics"],
    Class::Owned {
        why: "it would replace the brokers by a fake in memory",
        fix: REMOVE,
    } => ["test.mock.num.brokers", "test.mock.broker.rtt"],
    FOREIGN => ["plugin.library.paths", "ssl.engine.location"],
    INTERNAL => [
        "builtin.features", "enabled_events", "log.queue", "opaque", "default_topic_conf",
        "interceptors", "internal.termination.signal", "error_cb", "throttle_cb", "stats_cb",
        "log_cb", "socket_cb", "connect_cb", "closesocket_cb", "open_cb", "resolve_cb",
        "background_event_cb", "rebalance_cb", "offset_commit_cb", "consume_cb", "dr_cb",
        "dr_msg_cb", "oauthbearer_token_refresh_cb", "consume.callback.max.messages",
        "ssl.certificate.verify_cb", "ssl_engine_callback_data", "ssl_key", "ssl_certificate",
        "ssl_ca",
    ],
    KERBEROS => [
        "sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.keytab", "sasl.kerberos.min.time.before.relogin",
    ],
    OIDC => [
        "sasl.oauthbearer.method", "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret", "sasl.oauthbearer.scope",
        "sasl.oauthbearer.extensions", "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.grant.type", "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.metadata.authentication.type",
        "https.ca.location", "https.ca.pem",
    ],
}

/// Returns what is known of client property `name`.
pub(super) fn property(name: &str) -> Option<&'static Property> {
    PROPERTIES.iter().find(|property| property.name == name)
}

/// Returns whether `name` is a client property, or the first part of one written as a table.
pub(super) fn begins_a_name(name: &str) -> bool {
    let begins = |p: &Property| p.name.strip_prefix(name).is_some_and(|r| r.starts_with('.'));
    property(name).is_some() || PROPERTIES.iter().any(begins)
}

/// Returns advice for a `name` that is no client property.
pub(super) fn meant(name: &str) -> String {
    let near = nearest(name, PROPERTIES.iter().map(|property| property.name)).and_then(property);
    match near {
        None => "see the configuration properties of librdkafka 2.12 for the names".into(),
        Some(Property { name, class: Class::Shown | Class::Masked }) => {
            format!("did you mean `{name}`?")
        }
        // The right spelling would be refused next.
        Some(Property { name, class: Class::Owned { fix, .. } }) => {
            format!("`{name}` is probably meant, which firstseen decides: {fix}")
        }
        Some(Property { name, class: Class::Absent { why } }) => {
            format!("`{name}` is probably meant, but {why}: remove it")
        }
    }
}

/// Returns the value of client property `name` as it may be printed.
pub(super) fn printable<'a>(name: &str, value: &'a str) -> &'a str {
    match property(name) {
        Some(Property { class: Class::Shown, .. }) => value,
        _ => super::MASK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_is_in_one_class() {
        let mut names: Vec<_> = PROPERTIES.iter().map(|property| property.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn only_harmless_properties_are_printable() {
        assert_eq!(printable("security.protocol", "ssl"), "ssl");
        for name in ["sasl.password", "ssl.key.pem", "sasl.username", "no.such.property"] {
            assert_eq!(printable(name, "secret"), super::super::MASK);
        }
    }
}
