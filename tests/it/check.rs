//! `firstseen check` against real Kafka: a clean setup, each seeded fault, and no trace left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::admin::client;
use crate::support::broker::{Broker, shared};
use crate::support::config::Home;
use crate::support::needs_broker;
use crate::support::records::Plan;
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::wait::until;

/// What a single broker cannot have otherwise: a second replica.
const SINGLE: [&str; 1] = ["replication"];

/// What the machine that runs the tests decides: the broker's time is told only where its log of
/// transactions shows our own in time.
const MACHINE: [&str; 3] = ["state-file-system", "config", "clock"];

/// How long a question may take.
const ASK: Duration = Duration::from_secs(15);

/// What a check told.
#[derive(Debug)]
struct Told {
    code: Option<i32>,
    /// Severity by name and subject, of what is not ok.
    bad: BTreeMap<(String, String), String>,
    /// Everything, for the messages of failed tests.
    report: Value,
    stderr: String,
}

impl Told {
    /// Returns the names of what is not ok, without what the machine decides.
    fn names(&self) -> BTreeSet<&str> {
        let all = self.bad.keys().map(|(name, _)| name.as_str());
        all.filter(|name| !MACHINE.contains(name)).collect()
    }

    /// Returns the finding `name` that is this bad.
    fn finding(&self, name: &str, severity: &str) -> &Value {
        let all = self.report["findings"].as_array().expect("a list of findings");
        let this = |one: &&Value| one["name"] == name && one["severity"] == severity;
        all.iter().find(this).unwrap_or_else(|| panic!("no {name} that {severity}: {self:#?}"))
    }

    /// Fails unless exactly these are not ok, besides what a single broker cannot have.
    fn assert_only(&self, names: &[&str]) {
        let wanted: BTreeSet<_> = names.iter().chain(&SINGLE).copied().collect();
        assert_eq!(self.names(), wanted, "{self:#?}");
        assert_eq!(self.code, Some(3), "{self:#?}");
    }
}

fn run(home: &Home, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstseen"));
    command.args(["check", "--config"]).arg(home.write()).args(more);
    command.current_dir(home.path()).output().expect("the program can be started")
}

fn check(home: &Home, more: &[&str]) -> Told {
    let output = run(home, &[&["--json"], more].concat());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no JSON ({error}); it told:\n{stderr}"));
    let word = |one: &Value, name: &str| one[name].as_str().expect("a text").to_owned();
    let all = report["findings"].as_array().expect("a list of findings");
    let bad = all.iter().filter(|one| one["severity"] != "ok" && one["accepted"] == false);
    let bad = bad.map(|one| ((word(one, "name"), word(one, "on")), word(one, "severity")));
    Told { code: output.status.code(), bad: bad.collect(), report, stderr }
}

/// A home whose state would be made where nobody sweeps.
fn home_of(stage: &Stage) -> (Home, TempDir) {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let home = stage
        .home()
        .set("delivery.mode", "auto")
        .set("state.dir", place.path().join("state").display().to_string());
    (home, place)
}

/// Everything of a cluster's that a user could notice: topics with their offsets, and groups.
fn everything(address: &str) -> BTreeMap<String, String> {
    let asker: BaseConsumer = client(address).create().expect("a plain client");
    let metadata = asker.fetch_metadata(None, ASK).expect("it answers");
    let mut all = BTreeMap::new();
    for topic in metadata.topics().iter().filter(|topic| !topic.name().starts_with("__")) {
        for partition in topic.partitions() {
            let name = format!("topic {}/{}", topic.name(), partition.id());
            let marks = asker.fetch_watermarks(topic.name(), partition.id(), ASK);
            all.insert(name, format!("{:?}", marks.expect("it answers")));
        }
    }
    for group in asker.fetch_group_list(None, ASK).expect("it answers").groups() {
        let members = group.members().len();
        all.insert(format!("group {}", group.name()), format!("{} {members}", group.state()));
    }
    all
}

