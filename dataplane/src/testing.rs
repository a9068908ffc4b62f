//! What several test modules share.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

/// A directory on the file system of the build, which takes `O_DIRECT` where `/tmp` may not.
pub(crate) fn scratch() -> tempfile::TempDir {
    let base = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tmp");
    std::fs::create_dir_all(&base).unwrap();
    tempfile::TempDir::new_in(base).unwrap()
}
