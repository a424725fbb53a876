//! The questions, put to a cluster.

use std::time::Duration;

use rdkafka::consumer::Consumer;

use super::{
    Asked, BrokerSurvey, ClusterSurvey, Described, GroupSurvey, OffsetFacts, PartitionFacts,
    Settings, TopicSurvey,
};
use crate::kafka::cluster::{Cluster, TopicFacts, topic_id};
use crate::kafka::error::{Cause, Class, Error};
use crate::kafka::ffi::{self, admin};
use crate::words::{Span, Timestamp};

/// The earliest and the latest offset, as the protocol writes them in place of a time.
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

/// How far back the present rate is looked for.
const RECENT: Span = Span::from_ms(3_600_000);

impl Cluster {
    /// Asks the cluster about itself and each of its brokers.
    ///
    /// # Errors
    /// A connection error; what a broker refuses to tell is in the answer.
    pub fn survey(&self) -> Result<ClusterSurvey, Error> {
        let client = &self.client.client;
        let metadata = self
            .client
            .ask("list brokers", self.timeout, |slice| client.fetch_metadata(None, slice))?;
        let mut ids: Vec<i32> = metadata.brokers().iter().map(|broker| broker.id()).collect();
        ids.sort_unstable();
        let mut silent: Option<Cause> = None;
        let mut brokers = Vec::with_capacity(ids.len());
        for id in ids {
            // One broker that does not answer is told; a hundred must not cost minutes.
            let settings = match &silent {
                Some(cause) => Err(cause.clone()),
                None => self.settings(admin::Resource::Broker(id)),
            };
            silent =
                settings.as_ref().err().filter(|cause| cause.class() == Class::Timeout).cloned();
            brokers.push(BrokerSurvey { id, settings });
        }
        self.client.serve();
        Ok(ClusterSurvey { id: self.cluster_id(), brokers })
    }

    /// Asks about a topic, and how many records it got within `window` before `now`.
    pub fn survey_topic(&self, name: &str, window: Span, now: Timestamp) -> TopicSurvey {
        let found = self
            .admin()
            .and_then(|timeout| admin::describe_topic(self.native(), name, timeout))
            .map(|topic| Some(self.described(name, topic, window, now)));
        let found = match found {
            Err(cause) if cause.class() == Class::TopicMissing => Ok(None),
            found => found,
        };
        self.client.serve();
        TopicSurvey { name: name.to_owned(), found }
    }

    fn described(
        &self,
        name: &str,
        topic: admin::Topic,
        window: Span,
        now: Timestamp,
    ) -> Described {
        let settings = self.settings(admin::Resource::Topic(name));
        let partitions = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        let told = settings.clone().unwrap_or_default();
        Described {
            facts: TopicFacts::new(partitions, topic.id.map(topic_id), &told),
            settings,
            offsets: self.offsets(name, &topic.partitions, window, now),
            partitions: topic.partitions,
            operations: topic.operations,
        }
    }

    /// Asks for the last stable offset of each of these partitions again.
    ///
    /// # Errors
    /// Why one of them was not told.
    pub fn stable_offsets(&self, topic: &str, partitions: &[i32]) -> Asked<Vec<(i32, i64)>> {
        let found = self.list_offsets(topic, partitions, LATEST, true)?;
        Ok(found.into_iter().map(|(partition, offset, _)| (partition, offset)).collect())
    }

    /// Asks about a consumer group; one that nobody ever used has no members.
    ///
    /// # Errors
    /// Why the coordinator does not tell.
    pub fn survey_group(&self, group: &str) -> Asked<GroupSurvey> {
        let found =
            self.admin().and_then(|timeout| admin::describe_group(self.native(), group, timeout));
        self.client.serve();
        let admin::Group { assignor, members, operations } = found?;
        Ok(GroupSurvey { assignor, members, operations })
    }

    /// Asks for the newest timestamp a topic holds.
    pub(super) fn newest(&self, topic: &str) -> Asked<Timestamp> {
        /// The newest record, as the protocol writes it in place of a time.
        const NEWEST: i64 = -3;
        let found = admin::describe_topic(self.native(), topic, self.admin()?)?;
        let all: Vec<i32> = found.partitions.iter().map(|p| p.partition).collect();
        let found = self.list_offsets(topic, &all, NEWEST, false)?;
        let newest = found.into_iter().map(|(_, _, time)| time).max();
        newest.filter(|time| *time >= 0).map(Timestamp).ok_or_else(|| Cause::text("it is empty"))
    }

    fn offsets(
        &self,
        topic: &str,
        partitions: &[PartitionFacts],
        window: Span,
        now: Timestamp,
    ) -> Asked<Vec<OffsetFacts>> {
        let all: Vec<i32> = partitions.iter().map(|p| p.partition).collect();
        let starts = self.list_offsets(topic, &all, EARLIEST, false)?;
        let ends = self.list_offsets(topic, &all, LATEST, false)?;
        let stable = self.list_offsets(topic, &all, LATEST, true)?;
        // A time before 1970 would be an order, not a time.
        let since = |span: Span| now.before(span).0.max(0);
        let windows = self.list_offsets(topic, &all, since(window), false)?;
        let recents = self.list_offsets(topic, &all, since(window.min(RECENT)), false)?;
        let find = |found: &[(i32, i64, i64)], partition| {
            let one = found.iter().find(|one| one.0 == partition);
            one.map(|(_, offset, time)| (*offset, Timestamp(*time)))
        };
        let unanswered = || Cause::text("not all partitions answered");
        all.iter()
            .map(|&partition| {
                let number = |found: &[_]| find(found, partition).ok_or_else(unanswered);
                Ok(OffsetFacts {
                    partition,
                    start: number(&starts)?.0,
                    end: number(&ends)?.0,
                    stable: number(&stable)?.0,
                    window: find(&windows, partition).filter(|(offset, _)| *offset >= 0),
                    recent: find(&recents, partition).filter(|(offset, _)| *offset >= 0),
                })
            })
            .collect()
    }

    /// Returns partition, offset and timestamp for each partition.
    fn list_offsets(
        &self,
        topic: &str,
        partitions: &[i32],
        at: i64,
        committed: bool,
    ) -> Asked<Vec<(i32, i64, i64)>> {
        let timeout = self.admin()?;
        let found = admin::list_offsets(self.native(), topic, partitions, at, committed, timeout)?;
        found
            .into_iter()
            .map(|listed| match listed.entry.error {
                Some(code) => Err(Cause::of(code)),
                None => Ok((listed.entry.partition, listed.entry.offset, listed.timestamp)),
            })
            .collect()
    }

    fn settings(&self, of: admin::Resource<'_>) -> Asked<Settings> {
        let told = admin::describe_config(self.native(), of, self.admin()?)?;
        if told.is_empty() {
            return Err(Cause::text("the broker names no settings"));
        }
        Ok(Settings::new(told))
    }

    /// Returns how long an administrative question may take.
    fn admin(&self) -> Asked<Duration> {
        // Where the controller is no broker that exists, as on the embedded one, the client would
        // wait for it until the time is up.
        if ffi::controller(self.native()) < 0 {
            return Err(Cause::text("the cluster has no controller that answers questions"));
        }
        Ok(self.timeout)
    }

    fn native(&self) -> &rdkafka::client::NativeClient {
        self.client.client.client().native_client()
    }
}
