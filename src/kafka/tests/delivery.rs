//! What becomes of records that the broker does not take.

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr as R};

use super::*;
use crate::words::{Code, Coded};

struct Rig {
    cluster: MockCluster<'static, DefaultProducerContext>,
    source: Source,
    sink: Sink,
    out: Target,
}

/// One record ready to be read in `in/0`, a sink for `out`.
fn rig(records: usize, value: &[u8], change: impl FnOnce(&mut Config)) -> Rig {
    let cluster = mock(&[("in", 1), ("out", 1)]);
    let mut config = config(&cluster.bootstrap_servers(), "in");
    change(&mut config);
    let raw = Raw::new(&cluster.bootstrap_servers(), "in");
    raw.write(0, &vec![value; records]);
    let source = alone(&config, &SourcePartition::new("in", 0), 0);
    let mut sink = Sink::connect(&config, Some(10_000), Some(10_000)).unwrap();
    let out = sink.target("out").unwrap();
    Rig { cluster, source, sink, out }
}

impl Rig {
    /// Sends the next source record.
    fn send(&mut self, token: u64) -> Result<(), Refused> {
        let (sink, out) = (&mut self.sink, self.out);
        until(&mut self.source, |polled| match polled {
            Polled::Record(record) => Some(sink.send(&record, out, 0, token)),
            _ => None,
        })
    }

    fn report(&mut self) -> Report {
        let mut reports = Vec::new();
        let start = Instant::now();
        while reports.is_empty() {
            assert!(start.elapsed() < SOON, "no report in time");
            self.sink.reports(1, Duration::from_millis(100), &mut reports);
        }
        reports.remove(0)
    }

    fn failed(&mut self) -> (Written, FailureKind, Error) {
        match self.report().outcome {
            Outcome::Failed { written, kind, error } => (written, kind, error),
            confirmed @ Outcome::Confirmed { .. } => panic!("{confirmed:?}"),
        }
    }

    fn inject(&self, error: R, times: usize) {
        self.cluster.request_errors(RDKafkaApiKey::Produce, &vec![error; times]);
    }
}

#[test]
fn a_record_over_the_limit_is_refused_with_its_size_and_the_limit() {
    let mut rig = rig(1, &[b'x'; 12_000], |_| ());
    let Err(Refused::Record(error)) = rig.send(0) else { panic!("it was taken") };
    assert_eq!(error.code(), Code::RecordTooLarge);
    assert_eq!(
        error.to_string(),
        "with its 12001 bytes it is over the limit of 10000 bytes of topic `out`"
    );
    assert_eq!(rig.sink.in_flight(), 0, "a refused record gets no report");
}

#[test]
fn a_record_the_broker_refuses_is_that_records_fault() {
    let mut rig = rig(1, b"v", |_| ());
    rig.inject(R::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, 1);
    rig.send(7).unwrap();
    let (written, kind, error) = rig.failed();
    assert_eq!((written, kind), (Written::No, FailureKind::Record));
    assert_eq!(error.code(), Code::RecordRefused);
}

#[test]
fn a_topic_that_may_not_be_written_is_the_outputs_fault() {
    let mut rig = rig(1, b"v", |_| ());
    rig.inject(R::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 1);
    rig.send(7).unwrap();
    let (written, kind, error) = rig.failed();
    assert_eq!((written, kind), (Written::No, FailureKind::Output));
    assert_eq!(error.code(), Code::BrokerAuthorization);
}

#[test]
fn a_lost_sequence_is_fatal_and_a_new_producer_cures_it() {
    let mut rig = rig(3, b"v", |_| ());
    rig.inject(R::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, 1);
    rig.send(1).unwrap();
    let (written, kind, error) = rig.failed();
    assert_eq!((written, kind), (Written::Maybe, FailureKind::Fatal));
    assert_eq!(error.code(), Code::ProducerFatal);
    assert!(rig.sink.fatal().is_some());
    assert!(matches!(rig.send(2), Err(Refused::Fatal(_))), "a fatal producer takes nothing");
    rig.sink.replace().unwrap();
    assert!(rig.sink.fatal().is_none());
    rig.send(3).unwrap();
    let report = rig.report();
    assert_eq!((report.token, report.epoch), (3, 1));
    assert!(matches!(report.outcome, Outcome::Confirmed { .. }));
}

