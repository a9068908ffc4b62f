//! The topics inside a consumer's subscription.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

/// The topics of Kafka's `ConsumerProtocolSubscription` (all versions begin alike: version int16, topics as an array of
/// strings), or `None` when the bytes are not one. No more is kept than the bytes hold.
pub(crate) fn topics(bytes: &[u8]) -> Option<BTreeSet<Arc<str>>> {
    let (version, rest) = bytes.split_first_chunk::<2>()?;
    if i16::from_be_bytes(*version) < 0 {
        return None;
    }
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut topics = BTreeSet::new();
    for _ in 0..u32::try_from(i32::from_be_bytes(*count)).ok()? {
        let (len, tail) = rest.split_first_chunk::<2>()?;
        let (name, tail) = tail.split_at_checked(usize::try_from(i16::from_be_bytes(*len)).ok()?)?;
        topics.insert(core::str::from_utf8(name).ok()?.into());
        rest = tail;
    }
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_and_whatever_follows_is_left() {
        let bytes = b"\0\x03\0\0\0\x02\0\x01a\0\x02bc\xff\xff\xff\xff";
        let topics = topics(bytes).expect("well formed");
        assert_eq!(topics.iter().map(|t| &**t).collect::<alloc::vec::Vec<_>>(), ["a", "bc"]);
    }

    #[test]
    fn counts_and_lengths_beyond_the_bytes_are_no_subscription() {
        for bytes in [
            &b""[..],
            b"\0",
            b"\0\0\0\0\0",
            b"\0\0\x7f\xff\xff\xff",
            b"\0\0\xff\xff\xff\xff",
            b"\0\0\0\0\0\x01\x7f\xffab",
            b"\0\0\0\0\0\x01\xff\xff",
            b"\0\0\0\0\0\x01\0\x01\xff",
            b"\xff\xff\0\0\0\0",
        ] {
            assert!(topics(bytes).is_none(), "{bytes:?}");
        }
    }
}
