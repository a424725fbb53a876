//! One Kafka node, broker and controller, on loopback.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rustix::process::Signal;
use tempfile::TempDir;

use super::jars;
use super::process::Guarded;
use super::wait::until;

/// How long a broker may take to answer; a busy machine needs several times the usual 2 to 4 s.
const ANSWERS_WITHIN: Duration = Duration::from_secs(90);

/// How often other ports are tried when somebody else took those that were free.
const PORT_ATTEMPTS: u32 = 5;

/// What a broker has beyond the usual.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// More listeners: name, security protocol, the host that clients are told.
    pub(crate) listeners: Vec<(&'static str, &'static str, &'static str)>,
    /// More properties, a line each.
    pub(crate) properties: String,
}

/// More properties, a line each.
impl From<&str> for Extras {
    fn from(properties: &str) -> Self {
        Self { properties: properties.to_owned(), ..Self::default() }
    }
}

/// A listener beyond the usual.
#[derive(Clone, Debug)]
struct Listener {
    name: &'static str,
    protocol: &'static str,
    host: &'static str,
    port: u16,
}

/// A running broker. Dropping it ends it and removes its data.
pub(crate) struct Broker {
    process: Option<Guarded>,
    port: u16,
    controller_port: u16,
    listeners: Vec<Listener>,
    properties: String,
    class_path: String,
    /// Properties, log directory, and what the broker printed.
    home: TempDir,
    /// How long the last start took.
    pub(crate) started_in: Duration,
}

/// Why a broker did not come up.
enum Failure {
    PortTaken,
    Other(String),
}

/// Returns whether broker tests are left out on purpose.
pub(crate) fn left_out() -> bool {
    std::env::var("FIRSTSEEN_TEST_BROKER").is_ok_and(|value| value == "skip")
}

/// Returns the broker that all tests share which do not hurt it.
pub(crate) fn shared() -> &'static Broker {
    static SHARED: OnceLock<Broker> = OnceLock::new();
    SHARED.get_or_init(Broker::start)
}

impl Broker {
    /// Starts a broker of one's own and waits until it answers.
    ///
    /// # Panics
    /// Where Java, Maven or the broker fail; the message says which and why.
    pub(crate) fn start() -> Self {
        Self::start_with(Extras::default())
    }

    /// The same, with more than the usual.
    ///
    /// # Panics
    /// As [`Broker::start`].
    pub(crate) fn start_with(extras: impl Into<Extras>) -> Self {
        let extras = extras.into();
        let kafka = jars::kafka().unwrap_or_else(|why| panic!("{why}"));
        for _ in 0..PORT_ATTEMPTS {
            let home = home();
            copy_directory(&kafka.formatted, &home.path().join("data"));
            let [port, controller_port] = free_ports();
            let listeners = extras.listeners.iter().map(|&(name, protocol, host)| {
                let [port] = free_ports();
                Listener { name, protocol, host, port }
            });
            let mut broker = Self {
                process: None,
                port,
                controller_port,
                listeners: listeners.collect(),
                properties: extras.properties.clone(),
                class_path: kafka.class_path.clone(),
                home,
                started_in: Duration::ZERO,
            };
            match broker.launch() {
                Ok(()) => return broker,
                Err(Failure::PortTaken) => {}
                Err(Failure::Other(why)) => panic!("the broker did not start: {why}"),
            }
        }
        panic!("the broker found its ports taken {PORT_ATTEMPTS} times");
    }

    /// Returns what clients connect to.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Runs Kafka's own tool for access rules, such as `--add --deny-principal User:* …`.
    ///
    /// # Panics
    /// Where the tool fails, with what it told.
    pub(crate) fn access_rules(&self, arguments: &[&str]) {
        let mut java = Command::new("java");
        java.args(["-Xmx128m", "-XX:+UseSerialGC", "-cp", &self.class_path]);
        java.args(["org.apache.kafka.tools.AclCommand", "--bootstrap-server", &self.address()]);
        let output = java.args(arguments).output().expect("`java` can be run");
        let told =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {told}");
    }

    /// Returns what clients of another listener connect to.
    pub(crate) fn address_of(&self, listener: &str) -> String {
        let found = self.listeners.iter().find(|found| found.name == listener);
        let Listener { host, port, .. } = found.expect("it has that listener");
        format!("{host}:{port}")
    }

    /// Returns the class path of its programs.
    pub(crate) fn class_path(&self) -> &str {
        &self.class_path
    }

    /// Returns where a partition's records are.
    pub(crate) fn partition_dir(&self, topic: &str, partition: i32) -> PathBuf {
        self.home.path().join("data").join(format!("{topic}-{partition}"))
    }