fn files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_clean_setup_has_no_finding_but_the_single_replica_and_nothing_is_changed() {
    needs_broker!();
    let broker = Broker::start();
    let stage = Stage::set(&broker, "clean", 3);
    let (home, place) = home_of(&stage);
    stage.writer_of(Plan { odd: false, ..Plan::over(3) }, 1).write(300);
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    let committed = stage.admin.committed(&stage.group(), &stage.topic, 3);
    let before = everything(&stage.address);
    assert!(before.len() >= 7, "topics and the group are there: {before:?}");
    let state = files(&place.path().join("state"));

    let told = check(&home, &[]);
    told.assert_only(&[]);
    assert_eq!(told.report["mode"]["asked"], "auto");
    assert_eq!(told.report["counts"]["unknown"], 0, "{told:#?}");
    assert!(told.stderr.starts_with("error[E7006]: "), "{}", told.stderr);
    let accepted = check(
        &home,
        &["--accept", "replication", "--accept", "state-file-system", "--accept", "config"],
    );
    assert_eq!((accepted.code, accepted.stderr.as_str()), (Some(0), ""), "{accepted:#?}");

    assert_eq!(everything(&stage.address), before);
    assert_eq!(stage.admin.committed(&stage.group(), &stage.topic, 3), committed);
    assert_eq!(files(&place.path().join("state")), state);
    // And what is there still runs, with nothing to forward again.
    let mut sink = Sink::start(&home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    stage.assert_clean();
}

#[test]
fn nothing_is_made_where_nothing_is_yet() {
    needs_broker!();
    let stage = Stage::set(shared(), "untouched", 1);
    let (home, place) = home_of(&stage);
    check(&home, &[]).assert_only(&[]);
    assert_eq!(files(place.path()), Vec::<String>::new());
    assert_eq!(files(home.path()), ["firstseen.toml"]);
    assert_eq!((stage.output_ends(), stage.admin.ends(&stage.topic, 1)), (vec![0], vec![0]));
}

/// Settings of a topic, the findings they make, and how bad those are.
type Fault<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a str);

#[test]
fn each_fault_of_an_output_is_a_finding_and_no_other_is() {
    needs_broker!();
    let faults: [Fault<'_>; 6] = [
        (&[("retention.ms", "3600000")], &["retention-time"], "weakens"),
        (&[("retention.bytes", "1000000")], &["retention-bytes"], "weakens"),
        (&[("cleanup.policy", "compact")], &["cleanup-policy"], "weakens"),
        (&[("message.timestamp.type", "LogAppendTime")], &["timestamp-type"], "breaks"),
        (&[("max.message.bytes", "20000")], &["record-size"], "weakens"),
        (&[("unclean.leader.election.enable", "true")], &["unclean-election"], "weakens"),
    ];
    for (settings, names, severity) in faults {
        let stage = Stage::set_without_output(shared(), "faulty", 2);
        stage.admin.create_with(&stage.output, 2, settings);
        let (home, _place) = home_of(&stage);
        let told = check(&home, &[]);
        told.assert_only(names);
        let finding = told.finding(names[0], severity);
        assert_eq!(finding["on"], stage.output.as_str());
        let fix = finding["fix"].as_str().expect("a text");
        let tool = fix.starts_with("kafka-configs.sh --bootstrap-server 127.0.0.1:");
        assert!(tool && fix.contains(settings[0].0), "{fix}");
    }
}

#[test]
fn fewer_partitions_and_a_missing_output_are_findings_with_their_commands() {
    needs_broker!();
    let stage = Stage::set_without_output(shared(), "narrower", 3);
    let (home, _place) = home_of(&stage);
    let told = check(&home, &[]);
    assert_eq!(told.names(), BTreeSet::from(["output-topic"]), "{told:#?}");
    let fix = told.finding("output-topic", "breaks")["fix"].as_str().expect("a text").to_owned();
    let make = format!("--create --topic {} --partitions 3 ", stage.output);
    assert!(fix.contains(&make) && fix.contains("retention.ms=86400000"), "{fix}");

    stage.admin.create(&stage.output, 2);
    let told = check(&home, &[]);
    told.assert_only(&["partitions"]);
    told.finding("partitions", "breaks");
}