#[test]
fn a_transient_refusal_is_got_over_without_a_report() {
    let mut rig = rig(1, b"v", |_| ());
    rig.inject(R::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, 2);
    rig.send(7).unwrap();
    assert!(matches!(rig.report().outcome, Outcome::Confirmed { .. }));
}

#[test]
fn a_refused_producer_id_names_the_permission() {
    let mut rig = rig(1, b"v", |_| ());
    rig.cluster.request_errors(
        RDKafkaApiKey::InitProducerId,
        &[R::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED; 3],
    );
    let _taken: Result<(), Refused> = rig.send(1);
    let start = Instant::now();
    while rig.sink.fatal().is_none() {
        assert!(start.elapsed() < SOON);
        rig.sink.reports(1, Duration::from_millis(50), &mut Vec::new());
    }
    let error = rig.sink.fatal().unwrap();
    assert!(matches!(error, Error::IdempotenceRefused { .. }), "{error:?}");
    assert!(error.fix().contains("IdempotentWrite"));
}

#[test]
fn time_running_out_is_transient_and_certainly_not_written_if_never_sent() {
    let mut rig = rig(1, b"v", |config| {
        config.sink.delivery_timeout = Duration::from_millis(1500);
    });
    let record = |rig: &mut Rig| rig.send(1);
    rig.cluster.broker_round_trip_time(-1, Duration::ZERO).unwrap();
    record(&mut rig).unwrap();
    assert!(matches!(rig.report().outcome, Outcome::Confirmed { .. }));
    let raw = Raw::new(&rig.cluster.bootstrap_servers(), "in");
    raw.write(0, &[b"w"]);
    let mut held = None;
    until(&mut rig.source, |polled| match polled {
        Polled::Record(record) => {
            held = Some(record.offset());
            rig.cluster.broker_down(1).unwrap();
            rig.sink.send(&record, rig.out, 0, 2).unwrap();
            Some(())
        }
        _ => None,
    });
    assert!(held.is_some());
    let (written, kind, _) = rig.failed();
    assert_eq!((written, kind), (Written::No, FailureKind::Transient));
    rig.cluster.broker_up(1).unwrap();
}

#[test]
fn a_broker_that_is_away_makes_the_sink_full_and_not_big() {
    let mut rig = rig(200, &[b'x'; 2_000], |config| config.sink.in_flight_max_bytes = 100 * 1024);
    let mut down = false;
    let mut sent = 0_u64;
    let full = loop {
        let (sink, out, cluster) = (&mut rig.sink, rig.out, &rig.cluster);
        let result = until(&mut rig.source, |polled| match polled {
            Polled::Record(record) => {
                if !down {
                    cluster.broker_down(1).unwrap();
                    down = true;
                }
                Some(sink.send(&record, out, 0, sent))
            }
            _ => None,
        });
        match result {
            Ok(()) => sent += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(full, Refused::Full), "{full:?}");
    assert!(sent < 60, "{sent} records of 2 kB in 100 kB");
}

#[test]
fn a_replaced_producer_reports_what_it_held_under_its_own_epoch() {
    let mut rig = rig(3, b"v", |_| ());
    rig.cluster.broker_round_trip_time(1, Duration::from_secs(3)).unwrap();
    rig.send(10).unwrap();
    rig.sink.replace().unwrap();
    assert_eq!(rig.sink.epoch(), 1);
    let report = rig.report();
    assert_eq!((report.epoch, report.token), (0, 10));
    assert!(
        matches!(report.outcome, Outcome::Failed { kind: FailureKind::Purged, .. }),
        "{report:?}"
    );
}
