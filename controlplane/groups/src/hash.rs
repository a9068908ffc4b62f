//! Which partition of `__consumer_offsets` a group belongs to.

use crate::Slot;

/// Kafka's choice: the Java hash of the group id, made positive, modulo the partitions (`groups_partitions > 0`).
///
/// # Panics
/// When `slots` is 0.
#[must_use]
pub fn slot_of(group: &str, slots: u32) -> Slot {
    // `String.hashCode` of the Java language: over UTF-16 code units, in wrapping 32-bit arithmetic.
    let hash = group.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    // Kafka's `Utils.abs` maps the one value without a positive counterpart to 0.
    let positive = if hash == i32::MIN { 0 } else { hash.unsigned_abs() };
    Slot(positive % slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_java_computes() {
        // "polygenelubricants".hashCode() is Integer.MIN_VALUE; "hello".hashCode() is 99162322; "ä€".hashCode() is 228 * 31 + 8364.
        assert_eq!(slot_of("polygenelubricants", 50), Slot(0));
        assert_eq!(slot_of("hello", 50), Slot(99_162_322 % 50));
        assert_eq!(slot_of("ä€", 50), Slot((228 * 31 + 8364) % 50));
        assert_eq!(slot_of("", 50), Slot(0));
    }

    #[test]
    fn a_negative_hash_is_made_positive_before_the_remainder() {
        // "console-consumer-1".hashCode() computed by hand here, since its sign is what matters.
        let name = "zzzzzzzzzz";
        let hash = name.bytes().fold(0i32, |h, b| h.wrapping_mul(31).wrapping_add(i32::from(b)));
        assert!(hash < 0, "choose a name with a negative hash");
        assert_eq!(slot_of(name, 50).0, hash.unsigned_abs() % 50);
    }
}
