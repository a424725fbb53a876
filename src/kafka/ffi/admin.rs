//! Administrative questions: each sends one request and waits for its one answer.
//!
//! All of them only ask. `Operations` are what the broker says this user may do: an empty list
//! means nothing, `None` that the broker does not tell.

use std::ffi::{CString, c_char, c_int};
use std::ptr::NonNull;
use std::slice;
use std::time::Duration;

use rdkafka::client::NativeClient;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_sys as sys;

use sys::rd_kafka_admin_op_t as Request;

use super::{Entry, Queue, code, millis, text};
use crate::kafka::error::Cause;
use crate::kafka::survey::{Member, Operation, PartitionFacts};

/// What a topic looks like to this user.
pub(in crate::kafka) struct Topic {
    /// The two halves of its id, where it has one.
    pub(in crate::kafka) id: Option<(i64, i64)>,
    pub(in crate::kafka) partitions: Vec<PartitionFacts>,
    pub(in crate::kafka) operations: Option<Vec<Operation>>,
}

/// What a consumer group looks like to this user.
pub(in crate::kafka) struct Group {
    pub(in crate::kafka) assignor: String,
    pub(in crate::kafka) members: Vec<Member>,
    pub(in crate::kafka) operations: Option<Vec<Operation>>,
}

/// Whose settings are asked for.
#[derive(Clone, Copy)]
pub(in crate::kafka) enum Resource<'a> {
    Topic(&'a str),
    Broker(i32),
}

/// One offset that was asked for, with the timestamp of its record; -1 where there is none.
pub(in crate::kafka) struct Listed {
    pub(in crate::kafka) entry: Entry,
    pub(in crate::kafka) timestamp: i64,
}

/// Describes a topic and what this user may do with it.
pub(in crate::kafka) fn describe_topic(
    client: &NativeClient,
    topic: &str,
    timeout: Duration,
) -> Result<Topic, Cause> {
    let topic = c_string(topic)?;
    let options = Options::new(client, Request::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, timeout)?;
    options.with_operations();
    let send = |answers: &Queue| {
        let mut names = [topic.as_ptr()];
        // SAFETY: the request copies names and options.
        unsafe {
            let names = sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), 1);
            let (options, answers) = (options.0.as_ptr(), answers.0.as_ptr());
            sys::rd_kafka_DescribeTopics(client.ptr(), names, options, answers);
            sys::rd_kafka_TopicCollection_destroy(names);
        }
    };
    ask(client, timeout, send, |event| {
        // SAFETY: the answer and all in it live as long as the event, and all is copied.
        unsafe {
            let result = NonNull::new(sys::rd_kafka_event_DescribeTopics_result(event).cast_mut());
            let result = result.ok_or_else(no_answer)?.as_ptr();
            let mut count = 0;
            let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
            let found = *array(topics, count).first().ok_or_else(no_answer)?;
            let mut count = 0;
            let partitions = sys::rd_kafka_TopicDescription_partitions(found, &mut count);
            let partitions: Vec<_> =
                array(partitions, count).iter().map(|one| partition(*one)).collect();
            // A leader may be missing for a moment; what is known is known all the same.
            if partitions.is_empty() {
                refused(sys::rd_kafka_TopicDescription_error(found))?;
            }
            let mut count = 0;
            let may = sys::rd_kafka_TopicDescription_authorized_operations(found, &mut count);
            Ok(Topic { id: topic_id(found), partitions, operations: operations(may, count) })
        }
    })
}

unsafe fn topic_id(topic: *const sys::rd_kafka_TopicDescription_t) -> Option<(i64, i64)> {
    // SAFETY: the caller gives a living description, which owns the id.
    unsafe {
        let id = NonNull::new(sys::rd_kafka_TopicDescription_topic_id(topic).cast_mut())?;
        Some((
            sys::rd_kafka_Uuid_most_significant_bits(id.as_ptr()),
            sys::rd_kafka_Uuid_least_significant_bits(id.as_ptr()),
        ))
        .filter(|id| *id != (0, 0))
    }
}

