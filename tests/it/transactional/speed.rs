//! What transactions cost: both deliveries on the same records, in turns. Only when asked for by
//! `FIRSTSEEN_SPEED`, which is the number of records; `FIRSTSEEN_SPEED_BIN` is the program to
//! measure, for one that was built for speed.

use std::process::Command;
use std::time::{Duration, Instant};

use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::support::admin::{Admin, client};
use crate::support::broker::Broker;
use crate::support::config::Home;
use crate::support::number;
use crate::support::sink::{Phase, Sink};
use crate::support::stage::{LEAVES_WITHIN, STEADY_WITHIN};
use crate::support::wait::try_until;

const TOPIC: &str = "speed";
const RECORD_BYTES: usize = 200;
const ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn transactions_cost_little_of_the_throughput() {
    let Some(records) = number("FIRSTSEEN_SPEED") else {
        eprintln!("left out: FIRSTSEEN_SPEED asks for it");
        return;
    };
    let records = i64::try_from(records).expect("a number of records");
    let broker = Broker::start_with("log.segment.bytes=1073741824\n");
    let admin = Admin::of(&broker);
    admin.create(TOPIC, 1);
    write(&broker.address(), records);
    for interval in ["1s", "100ms"] {
        let mut ratios = Vec::new();
        for round in 0..ROUNDS {
            let mut speeds = Vec::new();
            for mode in ["dedup", "transactional"] {
                let case = format!("{mode}-{interval}-{round}");
                speeds.push(measure(&broker, &admin, &case, mode, interval, records));
            }
            ratios.push(speeds[1] / speeds[0]);
            eprintln!(
                "{interval}: dedup {:.0}, transactional {:.0} records/s, ratio {:.2}",
                speeds[0], speeds[1], ratios[round]
            );
        }
        ratios.sort_by(f64::total_cmp);
        eprintln!("{interval}: median ratio {:.2} of {ratios:.2?}", ratios[ROUNDS / 2]);
    }
}

/// Returns records per second from the moment the partition runs until all are on the output.
fn measure(
    broker: &Broker,
    admin: &Admin,
    case: &str,
    mode: &str,
    interval: &str,
    records: i64,
) -> f64 {
    let output = format!("{TOPIC}.{case}");
    admin.create(&output, 1);
    let home = Home::new(&broker.address(), TOPIC)
        .set("source.group", case)
        .set("source.session_timeout", "45s")
        .set("sink.topic", output.as_str())
        .set("sink.delivery_timeout", "30s")
        .set("delivery.mode", mode)
        .set("checkpoint.interval", interval);
    let program = std::env::var("FIRSTSEEN_SPEED_BIN")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_firstseen").to_owned());
    let mut command = Command::new(program);
    command.args(["run", "--log", "json", "--config"]).arg(home.write());
    command.env("FIRSTSEEN_LOG", "info,firstseen::phase=debug").current_dir(home.path());
    let mut sink = Sink::launch(command, home.status_port);
    sink.await_phase(Phase::Steady, STEADY_WITHIN);
    let started = Instant::now();
    let done = || (admin.high_watermark(&output, 0) >= records).then_some(());
    assert_eq!(try_until(LIMIT, done), Some(()), "{}", sink.stderr());
    let took = started.elapsed().as_secs_f64();
    let commits = sink.metric("firstseen_transaction_commit_duration_seconds_sum");
    let count = sink.metric("firstseen_transactions_committed_total");
    if let (Some(sum), Some(count)) = (commits, count.filter(|count| *count > 0.0)) {
        eprintln!("{case}: {count} commits of {:.1} ms", sum / count * 1_000.0);
    }
    sink.leave(LEAVES_WITHIN).assert_drained();
    admin.delete(&output);
    f64::from(i32::try_from(records).expect("fewer than two billion")) / took
}

fn write(address: &str, records: i64) {
    let producer: BaseProducer = client(address)
        .set("linger.ms", "20")
        .set("batch.size", "500000")
        .set("queue.buffering.max.messages", "1000000")
        .create()
        .expect("a plain producer");
    let value = vec![b'v'; RECORD_BYTES - 16];
    for number in 0..records {
        let key = format!("{number:016}");
        let mut record = BaseRecord::to(TOPIC).key(&key).payload(&value);
        while let Err((_, back)) = producer.send(record) {
            producer.poll(Duration::from_millis(20));
            record = back;
        }
    }
    producer.flush(Duration::from_secs(120)).expect("the records are written");
}
