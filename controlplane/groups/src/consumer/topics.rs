//! Which topics a subscription means: those named, and those that a regular expression describes, as metadata has them now.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use base::TopicId;
use base::image::Image;
use regex::{Regex, RegexBuilder};

use super::value::Subscriber;

/// 256 KiB for a compiled expression: hundreds of names joined by `|` fit, and a match stays cheap.
const REGEX_BYTES_MAX: usize = 256 << 10;
/// 4 KiB of text. Matching takes time in proportion to it and to the names of all topics.
const REGEX_TEXT_MAX: usize = 4 << 10;

/// Expressions of a group's members and what they match.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    known: BTreeMap<Arc<str>, Expression>,
}

#[derive(Debug)]
struct Expression {
    regex: Regex,
    topics: BTreeSet<Arc<str>>,
}

impl Expressions {
    /// Takes an expression in, if it is one; it matches nothing before [`Expressions::resolve`].
    pub(super) fn add(&mut self, text: &str) -> bool {
        if text.is_empty() || self.known.contains_key(text) {
            return true;
        }
        let Some(regex) = compile(text) else { return false };
        self.known.insert(text.into(), Expression { regex, topics: BTreeSet::new() });
        true
    }

    /// Keeps those that are among `used`, and matches them against the topics there are.
    pub(super) fn resolve(&mut self, used: &BTreeSet<&str>, image: &Image) {
        self.known.retain(|text, _| used.contains(&**text));
        for expression in self.known.values_mut() {
            // Internal topics too, as Kafka does: clients that want them left out say so in their expression.
            let matching = image.topics.values().filter(|topic| expression.regex.is_match(&topic.name));
            expression.topics = matching.map(|topic| topic.name.clone()).collect();
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Names of all topics that a member subscribes to, be they there or not.
    pub(super) fn names<'a>(&'a self, member: &'a Subscriber) -> impl Iterator<Item = &'a Arc<str>> {
        let described = member.regex.as_ref().and_then(|text| self.known.get(text));
        member.names.iter().chain(described.into_iter().flat_map(|expression| &expression.topics))
    }
}

/// Topics of a member that are there.
pub(super) fn ids<'a>(names: impl Iterator<Item = &'a Arc<str>>, image: &Image) -> BTreeSet<TopicId> {
    names.filter_map(|name| image.topics.get(name)).map(|topic| topic.id).collect()
}

/// A hash over topics and their partitions that is the same in every process: FNV-1a over ids and counts in order.
pub(super) fn hash(counts: &BTreeMap<TopicId, i32>) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (topic, count) in counts {
        for byte in topic.0.to_be_bytes().into_iter().chain(count.to_be_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    // Zero is "none" in Kafka's record.
    if hash == 0 { 1 } else { hash.cast_signed() }
}

/// The expression, to be matched against whole names. KIP-848 demands RE2's syntax; what this library has beyond or below
/// it does not show in topic names, but for RE2's quotes, which are written out.
fn compile(text: &str) -> Option<Regex> {
    if text.len() > REGEX_TEXT_MAX {
        return None;
    }
    let plain = unquoted(text);
    let build =
        |text: &str| RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).dfa_size_limit(4 * REGEX_BYTES_MAX).build();
    // By itself first: `a)|(b` is none, though it would be one between parentheses.
    build(&plain).ok()?;
    build(&format!(r"\A(?:{plain})\z")).ok()
}

/// `\Q…\E` with its text escaped instead.
fn unquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(quoted) = from.strip_prefix(r"\Q") {
            let (quoted, behind) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
            out.push_str(&regex::escape(quoted));
            rest = behind;
        } else {
            // The backslash and what it escapes, so that `\\Q` is no quote.
            let len = from.chars().take(2).map(char::len_utf8).sum();
            let (pair, behind) = from.split_at(len);
            out.push_str(pair);
            rest = behind;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(text: &str, name: &str) -> Option<bool> {
        compile(text).map(|regex| regex.is_match(name))
    }

    #[test]
    fn expressions_match_whole_names() {
        for (text, name, expected) in [
            ("a.*", "a1", Some(true)),
            ("a", "ab", Some(false)),
            ("b|a", "ab", Some(false)),
            ("a|ab", "ab", Some(true)),
            (r"\Qa.b\E.*", "a.bc", Some(true)),
            (r"\Qa.b\E", "axb", Some(false)),
            (r"x\Qa+", "xa+", Some(true)),
            ("(?i)A.", "ab", Some(true)),
            ("(", "a", None),
            ("a)|(b", "a", None),
            ("(a)\\1", "aa", None),
            ("(?=a)", "a", None),
            ("[", "a", None),
        ] {
            assert_eq!(matches(text, name), expected, "{text} {name}");
        }
    }

    #[test]
    fn expressions_have_bounds() {
        assert!(compile(&"a".repeat(REGEX_TEXT_MAX + 1)).is_none());
        assert!(compile("(a{1000}){1000}").is_none());
        assert!(compile(&[r"some-topic\.[a-z]+"; 200].join("|")).is_some());
    }

    #[test]
    fn the_hash_tells_topics_and_counts_apart() {
        let of = |all: &[(u128, i32)]| hash(&all.iter().map(|(id, count)| (TopicId(*id), *count)).collect());
        let all = [of(&[]), of(&[(1, 1)]), of(&[(1, 2)]), of(&[(2, 1)]), of(&[(1, 1), (2, 1)])];
        let different: BTreeSet<i64> = all.into_iter().collect();
        assert_eq!(different.len(), all.len());
        assert!(!different.contains(&0));
    }
}
