//! Everything that talks to librdkafka behind the safe crate's back, and all the unsafe code.
//!
//! The safe crate loses what this program needs: the partition and offset of a consumer error, the
//! names of headers that are not UTF-8, whether a failed record may have been written, commit
//! metadata from others. So events are taken from librdkafka's queues here and read in full.
//! Nothing in here decides anything.

#![expect(unsafe_code, reason = "librdkafka's C interface; each block gives its reason")]

mod batch;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;
use std::time::Duration;

use rdkafka::client::NativeClient;
use rdkafka::config::NativeClientConfig;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_sys as sys;

use sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR as NO_ERROR;

pub(super) use batch::{Batch, Stream};

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

    /// The record of a fetch.
    pub(super) fn into_message(self) -> Option<Message> {
        // SAFETY: the message belongs to the event and lives as long as it.
        let raw = unsafe { sys::rd_kafka_event_message_next(self.0.as_ptr()) };
        NonNull::new(raw.cast_mut()).map(|raw| Message { raw, _event: self })
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

/// A record that was fetched; its bytes live in the fetch response.
#[derive(Debug)]
pub(super) struct Message {
    raw: NonNull<sys::rd_kafka_message_t>,
    _event: Event,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Message {}

impl Message {
    fn get(&self) -> &sys::rd_kafka_message_t {
        // SAFETY: the event in `self` keeps the message alive.
        unsafe { self.raw.as_ref() }
    }

    /// The topic's name; broken bytes are replaced, since Kafka allows none.
    pub(super) fn topic(&self) -> &str {
        // SAFETY: the topic handle is kept by the message, and its name is NUL-terminated.
        let name = unsafe { CStr::from_ptr(sys::rd_kafka_topic_name(self.get().rkt)) };
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
        unsafe { sys::rd_kafka_message_timestamp(self.raw.as_ptr(), ptr::null_mut()) }
    }

    /// The header list; an error where its bytes do not parse.
    pub(super) fn headers(&self) -> Result<Option<HeaderList<'_>>, RDKafkaErrorCode> {
        let mut list = ptr::null_mut();
        // SAFETY: the list belongs to the message and lives as long.
        let error = unsafe { sys::rd_kafka_message_headers(self.raw.as_ptr(), &mut list) };
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
        let one = |e: &sys::rd_kafka_topic_partition_t| Entry {
            topic: text(e.topic),
            partition: e.partition,
            offset: e.offset,
            metadata: bytes(e.metadata, e.metadata_size).unwrap_or_default().to_vec(),
            error: code(e.err),
        };
        slice::from_raw_parts(list.elems, count).iter().map(one).collect()
    }
}

/// Returns the id of the broker that answers administrative questions, as far as the client knows.
pub(super) fn controller(client: &NativeClient) -> i32 {
    // SAFETY: the client lives; without time to wait this only reads what is cached.
    unsafe { sys::rd_kafka_controllerid(client.ptr(), 0) }
}

/// Asks for a topic's id; `None` where the broker has none.
pub(super) fn describe_topic(
    client: &NativeClient,
    topic: &str,
    timeout: Duration,
) -> Option<(i64, i64)> {
    let answers = Queue::new(client)?;
    let topic = CString::new(topic).ok()?;
    let options =
        Options::new(client, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, timeout)?;
    // SAFETY: the request copies names and options; the answer and all in it live until the
    // event is dropped at the end.
    unsafe {
        let mut names = [topic.as_ptr()];
        let names = sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), 1);
        sys::rd_kafka_DescribeTopics(client.ptr(), names, options.0.as_ptr(), answers.0.as_ptr());
        sys::rd_kafka_TopicCollection_destroy(names);
        let event = answers.poll(timeout + GRACE)?;
        let result = sys::rd_kafka_event_DescribeTopics_result(event.raw());
        if event.error().is_some() || result.is_null() {
            return None;
        }
        let mut count = 0;
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        let first = *slice::from_raw_parts(NonNull::new(topics)?.as_ptr(), count).first()?;
        let id = NonNull::new(sys::rd_kafka_TopicDescription_topic_id(first).cast_mut())?;
        Some((
            sys::rd_kafka_Uuid_most_significant_bits(id.as_ptr()),
            sys::rd_kafka_Uuid_least_significant_bits(id.as_ptr()),
        ))
        .filter(|id| *id != (0, 0))
    }
}

/// Asks for a topic's settings; empty where the broker does not tell.
pub(super) fn describe_config(
    client: &NativeClient,
    topic: &str,
    timeout: Duration,
) -> Option<Vec<(String, String)>> {
    let answers = Queue::new(client)?;
    let topic = CString::new(topic).ok()?;
    let options =
        Options::new(client, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeout)?;
    // SAFETY: as in `describe_topic`.
    unsafe {
        let resource = sys::rd_kafka_ConfigResource_new(
            sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC,
            topic.as_ptr(),
        );
        let mut asked = [NonNull::new(resource)?.as_ptr()];
        sys::rd_kafka_DescribeConfigs(
            client.ptr(),
            asked.as_mut_ptr(),
            1,
            options.0.as_ptr(),
            answers.0.as_ptr(),
        );
        sys::rd_kafka_ConfigResource_destroy(resource);
        let event = answers.poll(timeout + GRACE)?;
        let result = sys::rd_kafka_event_DescribeConfigs_result(event.raw());
        if event.error().is_some() || result.is_null() {
            return None;
        }
        let mut count = 0;
        let resources = sys::rd_kafka_DescribeConfigs_result_resources(result, &mut count);
        let first = *slice::from_raw_parts(NonNull::new(resources)?.as_ptr(), count).first()?;
        if code(sys::rd_kafka_ConfigResource_error(first)).is_some() {
            return None;
        }
        let mut count = 0;
        let Some(found) = NonNull::new(sys::rd_kafka_ConfigResource_configs(first, &mut count))
        else {
            return Some(Vec::new());
        };
        let pair = |entry: &*const sys::rd_kafka_ConfigEntry_t| {
            let value = sys::rd_kafka_ConfigEntry_value(*entry);
            (!value.is_null()).then(|| (text(sys::rd_kafka_ConfigEntry_name(*entry)), text(value)))
        };
        Some(slice::from_raw_parts(found.as_ptr(), count).iter().filter_map(pair).collect())
    }
}

/// How much longer to wait for an answer than the request itself may take.
const GRACE: Duration = Duration::from_secs(1);

struct Options(NonNull<sys::rd_kafka_AdminOptions_t>);

impl Options {
    fn new(
        client: &NativeClient,
        operation: sys::rd_kafka_admin_op_t,
        timeout: Duration,
    ) -> Option<Self> {
        // SAFETY: the options are ours; a failure to set the timeout leaves the default.
        unsafe {
            let raw = NonNull::new(sys::rd_kafka_AdminOptions_new(client.ptr(), operation))?;
            let _result: sys::rd_kafka_resp_err_t = sys::rd_kafka_AdminOptions_set_request_timeout(
                raw.as_ptr(),
                millis(timeout),
                ptr::null_mut(),
                0,
            );
            Some(Self(raw))
        }
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: the one owner destroys it once.
        unsafe { sys::rd_kafka_AdminOptions_destroy(self.0.as_ptr()) }
    }
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
