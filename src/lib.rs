//! firstseen forwards each key's first occurrence from a Kafka topic to another and drops the
//! rest, without needing transactions.
//!
//! # The contract
//! - **No loss.** A key is marked seen only after its own delivery report; the resume offset never
//!   passes a record that is not done. `kill -9`, power cuts, full disks, lost brokers and
//!   rebalances change nothing about that.
//! - **No duplicates after a crash.** What was written but not checkpointed is read back from the
//!   output before anything is sent again. A dead or frozen instance whose bytes reach the broker
//!   after its successor took over can still repeat a record; each such record is detected,
//!   counted and located.
//! - **Order** of first occurrences per source partition, and every record byte for byte.
//! - **The output topic is the log, the seen-set is its index, the source offset is its cursor.**
//!   Local state is never the only copy of anything: losing it costs a rebuild, not a record.
//!
//! # One way for the data
//! ```text
//!  Kafka ─▶ kafka::Source ─▶ key ─▶ engine::Core ─▶ kafka::Sink ─▶ Kafka
//!                                     │  ▲  ▲            │
//!                          look-up    │  │  └────────────┘ delivery reports
//!                                     ▼  │
//!                                   seen::Seen ◀─ checkpoint {first occurrences, resume offset,
//!                                     │                        output position}
//!                                   store (sled)
//! ```
//!
//! # Layers, importing downwards only
//! | layer | rooms |
//! | --- | --- |
//! | 0 words | [`words`] |
//! | 1 decide | [`config`], [`key`], [`window`], [`engine`], [`ledger`] |
//! | 2 remember | [`store`], [`seen`] |
//! | 3 talk | [`kafka`] |
//! | 4 join | [`checkpoint`], [`pipeline`] |
//! | 5 serve | [`status`], [`logging`], [`commands`], [`cli`] |
//!
//! [`error`] renders any failure as one line, and [`bugs`] holds the seeded defects that tests
//! switch on. Start reading at [`engine`], whose table is the program.

pub mod bugs;
pub mod checkpoint;
pub mod cli;
pub mod commands;
pub mod config;
pub mod engine;
pub mod error;
pub mod kafka;
pub mod key;
pub mod ledger;
pub mod logging;
pub mod pipeline;
pub mod seen;
pub mod status;
pub mod store;
pub mod window;
pub mod words;
