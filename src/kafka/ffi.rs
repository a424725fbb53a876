//! Everything that talks to librdkafka behind the safe crate's back, and all the unsafe code.
//!
//! The safe crate loses what this program needs: the partition and offset of a consumer error, the
//! names of headers that are not UTF-8, whether a failed record may have been written, commit
//! metadata from others. So events are taken from librdkafka's queues here and read in full.
//! Nothing in here decides anything.

#![expect(unsafe_code, reason = "librdkafka's C interface; each block gives its reason")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::client::NativeClient;
use rdkafka::config::NativeClientConfig;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_sys as sys;

mod batch;
mod stream;

pub(super) use batch::{PartitionQueue, Taken};
pub(super) use stream::{Batch, Stream};

use sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR as NO_ERROR;

pub(super) mod admin;

// A record's token travels as a pointer that is never followed.
const _: () = assert!(size_of::<usize>() == size_of::<u64>());

/// A queue of events. Must be dropped before the client it came from.
#[derive(Debug)]
pub(super) struct Queue(NonNull<sys::rd_kafka_queue_t>);

// SAFETY: librdkafka's queues may be used from any thread.
unsafe impl Send for Queue {}

impl Queue {
    /// The queue of a producer, or of a consumer without a group.
    pub(super) fn main(client: &NativeClient) -> Option<Self> {
        // SAFETY: the client is alive; the reference returned is ours to give back.
        NonNull::new(unsafe { sys::rd_kafka_queue_get_main(client.ptr()) }).map(Self)
    }

    /// The queue of a consumer with a group.
    pub(super) fn consumer(client: &NativeClient) -> Option<Self> {
        // SAFETY: as above.
        NonNull::new(unsafe { sys::rd_kafka_queue_get_consumer(client.ptr()) }).map(Self)
    }

    /// A new queue, for the answer to one request.
    pub(super) fn new(client: &NativeClient) -> Option<Self> {
        // SAFETY: as above.
        NonNull::new(unsafe { sys::rd_kafka_queue_new(client.ptr()) }).map(Self)
    }

    /// Takes the next event, waiting up to `timeout` for one.
    pub(super) fn poll(&self, timeout: Duration) -> Option<Event> {
        // SAFETY: the queue is alive as long as `self`; the event is ours to destroy.
        NonNull::new(unsafe { sys::rd_kafka_queue_poll(self.0.as_ptr(), millis(timeout)) })
            .map(Event)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: gives back the one reference this value holds.
        unsafe { sys::rd_kafka_queue_destroy(self.0.as_ptr()) }
    }
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Delivery,
    Fetch,
    Log,
    Error,
    Rebalance,
    Commit,
    Statistics,
    Other,
}

/// One event, destroyed when dropped.
#[derive(Debug)]
pub(super) struct Event(NonNull<sys::rd_kafka_event_t>);

// SAFETY: an event is plain memory with one owner.
unsafe impl Send for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the one owner destroys it once.
        unsafe { sys::rd_kafka_event_destroy(self.0.as_ptr()) }
    }
}

impl Event {
    pub(super) fn kind(&self) -> EventKind {
        // SAFETY: the event is alive.
        match unsafe { sys::rd_kafka_event_type(self.0.as_ptr()) } {
            sys::RD_KAFKA_EVENT_DR => EventKind::Delivery,
            sys::RD_KAFKA_EVENT_FETCH => EventKind::Fetch,
            sys::RD_KAFKA_EVENT_LOG => EventKind::Log,
            sys::RD_KAFKA_EVENT_ERROR => EventKind::Error,
            sys::RD_KAFKA_EVENT_REBALANCE => EventKind::Rebalance,
            sys::RD_KAFKA_EVENT_OFFSET_COMMIT => EventKind::Commit,
            sys::RD_KAFKA_EVENT_STATS => EventKind::Statistics,
            _ => EventKind::Other,
        }
    }

    /// The error code; for a rebalance, which kind it is.
    pub(super) fn error(&self) -> Option<RDKafkaErrorCode> {
        // SAFETY: the event is alive.
        code(unsafe { sys::rd_kafka_event_error(self.0.as_ptr()) })
    }

