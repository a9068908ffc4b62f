//! Decisions taken from bytes. Whoever runs out of bytes reads zeros, so that every input means something.

/// A cursor over the bytes of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// At the first byte.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What is left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether nothing is left.
    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next bytes, at most `len`.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        head
    }

    fn fixed<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let head = self.take(N);
        bytes[..head.len()].copy_from_slice(head);
        bytes
    }

    /// One byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.fixed::<1>()[0]
    }

    /// Two bytes.
    pub(crate) fn two(&mut self) -> u16 {
        u16::from_le_bytes(self.fixed())
    }

    /// An index below `len`, from one byte where that is enough and two where not.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        let number = if len > 256 { self.two() } else { u16::from(self.byte()) };
        usize::from(number) % len.max(1)
    }

    /// One of some.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}