unsafe fn partition(found: *const sys::rd_kafka_TopicPartitionInfo_t) -> PartitionFacts {
    let (mut replicas, mut in_sync) = (0, 0);
    // SAFETY: the caller gives a living description; only counts are taken.
    unsafe {
        let _list = sys::rd_kafka_TopicPartitionInfo_replicas(found, &mut replicas);
        let _list = sys::rd_kafka_TopicPartitionInfo_isr(found, &mut in_sync);
        let leader = sys::rd_kafka_TopicPartitionInfo_leader(found);
        PartitionFacts {
            partition: sys::rd_kafka_TopicPartitionInfo_partition(found),
            leader: (!leader.is_null()).then(|| sys::rd_kafka_Node_id(leader)),
            replicas,
            in_sync,
        }
    }
}

/// Asks for the settings of a topic or broker.
pub(in crate::kafka) fn describe_config(
    client: &NativeClient,
    resource: Resource<'_>,
    timeout: Duration,
) -> Result<Vec<(String, String)>, Cause> {
    let (kind, name) = match resource {
        Resource::Topic(name) => {
            (sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC, name.to_owned())
        }
        Resource::Broker(id) => {
            (sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_BROKER, id.to_string())
        }
    };
    let name = c_string(&name)?;
    let options = Options::new(client, Request::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeout)?;
    let send = |answers: &Queue| {
        // SAFETY: the request copies the resource and the options.
        unsafe {
            let resource = sys::rd_kafka_ConfigResource_new(kind, name.as_ptr());
            let mut asked = [resource];
            let (options, answers) = (options.0.as_ptr(), answers.0.as_ptr());
            sys::rd_kafka_DescribeConfigs(client.ptr(), asked.as_mut_ptr(), 1, options, answers);
            sys::rd_kafka_ConfigResource_destroy(resource);
        }
    };
    ask(client, timeout, send, |event| {
        // SAFETY: the answer and all in it live as long as the event, and all is copied.
        unsafe {
            let result = NonNull::new(sys::rd_kafka_event_DescribeConfigs_result(event).cast_mut());
            let result = result.ok_or_else(no_answer)?.as_ptr();
            let mut count = 0;
            let found = sys::rd_kafka_DescribeConfigs_result_resources(result, &mut count);
            let found = *array(found, count).first().ok_or_else(no_answer)?;
            if let Some(code) = code(sys::rd_kafka_ConfigResource_error(found)) {
                return Err(Cause::new(
                    code,
                    text(sys::rd_kafka_ConfigResource_error_string(found)),
                ));
            }
            let mut count = 0;
            let entries = sys::rd_kafka_ConfigResource_configs(found, &mut count);
            let pair = |entry: &*const sys::rd_kafka_ConfigEntry_t| {
                let value = sys::rd_kafka_ConfigEntry_value(*entry);
                let name = sys::rd_kafka_ConfigEntry_name(*entry);
                (!value.is_null()).then(|| (text(name), text(value)))
            };
            Ok(array(entries, count).iter().filter_map(pair).collect())
        }
    })
}

/// Describes a consumer group; one that nobody ever used has no members.
pub(in crate::kafka) fn describe_group(
    client: &NativeClient,
    group: &str,
    timeout: Duration,
) -> Result<Group, Cause> {
    let group = c_string(group)?;
    let options = Options::new(client, Request::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS, timeout)?;
    options.with_operations();
    let send = |answers: &Queue| {
        let mut names: [*const c_char; 1] = [group.as_ptr()];
        let (options, answers) = (options.0.as_ptr(), answers.0.as_ptr());
        // SAFETY: the request copies the name and the options.
        unsafe {
            let names = names.as_mut_ptr();
            sys::rd_kafka_DescribeConsumerGroups(client.ptr(), names, 1, options, answers);
        }
    };
    ask(client, timeout, send, |event| {
        // SAFETY: the answer and all in it live as long as the event, and all is copied.
        unsafe {
            let result = sys::rd_kafka_event_DescribeConsumerGroups_result(event);
            let result = NonNull::new(result.cast_mut()).ok_or_else(no_answer)?.as_ptr();
            let mut count = 0;
            let groups = sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &mut count);
            let found = *array(groups, count).first().ok_or_else(no_answer)?;
            refused(sys::rd_kafka_ConsumerGroupDescription_error(found))?;
            let members = sys::rd_kafka_ConsumerGroupDescription_member_count(found);
            let mut count = 0;
            let may =
                sys::rd_kafka_ConsumerGroupDescription_authorized_operations(found, &mut count);
            Ok(Group {
                assignor: text(sys::rd_kafka_ConsumerGroupDescription_partition_assignor(found)),
                members: (0..members)
                    .map(|n| member(sys::rd_kafka_ConsumerGroupDescription_member(found, n)))
                    .collect(),
                operations: operations(may, count),
            })
        }
    })
}

