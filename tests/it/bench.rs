//! `firstseen bench` as a user runs it: on the embedded broker, and on a real one.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use firstseen::commands::BenchError;
use firstseen::error::render;
use firstseen::kafka::Cause;
use firstseen::words::Coded;
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::Value;

use crate::support::admin::{Admin, client, unique};
use crate::support::broker::{self, Broker};
use crate::support::needs_broker;

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstseen"));
    command.arg("bench").args(args).env_remove("FIRSTSEEN_LOG");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn report(output: &Output) -> Value {
    let stdout = text(&output.stdout);
    serde_json::from_str(&stdout)
        .unwrap_or_else(|error| panic!("{error}: {stdout}\n{}", text(&output.stderr)))
}

/// A config for the brokers at `address`, whose topics and state a bench must leave alone.
fn config(address: &str, dir: &Path) -> String {
    let file = dir.join("mine.toml");
    let text = format!(
        "[kafka]\nbootstrap_servers = \"{address}\"\n[source]\ngroup = \"mine\"\n\
         topics = [\"no-such-topic\"]\nsession_timeout = \"6s\"\n[sink]\n\
         delivery_timeout = \"3s\"\n[state]\ndir = \"{}\"\n",
        dir.join("my-state").display()
    );
    std::fs::write(&file, text).expect("written");
    file.display().to_string()
}

/// Returns the topics a bench called `name` has there.
fn topics(address: &str, name: &str) -> Vec<String> {
    let consumer: BaseConsumer = client(address).create().expect("a client");
    let metadata = consumer.fetch_metadata(None, Duration::from_secs(10)).expect("metadata");
    let names = metadata.topics().iter().map(|topic| topic.name().to_owned());
    names.filter(|topic| topic.contains(name)).collect()
}

fn row<'r>(report: &'r Value, name: &str) -> &'r Value {
    let rows = report["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {report}"))
}

fn median(row: &Value, metric: &str) -> f64 {
    row["metrics"][metric]["median"].as_f64().unwrap_or_else(|| panic!("no {metric}: {row}"))
}

fn assert_clean(row: &Value) {
    for kind in ["lost", "repeated", "reordered", "altered", "phantom"] {
        assert_eq!(row["ledger"][kind], 0, "{row}");
    }
    assert!(row["faults"].is_null(), "{row}");
}

#[test]
fn on_the_embedded_broker_every_path_is_measured_and_the_report_says_how_far_to_trust_it() {
    let tmp = tempfile::tempdir().expect("a directory");
    let page = tmp.path().join("bench.html");
    let output = bench(&["--json", "--records", "8k", "--rounds", "1", "--rate", "400"])
        .args(["--rate-for", "1s", "--intervals", "200ms", "--target-p99", "10s", "--report"])
        .arg(&page)
        .env("TMPDIR", tmp.path())
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = report(&output);
    for name in ["passthrough", "fast-passthrough", "dedup every 200ms"] {
        let row = row(&report, name);
        assert_clean(row);
        assert!(median(row, "latency_p50_ms") > 0.0, "{row}");
        assert!(median(row, "peak_rss_mib") > 1.0, "{row}");
    }
    let dedup = row(&report, "dedup every 200ms");
    assert!(dedup["ledger"]["suppressed"].as_u64().expect("a count") > 300, "{dedup}");
    assert!(median(dedup, "recovery_ms") > 0.0);
    assert!(median(dedup, "checkpoint_mean_ms") > 0.0);
    let all = report.to_string();
    for part in ["only roughly", "say nothing of transactions", "gives dedup a p99 of"] {
        assert!(all.contains(part), "no `{part}` in {all}");
    }
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("End-to-end latency") && page.contains("only roughly"));
    let left = std::fs::read_dir(tmp.path()).expect("readable").count();
    assert_eq!(left, 1, "more than the page is left");
}

#[test]
fn on_real_kafka_a_state_that_knows_keys_is_measured_and_every_topic_removed() {
    needs_broker!();
    let address = broker::shared().address();
    let tmp = tempfile::tempdir().expect("a directory");
    let name = unique("measured");
    let output = bench(&["--json", "--config", &config(&address, tmp.path()), "--name", &name])
        .args(["--records", "20k", "--partitions", "2", "--rounds", "2", "--rate", "100"])
        .args(["--rate-for", "1s", "--intervals", "200ms", "--known-keys", "100k"])
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = report(&output);
    let dedup = row(&report, "dedup every 200ms");
    assert_clean(dedup);
    assert!(dedup["ledger"]["read"].as_u64().expect("a count") > 40_000, "{dedup}");
    assert!(median(dedup, "records_per_s") > 0.0);
    assert!(dedup["metrics"]["records_per_s"]["ratio"].is_f64(), "{dedup}");
    // 100,000 keys take more than 20 bytes each.
    assert!(median(dedup, "state_mib") > 1.9, "{dedup}");
    assert_eq!(dedup["rounds"].as_object().expect("by round").len(), 2);
    assert_eq!(report["topics"]["left"], Value::Array(Vec::new()));
    assert_eq!(topics(&address, &name), Vec::<String>::new());
    assert!(!tmp.path().join("my-state").try_exists().expect("readable"), "the user's state");
}

