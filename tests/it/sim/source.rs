//! The source log of one seed: planned duplicates, null keys, absurd times, refused records.

use firstseen::config::{DedupRule, WindowClock};
use firstseen::key::Fingerprint;
use firstseen::window::Window;
use firstseen::words::{Span, Timestamp};

use super::cover::{Coverage, Kind};
use super::rng::{self, Rng};

/// What the output does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Taken,
    /// The broker refuses it.
    Refused,
    /// The client refuses it before it is sent.
    RefusedAtOnce,
    /// The rules leave it out.
    LeftOut,
    /// The rules send it to the dead-letter topic.
    Unkeyed,
}

/// One source record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) offset: i64,
    pub(crate) key: Option<u32>,
    /// Stands for key, value and headers of a record without a dedup key.
    pub(crate) content: u64,
    pub(crate) timestamp: Option<i64>,
    pub(crate) fate: Fate,
    /// When it was made; it cannot be read before.
    pub(crate) made: i64,
    /// Its own time is what it is judged by, whenever it is read.
    pub(crate) plain: bool,
}

/// What one seed draws: the rules and how often each fault happens (per mille).
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) unbounded: bool,
    pub(crate) gaps: bool,
    pub(crate) window_ms: i64,
    pub(crate) max_future_ms: i64,
    pub(crate) arrival_clock: bool,
    pub(crate) refresh: bool,
    pub(crate) expire: bool,
    pub(crate) refuse: u64,
    pub(crate) lose: u64,
    pub(crate) ambiguous: u64,
    pub(crate) placeless: u64,
    pub(crate) control: u64,
    pub(crate) crash: u64,
    pub(crate) leave: u64,
    pub(crate) clock_back: u64,
    pub(crate) disk_lost: u64,
    pub(crate) disk_stale: u64,
    pub(crate) slow_disk: u64,
}

impl Draw {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let mut rate =
            |most: i64| if rng.chance(600) { rng.between(1, most).unsigned_abs() } else { 0 };
        let (refuse, lose, ambiguous, placeless) = (rate(40), rate(60), rate(60), rate(150));
        let (control, crash, leave) = (rate(30), rate(25), rate(6));
        let (clock_back, disk_lost, disk_stale) = (rate(10), rate(200), rate(200));
        let slow_disk = rate(900);
        let (refresh, arrival_clock) = (rng.chance(150), rng.chance(100));
        Self {
            unbounded: rng.chance(300),
            gaps: rng.chance(200),
            window_ms: rng.between(800, 8_000),
            max_future_ms: rng.between(0, 6_000),
            arrival_clock,
            refresh,
            expire: rng.chance(700),
            refuse,
            lose,
            ambiguous,
            placeless,
            control,
            crash,
            leave,
            // The clock decides what an arrival is; where it jumps, so does the window.
            clock_back: if arrival_clock { 0 } else { clock_back },
            // What refreshed a window, and when a record arrived, is in the state alone, so a
            // rebuild forgets it by nature.
            disk_lost: if refresh || arrival_clock { 0 } else { disk_lost },
            disk_stale,
            slow_disk,
        }
    }

    pub(crate) fn window(&self) -> Window {
        let clock = if self.arrival_clock { WindowClock::Arrival } else { WindowClock::Event };
        Window::new(&DedupRule {
            clock,
            max_future: Span::from_ms(self.max_future_ms),
            refresh: self.refresh,
            ..DedupRule::with_window(Span::from_ms(self.window_ms))
        })
    }
}

/// The wall clock when a seed begins.
pub(crate) const BEGIN: i64 = 1_000_000_000;

