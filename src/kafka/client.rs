//! What all clients share: settings, log lines, and the memory of the last failure.
//!
//! A client connects in the background and says what went wrong in callbacks, while the call that
//! suffers from it returns a bare timeout. So the callbacks are kept, and a timeout is explained
//! by them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};

use super::error::{Cause, Class, Error, class};
use super::ffi::{Event, EventKind, Queue, Requests};
use crate::config::{ClientProperties, Config};

/// How a cluster is reached: addresses and pass-through properties.
#[derive(Clone)]
pub(super) struct Reach {
    pub(super) servers: String,
    properties: ClientProperties,
}

impl Reach {
    /// The source's cluster.
    pub(super) fn source(config: &Config) -> Self {
        Self {
            servers: config.kafka.bootstrap_servers.clone(),
            properties: config.kafka.client.clone(),
        }
    }

    /// The output's cluster: its own where it has one. `[sink.client]` wins over `[kafka.client]`,
    /// which does not apply to another cluster: its credentials are not that cluster's business.
    pub(super) fn output(config: &Config) -> Self {
        let own = config.sink.bootstrap_servers.clone();
        let mut properties =
            if own.is_some() { ClientProperties::new() } else { config.kafka.client.clone() };
        properties.extend(config.sink.client.clone());
        Self { servers: own.unwrap_or_else(|| config.kafka.bootstrap_servers.clone()), properties }
    }

    pub(super) fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    /// Lays `defaults` below and `owned` above what the user passes through.
    pub(super) fn config(&self, defaults: &[(&str, &str)], owned: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Info);
        let common = [
            ("client.id", "firstseen"),
            // A broker must not be able to collect numbers from this client unasked.
            ("enable.metrics.push", "false"),
            // Idle connections are closed by brokers all the time; that is no news.
            ("log.connection.close", "false"),
            ("socket.keepalive.enable", "true"),
        ];
        let always = [
            ("bootstrap.servers", self.servers.as_str()),
            // Producers make topics by default, with one partition and the wrong retention.
            ("allow.auto.create.topics", "false"),
        ];
        for (name, value) in common.iter().chain(defaults) {
            config.set(*name, *value);
        }
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        for (name, value) in owned.iter().chain(&always) {
            config.set(*name, *value);
        }
        config
    }
}

/// A client and its queue of events, in the order they must be dropped in.
pub(super) struct Handle<T> {
    pub(super) queue: Queue,
    pub(super) client: T,
    pub(super) servers: String,
}

/// A consumer that asks about topics and offsets, or reads partitions it was told to.
pub(super) type Consuming = Handle<BaseConsumer<Context>>;

impl Consuming {
    /// Makes a consumer. With `group.id` set, events come on the consumer queue.
    pub(super) fn consumer(reach: &Reach, config: &ClientConfig) -> Result<Self, Error> {
        let client: BaseConsumer<Context> =
            config.create_with_context(Context::default()).map_err(setting)?;
        let native = client.client().native_client();
        let queue = if config.get("group.id").is_some() {
            Queue::consumer(native)
        } else {
            Queue::main(native)
        };
        let queue = queue.ok_or_else(no_queue)?;
        Ok(Self { queue, client, servers: reach.servers.clone() })
    }

    /// Makes a consumer that only answers questions. It reads uncommitted, so that the end of a
    /// partition is its high watermark and not the last stable offset.
    pub(super) fn lookup(reach: &Reach) -> Result<Self, Error> {
        let mut config = reach.config(&[], &[("isolation.level", "read_uncommitted")]);
        // Without a group no coordinator is looked for, and no group permission is needed.
        config.remove("group.id");
        Self::consumer(reach, &config)
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        self.client.client().context()
    }

    /// Serves waiting log lines and errors, so that they are seen and kept.
    pub(super) fn serve(&self) {
        while let Some(event) = self.queue.poll(Duration::ZERO) {
            self.context().absorb(&event);
        }
    }

    /// Calls `ask` with short timeouts until it answers, `timeout` passes, or the client says
    /// that it never will.
    ///
    /// A refused login or certificate is retried by the client for ever; asking again in slices
    /// makes it show within a second or two.
    pub(super) fn ask<T>(
        &self,
        task: &'static str,
        timeout: Duration,
        mut ask: impl FnMut(Duration) -> Result<T, KafkaError>,
    ) -> Result<T, Error> {
        const SLICE: Duration = Duration::from_secs(1);
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let error = match ask(left.min(SLICE)) {
                Ok(answer) => return Ok(answer),
                Err(error) => Cause::from(error),
            };
            self.serve();
            let passes = matches!(error.class(), Class::Transient | Class::Timeout | Class::Tls);
            if !passes {
                return Err(self.context().explain(task, &self.servers, start.elapsed(), error));
            }
            if self.context().hopeless() || start.elapsed() >= timeout {
                return Err(self.context().explain(task, &self.servers, start.elapsed(), error));
            }
            // Failing at once must not become a busy loop; the queue wakes us for news.
            if let Some(event) = self.queue.poll(Duration::from_millis(50)) {
                self.context().absorb(&event);
            }
        }
    }
}

/// A producer, shared with the thread that ends its transactions.
pub(super) type Producing = Handle<Arc<Client<Context>>>;

impl Producing {
    pub(super) fn context(&self) -> &Arc<Context> {
        self.client.context()
    }
}

/// Turns a refused config into an error without its value, which may be secret.
pub(super) fn setting(error: KafkaError) -> Error {
    let property = match &error {
        KafkaError::ClientConfig(..) => {
            format!("property {} is not known or has a value it does not take", Cause::from(error))
        }
        KafkaError::ClientCreation(text) => text.clone(),
        _ => Cause::from(error).to_string(),
    };
    Error::Setting { property }
}

