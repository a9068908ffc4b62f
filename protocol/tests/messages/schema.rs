//! Reads `schema.txt` and makes bytes at random as it says: a codec of a third kind, that only knows the schemas.

use std::ops::RangeInclusive;

/// A message.
pub(crate) struct Schema {
    pub(crate) name: String,
    pub(crate) versions: RangeInclusive<i16>,
    pub(crate) flexible: i16,
    pub(crate) fields: Vec<Field>,
}

/// A field of a message or a structure; `versions` are those that have it.
pub(crate) struct Field {
    #[allow(dead_code, reason = "bytes made at random have no names; what is decoded by these schemas does")]
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) versions: RangeInclusive<i16>,
    pub(crate) nullable: Option<RangeInclusive<i16>>,
    pub(crate) tag: Option<u32>,
    pub(crate) fields: Vec<Field>,
}

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}

pub(crate) fn all() -> Vec<Schema> {
    let text = include_str!("../schema.txt");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let mut at = 0;
    let mut schemas = Vec::new();
    while at < lines.len() {
        let words: Vec<&str> = lines[at].split_whitespace().collect();
        let [name, versions, flexible] = words[..] else { panic!("line {:?}", lines[at]) };
        at += 1;
        let flexible = flexible.parse().unwrap_or(i16::MAX);
        schemas.push(Schema {
            name: name.into(),
            versions: range(versions).unwrap(),
            flexible,
            fields: fields(&lines, &mut at, 1),
        });
    }
    schemas
}

fn fields(lines: &[&str], at: &mut usize, depth: usize) -> Vec<Field> {
    let mut found = Vec::new();
    while *at < lines.len() {
        let line = lines[*at];
        if (line.len() - line.trim_start().len()) / 2 < depth {
            break;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, kind, versions, nullable, tag] = words[..] else { panic!("line {line:?}") };
        *at += 1;
        found.push(Field {
            name: name.into(),
            kind: kind.into(),
            versions: range(versions).unwrap(),
            nullable: range(nullable),
            tag: tag.parse().ok(),
            fields: fields(lines, at, depth + 1),
        });
    }
    found
}

fn range(text: &str) -> Option<RangeInclusive<i16>> {
    let (first, last) = text.split_once('-')?;
    Some(first.parse().ok()?..=last.parse().ok()?)
}

impl Schema {
    /// One message of this version.
    pub(crate) fn bytes(&self, version: i16, random: &mut Random) -> Vec<u8> {
        let mut maker = Maker { version, flexible: version >= self.flexible, random, out: Vec::new() };
        maker.structure(&self.fields);
        maker.out
    }
}

struct Maker<'r> {
    version: i16,
    flexible: bool,
    random: &'r mut Random,
    out: Vec<u8>,
}

impl Maker<'_> {
    fn structure(&mut self, fields: &[Field]) {
        let version = self.version;
        let present = fields.iter().filter(|field| field.versions.contains(&version));
        let (mut tagged, plain): (Vec<&Field>, Vec<&Field>) = present.partition(|field| field.tag.is_some());
        for field in plain {
            let nullable = field.nullable.as_ref().is_some_and(|range| range.contains(&version));
            let null = nullable && self.random.below(4) == 0;
            self.value(&field.kind, &field.fields, nullable, null, 0);
        }
        if !self.flexible {
            return;
        }
        tagged.retain(|_| self.random.below(3) > 0);
        tagged.sort_by_key(|field| field.tag);
        self.varint(tagged.len());
        for field in tagged {
            self.varint(field.tag.unwrap() as usize);
            let outer = std::mem::take(&mut self.out);
            let nullable = field.nullable.as_ref().is_some_and(|range| range.contains(&version));
            // Not null and not empty: only what differs from the default is written under a tag.
            self.value(&field.kind, &field.fields, nullable, false, 1);
            let inner = std::mem::replace(&mut self.out, outer);
            self.varint(inner.len());
            self.out.extend(inner);
        }
    }

    fn value(&mut self, kind: &str, fields: &[Field], nullable: bool, null: bool, len_min: usize) {
        if let Some(element) = kind.strip_prefix("[]") {
            let len = len_min + self.random.below(3);
            self.len(len, null, 4);
            for _ in 0..if null { 0 } else { len } {
                self.value(element, fields, false, false, 0);
            }
            return;
        }
        match kind {
            "struct" => {
                if nullable {
                    self.out.push(if null { 0xff } else { 1 });
                }
                if !null {
                    self.structure(fields);
                }
            }
            "string" | "bytes" | "records" => {
                // Now and then long enough for a length of two bytes.
                let long = self.random.below(8) == 0;
                let len = len_min + self.random.below(if long { 200 } else { 6 });
                self.len(len, null, if kind == "string" { 2 } else { 4 });
                let letters =
                    (0..if null { 0 } else { len }).map(|_| b'a' + u8::try_from(self.random.below(26)).unwrap());
                let letters: Vec<u8> = letters.collect();
                self.out.extend(letters);
            }
            "bool" => self.out.push(u8::from(len_min > 0 || self.random.below(2) == 1)),
            number => {
                let bytes = match number {
                    "int8" => 1,
                    "int16" | "uint16" => 2,
                    "int32" | "uint32" => 4,
                    "int64" => 8,
                    "uuid" => 16,
                    other => panic!("type {other}"),
                };
                // Never 0, −1 or the largest: those are defaults.
                self.out.push(1 + u8::try_from(self.random.below(0x70)).unwrap());
                for _ in 1..bytes {
                    self.out.push(u8::try_from(self.random.below(256)).unwrap());
                }
            }
        }
    }

    fn len(&mut self, len: usize, null: bool, fixed: usize) {
        match (self.flexible, null) {
            (true, true) => self.out.push(0),
            (true, false) => self.varint(len + 1),
            (false, true) => self.out.extend(vec![0xff; fixed]),
            (false, false) => self.out.extend(&u32::try_from(len).unwrap().to_be_bytes()[4 - fixed..]),
        }
    }

    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        self.out.push(u8::try_from(value).unwrap());
    }
}
