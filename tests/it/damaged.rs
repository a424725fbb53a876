//! Source records that no client can read: a flipped bit on the broker's disk, a codec that does
//! not exist. What lies before them is forwarded and committed, and nothing is skipped.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use crate::support::broker::Broker;
use crate::support::needs_broker;
use crate::support::records::Plan;
use crate::support::sink::Sink;
use crate::support::stage::Stage;

/// Bad news must not keep anybody waiting.
const SAID_WITHIN: Duration = Duration::from_secs(30);

/// The offset of the first record in the batch that is damaged.
const DAMAGED: i64 = 50;

/// Where a batch's checksum is, and its attributes, behind which all is covered by it.
const CHECKSUM: Range<usize> = 17..21;
const ATTRIBUTES: Range<usize> = 21..23;

/// Finds the batch that starts at `offset` in a log segment.
fn batch(segment: &[u8], offset: i64) -> Range<usize> {
    let mut at = 0;
    loop {
        let number = |range: Range<usize>| &segment[at + range.start..at + range.end];
        let base = i64::from_be_bytes(number(0..8).try_into().expect("8 bytes"));
        let length = u32::from_be_bytes(number(8..12).try_into().expect("4 bytes"));
        let end = at + 12 + usize::try_from(length).expect("it is in memory");
        if base == offset {
            return at..end;
        }
        at = end;
    }
}

/// CRC-32C, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg())
        })
    })
}

/// Changes a byte of the last record.
fn flip_a_bit(batch: &mut [u8]) {
    *batch.last_mut().expect("it is not empty") ^= 1;
}

/// Names a codec that nobody has, under a checksum that is right.
fn name_an_unknown_codec(batch: &mut [u8]) {
    batch[ATTRIBUTES][1] |= 7;
    let sum = checksum(&batch[ATTRIBUTES.start..]);
    batch[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
}

fn damage(directory: &Path, damage: fn(&mut [u8])) {
    let path = directory.join("00000000000000000000.log");
    let mut segment = fs::read(&path).expect("the broker's log can be read");
    let place = batch(&segment, DAMAGED);
    let sum = checksum(&segment[place.clone()][ATTRIBUTES.start..]);
    assert_eq!(sum.to_be_bytes(), segment[place.clone()][CHECKSUM], "this is no batch");
    damage(&mut segment[place]);
    fs::write(&path, segment).expect("the broker's log can be written");
}

/// Damages the second of three batches, and fails unless the program stops below it with `code`,
/// once and again.
fn stops_below(stem: &str, code: &str, how: fn(&mut [u8])) {
    let mut broker = Broker::start();
    let stage = Stage::set(&broker, stem, 1);
    let mut writer = stage.writer_of(Plan { odd: false, duplicate_one_in: 0, ..Plan::over(1) }, 1);
    for count in [50, 10, 40] {
        writer.write(count);
    }
    drop(writer);
    broker.stop();
    damage(&broker.partition_dir(&stage.topic, 0), how);
    broker.restart();
    let home = stage.home();
    for _ in 0..2 {
        let exit = Sink::start(&home).wait(SAID_WITHIN);
        exit.assert_failed(1, code);
        let named = format!("{}/0, offset {DAMAGED}", stage.topic);
        assert!(exit.error().contains(&named), "`{named}` is not named: {}", exit.error());
        let committed = stage.admin.committed(&stage.group(), &stage.topic, 1);
        assert_eq!(committed.expect("it answers").get(&0), Some(&DAMAGED));
        assert_eq!(stage.output_ends(), [DAMAGED], "what lies before it, and nothing else");
    }
}

#[test]
fn a_batch_with_a_wrong_checksum_stops_the_program_below_it() {
    needs_broker!();
    stops_below("flipped", "E4004", flip_a_bit);
}

#[test]
fn a_batch_with_an_unknown_codec_stops_the_program_below_it() {
    needs_broker!();
    stops_below("codec", "E4005", name_an_unknown_codec);
}

#[test]
fn the_checksum_is_the_one_that_kafka_uses() {
    assert_eq!(checksum(b"123456789"), 0xE306_9283);
}
