//! Random operations: nothing panics, and the promises of the protocol hold.