unsafe fn member(found: *const sys::rd_kafka_MemberDescription_t) -> Member {
    // SAFETY: the caller gives a living description; texts are copied.
    unsafe {
        let instance = text(sys::rd_kafka_MemberDescription_group_instance_id(found));
        Member {
            client_id: text(sys::rd_kafka_MemberDescription_client_id(found)),
            instance_id: (!instance.is_empty()).then_some(instance),
            host: text(sys::rd_kafka_MemberDescription_host(found)),
        }
    }
}

/// Asks for an offset of each partition: of the first record at or after the time `at`, or what a
/// special number stands for. With `committed` the end of a partition is its last stable offset.
pub(in crate::kafka) fn list_offsets(
    client: &NativeClient,
    topic: &str,
    partitions: &[i32],
    at: i64,
    committed: bool,
    timeout: Duration,
) -> Result<Vec<Listed>, Cause> {
    use sys::rd_kafka_IsolationLevel_t as level;
    let options = Options::new(client, Request::RD_KAFKA_ADMIN_OP_LISTOFFSETS, timeout)?;
    let isolation = if committed {
        level::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED
    } else {
        level::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED
    };
    // SAFETY: the options are ours; the error is taken and destroyed.
    unsafe {
        refused_owned(sys::rd_kafka_AdminOptions_set_isolation_level(
            options.0.as_ptr(),
            isolation,
        ))?;
    }
    let topic = c_string(topic)?;
    let send = |answers: &Queue| {
        let room = c_int::try_from(partitions.len()).unwrap_or(c_int::MAX);
        // SAFETY: the list is ours, and so are its elements while we set them; the request copies
        // it and the options. The safe crate refuses the special numbers.
        unsafe {
            let wanted = sys::rd_kafka_topic_partition_list_new(room);
            for partition in partitions {
                let one =
                    sys::rd_kafka_topic_partition_list_add(wanted, topic.as_ptr(), *partition);
                (*one).offset = at;
            }
            let (options, answers) = (options.0.as_ptr(), answers.0.as_ptr());
            sys::rd_kafka_ListOffsets(client.ptr(), wanted, options, answers);
            sys::rd_kafka_topic_partition_list_destroy(wanted);
        }
    };
    ask(client, timeout, send, |event| {
        // SAFETY: the answer and all in it live as long as the event, and all is copied.
        unsafe {
            let result = NonNull::new(sys::rd_kafka_event_ListOffsets_result(event).cast_mut());
            let result = result.ok_or_else(no_answer)?.as_ptr();
            let mut count = 0;
            let infos = sys::rd_kafka_ListOffsets_result_infos(result, &mut count);
            let one = |info: &*const sys::rd_kafka_ListOffsetsResultInfo_t| {
                let place = sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*info);
                Some(Listed {
                    entry: super::entry(place.as_ref()?),
                    timestamp: sys::rd_kafka_ListOffsetsResultInfo_timestamp(*info),
                })
            };
            Ok(array(infos, count).iter().filter_map(one).collect())
        }
    })
}

/// Sends a request and reads its answer, which dies with its event.
fn ask<T>(
    client: &NativeClient,
    timeout: Duration,
    send: impl FnOnce(&Queue),
    read: impl FnOnce(*mut sys::rd_kafka_event_t) -> Result<T, Cause>,
) -> Result<T, Cause> {
    /// How much longer to wait for an answer than the request itself may take.
    const GRACE: Duration = Duration::from_secs(1);
    let answers = Queue::new(client).ok_or_else(|| Cause::text("no queue"))?;
    send(&answers);
    let event = answers
        .poll(timeout + GRACE)
        .ok_or_else(|| Cause::of(RDKafkaErrorCode::OperationTimedOut))?;
    match event.error() {
        Some(code) => Err(Cause::new(code, event.error_text())),
        None => read(event.raw()),
    }
}