    pub(super) fn error_text(&self) -> String {
        // SAFETY: the event is alive and owns the text, which is copied.
        unsafe { text(sys::rd_kafka_event_error_string(self.0.as_ptr())) }
    }

    /// Topic, partition and offset that an error is about.
    pub(super) fn place(&self) -> Option<(String, i32, i64)> {
        // SAFETY: returns a copy, which is read and destroyed here.
        unsafe {
            let place = NonNull::new(sys::rd_kafka_event_topic_partition(self.0.as_ptr()))?;
            let p = place.as_ref();
            let found = (text(p.topic), p.partition, p.offset);
            sys::rd_kafka_topic_partition_destroy(place.as_ptr());
            Some(found)
        }
    }

    /// Level (as in syslog), facility and text of a log line.
    pub(super) fn log(&self) -> Option<(c_int, String, String)> {
        let (mut facility, mut line, mut level) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the event owns both texts, which are copied.
        unsafe {
            let failed =
                sys::rd_kafka_event_log(self.0.as_ptr(), &mut facility, &mut line, &mut level);
            (failed == 0).then(|| (level, text(facility), text(line)))
        }
    }

    /// The client's figures about itself, as JSON.
    pub(super) fn statistics(&self) -> String {
        // SAFETY: the event is alive and owns the text, which is copied; null for other events.
        unsafe { text(sys::rd_kafka_event_stats(self.0.as_ptr())) }
    }

    /// The partitions of a rebalance or commit, copied out: a list that stays alive would hold
    /// the consumer open.
    pub(super) fn partitions(&self) -> Vec<Entry> {
        // SAFETY: the event owns the list, which is copied.
        unsafe { entries(sys::rd_kafka_event_topic_partition_list(self.0.as_ptr())) }
    }

    /// What [`commit`] was given.
    pub(super) fn commit_token(&self) -> u64 {
        // SAFETY: the event is alive; the pointer carries a number and is not followed.
        let token = unsafe { sys::rd_kafka_event_opaque(self.0.as_ptr()) };
        u64::try_from(token.addr()).unwrap_or_default()
    }

    /// Topic and partition of a record that came on the consumer's queue.
    pub(super) fn fetched(&self) -> Option<(String, i32)> {
        // SAFETY: the message belongs to the event; topic handle and name live as long.
        unsafe {
            let message = sys::rd_kafka_event_message_next(self.0.as_ptr()).as_ref()?;
            let topic = NonNull::new(message.rkt)?;
            Some((text(sys::rd_kafka_topic_name(topic.as_ptr())), message.partition))
        }
    }

    /// Hands out every delivery report.
    pub(super) fn each_delivery(&self, each: &mut dyn FnMut(Delivery)) {
        // SAFETY: messages belong to the event; all that is read is copied into `Delivery`.
        while let Some(message) =
            unsafe { sys::rd_kafka_event_message_next(self.0.as_ptr()).as_ref() }
        {
            // SAFETY: as above.
            let status = unsafe { sys::rd_kafka_message_status(message) };
            each(Delivery {
                token: u64::try_from(message._private.addr()).unwrap_or_default(),
                error: code(message.err),
                never_written: status
                    == sys::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED,
                offset: message.offset,
            });
        }
    }

    fn raw(&self) -> *mut sys::rd_kafka_event_t {
        self.0.as_ptr()
    }
}

/// One delivery report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) token: u64,
    pub(super) error: Option<RDKafkaErrorCode>,
    /// Whether it is certain that the record is not in the log.
    pub(super) never_written: bool,
    /// Negative where the broker did not tell.
    pub(super) offset: i64,
}

/// A record that was fetched, or an error about its partition; its bytes live in the fetch response.
/// Destroyed when dropped.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Message(NonNull<sys::rd_kafka_message_t>);

// SAFETY: plain memory with one owner.
unsafe impl Send for Message {}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: the one owner destroys it once.
        unsafe { sys::rd_kafka_message_destroy(self.0.as_ptr()) }
    }
}

impl Message {
    /// Takes ownership of a message from a batch.
    fn new(raw: NonNull<sys::rd_kafka_message_t>) -> Self {
        Self(raw)
    }

