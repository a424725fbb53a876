//! `firstseen state` on the state that a run against real Kafka left, and while it runs; windows that
//! change between runs; rebuilds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::broker::shared;
use crate::support::config::Home;
use crate::support::reader::{now_ms, read_all};
use crate::support::records::{Made, Plan};
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN, Stage};
use crate::support::wait::until;
use crate::support::{needs_broker, number, seed};

/// A key that must never be in a log.
const KEY: &str = "the-key-that-is-asked-for";

/// What a command said.
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Said {
    fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "it told:\n{}", self.stderr);
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// Fails unless it ended with `code` because of `error`.
    fn assert_failed(&self, code: i32, error: &str) -> &str {
        let mark = format!("error[{error}]:");
        let line = self.stderr.lines().find(|line| line.starts_with(&mark));
        assert_eq!((self.code, line.is_some()), (Some(code), true), "it told:\n{}", self.stderr);
        line.unwrap()
    }
}

fn state(home: &Home, args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstseen"));
    command.arg("state").args(args).arg("--config").arg(home.write()).current_dir(home.path());
    let output = command.output().expect("the program can be started");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(!stderr.contains(KEY), "a key was told:\n{stderr}");
    Said { code: output.status.code(), stdout, stderr }
}

/// Runs until everything in the source is forwarded, and leaves.
fn run(stage: &Stage, home: &Home) -> String {
    let mut sink = Sink::start(home);
    stage.await_drained(&mut sink);
    let exit = sink.leave(LEAVES_WITHIN);
    exit.assert_drained();
    assert!(!exit.stderr.contains(KEY), "a key was logged:\n{}", exit.stderr);
    exit.stderr
}

fn known() -> Made {
    Made { key: Some(KEY.into()), ..Made::small() }
}

/// A source with the known key in partition 0 among others, and a home that has forwarded all of it.
fn left_behind(stem: &str) -> (Stage, Home) {
    let stage = Stage::set(shared(), stem, 2);
    let home = stage.home();
    let mut writer = stage.writer(seed(stem));
    writer.write(4_000);
    writer.write_these(&[known()]);
    run(&stage, &home);
    (stage, home)
}