fn no_answer() -> Cause {
    Cause::text("the broker's answer is empty")
}

fn c_string(text: &str) -> Result<CString, Cause> {
    CString::new(text).map_err(|error| Cause::text(error.to_string()))
}

unsafe fn array<'a, T>(pointer: *mut T, count: usize) -> &'a [T] {
    // SAFETY: the caller gives null, or `count` elements that outlive the use of the slice.
    NonNull::new(pointer).map_or(&[], |p| unsafe { slice::from_raw_parts(p.as_ptr(), count) })
}

unsafe fn operations(
    pointer: *const sys::rd_kafka_AclOperation_t,
    count: usize,
) -> Option<Vec<Operation>> {
    use sys::rd_kafka_AclOperation_t as op;
    let named = |found: &op| match found {
        op::RD_KAFKA_ACL_OPERATION_READ => Some(Operation::Read),
        op::RD_KAFKA_ACL_OPERATION_WRITE => Some(Operation::Write),
        op::RD_KAFKA_ACL_OPERATION_DESCRIBE => Some(Operation::Describe),
        op::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS => Some(Operation::DescribeConfigs),
        _ => None,
    };
    // SAFETY: the caller gives null, or `count` elements; null means that nothing was told.
    let found = NonNull::new(pointer.cast_mut())?;
    let found = unsafe { slice::from_raw_parts(found.as_ptr(), count) };
    Some(found.iter().filter_map(named).collect())
}

unsafe fn refused(error: *const sys::rd_kafka_error_t) -> Result<(), Cause> {
    // SAFETY: the caller gives null or a living error; null has no code.
    match unsafe { error.as_ref() } {
        None => Ok(()),
        // SAFETY: as above.
        Some(error) => match code(unsafe { sys::rd_kafka_error_code(error) }) {
            None => Ok(()),
            // SAFETY: as above; the text is copied.
            Some(code) => Err(Cause::new(code, unsafe { text(sys::rd_kafka_error_string(error)) })),
        },
    }
}

unsafe fn refused_owned(error: *mut sys::rd_kafka_error_t) -> Result<(), Cause> {
    // SAFETY: the caller gives null or an error that is ours to destroy.
    unsafe {
        let told = refused(error);
        if !error.is_null() {
            sys::rd_kafka_error_destroy(error);
        }
        told
    }
}

struct Options(NonNull<sys::rd_kafka_AdminOptions_t>);

impl Options {
    fn new(client: &NativeClient, operation: Request, timeout: Duration) -> Result<Self, Cause> {
        // SAFETY: the options are ours; a failure to set the timeout leaves the default.
        unsafe {
            let raw = NonNull::new(sys::rd_kafka_AdminOptions_new(client.ptr(), operation))
                .ok_or_else(|| Cause::text("no options"))?;
            let _result: sys::rd_kafka_resp_err_t = sys::rd_kafka_AdminOptions_set_request_timeout(
                raw.as_ptr(),
                timeout_ms(timeout),
                std::ptr::null_mut(),
                0,
            );
            Ok(Self(raw))
        }
    }

    /// Asks for what this user may do besides. Where the client cannot, nothing is told.
    fn with_operations(&self) {
        // SAFETY: the options are ours; the error is destroyed.
        unsafe {
            let asked =
                sys::rd_kafka_AdminOptions_set_include_authorized_operations(self.0.as_ptr(), 1);
            if refused_owned(asked).is_err() {
                tracing::debug!(target: "firstseen::kafka", "the client cannot ask for rights");
            }
        }
    }
}

/// The client takes no request timeout above an hour or of zero.
fn timeout_ms(timeout: Duration) -> c_int {
    millis(timeout).clamp(1, 3_600_000)
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: the one owner destroys it once.
        unsafe { sys::rd_kafka_AdminOptions_destroy(self.0.as_ptr()) }
    }
}
