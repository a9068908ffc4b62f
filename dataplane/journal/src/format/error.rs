//! Why bytes were not taken.

use core::fmt;

/// Why a structure other than a unit could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// Fewer bytes than the structure needs.
    Short,
    /// The magic is not there: never written, or something else.
    Magic,
    /// The checksum does not match: torn or rotten.
    Checksum,
    /// Written by a newer version of Barelog; reading it needs that version.
    NewerVersion {
        /// The version found.
        version: u16,
    },
    /// An algorithm byte this version does not know.
    Algorithm {
        /// The byte found.
        found: u8,
    },
    /// A field whose value cannot be, though the checksum holds.
    Field(&'static str),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("too few bytes"),
            Self::Magic => f.write_str("no magic number: never written, or not Barelog's"),
            Self::Checksum => f.write_str("checksum mismatch"),
            Self::NewerVersion { version } => {
                write!(f, "written in format version {version}, this program reads up to {}", super::VERSION)
            }
            Self::Algorithm { found } => write!(f, "unknown algorithm {found}"),
            Self::Field(name) => write!(f, "impossible value in field `{name}`"),
        }
    }
}

impl core::error::Error for FormatError {}
