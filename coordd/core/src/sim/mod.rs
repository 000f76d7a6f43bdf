//! The core in a made-up world (invariants and promises over many seeds).