    fn get(&self) -> &sys::rd_kafka_message_t {
        // SAFETY: the message lives as long as `self`.
        unsafe { self.0.as_ref() }
    }

    /// What went wrong, where this is an error and no record.
    pub(super) fn error(&self) -> Option<RDKafkaErrorCode> {
        code(self.get().err)
    }

    /// What the client says of the error.
    pub(super) fn error_text(&self) -> String {
        // SAFETY: the text belongs to the message or is static, and is copied.
        unsafe { text(sys::rd_kafka_message_errstr(self.0.as_ptr())) }
    }

    /// The topic's name; broken bytes are replaced, since Kafka allows none.
    pub(super) fn topic(&self) -> &str {
        let Some(topic) = NonNull::new(self.get().rkt) else { return "\u{fffd}" };
        // SAFETY: the topic handle is kept by the message, and its name is NUL-terminated.
        let name = unsafe { CStr::from_ptr(sys::rd_kafka_topic_name(topic.as_ptr())) };
        name.to_str().unwrap_or("\u{fffd}")
    }

    /// A number that is the same for all records of one topic while the client lives.
    pub(super) fn topic_number(&self) -> usize {
        self.get().rkt.addr()
    }

    pub(super) fn partition(&self) -> i32 {
        self.get().partition
    }

    pub(super) fn offset(&self) -> i64 {
        self.get().offset
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        // SAFETY: the message keeps its bytes alive.
        unsafe { bytes(self.get().key, self.get().key_len) }
    }

    pub(super) fn value(&self) -> Option<&[u8]> {
        // SAFETY: the message keeps its bytes alive.
        unsafe { bytes(self.get().payload, self.get().len) }
    }

    /// Milliseconds, or a negative number that may mean "none".
    pub(super) fn timestamp(&self) -> i64 {
        // SAFETY: the message is alive; the kind of timestamp is not asked for.
        unsafe { sys::rd_kafka_message_timestamp(self.0.as_ptr(), ptr::null_mut()) }
    }

    /// The header list; an error where its bytes do not parse.
    pub(super) fn headers(&self) -> Result<Option<HeaderList<'_>>, RDKafkaErrorCode> {
        let mut list = ptr::null_mut();
        // SAFETY: the list belongs to the message and lives as long.
        let error = unsafe { sys::rd_kafka_message_headers(self.0.as_ptr(), &mut list) };
        match code(error) {
            None => Ok(NonNull::new(list).map(|list| HeaderList(list, PhantomData))),
            Some(RDKafkaErrorCode::NoEnt) => Ok(None),
            Some(error) => Err(error),
        }
    }
}

/// The headers of a record, in order, as bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderList<'a>(NonNull<sys::rd_kafka_headers_t>, PhantomData<&'a ()>);

impl<'a> HeaderList<'a> {
    /// Returns name and value of the header at `index`.
    pub(super) fn get(self, index: usize) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        // SAFETY: name and value live as long as the list; the name is NUL-terminated.
        unsafe {
            let error = sys::rd_kafka_header_get_all(
                self.0.as_ptr(),
                index,
                &mut name,
                &mut value,
                &mut size,
            );
            (error == NO_ERROR)
                .then(|| (CStr::from_ptr(name).to_bytes(), bytes(value.cast_mut(), size)))
        }
    }

    /// Returns the headers in order.
    pub(super) fn iter(self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        (0..).map_while(move |index| self.get(index))
    }
}

/// A topic as one producer knows it. Must be dropped before that producer.
#[derive(Debug)]
pub(super) struct Topic(NonNull<sys::rd_kafka_topic_t>);

// SAFETY: librdkafka's topic handles may be used from any thread.
unsafe impl Send for Topic {}

impl Topic {
    pub(super) fn new(client: &NativeClient, name: &str) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is copied; no topic config is given.
        let raw = unsafe { sys::rd_kafka_topic_new(client.ptr(), name.as_ptr(), ptr::null_mut()) };
        NonNull::new(raw).map(Self)
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: gives back the one reference this value holds.
        unsafe { sys::rd_kafka_topic_destroy(self.0.as_ptr()) }
    }
}

/// What [`produce`] sends, borrowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) partition: i32,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) timestamp: i64,
    pub(super) headers: Option<HeaderList<'a>>,
    pub(super) token: u64,
}

