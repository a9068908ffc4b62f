use proptest::prelude::*;

use super::*;
use crate::state::tests::{create, register, with};

#[test]
fn a_newer_version_is_refused_by_its_number() {
    let mut bytes = encode_command(&register(1, 1));
    bytes[0] = 9;
    assert_eq!(decode_command(&bytes), Err(DecodeError::Newer(9)));
    let mut bytes = encode_state(&State::default());
    bytes[0] = 7;
    assert_eq!(decode_state(&bytes), Err(DecodeError::Newer(7)));
}

#[test]
fn every_cut_of_a_state_is_refused() {
    let bytes = encode_state(&with(&[register(2, 2), create(1, "a", 3), create(2, "b.c", 2)]));
    for len in 0..bytes.len() {
        assert!(decode_state(&bytes[..len]).is_err(), "{len}");
    }
    let mut more = bytes;
    more.push(0);
    assert_eq!(decode_state(&more), Err(DecodeError::Trailing));
}

#[test]
fn a_count_larger_than_the_bytes_is_refused_before_memory_is_taken() {
    let mut bytes = encode_state(&State::default());
    bytes.truncate(bytes.len() - 3);
    bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x7f]);
    assert!(matches!(decode_state(&bytes), Err(DecodeError::Truncated)));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), tag in 1u8..9) {
        let _ = decode_state(&bytes);
        let _ = decode_command(&bytes);
        let mut tagged = alloc::vec![1, tag];
        tagged.extend_from_slice(&bytes);
        let _ = decode_command(&tagged);
    }

    #[test]
    fn a_flipped_byte_of_a_state_never_panics(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = encode_state(&with(&[register(2, 2), create(1, "a", 3), create(2, "b.c", 2)]));
        let at = at.index(bytes.len());
        bytes[at] = to;
        let _ = decode_state(&bytes);
    }
}
