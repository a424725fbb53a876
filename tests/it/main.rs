//! Tests from outside, in one binary; one module for each part.

mod store;