/// Hands a record to the producer, which copies it.
pub(super) fn produce(
    client: &NativeClient,
    topic: &Topic,
    record: Outgoing<'_>,
) -> Result<(), RDKafkaErrorCode> {
    use sys::rd_kafka_vtype_t as v;
    // SAFETY: copies the list; the copy goes to the producer below, or is destroyed.
    let headers = record.headers.map(|list| unsafe { sys::rd_kafka_headers_copy(list.0.as_ptr()) });
    let token = ptr::without_provenance_mut(usize::try_from(record.token).unwrap_or_default());
    let args = [
        argument(v::RD_KAFKA_VTYPE_RKT, sys::rd_kafka_vu_s__bindgen_ty_1 { rkt: topic.0.as_ptr() }),
        argument(v::RD_KAFKA_VTYPE_PARTITION, value_i32(record.partition)),
        argument(v::RD_KAFKA_VTYPE_MSGFLAGS, value_int(sys::RD_KAFKA_MSG_F_COPY)),
        argument(v::RD_KAFKA_VTYPE_VALUE, value_bytes(record.value)),
        argument(v::RD_KAFKA_VTYPE_KEY, value_bytes(record.key)),
        argument(v::RD_KAFKA_VTYPE_OPAQUE, sys::rd_kafka_vu_s__bindgen_ty_1 { ptr: token }),
        argument(
            v::RD_KAFKA_VTYPE_TIMESTAMP,
            sys::rd_kafka_vu_s__bindgen_ty_1 { i64_: record.timestamp },
        ),
        argument(
            v::RD_KAFKA_VTYPE_HEADERS,
            sys::rd_kafka_vu_s__bindgen_ty_1 { headers: headers.unwrap_or(ptr::null_mut()) },
        ),
    ];
    // Without headers the last argument is left out: a null list is not always taken.
    let count = if headers.is_some() { args.len() } else { args.len() - 1 };
    // SAFETY: all arguments live through the call, and key and value are copied by it. It takes
    // the header list only where it succeeds.
    unsafe {
        let error = sys::rd_kafka_produceva(client.ptr(), args.as_ptr(), count);
        let Some(error) = NonNull::new(error) else { return Ok(()) };
        let code = RDKafkaErrorCode::from(sys::rd_kafka_error_code(error.as_ptr()));
        sys::rd_kafka_error_destroy(error.as_ptr());
        if let Some(headers) = headers {
            sys::rd_kafka_headers_destroy(headers);
        }
        Err(code)
    }
}

fn argument(
    vtype: sys::rd_kafka_vtype_t,
    u: sys::rd_kafka_vu_s__bindgen_ty_1,
) -> sys::rd_kafka_vu_t {
    sys::rd_kafka_vu_t { vtype, u }
}

fn value_i32(number: i32) -> sys::rd_kafka_vu_s__bindgen_ty_1 {
    sys::rd_kafka_vu_s__bindgen_ty_1 { i32_: number }
}

fn value_int(number: c_int) -> sys::rd_kafka_vu_s__bindgen_ty_1 {
    sys::rd_kafka_vu_s__bindgen_ty_1 { i: number }
}

/// Null stays null: an empty slice has a pointer that is not null.
fn value_bytes(bytes: Option<&[u8]>) -> sys::rd_kafka_vu_s__bindgen_ty_1 {
    let (pointer, size) = bytes.map_or((ptr::null(), 0), |bytes| (bytes.as_ptr(), bytes.len()));
    sys::rd_kafka_vu_s__bindgen_ty_1 {
        mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 {
            ptr: pointer.cast_mut().cast(),
            size,
        },
    }
}

/// Asks for delivery reports and errors as events.
pub(super) fn enable_producer_events(config: &NativeClientConfig) {
    // SAFETY: the config is alive and not yet used.
    unsafe {
        sys::rd_kafka_conf_set_events(
            config.ptr(),
            sys::RD_KAFKA_EVENT_DR | sys::RD_KAFKA_EVENT_ERROR,
        );
    }
}

