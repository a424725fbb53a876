//! The path under test as a child process: its config, its start, its end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use toml::{Table, Value};

use super::Error;
use super::matrix::{Case, Mode};
use crate::commands::demo::sink::{Sink, SinkCommand};
use crate::commands::demo::surroundings::free_address;
use crate::config::{Config, Environment, Faults, load_text};

const LEAVING: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(5);

/// The part of the user's config that holds for every child, as it was typed: references to
/// secrets stay references.
#[derive(Clone, Debug)]
pub(super) struct Base(Table);

impl Base {
    /// For the embedded broker at `address`.
    pub(super) fn embedded(address: &str) -> Self {
        let mut client = Table::new();
        // The embedded broker answers an empty fetch only then.
        client.insert("fetch.wait.max.ms".to_owned(), Value::from("10"));
        let mut kafka = Table::new();
        kafka.insert("bootstrap_servers".to_owned(), Value::from(address));
        kafka.insert("client".to_owned(), Value::Table(client));
        let mut source = Table::new();
        source.insert("membership".to_owned(), Value::from("alone"));
        let mut base = Table::new();
        base.insert("kafka".to_owned(), Value::Table(kafka));
        base.insert("source".to_owned(), Value::Table(source));
        Self(base)
    }

    /// From the text of the user's config, which was accepted: how to reach the brokers, and
    /// limits of time and memory. What and whereto is the bench's own.
    pub(super) fn users(text: &str) -> Self {
        const KEPT: [(&str, &[&str]); 5] = [
            ("kafka", &["bootstrap_servers", "client", "allow_insecure"]),
            ("source", &["session_timeout", "membership"]),
            ("sink", &["delivery_timeout", "in_flight_max", "client"]),
            ("dedup", &["hash", "clock", "max_future"]),
            ("state", &["memory", "min_free"]),
        ];
        let typed: Table = text.parse().unwrap_or_default();
        let mut base = Table::new();
        for (section, keys) in KEPT {
            let Some(Value::Table(from)) = typed.get(section) else { continue };
            let kept = from.iter().filter(|(key, _)| keys.contains(&key.as_str()));
            let kept: Table = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
            base.insert(section.to_owned(), Value::Table(kept));
        }
        Self(base)
    }

    fn set(&mut self, section: &str, key: &str, value: impl Into<Value>) {
        let table = self.0.entry(section).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(table) = table {
            table.insert(key.to_owned(), value.into());
        }
    }

    fn is_alone(&self) -> bool {
        let source = self.0.get("source").and_then(Value::as_table);
        source.and_then(|source| source.get("membership")).and_then(Value::as_str) == Some("alone")
    }
}

/// What a child is to do.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) case: Case,
    pub(super) group: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) window: Duration,
    /// A directory of its own.
    pub(super) dir: PathBuf,
    pub(super) status: SocketAddr,
}

impl Job {
    pub(super) fn new(
        case: Case,
        group: String,
        from: &str,
        to: &str,
        dir: PathBuf,
    ) -> Result<Self, Error> {
        let (from, to, window) = (from.to_owned(), to.to_owned(), Duration::ZERO);
        Ok(Self { case, group, from, to, window, dir, status: free_address()? })
    }

    pub(super) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// Returns the config the child runs with.
    pub(super) fn config_text(&self, base: &Base) -> String {
        let mut base = base.clone();
        let length =
            |length: Duration| humantime::format_duration(length).to_string().replace(' ', "");
        base.set("source", "group", self.group.as_str());
        base.set("source", "topics", vec![self.from.clone()]);
        if !base.is_alone() {
            // A killed member's partitions go back to it at once, as the README advises.
            base.set("source", "instance_id", "bench");
        }
        base.set("sink", "topic", self.to.as_str());
        base.set("dedup", "key", "record-key");
        base.set("dedup", "window", length(self.window));
        let mode = if self.case.mode == Mode::Transactional { "transactional" } else { "dedup" };
        base.set("delivery", "mode", mode);
        if let Some(interval) = self.case.interval {
            base.set("checkpoint", "interval", length(interval));
        }
        base.set("state", "dir", self.state().display().to_string());
        base.set("status", "listen", self.status.to_string());
        base.0.to_string()
    }

    /// Returns the same config as this process reads it.
    pub(super) fn config(&self, base: &Base) -> Result<Config, Faults> {
        load_text(&self.config_text(base), "the bench's config", &environment())
    }

    /// Starts the child.
    pub(super) fn start(&self, base: &Base) -> Result<Sink, Error> {
        let file = self.dir.join("firstseen.toml");
        std::fs::write(&file, self.config_text(base)).map_err(|source| Error::File {
            attempt: "write",
            path: file.clone(),
            source,
        })?;
        let command = command(self.case.mode)?;
        Ok(Sink::start(&command, &file, &self.dir.join("log"), self.status)?)
    }
}