    /// Asks the broker to end, and waits until it has; all it was given is in its files then.
    pub(crate) fn stop(&mut self) {
        const STOPS_WITHIN: Duration = Duration::from_secs(60);
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::TERM);
            assert!(process.wait(STOPS_WITHIN).is_some(), "the broker does not stop");
        }
    }

    /// Ends the broker with SIGKILL; its data stays.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Starts a killed broker again, with the same ports and data, and waits until it answers.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + ANSWERS_WITHIN;
        loop {
            match self.launch() {
                Ok(()) => return,
                // Connections of the killed one may still hold the port for a moment.
                Err(Failure::PortTaken) if Instant::now() < deadline => {}
                Err(Failure::PortTaken) => panic!("the broker's port {} is taken", self.port),
                Err(Failure::Other(why)) => panic!("the broker did not start again: {why}"),
            }
        }
    }

    /// Stops the broker's threads where they are.
    pub(crate) fn freeze(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Lets a frozen broker go on.
    pub(crate) fn thaw(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Denies everybody operations on a resource, both given as flags of Kafka's own tool, and
    /// allows the others: what no rule allows on a resource that has one is denied, too.
    ///
    /// # Panics
    /// Where the tool fails.
    pub(crate) fn deny(&self, operations: &[&str], resource: &[&str]) {
        let allow = ["--add", "--allow-principal", "User:*", "--force", "--operation", "All"];
        self.access_rules(&allow.iter().chain(resource).copied().collect::<Vec<_>>());
        let rule = ["--add", "--deny-principal", "User:*", "--force"];
        let operations = operations.iter().flat_map(|operation| ["--operation", *operation]);
        let all = rule.into_iter().chain(operations).chain(resource.iter().copied());
        self.access_rules(&all.collect::<Vec<_>>());
    }

    fn signal(&mut self, signal: Signal) {
        self.process.as_mut().expect("the broker runs").signal(signal);
    }

    fn launch(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        let file = self.home.path().join("server.properties");
        let data = self.home.path().join("data");
        let usual = properties(self.port, self.controller_port, &self.listeners, &data);
        let text = usual + &self.properties;
        fs::write(&file, text).expect("the broker's home can be written");
        let log = File::create(self.log_path()).expect("the broker's home can be written");
        let mut java = Command::new("java");
        java.args(["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .args(["-cp", &self.class_path, "kafka.Kafka"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be cloned"))
            .stderr(log);
        let process = Guarded::spawn_in(&mut java, Some(self.home.path())).map_err(|error| {
            Failure::Other(format!("cannot run `java` (the broker tests need JDK 17): {error}"))
        })?;
        self.process = Some(process);
        self.wait_for_answer()?;
        self.started_in = started.elapsed();
        Ok(())
    }

    fn wait_for_answer(&mut self) -> Result<(), Failure> {
        let address = self.address();
        until("the broker to answer", ANSWERS_WITHIN, || {
            if self.process.as_mut().is_some_and(|process| process.ended().is_some()) {
                return Some(Err(self.failure()));
            }
            (TcpStream::connect(&address).is_ok() && answers(&address)).then_some(Ok(()))
        })
    }

    fn failure(&self) -> Failure {
        let log = fs::read_to_string(self.log_path()).unwrap_or_default();
        if log.contains("Address already in use") {
            return Failure::PortTaken;
        }
        Failure::Other(log)
    }

    fn log_path(&self) -> PathBuf {
        self.home.path().join("broker.log")
    }
}

/// Asks for the cluster's metadata; a port that merely accepts connections is no answer.
fn answers(address: &str) -> bool {
    let consumer: BaseConsumer = super::admin::client(address).create().expect("a plain client");
    let metadata = consumer.fetch_metadata(None, Duration::from_secs(2));
    metadata.is_ok_and(|metadata| !metadata.brokers().is_empty())
}

/// Makes a directory in memory where there is room, since brokers write a lot.
fn home() -> TempDir {
    const ROOM: u64 = 2 << 30;
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    let mut builder = tempfile::Builder::new();
    builder.prefix("firstseen-broker-");
    let made = if room >= ROOM { builder.tempdir_in(memory) } else { builder.tempdir() };
    made.expect("a temporary directory can be made")
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("the formatted directory can be read") {
        let entry = entry.expect("the formatted directory can be read");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_directory(&from, &to);
        } else {
            fs::copy(from, to).expect("a file can be copied");
        }
    }
}

/// Returns ports that were free a moment ago.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port is free"));
    held.map(|listener| listener.local_addr().expect("it is bound").port())
}

/// Returns the properties that a log directory is formatted with.
pub(crate) fn formatting(data: &Path) -> String {
    properties(9092, 9093, &[], data)
}

/// Returns the broker's properties: a single node that starts fast, gives up dead members fast and
/// keeps records of any age.
fn properties(port: u16, controller_port: u16, more: &[Listener], data: &Path) -> String {
    let listening =
        |listener: &Listener| format!(",{}://127.0.0.1:{}", listener.name, listener.port);
    let told =
        |listener: &Listener| format!(",{}://{}:{}", listener.name, listener.host, listener.port);
    let protocol = |listener: &Listener| format!(",{}:{}", listener.name, listener.protocol);
    let listening: String = more.iter().map(listening).collect();
    let told: String = more.iter().map(told).collect();
    let protocols: String = more.iter().map(protocol).collect();
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{listening}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{told}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}
log.dirs={}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=200
log.retention.ms=-1
log.message.timestamp.after.max.ms={}
log.cleaner.dedupe.buffer.size=4194304
",
        data.display(),
        i64::MAX
    )
}
