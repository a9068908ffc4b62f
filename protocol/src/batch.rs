//! Record batch v2: view and builder.

/// One record batch whose header has been checked.
#[derive(Clone, Copy, Debug)]
pub struct BatchView<'a>(#[expect(dead_code, reason = "contract; body follows")] &'a [u8]);