#[test]
fn a_transaction_left_open_on_the_output_is_a_finding_with_the_offset_to_abort() {
    needs_broker!();
    let stage = Stage::set(shared(), "hanging", 2);
    let (home, _place) = home_of(&stage);
    let producer: BaseProducer = client(&stage.address)
        .set("transactional.id", format!("{}-left-open", stage.topic))
        .create()
        .expect("a plain client");
    let write = |n: usize| {
        for _ in 0..n {
            let record = BaseRecord::to(&stage.output).partition(1).key("k").payload("v");
            producer.send(record).map_err(|(error, _)| error).expect("it is taken");
        }
        producer.flush(ASK).expect("it is written");
    };
    producer.init_transactions(ASK).expect("the broker has transactions");
    producer.begin_transaction().expect("it begins");
    write(2);
    producer.commit_transaction(ASK).expect("it is committed");
    producer.begin_transaction().expect("it begins");
    write(3);

    let told = check(&home, &[]);
    told.assert_only(&["open-transaction"]);
    let finding = told.finding("open-transaction", "breaks");
    assert_eq!(finding["on"], stage.output.as_str());
    let fix = finding["fix"].as_str().expect("a text");
    // Two records and their marker precede it.
    let abort = format!("abort --topic {} --partition 1 --start-offset 3", stage.output);
    assert!(fix.contains("kafka-transactions.sh") && fix.contains(&abort), "{fix}");
    assert!(finding["found"].as_str().expect("a text").contains("3 below its end"), "{finding}");

    producer.abort_transaction(ASK).expect("it is aborted");
    check(&home, &[]).assert_only(&[]);
}

#[test]
fn a_second_instance_of_the_same_config_is_told_by_all_that_it_would_share() {
    needs_broker!();
    let stage = Stage::set(shared(), "second", 1);
    let (home, _place) = home_of(&stage);
    let home = home.set("source.instance_id", "one");
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Steady, STEADY_WITHIN);
    let told = check(&home, &[]);
    told.assert_only(&["group-members", "state-lock", "status-port"]);
    let lock = told.finding("state-lock", "breaks");
    assert!(lock["found"].as_str().expect("a text").starts_with("held by process "), "{lock}");
    let members = told.finding("group-members", "breaks");
    assert!(members["found"].as_str().expect("a text").contains("same instance id"), "{members}");
    sink.leave(LEAVES_WITHIN).assert_drained();
    // The group remembers an instance with an id until its session is over.
    until("the instance to be forgotten", Duration::from_secs(30), || {
        (!check(&home, &[]).names().contains("group-members")).then_some(())
    });
    check(&home, &[]).assert_only(&[]);
}

/// Waits until the coordinator of the home's group answers: that of a new broker takes a moment.
fn await_coordinator(home: &Home) {
    until("the coordinator to answer", Duration::from_secs(60), || {
        (!check(home, &[]).names().contains("group-members")).then_some(())
    });
}

