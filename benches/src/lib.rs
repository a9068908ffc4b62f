//! Measuring: the broker from outside, through librdkafka and through raw sockets, beside the floors that the same bytes
//! cost without a broker. Nothing here is shipped.

pub mod broker;
pub mod cold;
pub mod crowd;
pub mod floor;
pub mod group;
pub mod hot;
pub mod journal;
pub mod machine;
pub mod raw;
pub mod rd;
pub mod scale;
pub mod strain;