/// Fails every record the producer holds. What was already given to the network may still arrive.
pub(super) fn purge(client: &NativeClient) {
    // SAFETY: the client is alive; can only fail for consumers.
    let _result: sys::rd_kafka_resp_err_t = unsafe {
        sys::rd_kafka_purge(
            client.ptr(),
            sys::RD_KAFKA_PURGE_F_QUEUE | sys::RD_KAFKA_PURGE_F_INFLIGHT,
        )
    };
}

/// How often requests were sent whose copy does harm when it arrives in a later transaction.
#[derive(Debug, Default)]
pub(super) struct Requests {
    ends: AtomicU64,
    offsets: AtomicU64,
}

impl Requests {
    const END_TXN: i16 = 26;
    const TXN_OFFSET_COMMIT: i16 = 28;

    /// Returns how many were sent so far: ends of transactions, and offsets.
    pub(super) fn sent(&self) -> (u64, u64) {
        (self.ends.load(Ordering::Acquire), self.offsets.load(Ordering::Acquire))
    }
}

/// Has the client count its requests. They must live as long as the client: its context keeps
/// them.
pub(super) fn count_requests(config: &NativeClientConfig, requests: &Arc<Requests>) {
    let counts = Arc::as_ptr(requests).cast_mut().cast();
    // SAFETY: the config is alive and not yet used; the counts outlive the client.
    let _result: sys::rd_kafka_resp_err_t = unsafe {
        sys::rd_kafka_conf_interceptor_add_on_new(config.ptr(), COUNTER, Some(on_new), counts)
    };
}

const COUNTER: *const c_char = c"firstseen".as_ptr();

unsafe extern "C" fn on_new(
    client: *mut sys::rd_kafka_t,
    _config: *const sys::rd_kafka_conf_t,
    counts: *mut c_void,
    _text: *mut c_char,
    _size: usize,
) -> sys::rd_kafka_resp_err_t {
    // SAFETY: called by the client while it is made, the only time when this may be asked for.
    unsafe { sys::rd_kafka_interceptor_add_on_request_sent(client, COUNTER, Some(on_sent), counts) }
}

unsafe extern "C" fn on_sent(
    _client: *mut sys::rd_kafka_t,
    _socket: c_int,
    _broker: *const c_char,
    _broker_id: i32,
    api: i16,
    _version: i16,
    _correlation: i32,
    _size: usize,
    counts: *mut c_void,
) -> sys::rd_kafka_resp_err_t {
    // SAFETY: what `count_requests` was given.
    let counts = unsafe { &*counts.cast::<Requests>() };
    match api {
        Requests::END_TXN => counts.ends.fetch_add(1, Ordering::AcqRel),
        Requests::TXN_OFFSET_COMMIT => counts.offsets.fetch_add(1, Ordering::AcqRel),
        _ => 0,
    };
    NO_ERROR
}

/// What a transactional call says when it fails.
#[derive(Clone, Debug)]
pub(super) struct TransactionError {
    pub(super) code: RDKafkaErrorCode,
    pub(super) text: String,
    /// The same call may be made again, and goes on where it stopped.
    pub(super) retriable: bool,
}

/// Takes an error that is ours to destroy; null is none.
fn outcome(error: *mut sys::rd_kafka_error_t) -> Result<(), TransactionError> {
    let Some(error) = NonNull::new(error) else { return Ok(()) };
    // SAFETY: the error is ours: read, then destroyed once.
    let error = unsafe {
        let raw = error.as_ptr();
        let read = TransactionError {
            code: sys::rd_kafka_error_code(raw).into(),
            text: text(sys::rd_kafka_error_string(raw)),
            retriable: sys::rd_kafka_error_is_retriable(raw) != 0,
        };
        sys::rd_kafka_error_destroy(raw);
        read
    };
    Err(error)
}

/// Gets the producer's id from the coordinator, which ends whatever an earlier one left open.
pub(super) fn init_transactions(
    client: &NativeClient,
    timeout: Duration,
) -> Result<(), TransactionError> {
    // SAFETY: the client is alive.
    outcome(unsafe { sys::rd_kafka_init_transactions(client.ptr(), millis(timeout)) })
}

/// Begins a transaction; asks no broker.
pub(super) fn begin_transaction(client: &NativeClient) -> Result<(), TransactionError> {
    // SAFETY: the client is alive.
    outcome(unsafe { sys::rd_kafka_begin_transaction(client.ptr()) })
}

