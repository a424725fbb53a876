//! The command lines that mend a finding, as they can be pasted into a shell.

use crate::config::{ClientProperties, Config};

/// Writes commands for one cluster.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    servers: String,
    secured: bool,
}

impl Commands {
    /// Commands for the source's cluster.
    pub(super) fn source(config: &Config) -> Self {
        Self::of(&config.kafka.bootstrap_servers, &config.kafka.client)
    }

    /// Commands for the output's cluster.
    pub(super) fn output(config: &Config) -> Self {
        Self::of(config.sink_bootstrap_servers(), &config.sink_client())
    }

    fn of(servers: &str, client: &ClientProperties) -> Self {
        let plain = |protocol: &String| protocol.eq_ignore_ascii_case("plaintext");
        Self {
            servers: servers.to_owned(),
            secured: client.get("security.protocol").is_some_and(|protocol| !plain(protocol)),
        }
    }

    fn tool(&self, name: &str, rest: &str) -> String {
        // The tools need their credentials from a file of the user's.
        let secured = if self.secured { " --command-config client.properties" } else { "" };
        format!("{name} --bootstrap-server {}{secured} {rest}", quoted(&self.servers))
    }

    /// Sets a setting of a topic.
    pub(super) fn set_topic(&self, topic: &str, setting: &str, value: impl ToString) -> String {
        let pair = quoted(&format!("{setting}={}", value.to_string()));
        let rest = format!(
            "--alter --entity-type topics --entity-name {} --add-config {pair}",
            quoted(topic)
        );
        self.tool("kafka-configs.sh", &rest)
    }

    /// Makes a topic.
    pub(super) fn create(
        &self,
        topic: &str,
        partitions: Option<i32>,
        replication: usize,
        settings: &[(&str, String)],
    ) -> String {
        let mut rest = format!("--create --topic {}", quoted(topic));
        if let Some(partitions) = partitions {
            rest.push_str(&format!(" --partitions {partitions}"));
        }
        rest.push_str(&format!(" --replication-factor {replication}"));
        for (name, value) in settings {
            rest.push_str(&format!(" --config {name}={}", quoted(value)));
        }
        self.tool("kafka-topics.sh", &rest)
    }

    /// Gives a topic more partitions.
    pub(super) fn partitions(&self, topic: &str, partitions: i32) -> String {
        let rest = format!("--alter --topic {} --partitions {partitions}", quoted(topic));
        self.tool("kafka-topics.sh", &rest)
    }

    /// Shows where the replicas of a topic are.
    pub(super) fn describe(&self, topic: &str) -> String {
        self.tool("kafka-topics.sh", &format!("--describe --topic {}", quoted(topic)))
    }

    /// Grants operations on a resource, given as its flags.
    pub(super) fn grant(&self, operations: &[&str], resource: &str) -> String {
        let operations: String =
            operations.iter().map(|operation| format!(" --operation {operation}")).collect();
        // The broker tells nobody what it takes a user for.
        let rest = format!("--add --allow-principal User:NAME{operations} {resource}");
        self.tool("kafka-acls.sh", &rest)
    }

    /// Grants operations on a topic.
    pub(super) fn grant_topic(&self, operations: &[&str], topic: &str) -> String {
        self.grant(operations, &format!("--topic {}", quoted(topic)))
    }

    /// Finds hanging transactions of a partition, and aborts the one that begins at an offset.
    pub(super) fn abort(&self, topic: &str, partition: i32, offset: i64) -> String {
        let place = format!("--topic {} --partition {partition}", quoted(topic));
        let find = self.tool("kafka-transactions.sh", &format!("find-hanging {place}"));
        let abort =
            self.tool("kafka-transactions.sh", &format!("abort {place} --start-offset {offset}"));
        format!("{find}; where that names it: {abort}")
    }

    /// Takes the members out of a group.
    pub(super) fn members(&self, group: &str) -> String {
        let rest = format!("--describe --members --group {}", quoted(group));
        self.tool("kafka-consumer-groups.sh", &rest)
    }
}

/// Writes a word so that a shell takes it as it is.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-:,/=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_any_name_as_one_word() {
        assert_eq!(quoted("payments.dedup_1"), "payments.dedup_1");
        assert_eq!(quoted("it's $(me)"), r"'it'\''s $(me)'");
        assert_eq!(quoted(""), "''");
    }
}