#[test]
fn a_topic_that_is_there_already_is_named_and_left_alone() {
    needs_broker!();
    let address = broker::shared().address();
    let tmp = tempfile::tempdir().expect("a directory");
    let name = unique("taken");
    let taken = format!("firstseen-bench-{name}-source");
    Admin::of(broker::shared()).create(&taken, 1);
    let output = bench(&["--config", &config(&address, tmp.path()), "--name", &name])
        .output()
        .expect("starts");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("error[E7007]: topic `{taken}` exists already")), "{stderr}");
    assert_eq!(topics(&address, &name), [taken]);
}

#[test]
fn brokers_that_refuse_to_make_a_topic_are_quoted_before_anything_is_loaded() {
    needs_broker!();
    let address = broker::shared().address();
    let tmp = tempfile::tempdir().expect("a directory");
    let output = bench(&["--config", &config(&address, tmp.path()), "--replication", "3"])
        .output()
        .expect("starts");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error[E7007]: failed to create topic"), "{stderr}");
    assert!(stderr.contains("replication factor"), "{stderr}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_broker_that_goes_away_leaves_what_was_measured_and_says_that_it_is_partial() {
    needs_broker!();
    let mut broker = Broker::start();
    let tmp = tempfile::tempdir().expect("a directory");
    let mut child = bench(&["--config", &config(&broker.address(), tmp.path())])
        .args(["--records", "20k", "--rounds", "2", "--rate", "0", "--modes", "dedup"])
        .args(["--intervals", "200ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let measured =
        lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("round 1 of 2, dedup"));
    assert!(measured, "the bench ended before its first round did");
    broker.kill();
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let output = child.wait_with_output().expect("ends");
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{rest:?}");
    let last = rest.last().expect("an error");
    assert!(last.starts_with("error[E7008]: the measuring was cut short in round"), "{rest:?}");
    assert!(stdout.contains("PARTIAL: "), "{stdout}");
    let throughput = stdout.split("process CPU").next().expect("the first tables");
    assert!(throughput.contains("dedup every 200ms"), "{stdout}");
    assert!(stdout.contains("left (firstseen-bench-"), "{stdout}");
}

/// The seeded bug forgets to read the output back, so what was not checkpointed comes twice.
#[cfg(feature = "bugs")]
#[test]
fn a_sink_that_repeats_after_the_kill_gets_no_figures_and_fails_the_bench() {
    let output = bench(&["--json", "--records", "4k", "--rounds", "1", "--rate", "1k"])
        .args(["--rate-for", "1s", "--modes", "dedup", "--intervals", "10s"])
        .env("FIRSTSEEN_BUG", "skip-catch-up")
        .output()
        .expect("starts");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let report = report(&output);
    let dedup = row(&report, "dedup every 10s");
    assert!(dedup["ledger"]["repeated"].as_u64().expect("a count") > 0, "{dedup}");
    assert_eq!(dedup["metrics"], serde_json::json!({}), "{dedup}");
    assert_eq!(dedup["rounds"], serde_json::json!({}), "{dedup}");
    assert!(stderr.contains("error[E7001]: ledger found faults: dedup every 10s"), "{stderr}");
    assert!(median(row(&report, "passthrough"), "latency_p50_ms") > 0.0, "{report}");
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_started() {
    for args in [&["--size", "4"][..], &["--seconds", "2s"], &["--records", "100M"]] {
        let output = bench(args).output().expect("starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(args[0]), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
    }
}

#[test]
fn what_a_bench_says_when_it_fails_is_golden() {
    let topic = "firstseen-bench-mine-source".to_owned();
    golden("E7007-there", &BenchError::TopicThere { topic: topic.clone() });
    let cause = Cause::text("ClusterAuthorizationFailed (Broker: Cluster authorization failed)");
    golden("E7007-refused", &BenchError::TopicRefused { topic, cause });
    let stalled = BenchError::Stalled { seconds: 60, reached: 41_000, wanted: 1_000_000 };
    let turn = "round 2 of 3, dedup every 1s".to_owned();
    golden("E7008", &BenchError::CutShort { turn, source: Box::new(stalled) });
    golden("E7009", &BenchError::RateNotReached { wanted: 200_000, reached: 81_234 });
    let found = "dedup every 1s: 2 repeated (repeated: partition 0, output offset 7)".to_owned();
    golden("E7001-bench", &BenchError::Ledger { found });
}

fn golden(name: &str, error: &BenchError) {
    let line = format!("{}\nexit {}\n", render(error), error.code().exit_code());
    super::config::compare(Path::new(&format!("tests/golden/{name}.txt")), &line);
}