/// Asks a child to drain and leave, and waits until it has.
pub(super) fn leave(mut sink: Sink) -> Result<(), Error> {
    sink.ask_to_stop()?;
    let begun = Instant::now();
    loop {
        match sink.exited()? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Ok(sink.must_run()?),
            None if begun.elapsed() > LEAVING => {
                return Err(super::place::stalled(LEAVING, 0, 1));
            }
            None => std::thread::sleep(TURN),
        }
    }
}

/// Returns whether this build accepts transactional delivery in a config.
pub(super) fn knows_transactions(job: &Job, base: &Base) -> bool {
    let refused = job.config(base).err();
    !refused.is_some_and(|faults| faults.iter().any(|fault| fault.key() == "delivery.mode"))
}

/// Overrides by variables hold for the user's own topics; only how to reach the brokers is taken.
const OVERRIDE: &str = "FIRSTSEEN__";
const KEPT_OVERRIDE: &str = "FIRSTSEEN__KAFKA__";

fn is_foreign(name: &str) -> bool {
    name.starts_with(OVERRIDE) && !name.starts_with(KEPT_OVERRIDE)
}

fn environment() -> Environment {
    let pairs = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| !is_foreign(name));
    Environment::from_pairs(pairs)
}

fn command(mode: Mode) -> Result<SinkCommand, Error> {
    let program = std::env::current_exe().map_err(|source| Error::File {
        attempt: "find the program of this process,",
        path: PathBuf::from("/proc/self/exe"),
        source,
    })?;
    let foreign: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| is_foreign(name))
        .collect();
    Ok(SinkCommand::new(move |config: &Path| {
        let mut command = Command::new(&program);
        match mode {
            Mode::Passthrough => command.args(["bench-passthrough", "--config"]),
            Mode::FastPassthrough => command.args(["bench-passthrough", "--fast", "--config"]),
            Mode::Dedup | Mode::Transactional => command.args(["run", "--config"]),
        };
        command.arg(config);
        for name in &foreign {
            command.env_remove(name);
        }
        command
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(mode: Mode) -> Job {
        let interval = mode.is_run().then_some(Duration::from_millis(1_500));
        Job {
            case: Case { mode, interval },
            group: "g".to_owned(),
            from: "in".to_owned(),
            to: "out".to_owned(),
            window: Duration::from_secs(86_400),
            dir: PathBuf::from("/tmp/a \"quoted\" dir"),
            status: "127.0.0.1:9600".parse().expect("an address"),
        }
    }

    const USERS: &str = "[kafka]\nbootstrap_servers = \"b:1\"\n[kafka.client]\n\
        \"sasl.password\" = \"${PASSWORD}\"\n[source]\ngroup = \"mine\"\ntopics = [\"a\"]\n\
        session_timeout = \"50s\"\n[sink]\ntopic = \"{topic}.x\"\ndead_letter_topic = \"d\"\n\
        [topics.a]\nwindow = \"1h\"\n[state]\nmemory = \"64MiB\"\ndir = \"/mine\"\n";

    #[test]
    fn the_embedded_brokers_config_is_accepted_whatever_the_directory_is_called() {
        for mode in [Mode::Passthrough, Mode::Dedup] {
            let config = job(mode).config(&Base::embedded("127.0.0.1:1"));
            config.unwrap_or_else(|faults| panic!("{faults:?}"));
        }
    }

    #[test]
    fn of_the_users_config_brokers_and_limits_stay_and_topics_and_state_do_not() {
        let text = job(Mode::Dedup).config_text(&Base::users(USERS));
        for kept in ["b:1", "${PASSWORD}", "50s", "64MiB", "1s500ms"] {
            assert!(text.contains(kept), "no {kept} in\n{text}");
        }
        for own in ["mine", "{topic}.x", "dead", "1h", "topics.a"] {
            assert!(!text.contains(own), "{own} in\n{text}");
        }
    }

    #[test]
    fn a_build_tells_by_its_config_whether_it_knows_transactions() {
        let base = Base::embedded("127.0.0.1:1");
        let known = knows_transactions(&job(Mode::Transactional), &base);
        assert_eq!(known, job(Mode::Transactional).config(&base).is_ok());
        assert!(knows_transactions(&job(Mode::Dedup), &base));
    }

    #[test]
    fn overrides_of_the_users_topics_do_not_reach_the_child() {
        assert!(is_foreign("FIRSTSEEN__SOURCE__TOPICS"));
        assert!(!is_foreign("FIRSTSEEN__KAFKA__BOOTSTRAP_SERVERS"));
        assert!(!is_foreign("FIRSTSEEN_LOG"));
    }
}