/// Makes the source log.
pub(crate) fn plan(rng: &mut Rng, draw: &Draw, cover: &mut Coverage) -> Vec<Record> {
    let count = rng::index(rng.between(60, 260));
    let (near, far, keyless) = (rng.between(0, 250), rng.between(0, 250), rng.between(0, 150));
    let odd_most = [0, 60][rng.below(2)];
    let (odd_times, jitter) =
        (rng.between(0, odd_most), rng.between(0, 400.min(draw.window_ms / 4)));
    let pace = rng.between(5, 60);
    let (mut offset, mut now) = (rng.between(0, 50), BEGIN);
    let mut records: Vec<Record> = Vec::with_capacity(count);
    for index in 0..count {
        offset += if rng.chance(30) {
            cover.hit(Kind::SourceHole);
            rng.between(2, 4)
        } else {
            1
        };
        now += rng.between(0, pace * 2);
        let mut key = Some(u32::try_from(index).unwrap_or(0));
        let (mut content, mut twin_of) = (index as u64, None);
        if rng.chance(near.unsigned_abs()) && index > 0 {
            cover.hit(Kind::NearDuplicate);
            key = records[index - 1 - rng.below(index.min(5))].key;
        } else if rng.chance(far.unsigned_abs()) && index > 0 {
            cover.hit(Kind::FarDuplicate);
            key = records[rng.below(index)].key;
        } else if rng.chance(keyless.unsigned_abs()) {
            cover.hit(Kind::Keyless);
            key = None;
        }
        let (mut timestamp, mut plain) = (Some(now + rng.between(-jitter, jitter)), true);
        if rng.chance(odd_times.unsigned_abs()) {
            cover.hit(Kind::AbsurdTime);
            plain = false;
            timestamp = match rng.below(5) {
                0 => None,
                1 => Some(i64::MAX),
                2 => Some(i64::MIN),
                3 => Some(5),
                _ => Some(now * 1000),
            };
        } else if rng.chance(odd_times.unsigned_abs()) {
            // Ahead of the wall clock, and perhaps within what is allowed.
            cover.hit(Kind::FutureTime);
            plain = false;
            timestamp =
                Some(now + rng.between(0, if draw.expire { 500 } else { draw.max_future_ms * 2 }));
        }
        if let Some(first) = key.filter(|_| plain && rng.chance(60)) {
            // Just inside the window of the first copy, at its edge, or just outside.
            let edge = rng.between(-1, 1);
            if let Some(at) = records.get(first as usize).and_then(|record| record.timestamp)
                && records[first as usize].plain
                && at + draw.window_ms + edge <= now + jitter
                && (!draw.expire || at + draw.window_ms + edge >= now - jitter)
            {
                cover.hit(Kind::WindowEdge);
                timestamp = Some(at + draw.window_ms + edge);
            }
        }
        if key.is_none()
            && index > 0
            && !draw.unbounded
            && !draw.expire
            && !draw.arrival_clock
            && rng.chance(200)
        {
            // The same bytes once more, as its own record.
            let twin = records[rng.below(index)];
            if twin.key.is_none() {
                cover.hit(Kind::KeylessTwin);
                (content, timestamp, plain) = (twin.content, twin.timestamp, twin.plain);
                twin_of = Some(twin.fate);
            }
        }
        let mut fate = match rng.below(100) {
            0 => Fate::LeftOut,
            1 if key.is_none() => Fate::Unkeyed,
            _ if rng.chance(draw.refuse) => [Fate::Refused, Fate::RefusedAtOnce][rng.below(2)],
            _ => Fate::Taken,
        };
        // The output refuses bytes.
        fate = twin_of.unwrap_or(fate);
        plain &=
            !draw.arrival_clock && timestamp.is_some_and(|at| at <= now + draw.max_future_ms / 2);
        records.push(Record { offset, key, content, timestamp, fate, made: now, plain });
    }
    records
}

/// The fingerprint of a key.
pub(crate) fn fingerprint(key: u32) -> Fingerprint {
    Fingerprint(u128::from(key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// The fingerprint of a whole record.
pub(crate) fn content(content: u64) -> Fingerprint {
    Fingerprint(u128::from(content + 1).wrapping_mul(0xd6e8_feb8_6659_fd93_a5a3_564e_2f9b_4a11))
}

impl Record {
    pub(crate) fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp.map(Timestamp)
    }
}