fn fields(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn verdict(explanation: &Value, partition: u64) -> &Value {
    let verdicts = explanation["verdicts"].as_array().expect("a list");
    let of = |verdict: &&Value| verdict["partition"].as_u64() == Some(partition);
    verdicts.iter().find(of).unwrap_or_else(|| panic!("none of {partition}: {explanation}"))
}

/// How often the known key is on the output.
fn times_forwarded(stage: &Stage) -> usize {
    let records = read_all(&stage.address, &stage.output, 0);
    records.iter().filter(|record| record.key.as_deref() == Some(KEY.as_bytes())).count()
}

#[test]
fn the_commands_that_read_work_on_the_state_that_a_run_left() {
    needs_broker!();
    let (stage, home) = left_behind("looked-into");

    let stats = state(&home, &["stats", "--json"]).json();
    assert_eq!(fields(&stats), ["being_taken", "online", "partitions", "pid", "state_dir"]);
    let partitions = stats["partitions"].as_array().unwrap();
    assert_eq!((partitions.len(), &stats["online"]), (2, &Value::Bool(false)));
    let keys: u64 = partitions.iter().map(|partition| partition["keys"].as_u64().unwrap()).sum();
    let forwarded = u64::try_from(stage.admin.len(&stage.output, 2)).unwrap();
    assert!(keys > 3_000 && keys <= forwarded, "{keys} keys of {forwarded} records");
    for partition in partitions {
        assert_eq!(
            fields(partition),
            [
                "bytes",
                "bytes_per_day",
                "checkpoint_ms",
                "clean",
                "filter_bytes",
                "floor_ms",
                "generation",
                "high_mark_ms",
                "keys",
                "keys_per_day",
                "newest_ms",
                "oldest_ms",
                "output_position",
                "partition",
                "resume",
                "runs",
                "segments",
                "segments_without_filter",
                "topic",
                "window_bytes",
                "window_keys",
                "window_ms",
                "window_whole_from_ms"
            ]
        );
        let segment = &partition["segments"][0];
        let expected =
            ["bytes", "filter_bytes", "from_ms", "has_filter", "keys", "name", "runs", "to_ms"];
        assert_eq!(fields(segment), expected);
        assert!(partition["keys_per_day"].as_u64() > partition["keys"].as_u64());
        assert_eq!(partition["clean"], true);
    }
    let text = state(&home, &["stats"]).stdout;
    assert!(text.contains("a day costs") && text.contains("on disk"), "{text}");

    let one = ["inspect", "--json", "--limit", "3", "--partition", "1"];
    let listed = state(&home, &one).json();
    assert_eq!(fields(&listed), ["partitions", "state_dir"]);
    let partition = &listed["partitions"][0];
    assert_eq!(fields(partition), ["entries", "more", "partition", "segments", "topic"]);
    assert_eq!(partition["entries"].as_array().unwrap().len(), 3);
    let entry = &partition["entries"][0];
    assert_eq!(fields(entry), ["at", "at_ms", "fingerprint", "run", "segment"]);
    assert_eq!(fields(&partition["segments"][0]), ["entries", "from_ms", "name", "runs", "to_ms"]);
    let run = &partition["segments"][0]["runs"][0];
    assert_eq!(fields(run), ["blocks", "entries", "generation", "id"]);
    let fingerprint = entry["fingerprint"].as_str().unwrap();
    let found = state(&home, &["inspect", "--json", "--fingerprint", fingerprint]).json();
    let found = &found["partitions"][1]["entries"];
    assert!(found.as_array().unwrap().iter().any(|found| found == entry), "{found}");

    let explained = state(&home, &["explain", KEY, "--json"]).json();
    assert_eq!(
        fields(&explained),
        ["at_ms", "clock", "fingerprint", "pid", "rule", "topic", "verdicts", "window_ms"]
    );
    let (here, there) = (verdict(&explained, 0), verdict(&explained, 1));
    assert_eq!(fields(here), ["age_ms", "partition", "seen_at_ms", "text", "verdict", "why"]);
    assert_eq!((&here["verdict"], &here["why"]), (&"suppress".into(), &"seen".into()));
    assert_eq!((&there["verdict"], &there["why"]), (&"forward".into(), &"unknown".into()));
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let by_hex = state(&home, &["explain", "--key-hex", &hex, "--json"]).json();
    assert_eq!(by_hex["fingerprint"], explained["fingerprint"]);
    let late = (now_ms() + 25 * 3_600_000).to_string();
    let far = home_of(&stage, &home).set("dedup.max_future", "48h");
    let late = state(&far, &["explain", KEY, "--at", &late, "--json"]).json();
    assert_eq!(verdict(&late, 0)["why"], "outside-window");
    let null = state(&home, &["explain", "--key-null", "--json"]).json();
    assert_eq!(null["verdicts"][0]["why"], "missing-key");
    state(&home, &["explain", "a", "b"]).assert_failed(2, "E7004");

    let checked = state(&home, &["verify", "--json"]).json();
    assert_eq!(fields(&checked), ["directory", "faults", "partitions", "state_dir"]);
    assert_eq!(checked["faults"], 0);
    let expected = ["dir", "entries", "flaws", "next", "partition", "segments", "topic", "values"];
    assert_eq!(fields(&checked["partitions"][0]), expected);
    state(&home, &["stats", "--topic", "other"]).assert_failed(2, "E7004");
}

/// A home of the same state under another config.
fn home_of(stage: &Stage, home: &Home) -> Home {
    stage.home().set("state.dir", home.state().display().to_string())
}

#[test]
fn a_forgotten_key_is_forwarded_once_more() {
    needs_broker!();
    let (stage, home) = left_behind("forgotten");
    let forgotten = state(&home, &["forget", KEY, "--json"]).json();
    assert_eq!(fields(&forgotten), ["fingerprint", "notes", "partitions", "topic"]);
    let removed = &forgotten["partitions"][0];
    assert_eq!(fields(removed), ["partition", "removed_ms"]);
    assert_eq!(removed["removed_ms"].as_array().unwrap().len(), 1);
    let notes = forgotten["notes"].as_array().unwrap();
    assert!(notes.len() == 1 && notes[0].as_str().unwrap().contains("rebuild"), "{notes:?}");
    let explained = state(&home, &["explain", KEY, "--json"]).json();
    assert_eq!(verdict(&explained, 0)["verdict"], "forward");

    let writer = stage.writer(1);
    writer.write_these(&[known()]);
    run(&stage, &home);
    assert_eq!(times_forwarded(&stage), 2, "it passes once");
    writer.write_these(&[known()]);
    run(&stage, &home);
    assert_eq!(times_forwarded(&stage), 2, "and no more");
}

#[test]
fn a_state_is_compacted_moved_to_another_machine_and_goes_on_there() {
    needs_broker!();
    let (stage, home) = left_behind("moved");
    let keys = |home: &Home| {
        let stats = state(home, &["stats", "--json"]).json();
        let partitions = stats["partitions"].as_array().unwrap().clone();
        partitions.iter().map(|p| p["keys"].as_u64().unwrap()).sum::<u64>()
    };
    let before = keys(&home);
    let compacted = state(&home, &["compact", "--json"]).json();
    assert_eq!(fields(&compacted), ["merges", "online", "partitions", "state_dir"]);
    let of = &compacted["partitions"][0];
    let expected =
        ["bytes_after", "bytes_before", "keys", "partition", "runs_after", "runs_before", "topic"];
    assert_eq!(fields(of), expected);
    assert!(of["bytes_after"].as_u64() <= of["bytes_before"].as_u64(), "{of}");
    assert_eq!(keys(&home), before);

    let file = home.path().join("moving").display().to_string();
    let said = state(&home, &["export", &file, "--json"]);
    assert!(said.stderr.contains("secret"), "it must be said aloud: {}", said.stderr);
    let exported = said.json();
    assert_eq!(fields(&exported), ["bytes", "contains_secret", "entries", "file", "partitions"]);
    state(&home, &["import", &file]).assert_failed(1, "E5012");

    let there = stage.home();
    let imported = state(&there, &["import", &file, "--json"]).json();
    let expected = ["build", "created_at_ms", "entries", "partitions", "state_dir"];
    assert_eq!(fields(&imported), expected);
    assert_eq!(keys(&there), before);
    assert_eq!(state(&there, &["verify", "--json"]).json()["faults"], 0);
    let foreign = stage.home().set("sink.topic", "{topic}.elsewhere");
    state(&foreign, &["import", &file]).assert_failed(1, "E5006");

    let writer = stage.writer(1);
    writer.write_these(&[known()]);
    let log = run(&stage, &there);
    assert_eq!(times_forwarded(&stage), 1, "what was known there is known here");
    assert!(!log.contains("reading the output back"), "no rebuild was needed:\n{log}");
}

#[test]
fn verify_finds_damage_and_reset_leads_to_a_rebuild() {
    needs_broker!();
    let (stage, home) = left_behind("damaged-and-reset");
    let db = files_named(&home.state(), "db").remove(0);
    let mut bytes = fs::read(&db).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(&db, bytes).unwrap();
    let said = state(&home, &["verify"]);
    let line = said.assert_failed(3, "E7003");
    assert!(line.contains(&format!("{}/", stage.topic)), "{line}");
    assert!(
        said.stdout.contains("damaged") && said.stdout.contains("next: `run`"),
        "{}",
        said.stdout
    );

    let line = state(&home, &["reset"]).assert_failed(2, "E7004").to_owned();
    assert!(line.contains(&stage.topic) && line.contains("--yes"), "{line}");
    let reset = state(&home, &["reset", "--partition", "0", "--yes", "--json"]).json();
    assert_eq!(fields(&reset), ["next", "removed", "state_dir"]);
    assert_eq!(reset["removed"].as_array().unwrap().len(), 1);
    state(&home, &["reset", "--yes"]);
    stage.writer(1).write_these(&[known()]);
    run(&stage, &home);
    assert_eq!(times_forwarded(&stage), 1, "the output told what was forwarded");
    let explained = state(&home, &["explain", KEY, "--json"]).json();
    assert_eq!(verdict(&explained, 0)["why"], "seen");
}

fn files_named(root: &Path, name: &str) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            match path.is_dir() {
                true => open.push(path),
                false if path.file_name().is_some_and(|found| found == name) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_running_process_answers_what_only_reads_and_the_rest_is_refused() {
    needs_broker!();
    let stage = Stage::set(shared(), "asked-online", 2);
    let home = stage.home();
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Steady, STEADY_WITHIN);
    stage.writer(seed("asked-online")).write(2_000);
    stage.writer(1).write_these(&[known()]);
    stage.await_drained(&mut sink);

    let stats = state(&home, &["stats", "--json"]).json();
    assert_eq!(fields(&stats), ["being_taken", "online", "partitions", "pid", "state_dir"]);
    assert_eq!(
        (&stats["online"], stats["partitions"].as_array().unwrap().len()),
        (&true.into(), 2)
    );
    let explained = state(&home, &["explain", KEY, "--json"]).json();
    assert_eq!(explained["pid"], stats["pid"]);
    assert_eq!(verdict(&explained, 0)["verdict"], "suppress");
    assert_eq!(verdict(&explained, 1)["verdict"], "forward");
    let compacted = state(&home, &["compact", "--json"]).json();
    assert_eq!(fields(&compacted), ["merges", "online", "partitions", "state_dir"]);
    assert_eq!(compacted["online"], true);
    let stats = state(&home, &["stats", "--json"]).json();
    for partition in stats["partitions"].as_array().unwrap() {
        let segments = partition["segments"].as_array().unwrap().len();
        assert_eq!(partition["runs"], segments, "one run a segment is left");
    }
    let pid = stats["pid"].to_string();
    let file = home.path().join("export").display().to_string();
    let refused: [&[&str]; 6] = [
        &["inspect"],
        &["verify"],
        &["export", &file],
        &["import", "/dev/null"],
        &["forget", KEY],
        &["reset", "--yes"],
    ];
    for args in refused.iter().filter(|args| args[0] != "import") {
        let said = state(&home, args);
        let line = said.assert_failed(1, "E5001");
        assert!(line.contains(&pid), "{line}");
    }
    let silent = home_of(&stage, &home).set("status.listen", "off");
    let said = state(&silent, &["stats"]);
    assert!(said.assert_failed(1, "E5001").contains("status.listen"), "{}", said.stderr);
    // A new record is known before any checkpoint holds it, and nothing was disturbed.
    stage.writer(2).write_these(&[Made { key: Some(b"another".to_vec()), ..Made::small() }]);
    until("the new key", STEADY_WITHIN, || {
        let explained = state(&home, &["explain", "another", "--json"]).json();
        (verdict(&explained, 0)["verdict"] == "suppress").then_some(())
    });
    let exit = sink.leave(LEAVES_WITHIN);
    exit.assert_drained();
    assert!(!exit.stderr.contains(KEY), "a key was logged:\n{}", exit.stderr);
    stage.assert_clean();
}

#[test]
fn a_window_changed_between_runs_is_taken_as_it_is_and_another_clock_is_refused() {
    needs_broker!();
    let stage = Stage::set(shared(), "window-changed", 1);
    let start_ms = now_ms() - 400_000;
    let plan = Plan { start_ms, step_ms: 100, odd: false, duplicate_one_in: 0, ..Plan::over(1) };
    let mut writer = stage.writer_of(plan, seed("window-changed"));
    let home = stage.home().set("dedup.window", "20s");
    let at = |timestamp| Made { timestamp, ..known() };
    writer.write_these(&[at(start_ms)]);
    writer.write(2_000);
    let log = run(&stage, &home);
    assert!(!log.contains("whole_from"), "{log}");

    // Longer: what is left counts for 100 s, what is gone is said.
    let longer = home_of(&stage, &home).set("dedup.window", "100s");
    let end = start_ms + 200_000;
    writer.write_these(&[Made { key: Some(b"fresh".to_vec()), ..at(end) }]);
    let log = run(&stage, &longer);
    let told = log.lines().filter(|line| line.contains("whole_from")).count();
    assert_eq!(told, 1, "it is said once:\n{log}");
    let stats = state(&longer, &["stats", "--json"]).json();
    let of = &stats["partitions"][0];
    let whole = of["floor_ms"].as_i64().unwrap() + 100_000;
    assert_eq!(of["window_whole_from_ms"].as_i64(), Some(whole));
    writer.write_these(&[Made { key: Some(b"fresh".to_vec()), ..at(end + 100_000) }]);
    run(&stage, &longer);
    let of_fresh = |key: &[u8]| {
        let records = read_all(&stage.address, &stage.output, 0);
        records.iter().filter(|record| record.key.as_deref() == Some(key)).count()
    };
    assert_eq!(of_fresh(b"fresh"), 1, "a copy at exactly the new window");

    // Shorter again, at once.
    writer.write_these(&[Made { key: Some(b"fresh".to_vec()), ..at(end + 120_001) }]);
    run(&stage, &home);
    assert_eq!(of_fresh(b"fresh"), 2, "a copy one millisecond past the short window");

    let other_clock = home_of(&stage, &home).set("dedup.clock", "arrival");
    let mut sink = Sink::start(&other_clock);
    let exit = sink.wait(STEADY_WITHIN);
    exit.assert_failed(1, "E5007");
    assert!(exit.error().contains("firstseen state reset"), "{}", exit.error());
    let said = state(&other_clock, &["explain", KEY]);
    said.assert_failed(1, "E5007");
}

/// `FIRSTSEEN_REBUILD_RECORDS` sets how many records are read back; the rate is printed.
#[test]
fn a_rebuild_reads_one_window_expires_as_it_goes_and_tells_how_far_it_is() {
    needs_broker!();
    let records = number("FIRSTSEEN_REBUILD_RECORDS").unwrap_or(60_000);
    let records = usize::try_from(records).unwrap();
    let stage = Stage::set(shared(), "rebuild", 1);
    // The last third of the records lies within the window.
    let step_ms = 2;
    let span = i64::try_from(records).unwrap() * step_ms;
    let start_ms = now_ms() - span;
    let plan = Plan { start_ms, step_ms, odd: false, duplicate_one_in: 0, ..Plan::over(1) };
    let mut writer = stage.writer_of(plan, seed("rebuild"));
    let window = format!("{}ms", span / 3);
    let home = stage.home().set("dedup.window", window.as_str());
    writer.write(records);
    run(&stage, &home);
    home.lose_state();
    // The record at the resume offset is what the window reaches back from.
    let next = Made { key: Some(b"next".to_vec()), timestamp: start_ms + span, ..Made::small() };
    writer.write_these(&[next]);
    let mut sink = Sink::start(&home);
    sink.await_phase(Phase::Steady, STEADY_WITHIN.max(Duration::from_secs(300)));
    let exit = sink.leave(LEAVES_WITHIN);
    exit.assert_drained();
    let log = exit.stderr;
    let read = log
        .lines()
        .find(|line| line.contains("read the output"))
        .unwrap_or_else(|| panic!("it does not say how much it read:\n{log}"));
    let read: Value = serde_json::from_str(read).expect("JSON");
    let count = usize::try_from(read["records"].as_u64().unwrap()).unwrap();
    // One window, and a segment beyond it.
    let expected = records / 3 + records / 24;
    assert!(count.abs_diff(expected) <= records / 50, "{count} read of {records}");
    // What a consumer that does nothing gets out of the same broker.
    let began = Instant::now();
    let all = read_all(&stage.address, &stage.output, 0).len();
    let plain = u128::try_from(all).unwrap() * 1_000 / began.elapsed().as_millis().max(1);
    eprintln!(
        "rebuild: {count} records, {} a second; a plain consumer: {plain}",
        read["per_second"]
    );
    let stats = state(&home, &["stats", "--json"]).json();
    let of = &stats["partitions"][0];
    assert!(
        of["floor_ms"].as_i64() >= Some(start_ms + span / 2),
        "what was not read is forgotten: {of}"
    );
    assert_eq!(of["window_whole_from_ms"], Value::Null);

    // A record older than what was read back is forwarded, and counted as too old.
    let mut sink = Sink::start(&home);
    stage.writer(9).write_these(&[Made { timestamp: start_ms, ..known() }]);
    stage.await_drained(&mut sink);
    until("the record to be counted", Duration::from_secs(5), || {
        (sink.metric("firstseen_records_too_old_total") == Some(1.0)).then_some(())
    });
    sink.leave(LEAVES_WITHIN).assert_drained();
}