/// Adds offsets to the transaction, as this member of the group.
pub(super) fn send_offsets(
    client: &NativeClient,
    offsets: &TopicPartitionList,
    member: &Member,
    timeout: Duration,
) -> Result<(), TransactionError> {
    // SAFETY: client, list and member live through the call, which copies what it keeps.
    outcome(unsafe {
        sys::rd_kafka_send_offsets_to_transaction(
            client.ptr(),
            offsets.ptr(),
            member.0.as_ptr(),
            millis(timeout),
        )
    })
}

/// Commits the transaction and waits for the answer.
pub(super) fn commit_transaction(
    client: &NativeClient,
    timeout: Duration,
) -> Result<(), TransactionError> {
    // SAFETY: the client is alive.
    outcome(unsafe { sys::rd_kafka_commit_transaction(client.ptr(), millis(timeout)) })
}

/// Aborts the transaction and waits for the answer.
pub(super) fn abort_transaction(
    client: &NativeClient,
    timeout: Duration,
) -> Result<(), TransactionError> {
    // SAFETY: the client is alive.
    outcome(unsafe { sys::rd_kafka_abort_transaction(client.ptr(), millis(timeout)) })
}

/// Sends what waits for more to come, and waits until all of it is reported and the reports are
/// taken. Takes no report itself: those are events.
pub(super) fn flush(client: &NativeClient, timeout: Duration) {
    // SAFETY: the client is alive. Running out of time is no failure: reports tell the outcome.
    let _result: sys::rd_kafka_resp_err_t =
        unsafe { sys::rd_kafka_flush(client.ptr(), millis(timeout)) };
}

/// Who we are in a consumer group, at one moment.
#[derive(Debug)]
pub(super) struct Member(NonNull<sys::rd_kafka_consumer_group_metadata_t>);

// SAFETY: plain memory with one owner.
unsafe impl Send for Member {}

impl Member {
    /// The membership of a consumer; `None` where it has no group.
    pub(super) fn of(consumer: &NativeClient) -> Option<Self> {
        // SAFETY: the client is alive; the copy is ours.
        NonNull::new(unsafe { sys::rd_kafka_consumer_group_metadata(consumer.ptr()) }).map(Self)
    }

    /// Somebody who is no member of `group`.
    pub(super) fn outside(group: &str) -> Option<Self> {
        let group = CString::new(group).ok()?;
        // SAFETY: the name is copied.
        NonNull::new(unsafe { sys::rd_kafka_consumer_group_metadata_new(group.as_ptr()) }).map(Self)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // SAFETY: the one owner destroys it once.
        unsafe { sys::rd_kafka_consumer_group_metadata_destroy(self.0.as_ptr()) }
    }
}

/// Returns how many records, reports and other events the producer holds.
#[cfg(test)]
pub(super) fn in_flight(client: &NativeClient) -> usize {
    // SAFETY: the client is alive.
    usize::try_from(unsafe { sys::rd_kafka_outq_len(client.ptr()) }).unwrap_or_default()
}

/// Starts a commit whose outcome goes to `queue` with `token`.
pub(super) fn commit(
    client: &NativeClient,
    offsets: &TopicPartitionList,
    queue: &Queue,
    token: u64,
) -> Result<(), RDKafkaErrorCode> {
    let token = ptr::without_provenance_mut(usize::try_from(token).unwrap_or_default());
    // SAFETY: the list is copied; without a callback the outcome is an event on the queue.
    let error = unsafe {
        sys::rd_kafka_commit_queue(client.ptr(), offsets.ptr(), queue.0.as_ptr(), None, token)
    };
    code(error).map_or(Ok(()), Err)
}

/// Returns low and high watermark as of the last fetch, without asking the broker.
pub(super) fn cached_watermarks(
    client: &NativeClient,
    topic: &str,
    partition: i32,
) -> Option<(i64, i64)> {
    let topic = CString::new(topic).ok()?;
    let (mut low, mut high) = (-1, -1);
    // SAFETY: the name is read during the call only.
    let error = unsafe {
        sys::rd_kafka_get_watermark_offsets(
            client.ptr(),
            topic.as_ptr(),
            partition,
            &mut low,
            &mut high,
        )
    };
    (error == NO_ERROR && low >= 0 && high >= 0).then_some((low, high))
}

