//! Rules as JSON: an array of objects.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::findings::{Kind, Sink};
use super::names::Names;
use super::words::{self, Problem};
use super::{Action, Line, Rule, Scope};

/// A rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a rule: an object with `prefix` and `interfaces`")]
struct Entry<'t> {
    #[serde(borrow)]
    prefix: Cow<'t, str>,
    #[serde(borrow)]
    interfaces: Vec<Text<'t>>,
    #[serde(borrow, default)]
    action: Option<Text<'t>>,
    #[serde(borrow, default)]
    scope: Option<Text<'t>>,
    #[serde(borrow, default)]
    comment: Option<Text<'t>>,
}

/// A string that is a part of the text, unless it has escapes.
#[derive(Deserialize)]
struct Text<'t>(#[serde(borrow)] Cow<'t, str>);

/// Reads the objects of a text, and continues after objects that are not rules. A syntax error ends it.
pub(super) fn read(text: &str, names: &mut Names, sink: &mut Sink<'_>) -> Vec<Line> {
    let body = text.trim_start_matches('\u{feff}');
    let mut reader = serde_json::Deserializer::from_str(body);
    let mut elements = Elements { text, names, sink, lines: Vec::with_capacity(text.len() / 64) };
    let result = reader.deserialize_seq(&mut elements).and_then(|()| reader.end());
    let Elements { sink, lines, .. } = elements;
    if let Err(error) = result {
        fail(sink, text, text.len() - body.len()..text.len(), &error);
    }
    lines
}

/// Takes in the objects one by one.
struct Elements<'a, 's, 't> {
    text: &'t str,
    names: &'a mut Names,
    sink: &'a mut Sink<'s>,
    lines: Vec<Line>,
}

impl<'t> Visitor<'t> for &mut Elements<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of rules")
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(raw) = elements.next_element::<&'t RawValue>()? {
            let raw = raw.get();
            let range = within(self.text, raw).unwrap_or(0..self.text.len());
            let entry: Entry<'t> = match serde_json::from_str(raw) {
                Ok(entry) => entry,
                Err(error) => {
                    fail(self.sink, self.text, range, &error);
                    continue;
                }
            };
            let (text, sink) = (self.text, &mut *self.sink);
            let place = |part: &Cow<'_, str>| within(text, part).unwrap_or_else(|| range.clone());
            match rule(&entry, self.names, |part, odd| sink.warning(place(part), odd)) {
                // The text is smaller than 4 GiB.
                Ok(rule) => self.lines.push(Line { rule, start: range.start as u32, end: range.end as u32 }),
                Err((part, problem)) => sink.error(part.map_or(range.clone(), place), problem),
            }
        }
        Ok(())
    }
}

fn rule<'e, 't>(
    entry: &'e Entry<'t>,
    names: &mut Names,
    mut warn: impl FnMut(&Cow<'t, str>, Problem),
) -> Result<Rule, (Option<&'e Cow<'t, str>>, Problem)> {
    let (from, odd) = words::source(&entry.prefix).map_err(|problem| (Some(&entry.prefix), problem))?;
    if let Some(odd) = odd {
        warn(&entry.prefix, odd);
    }
    let list: Vec<&str> = entry.interfaces.iter().map(|name| &*name.0).collect();
    if list.is_empty() {
        return Err((None, words::no_interfaces()));
    }
    let shared = names.list(&list).map_err(|(at, problem)| (Some(&entry.interfaces[at].0), problem))?;
    if let Some(at) = shared.repeated {
        warn(&entry.interfaces[at].0, words::repeated(list[at]));
    }
    let action = match &entry.action {
        Some(Text(word)) => words::action(word).map_err(|problem| (Some(word), problem))?,
        None => Action::Permit,
    };
    let scope = match &entry.scope {
        Some(Text(word)) => words::scope(word).map_err(|problem| (Some(word), problem))?,
        None => Scope::Prefix,
    };
    let comment = match &entry.comment {
        Some(Text(text)) => Some(words::comment(text).map_err(|problem| (Some(text), problem))?),
        None => None,
    };
    Ok(Rule { scope, action, from, on: shared.on, comment })
}

/// Where a part of a text stands in it; `None`: it is none, as it had escapes.
fn within(text: &str, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    (start + part.len() <= text.len()).then(|| start..start + part.len())
}

/// Puts an error of the parser, which read this part of the text, into its place.
fn fail(sink: &mut Sink<'_>, text: &str, part: Range<usize>, error: &serde_json::Error) {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let start = match error.line() {
        0 | 1 => part.start,
        line => {
            let end = text[part.clone()].match_indices('\n').nth(line - 2);
            end.map_or(part.end, |(at, _)| part.start + at + 1)
        }
    };
    let mut at = (start + error.column().saturating_sub(1)).min(part.end);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let end = text[at..part.end].chars().next().filter(|c| *c != '\n').map_or(at, |c| at + c.len_utf8());
    sink.error(at..end, Problem::new(Kind::Rule, message));
}

/// Where an object names an interface, in octets of its text.
pub(super) fn place_of(object: &str, interface: &str) -> Option<Range<usize>> {
    let names = object.find("\"interfaces\"")?;
    let at = names + object[names..].find(&format!("\"{interface}\""))? + 1;
    Some(at..at + interface.len())
}