pub(super) fn no_queue() -> Error {
    Error::Client { task: "take the client's queue of events", cause: Cause::text("no queue") }
}

/// Receives what a client says by itself.
#[derive(Debug, Default)]
pub(super) struct Context {
    heard: Mutex<Heard>,
    /// What a transactional producer has sent. The client counts here while it lives, and it goes
    /// before its context.
    pub(super) requests: Arc<Requests>,
    lines: Mutex<HashMap<String, Lines>>,
}

#[derive(Clone, Debug, Default)]
struct Heard {
    last: Option<Cause>,
    tls: Option<Cause>,
    login: Option<Cause>,
}

#[derive(Debug)]
struct Lines {
    since: Instant,
    held_back: u64,
}

impl Context {
    /// Takes in an event that is a log line or an error. Returns the error.
    pub(super) fn absorb(&self, event: &Event) -> Option<Cause> {
        match event.kind() {
            EventKind::Log => {
                if let Some((level, facility, line)) = event.log() {
                    self.line(level, &facility, &line);
                }
                None
            }
            EventKind::Error => {
                let code = event.error()?;
                let cause = Cause::new(code, event.error_text());
                self.hear(code, cause.clone());
                Some(cause)
            }
            _ => None,
        }
    }

    fn hear(&self, code: RDKafkaErrorCode, cause: Cause) {
        if code == RDKafkaErrorCode::PartitionEOF {
            return;
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match class(code) {
            Class::Tls => heard.tls = Some(cause),
            Class::Authentication => heard.login = Some(cause),
            // "All brokers down" says less than what came before it.
            _ if code == RDKafkaErrorCode::AllBrokersDown && heard.last.is_some() => {}
            _ => heard.last = Some(cause),
        }
    }

    /// Whether waiting longer will not help.
    pub(super) fn hopeless(&self) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.tls.is_some() || heard.login.is_some()
    }

    /// Returns the last thing the client complained about.
    pub(super) fn last(&self) -> Option<Cause> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        heard.tls.or(heard.login).or(heard.last)
    }

    /// Explains why `task` failed with `error` by what the client said meanwhile.
    pub(super) fn explain(
        &self,
        task: &'static str,
        servers: &str,
        waited: Duration,
        error: Cause,
    ) -> Error {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let servers = servers.to_owned();
        if let Some(cause) = heard.tls {
            return Error::Tls { servers, cause };
        }
        if let Some(cause) = heard.login {
            return Error::Authentication { servers, cause };
        }
        match error.class() {
            Class::Tls => Error::Tls { servers, cause: error },
            Class::Authentication => Error::Authentication { servers, cause: error },
            Class::Transient | Class::Timeout => {
                Error::Unreachable { task, servers, waited, cause: heard.last.unwrap_or(error) }
            }
            Class::ClusterAuthorization => {
                Error::BrokerAuthorization { resource: "the cluster".to_owned(), cause: error }
            }
            _ => Error::Client { task, cause: error },
        }
    }

    /// Writes a line of the client's, each kind at most twice a minute, with a count of the rest.
    fn line(&self, level: i32, facility: &str, line: &str) {
        const EVERY: Duration = Duration::from_secs(30);
        let now = Instant::now();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let held_back = match lines.get_mut(facility) {
            Some(seen) if now.duration_since(seen.since) < EVERY => {
                seen.held_back += 1;
                return;
            }
            Some(seen) => {
                seen.since = now;
                std::mem::take(&mut seen.held_back)
            }
            None => {
                lines.insert(facility.to_owned(), Lines { since: now, held_back: 0 });
                0
            }
        };
        drop(lines);
        match level {
            ..=4 => tracing::warn!(target: "firstseen::kafka", facility, held_back, "{line}"),
            5 | 6 => tracing::debug!(target: "firstseen::kafka", facility, held_back, "{line}"),
            _ => tracing::trace!(target: "firstseen::kafka", facility, held_back, "{line}"),
        }
    }
}

// Events are taken from the queue by `Handle`, so the safe crate calls these only while it drops
// a consumer.
impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        let level = match level {
            RDKafkaLogLevel::Debug => 7,
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => 6,
            _ => 4,
        };
        self.line(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if let Some(code) = error.rdkafka_error_code() {
            self.hear(code, Cause::new(code, reason));
        }
    }
}

impl ConsumerContext for Context {
    /// Answers while the consumer is being closed: whatever is asked, everything is given up.
    /// Not answering would keep the close waiting for ever.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        _kind: RDKafkaRespErr,
        _partitions: &mut TopicPartitionList,
    ) {
        if let Err(error) = consumer.unassign() {
            tracing::debug!(target: "firstseen::kafka", %error, "giving up partitions while closing");
        }
    }

    fn commit_callback(&self, _result: Result<(), KafkaError>, _offsets: &TopicPartitionList) {}
}

/// Makes a list of partitions with raw offsets. Never kept: a living list holds its consumer open.
pub(super) fn list<'a>(
    partitions: impl IntoIterator<Item = (&'a str, i32, rdkafka::Offset)>,
) -> Result<TopicPartitionList, Error> {
    let mut list = TopicPartitionList::new();
    for (topic, partition, offset) in partitions {
        list.add_partition_offset(topic, partition, offset)
            .map_err(|error| Error::Client { task: "list partitions", cause: error.into() })?;
    }
    Ok(list)
}
