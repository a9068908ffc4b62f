//! What the operator sets: `barelog.toml` and the hardware profile.

pub mod broker;
pub mod keys;
pub mod profile;
#[cfg(test)]
mod tests;

pub use broker::{BrokerConfig, DeviceConfig, DeviceKind, Listener};
pub use profile::Profile;

/// `docs/CONFIG.md`, from the tables of keys.
#[cfg(test)]
pub fn markdown() -> String {
    format!(
        "# Configuration\n\nGenerated from the tables in `src/config/`; `cargo xtask bless` rewrites it. Unknown keys are errors. Sizes are \
         numbers of bytes or text such as `\"256 MiB\"`. Dotted keys may be written as TOML tables.\n\n## `barelog.toml`\n\n\
         `barelog serve --config barelog.toml`; `--check-config` only checks.\n\n{}\n## Hardware profiles\n\n\
         `hardware.profile` names a built-in profile (`laptop`) or a file. Memory is per shard.\n\n{}",
        keys::markdown(broker::KEYS),
        keys::markdown(profile::KEYS)
    )
}
