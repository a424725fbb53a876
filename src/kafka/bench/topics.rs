//! Making topics and removing them.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use super::super::client::{Reach, setting};
use super::super::error::{Cause, Error};
use super::Heard;
use crate::config::Config;

/// Makes topics and removes them.
pub struct Topics {
    admin: AdminClient<Heard>,
    runtime: tokio::runtime::Runtime,
    servers: String,
    timeout: Duration,
}

/// What came of a wish for a topic.
#[derive(Debug)]
pub enum Made {
    /// It is there now.
    Yes,
    /// It was there already, and is not ours.
    There,
    /// The broker does not want it.
    Refused(Cause),
}

impl Topics {
    /// Makes an administrator of the source's cluster. Does not wait for a broker.
    ///
    /// # Errors
    /// [`Error::Setting`] where the client refuses a property.
    pub fn connect(config: &Config, timeout: Duration) -> Result<Self, Error> {
        let reach = Reach::source(config);
        let admin = AdminClient::from_config_and_context(&reach.config(&[], &[]), Heard::default())
            .map_err(setting)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| {
            Error::Client { task: "start an event loop", cause: Cause::text(error.to_string()) }
        })?;
        Ok(Self { admin, runtime, servers: reach.servers, timeout })
    }

    /// Makes a topic that keeps every record and the times its producer gave them.
    ///
    /// Takes the replication factor; `None` is the broker's default.
    ///
    /// # Errors
    /// [`Error::Unreachable`] where nobody answers. A refusal is no error: see [`Made`].
    pub fn make(
        &self,
        name: &str,
        partitions: i32,
        replication: Option<i32>,
    ) -> Result<Made, Error> {
        let begun = Instant::now();
        let topic =
            NewTopic::new(name, partitions, TopicReplication::Fixed(replication.unwrap_or(-1)))
                .set("cleanup.policy", "delete")
                .set("retention.ms", "-1")
                .set("message.timestamp.type", "CreateTime");
        let answer = self.runtime.block_on(self.admin.create_topics([&topic], &self.options()));
        let answer = answer.map_err(|error| self.failed("make a topic", begun, error))?;
        match answer.into_iter().next() {
            None | Some(Ok(_)) => Ok(Made::Yes),
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(Made::There),
            Some(Err((_, code))) => Ok(Made::Refused(Cause::of(code))),
        }
    }

    /// Removes topics. One that is gone already is no error.
    ///
    /// # Errors
    /// [`Error::Unreachable`], or [`Error::BrokerAuthorization`] with the first that was refused.
    pub fn remove(&self, names: &[&str]) -> Result<(), Error> {
        let begun = Instant::now();
        let answer = self.runtime.block_on(self.admin.delete_topics(names, &self.options()));
        let answer = answer.map_err(|error| self.failed("remove topics", begun, error))?;
        for result in answer {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => {}
                Err((name, code)) => {
                    let resource = format!("topic `{name}`");
                    return Err(Error::BrokerAuthorization { resource, cause: Cause::of(code) });
                }
            }
        }
        Ok(())
    }

    /// Forgets consumer groups; nobody may be in them. What cannot be forgotten expires by itself.
    pub fn forget_groups(&self, names: &[&str]) {
        let answer = self.runtime.block_on(self.admin.delete_groups(names, &self.options()));
        if let Err(error) = answer {
            tracing::debug!(target: "firstseen::kafka", %error, "groups not forgotten");
        }
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new()
            .request_timeout(Some(self.timeout))
            .operation_timeout(Some(self.timeout))
    }

    fn failed(&self, task: &'static str, begun: Instant, error: KafkaError) -> Error {
        let heard: &Heard = self.admin.inner().context();
        let complaint = heard.with(|said| said.complaint.clone());
        let (servers, waited) = (self.servers.clone(), begun.elapsed());
        Error::Unreachable { task, servers, waited, cause: complaint.unwrap_or(error).into() }
    }
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topics").field("servers", &self.servers).finish_non_exhaustive()
    }
}
