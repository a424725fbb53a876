//! A config file in a directory of its own, with a state beside it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use toml::{Table, Value};

use super::broker::free_ports;

/// A working directory of the program: its config, its state.
pub(crate) struct Home {
    directory: TempDir,
    config: Table,
    /// The port of the status address.
    pub(crate) status_port: u16,
}

impl Home {
    /// A config for one source topic, `{topic}.dedup` as output, fast checkpoints, and timeouts
    /// short enough for tests. The group is named after the topic.
    pub(crate) fn new(address: &str, topic: &str) -> Self {
        let [status_port] = free_ports();
        let directory = tempfile::Builder::new().prefix("firstseen-").tempdir();
        let directory = directory.expect("a temporary directory can be made");
        let state = directory.path().join("state").display().to_string();
        Self { directory, config: Table::new(), status_port }
            .set("kafka.bootstrap_servers", address)
            .set("source.group", group_of(topic))
            .set("source.topics", vec![topic.to_owned()])
            .set("source.session_timeout", "6s")
            .set("sink.topic", "{topic}.dedup")
            .set("sink.delivery_timeout", "3s")
            .set("dedup.window", "24h")
            .set("delivery.mode", "dedup")
            .set("checkpoint.interval", "200ms")
            .set("state.dir", state)
            .set("status.listen", format!("127.0.0.1:{status_port}"))
    }

    /// Sets a key given as `section.key`.
    pub(crate) fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        let mut table = &mut self.config;
        let (sections, key) = path.rsplit_once('.').unwrap_or(("", path));
        for section in sections.split('.').filter(|section| !section.is_empty()) {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            table = inner.as_table_mut().expect("a section");
        }
        table.insert(key.to_owned(), value.into());
        self
    }

    /// Leaves a key out that was set.
    pub(crate) fn unset(mut self, path: &str) -> Self {
        let (section, key) = path.split_once('.').expect("a section and a key");
        if let Some(Value::Table(table)) = self.config.get_mut(section) {
            table.remove(key);
        }
        self
    }

    /// Writes the config and returns where it is.
    pub(crate) fn write(&self) -> PathBuf {
        let path = self.directory.path().join("firstseen.toml");
        fs::write(&path, self.config.to_string()).expect("the home can be written");
        path
    }

    /// Returns where the state is.
    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// Deletes the state, as a lost disk would.
    pub(crate) fn lose_state(&self) {
        if let Err(error) = fs::remove_dir_all(self.state()) {
            assert_eq!(error.kind(), ErrorKind::NotFound, "deleting the state: {error}");
        }
    }

    /// Keeps the directory after the test, to look into it.
    pub(crate) fn keep(self) -> PathBuf {
        self.directory.keep()
    }

    /// Returns the directory.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Returns the group that reads `topic`.
pub(crate) fn group_of(topic: &str) -> String {
    format!("{topic}-group")
}
