//! What the hand-written views and writers share.

use alloc::vec::Vec;
use core::marker::PhantomData;

use base::TopicId;

use crate::wire::{DecodeError, Reader, put_count, put_string, put_tag, put_uvarint};

/// How a message names a topic: by name in older versions, by id in newer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicRef<'a> {
    /// By name.
    Name(&'a str),
    /// By id.
    Id(TopicId),
}

impl<'a> TopicRef<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>, by_id: bool, flexible: bool) -> Result<Self, DecodeError> {
        if by_id { Ok(Self::Id(TopicId(reader.u128()?))) } else { Ok(Self::Name(reader.string(flexible)?)) }
    }
}

/// One element of an array in a request.
pub trait Element<'a>: Sized {
    /// Reads it whole.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes do not decode.
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError>;
}

/// An array in a request, read element by element; all of it was checked before.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a, T> {
    reader: Reader<'a>,
    left: usize,
    version: i16,
    element: PhantomData<fn() -> T>,
}

impl<'a, T: Element<'a>> Elements<'a, T> {
    pub(crate) const fn empty(version: i16) -> Self {
        Self { reader: Reader::new(&[]), left: 0, version, element: PhantomData }
    }

    /// Reads the count, checks every element and moves `reader` behind the array. Null is refused, as Kafka does.
    pub(crate) fn check(reader: &mut Reader<'a>, version: i16, flexible: bool) -> Result<Self, DecodeError> {
        // One byte at least in every element of every message.
        let left = reader.count(flexible, 1)?;
        let elements = Self { reader: *reader, left, version, element: PhantomData };
        for _ in 0..left {
            T::read(reader, version)?;
        }
        Ok(elements)
    }

    /// How many are left.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.left
    }

    /// Whether none is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a, T: Element<'a>> Iterator for Elements<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        // Checked when the view was made.
        T::read(&mut self.reader, self.version).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, T: Element<'a>> ExactSizeIterator for Elements<'a, T> {}

impl<'a> Element<'a> for i32 {
    fn read(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        reader.i32()
    }
}

/// Who leads a partition, as a hint in an error response (KIP-951).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Node id.
    pub id: i32,
    /// Leader epoch.
    pub epoch: i32,
}

/// Where a broker listens (KIP-951).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEndpoint<'a> {
    /// Node id.
    pub id: i32,
    /// Host name or address.
    pub host: &'a str,
    /// Port.
    pub port: i32,
    /// Rack, if any.
    pub rack: Option<&'a str>,
}

/// Tracks topics and partitions of a response, so that each gets its tag section and none is forgotten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nest {
    pub(crate) flexible: bool,
    topics_left: usize,
    partitions_left: usize,
}

impl Nest {
    pub(crate) fn begin(out: &mut Vec<u8>, topics: usize, flexible: bool) -> Self {
        put_count(out, Some(topics), flexible);
        Self { flexible, topics_left: topics, partitions_left: 0 }
    }

    pub(crate) fn topic(&mut self, out: &mut Vec<u8>, topic: TopicRef<'_>, partitions: usize) {
        assert!(self.partitions_left == 0, "partitions missing in the topic before");
        self.topics_left = self.topics_left.checked_sub(1).expect("no more topics than said");
        self.partitions_left = partitions;
        match topic {
            TopicRef::Name(name) => put_string(out, Some(name), self.flexible),
            TopicRef::Id(id) => out.extend_from_slice(&id.0.to_be_bytes()),
        }
        put_count(out, Some(partitions), self.flexible);
        if partitions == 0 {
            self.no_tags(out);
        }
    }

    /// The partition's own tag section is written.
    pub(crate) fn partition_done(&mut self, out: &mut Vec<u8>) {
        self.partitions_left = self.partitions_left.checked_sub(1).expect("no more partitions than said");
        if self.partitions_left == 0 {
            self.no_tags(out);
        }
    }

    pub(crate) fn end(self) {
        assert!(self.topics_left == 0 && self.partitions_left == 0, "topics or partitions missing in a response");
    }

    pub(crate) fn no_tags(self, out: &mut Vec<u8>) {
        if self.flexible {
            out.push(0);
        }
    }
}

/// One tagged field with a leader (a structure of its own, with a tag section of its own).
pub(crate) fn put_leader_tag(out: &mut Vec<u8>, tag: u32, leader: Leader) {
    put_tag(out, tag, &mut |out| {
        out.extend_from_slice(&leader.id.to_be_bytes());
        out.extend_from_slice(&leader.epoch.to_be_bytes());
        out.push(0);
    });
}

/// The tag section at a response's end: endpoints under tag 0, if there are any.
pub(crate) fn put_endpoints(out: &mut Vec<u8>, endpoints: &[NodeEndpoint<'_>]) {
    if endpoints.is_empty() {
        out.push(0);
        return;
    }
    put_uvarint(out, 1);
    put_tag(out, 0, &mut |out| {
        put_count(out, Some(endpoints.len()), true);
        for endpoint in endpoints {
            out.extend_from_slice(&endpoint.id.to_be_bytes());
            put_string(out, Some(endpoint.host), true);
            out.extend_from_slice(&endpoint.port.to_be_bytes());
            put_string(out, endpoint.rack, true);
            out.push(0);
        }
    });
}
