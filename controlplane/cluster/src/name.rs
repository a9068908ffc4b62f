//! Names of topics, as Kafka rules them (`Topic.validate` in kafka-clients).

use alloc::string::String;

/// The topic that holds committed offsets.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";

/// Longest topic name, in bytes: what is left of a file name of 255 after a partition suffix.
pub const NAME_BYTES_MAX: usize = 249;

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// No character at all.
    Empty,
    /// `.` or `..`.
    Dots,
    /// More than [`NAME_BYTES_MAX`].
    TooLong,
    /// A character outside `[a-zA-Z0-9._-]`.
    Character,
}

impl NameError {
    /// The rule that is broken, for an error message.
    #[must_use]
    pub const fn rule(self) -> &'static str {
        match self {
            Self::Empty => "a topic name cannot be empty",
            Self::Dots => "a topic name cannot be \".\" or \"..\"",
            Self::TooLong => "a topic name cannot be longer than 249 characters",
            Self::Character => "a topic name contains only ASCII letters and digits, '.', '_' and '-'",
        }
    }
}

/// Whether Kafka allows the name.
///
/// # Errors
/// The rule that is broken.
pub fn check(name: &str) -> Result<(), NameError> {
    match name {
        "" => Err(NameError::Empty),
        "." | ".." => Err(NameError::Dots),
        _ if name.len() > NAME_BYTES_MAX => Err(NameError::TooLong),
        _ if name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) => Ok(()),
        _ => Err(NameError::Character),
    }
}

/// The key under which names collide: Kafka's metric names cannot tell `.` from `_`, so it refuses a second such name.
/// `None` for names that can collide with none.
#[must_use]
pub fn collision_key(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

/// Whether the topic is the broker's own.
#[must_use]
pub fn is_internal(name: &str) -> bool {
    name == CONSUMER_OFFSETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafkas_rules() {
        for good in ["a", "A-b_c.9", "__consumer_offsets", "...", &"x".repeat(249)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        assert_eq!(check(""), Err(NameError::Empty));
        assert_eq!(check("."), Err(NameError::Dots));
        assert_eq!(check(".."), Err(NameError::Dots));
        assert_eq!(check(&"x".repeat(250)), Err(NameError::TooLong));
        for bad in ["a b", "a/b", "ä", "a\0", "a,b"] {
            assert_eq!(check(bad), Err(NameError::Character), "{bad}");
        }
    }

    #[test]
    fn a_dot_and_an_underscore_collide() {
        assert_eq!(collision_key("a.b"), collision_key("a_b"));
        assert_eq!(collision_key("ab"), None);
        assert_ne!(collision_key("a.b"), collision_key("a-b"));
    }
}
