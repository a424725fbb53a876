//! That the proxy does to frames what tests rely on.

use std::time::Duration;

use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::{Api, Frames, Proxy};
use crate::support::admin::{Admin, client, unique};
use crate::support::broker::shared;
use crate::support::needs_broker;
use crate::support::wait::{try_until, until};

const SOON: Duration = Duration::from_secs(20);

fn topic(stem: &str) -> (Admin, String) {
    let (admin, topic) = (Admin::of(shared()), unique(stem));
    admin.create(&topic, 1);
    (admin, topic)
}

/// A producer that sends every record at once in a request of its own.
fn producer(address: &str, name: &str) -> BaseProducer {
    let mut config = client(address);
    config.set("client.id", name).set("enable.idempotence", "true").set("linger.ms", "0");
    config.set("batch.num.messages", "1").create().expect("a plain producer")
}

fn send(producer: &BaseProducer, topic: &str, count: usize) {
    for _ in 0..count {
        let record = BaseRecord::<[u8], [u8]>::to(topic).partition(0).payload(b"value");
        producer.send(record).map_err(|(error, _)| error).expect("there is room");
    }
}

#[test]
fn a_client_that_starts_at_the_proxy_stays_behind_it_and_its_requests_can_be_held() {
    needs_broker!();
    let (admin, topic) = topic("proxy-held");
    let proxy = Proxy::before(&shared().address());
    let held = proxy.hold(Frames::of(Api::PRODUCE).of_client("held").after(1));
    let (first, second) =
        (producer(&proxy.address(), "held"), producer(&proxy.address(), "another"));
    send(&first, &topic, 1);
    first.flush(SOON).expect("the first request is let through");
    send(&first, &topic, 3);
    held.await_count(3, SOON);
    send(&second, &topic, 5);
    second.flush(SOON).expect("another client's requests are let through");
    assert_eq!(admin.watermarks(&topic, 0), (0, 6), "what is held is not there");
    held.let_through(2);
    held.await_answered(2, SOON);
    assert_eq!(admin.watermarks(&topic, 0), (0, 8));
    assert_eq!(held.lift(), 3);
    first.flush(SOON).expect("all is let through");
    assert_eq!(admin.watermarks(&topic, 0), (0, 9));
}

#[test]
fn what_is_held_arrives_though_its_sender_is_gone() {
    needs_broker!();
    let (admin, topic) = topic("proxy-late");
    let proxy = Proxy::before(&shared().address());
    let held = proxy.hold(Frames::of(Api::PRODUCE));
    let gone = producer(&proxy.address(), "gone");
    send(&gone, &topic, 4);
    held.await_count(4, SOON);
    drop(gone);
    assert_eq!(admin.watermarks(&topic, 0), (0, 0));
    held.lift();
    held.await_answered(4, SOON);
    assert_eq!(admin.watermarks(&topic, 0), (0, 4));
}

#[test]
fn requests_cut_in_the_middle_or_before_their_answer_are_sent_again() {
    needs_broker!();
    let (admin, topic) = topic("proxy-cut");
    let proxy = Proxy::before(&shared().address());
    let inside = proxy.cut_inside(Frames::of(Api::PRODUCE).at_most(1));
    let before = proxy.cut_before_answers(Frames::of(Api::PRODUCE).after(1).at_most(1));
    let producer = producer(&proxy.address(), "cut");
    send(&producer, &topic, 10);
    producer.flush(SOON).expect("the client gets over it");
    assert_eq!((inside.count(), before.count()), (1, 1));
    assert_eq!(admin.watermarks(&topic, 0), (0, 10), "the second copies were told apart");
}

#[test]
fn lost_and_late_answers_keep_the_client_waiting() {
    needs_broker!();
    let (admin, topic) = topic("proxy-answers");
    let proxy = Proxy::before(&shared().address());
    let produce = || Frames::of(Api::PRODUCE);
    let producer = producer(&proxy.address(), "waits");
    let late = proxy.hold_answers(produce());
    send(&producer, &topic, 1);
    late.await_answered(1, SOON);
    assert_eq!(admin.watermarks(&topic, 0), (0, 1));
    let unanswered = || assert_eq!(producer.in_flight_count(), 1);
    unanswered();
    late.lift();
    producer.flush(SOON).expect("the answer comes");
    let lost = proxy.drop_answers(produce());
    send(&producer, &topic, 1);
    lost.await_answered(1, SOON);
    let waits = try_until(Duration::from_millis(300), || {
        producer.poll(Duration::ZERO);
        (producer.in_flight_count() == 0).then_some(())
    });
    assert!(waits.is_none(), "the answer came");
    lost.lift();
    proxy.cut_clients();
    producer.flush(SOON).expect("it is asked again over another connection");
    assert_eq!(admin.watermarks(&topic, 0), (0, 2));
    let delayed = proxy.delay_answers(produce(), Duration::from_millis(500));
    let start = std::time::Instant::now();
    send(&producer, &topic, 3);
    producer.flush(SOON).expect("the answers come");
    assert!(start.elapsed() >= Duration::from_millis(500), "{:?}", start.elapsed());
    assert_eq!(delayed.count(), 3);
}

#[test]
fn a_proxy_that_refuses_is_no_way_to_the_broker() {
    needs_broker!();
    let (admin, topic) = topic("proxy-refuses");
    let proxy = Proxy::before(&shared().address());
    let producer = producer(&proxy.address(), "refused");
    send(&producer, &topic, 1);
    producer.flush(SOON).expect("it is a way yet");
    proxy.refuse(true);
    let before = proxy.connections();
    proxy.cut_all();
    send(&producer, &topic, 1);
    let arrived = try_until(Duration::from_millis(500), || {
        producer.poll(Duration::ZERO);
        (producer.in_flight_count() == 0).then_some(())
    });
    assert_eq!((arrived, proxy.connections()), (None, before));
    proxy.refuse(false);
    producer.flush(SOON).expect("it is a way again");
    until("the record", SOON, || (admin.watermarks(&topic, 0).1 == 2).then_some(()));
}