#[test]
fn no_broker_is_an_error_with_its_code_and_not_a_finding() {
    let [port] = crate::support::broker::free_ports();
    let home = Home::new(&format!("127.0.0.1:{port}"), "nobody");
    let output = run(&home, &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{stderr}");
    assert!(stderr.starts_with("error[E2001]: "), "{stderr}");
}

#[test]
fn a_faulty_config_and_an_unknown_finding_are_usage_errors() {
    let home = Home::new("127.0.0.1:1", "config").set("dedup.window", "soon");
    let output = run(&home, &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error[E1005]: config `dedup.window`"), "{stderr}");
    let output = run(&Home::new("127.0.0.1:1", "config"), &["--accept", "all"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// A broker that knows rights, and allows transactions of half a minute.
fn strict() -> &'static Broker {
    static STRICT: OnceLock<Broker> = OnceLock::new();
    STRICT.get_or_init(|| {
        Broker::start_with(
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
             allow.everyone.if.no.acl.found=true\n\
             transaction.max.timeout.ms=30000\n",
        )
    })
}

#[test]
fn a_ceiling_below_the_transaction_timeout_is_a_finding() {
    needs_broker!();
    let stage = Stage::set(strict(), "ceiling", 1);
    let (home, _place) = home_of(&stage);
    await_coordinator(&home);
    let told = check(&home, &[]);
    told.assert_only(&["mode", "transaction-timeout", "transactional-id"]);
    let finding = told.finding("transaction-timeout", "breaks");
    assert_eq!(finding["found"], "30s");
    // Where transactions are not wanted, nobody asks for them.
    let told = check(&home.set("delivery.mode", "dedup"), &[]);
    told.assert_only(&[]);
    told.finding("clock", "unknown");
}

#[test]
fn each_right_that_is_denied_is_a_finding_and_what_is_not_told_is_unknown() {
    needs_broker!();
    let broker = strict();
    let stage = Stage::set(broker, "denied", 1);
    let (home, _place) = home_of(&stage);
    let home = home.set("delivery.mode", "dedup");
    await_coordinator(&home);
    check(&home, &[]).assert_only(&[]);

    broker.deny(&["Read"], &["--topic", &stage.topic]);
    broker.deny(&["Write", "DescribeConfigs"], &["--topic", &stage.output]);
    broker.deny(&["Read"], &["--group", &stage.group()]);
    broker.deny(
        &["All"],
        &["--transactional-id", &stage.group(), "--resource-pattern-type", "prefixed"],
    );
    let told = check(&home, &[]);
    told.assert_only(&[
        "topic-rights",
        "group-rights",
        "timestamp-type",
        "timestamp-range",
        "retention-time",
        "retention-bytes",
        "cleanup-policy",
        "record-size",
        "in-sync-replicas",
        "unclean-election",
    ]);
    let severity = |name: &str, on: &str| told.bad[&(name.to_owned(), on.to_owned())].clone();
    assert_eq!(severity("topic-rights", &stage.topic), "breaks");
    assert_eq!(severity("topic-rights", &stage.output), "breaks");
    assert_eq!(severity("group-rights", &stage.group()), "breaks");
    // Settings that may not be seen are never taken for good ones.
    for name in ["timestamp-type", "retention-time", "cleanup-policy", "record-size"] {
        assert_eq!(severity(name, &stage.output), "unknown", "{name}");
    }

    let told = check(&home.set("delivery.mode", "auto"), &[]);
    let fix = told.finding("transactional-id", "weakens")["fix"].as_str().expect("a text");
    assert!(fix.contains("--transactional-id") && fix.contains("prefixed"), "{fix}");
    assert_eq!(told.report["mode"]["delivery"], "dedup");
    told.finding("mode", "weakens");
}

#[test]
fn a_producer_that_may_not_have_an_id_and_topics_that_are_hidden_are_findings() {
    needs_broker!();
    let broker = Broker::start_with(
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         allow.everyone.if.no.acl.found=true\n",
    );
    let stage = Stage::set(&broker, "hidden", 1);
    let (home, _place) = home_of(&stage);
    let home = home.set("delivery.mode", "dedup");
    broker.deny(&["Write"], &["--topic", "*"]);
    broker.deny(&["Describe"], &["--topic", &stage.topic]);
    broker.deny(&["Describe"], &["--group", &stage.group()]);
    // The last one: with any rule for the cluster, all that no rule allows there is denied.
    broker.deny(&["IdempotentWrite", "DescribeConfigs"], &["--cluster"]);
    let told = check(&home, &[]);
    told.finding("idempotent-write", "weakens");
    assert_eq!(told.finding("source-topic", "breaks")["found"], "may not be described");
    told.finding("group-rights", "breaks");
    told.finding("group-members", "unknown");
    told.finding("session-timeout", "unknown");
    told.finding("offsets-retention", "unknown");
    told.finding("state-space", "unknown");
}
