// Written by `cargo xtask codegen`; do not edit.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::error::ErrorCode;
use crate::messages::{Message, Version, Wire, get, get_no_tags, put_no_tags};
use crate::wire::{DecodeError, Reader, put_tag, put_uvarint};

#[derive(Clone, Debug, PartialEq)]
pub struct ApiVersionsResponse<'a> {
    pub error_code: ErrorCode,
    pub api_keys: Vec<ApiVersion>,
    pub throttle_time_ms: i32,
    pub supported_features: Vec<SupportedFeatureKey<'a>>,
    pub finalized_features_epoch: i64,
    pub finalized_features: Vec<FinalizedFeatureKey<'a>>,
    pub zk_migration_ready: bool,
}

impl Default for ApiVersionsResponse<'_> {
    fn default() -> Self {
        Self {
            error_code: Default::default(),
            api_keys: Default::default(),
            throttle_time_ms: Default::default(),
            supported_features: Default::default(),
            finalized_features_epoch: -1,
            finalized_features: Default::default(),
            zk_migration_ready: Default::default(),
        }
    }
}

impl<'a> Wire<'a> for ApiVersionsResponse<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.error_code = get(reader, version)?;
        message.api_keys = get(reader, version)?;
        if version.from(1) {
            message.throttle_time_ms = get(reader, version)?;
        }
        if version.flexible() {
            reader.tags(&mut |tag, reader| {
                match tag {
                    0 => message.supported_features = get(reader, version)?,
                    1 => message.finalized_features_epoch = get(reader, version)?,
                    2 => message.finalized_features = get(reader, version)?,
                    3 => message.zk_migration_ready = get(reader, version)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
        }
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.error_code.write(out, version);
        self.api_keys.write(out, version);
        if version.from(1) {
            self.throttle_time_ms.write(out, version);
        }
        if version.flexible() {
            let has_supported_features = !self.supported_features.is_empty();
            let has_finalized_features_epoch = self.finalized_features_epoch != -1;
            let has_finalized_features = !self.finalized_features.is_empty();
            let has_zk_migration_ready = self.zk_migration_ready != Default::default();
            put_uvarint(
                out,
                u32::from(has_supported_features)
                    + u32::from(has_finalized_features_epoch)
                    + u32::from(has_finalized_features)
                    + u32::from(has_zk_migration_ready),
            );
            if has_supported_features {
                put_tag(out, 0, &mut |out| self.supported_features.write(out, version));
            }
            if has_finalized_features_epoch {
                put_tag(out, 1, &mut |out| self.finalized_features_epoch.write(out, version));
            }
            if has_finalized_features {
                put_tag(out, 2, &mut |out| self.finalized_features.write(out, version));
            }
            if has_zk_migration_ready {
                put_tag(out, 3, &mut |out| self.zk_migration_ready.write(out, version));
            }
        }
    }
}

impl<'a> Message<'a> for ApiVersionsResponse<'a> {
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    const FLEXIBLE: i16 = 3;
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct ApiVersion {
    pub api_key: i16,
    pub min_version: i16,
    pub max_version: i16,
}

impl<'a> Wire<'a> for ApiVersion {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.api_key = get(reader, version)?;
        message.min_version = get(reader, version)?;
        message.max_version = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.api_key.write(out, version);
        self.min_version.write(out, version);
        self.max_version.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct SupportedFeatureKey<'a> {
    pub name: &'a str,
    pub min_version: i16,
    pub max_version: i16,
}

impl<'a> Wire<'a> for SupportedFeatureKey<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.min_version = get(reader, version)?;
        message.max_version = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.min_version.write(out, version);
        self.max_version.write(out, version);
        put_no_tags(out, version);
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct FinalizedFeatureKey<'a> {
    pub name: &'a str,
    pub max_version_level: i16,
    pub min_version_level: i16,
}

impl<'a> Wire<'a> for FinalizedFeatureKey<'a> {
    const BYTES_MIN: usize = 6;

    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut message = Self::default();
        message.name = get(reader, version)?;
        message.max_version_level = get(reader, version)?;
        message.min_version_level = get(reader, version)?;
        get_no_tags(reader, version)?;
        Ok(message)
    }

    fn write(&self, out: &mut Vec<u8>, version: Version) {
        self.name.write(out, version);
        self.max_version_level.write(out, version);
        self.min_version_level.write(out, version);
        put_no_tags(out, version);
    }
}