/// Returns the position after the last record or marker that was taken; `None` before the first.
pub(super) fn position(client: &NativeClient, one: &TopicPartitionList) -> Option<i64> {
    // SAFETY: client and list are alive; the list's offsets are filled in.
    let error = unsafe { sys::rd_kafka_position(client.ptr(), one.ptr()) };
    let at = list_entries(one).first()?.offset;
    (error == NO_ERROR && at >= 0).then_some(at)
}

/// One partition of a list.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) metadata: Vec<u8>,
    pub(super) error: Option<RDKafkaErrorCode>,
}

/// Copies a list, with metadata as bytes: another program may have written any.
pub(super) fn list_entries(list: &TopicPartitionList) -> Vec<Entry> {
    // SAFETY: the list is alive.
    unsafe { entries(list.ptr()) }
}

unsafe fn entries(list: *mut sys::rd_kafka_topic_partition_list_t) -> Vec<Entry> {
    // SAFETY: the caller gives null or a living list, which holds `cnt` entries.
    unsafe {
        let Some(list) = list.as_ref() else { return Vec::new() };
        let count = usize::try_from(list.cnt).unwrap_or_default();
        if count == 0 {
            return Vec::new();
        }
        slice::from_raw_parts(list.elems, count).iter().map(|e| entry(e)).collect()
    }
}

unsafe fn entry(e: &sys::rd_kafka_topic_partition_t) -> Entry {
    // SAFETY: the caller gives an element of a living list, which owns its texts; all is copied.
    unsafe {
        Entry {
            topic: text(e.topic),
            partition: e.partition,
            offset: e.offset,
            metadata: bytes(e.metadata, e.metadata_size).unwrap_or_default().to_vec(),
            error: code(e.err),
        }
    }
}

/// Returns the id of the broker that answers administrative questions, as far as the client knows.
pub(super) fn controller(client: &NativeClient) -> i32 {
    // SAFETY: the client lives; without time to wait this only reads what is cached.
    unsafe { sys::rd_kafka_controllerid(client.ptr(), 0) }
}

fn code(error: sys::rd_kafka_resp_err_t) -> Option<RDKafkaErrorCode> {
    (error != NO_ERROR).then(|| error.into())
}

fn millis(timeout: Duration) -> c_int {
    c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX)
}

unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the caller gives a NUL-terminated text that lives through this call.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

unsafe fn bytes<'a>(pointer: *mut c_void, size: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller gives null, or `size` bytes that live for 'a.
    (!pointer.is_null())
        .then(|| unsafe { slice::from_raw_parts(pointer.cast_const().cast(), size) })
}

/// A header list of one's own, to write records that no safe interface can.
#[cfg(test)]
pub(super) struct OwnHeaders(NonNull<sys::rd_kafka_headers_t>);

#[cfg(test)]
impl OwnHeaders {
    pub(super) fn new(headers: &[(&[u8], Option<&[u8]>)]) -> Self {
        // SAFETY: the list is ours; names and values are copied into it.
        unsafe {
            let list = NonNull::new(sys::rd_kafka_headers_new(headers.len())).unwrap();
            for (name, value) in headers {
                let (pointer, size) = value.map_or((ptr::null(), 0), |v| (v.as_ptr(), v.len()));
                let error = sys::rd_kafka_header_add(
                    list.as_ptr(),
                    name.as_ptr().cast(),
                    isize::try_from(name.len()).unwrap(),
                    pointer.cast(),
                    isize::try_from(size).unwrap(),
                );
                assert_eq!(error, NO_ERROR);
            }
            Self(list)
        }
    }

    pub(super) fn list(&self) -> HeaderList<'_> {
        HeaderList(self.0, PhantomData)
    }
}

#[cfg(test)]
impl Drop for OwnHeaders {
    fn drop(&mut self) {
        // SAFETY: the one owner destroys it once.
        unsafe { sys::rd_kafka_headers_destroy(self.0.as_ptr()) }
    }
}
