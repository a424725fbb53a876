//! Tests from outside, in one binary; one module for each part.

#[cfg(test)]
mod store;
