//! A typed walk over the TOML tree. A [`Reader`] answers every query. It notes errors and returns `None`, so that the
//! walk continues and one pass finds all errors.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Code, Diagnostic};
use super::source::{At, SourceId, Span};
use crate::suggest::closest;

/// A value in the tree.
pub(super) type Value<'d> = &'d Spanned<DeValue<'d>>;

/// A table, and what it stands for.
#[derive(Clone, Copy)]
pub(super) struct Table<'d> {
    entries: &'d DeTable<'d>,
    /// The keys it may have; empty: not looked at.
    keys: &'d [&'d str],
    /// The object that it describes, with its article: "an interface".
    pub(super) what: &'static str,
    /// Its header, or the whole of it when it stands inline.
    pub(super) span: Span,
}

impl<'d> Table<'d> {
    pub(super) fn get(&self, key: &str) -> Option<Value<'d>> {
        self.entries.get(key)
    }

    /// A key and its value.
    pub(super) fn entry(&self, key: &str) -> Option<(&'d Spanned<std::borrow::Cow<'d, str>>, Value<'d>)> {
        self.entries.get_key_value(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'d Spanned<std::borrow::Cow<'d, str>>, Value<'d>)> + use<'d> {
        self.entries.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Reads one text's tree.
pub(super) struct Reader<'r> {
    pub(super) source: SourceId,
    pub(super) text: &'r str,
    pub(super) diagnostics: &'r mut Vec<Diagnostic>,
    /// Parts of the text where syntax errors took something away.
    pub(super) damaged: Vec<Range<usize>>,
}

impl<'r> Reader<'r> {
    pub(super) fn span(&self, range: Range<usize>) -> Span {
        // Texts are bounded far below 4 GiB.
        Span { source: self.source, start: range.start as u32, end: range.end as u32 }
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub(super) fn error(&mut self, code: Code, value: Value<'_>, message: impl Into<String>) {
        let span = self.span(value.span());
        self.report(Diagnostic::error(code, span, message));
    }

    /// The root of the text.
    pub(super) fn root<'d>(&mut self, entries: &'d DeTable<'d>, keys: &'d [&'d str]) -> Table<'d> {
        let table = Table { entries, keys, what: "the file", span: self.span(0..0) };
        self.check_keys(&table);
        table
    }

    /// A table with these keys and no others.
    pub(super) fn table<'d>(&mut self, value: Value<'d>, what: &'static str, keys: &'d [&'d str]) -> Option<Table<'d>> {
        let table = Table { keys, ..self.open_table(value, what)? };
        self.check_keys(&table);
        Some(table)
    }

    /// A table whose keys are not looked at yet.
    pub(super) fn open_table<'d>(&mut self, value: Value<'d>, what: &'static str) -> Option<Table<'d>> {
        match value.get_ref() {
            DeValue::Table(entries) => Some(Table { entries, keys: &[], what, span: self.span(value.span()) }),
            _ => self.wrong_type(value, &format!("a table ({what})")),
        }
    }

    /// Refuses keys that are none of the table's.
    fn check_keys(&mut self, table: &Table<'_>) {
        let keys = table.keys;
        for (key, _) in table.iter() {
            let name = key.get_ref();
            if keys.contains(&&**name) {
                continue;
            }
            let span = self.span(key.span());
            let unknown = Diagnostic::error(Code::UnknownKey, span, format!("{} has no key `{name}`", table.what));
            let unknown = unknown.suggest(name, keys);
            let unknown = match unknown.help {
                Some(_) => unknown,
                None => unknown.help(format!("its keys are {}", list(keys))),
            };
            self.report(unknown);
        }
    }

    /// The value of a key that must be there.
    pub(super) fn require<'d>(&mut self, table: &Table<'d>, key: &str) -> Option<Value<'d>> {
        let value = table.get(key);
        if value.is_none() {
            self.missing(table, key);
        }
        value
    }

    /// Says that a key must be there, unless its absence has been explained.
    pub(super) fn missing(&mut self, table: &Table<'_>, key: &str) {
        if !self.is_excused(table, key) {
            self.report(Diagnostic::error(Code::MissingKey, table.span, format!("{} needs `{key}`", table.what)));
        }
    }

    /// Whether a syntax error took a key away, or it has been found misspelt.
    pub(super) fn is_excused(&self, table: &Table<'_>, key: &str) -> bool {
        let meant =
            |found: &str| !table.keys.contains(&found) && closest(found, table.keys).is_some_and(|is| is == key);
        self.is_damaged(table.span) || table.iter().any(|(found, _)| meant(found.get_ref()))
    }

    /// Whether syntax errors took something away around a place.
    pub(super) fn is_damaged(&self, span: Span) -> bool {
        self.damaged.iter().any(|part| part.contains(&span.range().start))
    }

    /// The tables of `[[key]]`.
    pub(super) fn tables<'d>(&mut self, root: &Table<'d>, key: &str) -> &'d [Spanned<DeValue<'d>>] {
        let Some((name, value)) = root.entry(key) else { return &[] };
        match value.get_ref() {
            DeValue::Array(values) => values,
            DeValue::Table(_) => {
                let span = self.span(name.span());
                let found = Diagnostic::error(Code::WrongType, span, format!("there can be several `{key}` tables"));
                self.report(found.help(format!("write `[[{key}]]`")));
                &[]
            }
            _ => {
                self.wrong_type::<()>(value, &format!("tables, each under `[[{key}]]`"));
                &[]
            }
        }
    }

    /// The tables of `[key.NAME]` by their names, which are valid, in the order of the text.
    pub(super) fn named_tables<'d>(&mut self, root: &Table<'d>, key: &str) -> Vec<(At<String>, Value<'d>)> {
        let Some(value) = root.get(key) else { return Vec::new() };
        let DeValue::Table(entries) = value.get_ref() else {
            self.wrong_type::<()>(value, &format!("tables with names, each under `[{key}.NAME]`"));
            return Vec::new();
        };
        // Keys without a name's table, among which inline tables stand.
        let is_key =
            |value: Value<'_>| value.get_ref().as_table().is_none() || self.text[value.span()].starts_with('{');
        let stray = entries.iter().filter(|(_, value)| value.get_ref().as_table().is_none());
        let stray = stray.min_by_key(|(name, _)| name.span().start);
        let stray = stray.map(|(name, _)| (self.span(name.span()), name.get_ref()));
        let entries: Vec<_> = entries.iter().filter(|(_, value)| stray.is_none() || !is_key(value)).collect();
        if let Some((span, name)) = stray {
            let message = format!("`{name}` stands in `[{key}]`: each table of `{key}` has a name");
            let found = Diagnostic::error(Code::WrongType, span, message);
            self.report(found.help(format!("write `[{key}.NAME]`, with a name of your own for NAME")));
        }
        let mut named: Vec<_> = (entries.into_iter())
            .filter_map(|(name, value)| {
                let span = self.span(name.span());
                Some((self.declared_name(At { value: name.get_ref().as_ref(), span })?, value))
            })
            .collect();
        named.sort_by_key(|(name, _)| name.span);
        named
    }

    /// The values of an array, or the value itself.
    pub(super) fn one_or_more<'d>(&mut self, value: Value<'d>) -> &'d [Spanned<DeValue<'d>>] {
        match value.get_ref() {
            DeValue::Array(values) => values,
            _ => std::slice::from_ref(value),
        }
    }

    /// The values of an array that must not be empty, or the value itself.
    pub(super) fn one_at_least<'d>(&mut self, value: Value<'d>, what: &str) -> &'d [Spanned<DeValue<'d>>] {
        let values = self.one_or_more(value);
        if values.is_empty() && !self.is_damaged(self.span(value.span())) {
            self.error(Code::EmptyList, value, format!("at least one {what} is needed"));
        }
        values
    }

    /// The rules of an array, or the rule itself. A list without rules is one that live edits may leave.
    pub(super) fn rules<'d>(&mut self, value: Value<'d>) -> &'d [Spanned<DeValue<'d>>] {
        let values = self.one_or_more(value);
        if values.is_empty() && !self.is_damaged(self.span(value.span())) {
            let span = self.span(value.span());
            self.report(Diagnostic::warning(Code::EmptyList, span, "the list has no rules"));
        }
        values
    }

    pub(super) fn string<'d>(&mut self, value: Value<'d>, what: &str) -> Option<At<&'d str>> {
        match value.get_ref() {
            DeValue::String(text) => Some(At { value: text, span: self.span(value.span()) }),
            _ => self.wrong_type(value, &format!("a string ({what})")),
        }
    }

    pub(super) fn boolean(&mut self, value: Value<'_>) -> Option<bool> {
        match value.get_ref() {
            DeValue::Boolean(boolean) => Some(*boolean),
            // A word without quotes is an error of syntax, which has been reported.
            DeValue::String(_) if !self.text[value.span()].starts_with(['"', '\'']) => None,
            _ => self.wrong_type(value, "`true` or `false`"),
        }
    }

    /// `"auto"` or a boolean.
    pub(super) fn automatic(&mut self, value: Value<'_>) -> Option<Option<bool>> {
        match value.get_ref() {
            DeValue::String(text) if text.as_ref() == "auto" => Some(None),
            DeValue::Boolean(boolean) => Some(Some(*boolean)),
            // A word without quotes is an error of syntax, which has been reported.
            DeValue::String(_) if !self.text[value.span()].starts_with(['"', '\'']) => None,
            _ => self.wrong_type(value, "`\"auto\"`, `true` or `false`"),
        }
    }

    /// An integer within a range.
    pub(super) fn integer(&mut self, value: Value<'_>, what: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let DeValue::Integer(integer) = value.get_ref() else {
            let span = self.span(value.span());
            let message = format!("expected an integer ({what}), found {}", type_name(value.get_ref()));
            let found = Diagnostic::error(Code::WrongType, span, message);
            let number = value.get_ref().as_str().filter(|text| is_number(text));
            self.report(match number {
                Some(number) => found.help(format!("write {number} without quotes")),
                None => found,
            });
            return None;
        };
        let number =
            u64::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|number| range.contains(number));
        if number.is_none() {
            let message = outside(&integer.to_string(), what, *range.start(), *range.end());
            self.error(Code::OutOfRange, value, message);
        }
        number
    }

    pub(super) fn u32(&mut self, value: Value<'_>, what: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let number = self.integer(value, what, u64::from(*range.start())..=u64::from(*range.end()))?;
        u32::try_from(number).ok()
    }

    pub(super) fn u16(&mut self, value: Value<'_>, what: &str, range: RangeInclusive<u16>) -> Option<u16> {
        let number = self.integer(value, what, u64::from(*range.start())..=u64::from(*range.end()))?;
        u16::try_from(number).ok()
    }

    pub(super) fn u8(&mut self, value: Value<'_>, what: &str, range: RangeInclusive<u8>) -> Option<u8> {
        let number = self.integer(value, what, u64::from(*range.start())..=u64::from(*range.end()))?;
        u8::try_from(number).ok()
    }

    /// A probability: a float or integer between 0 and 1.
    pub(super) fn probability(&mut self, value: Value<'_>, what: &str) -> Option<f64> {
        let number = match value.get_ref() {
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            DeValue::Integer(integer) => {
                u64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|number| number as f64)
            }
            _ => return self.wrong_type(value, &format!("a number ({what})")),
        };
        let number = number.filter(|number| (0.0..=1.0).contains(number));
        if number.is_none() {
            self.error(Code::OutOfRange, value, format!("{what} is a probability, from 0.0 to 1.0"));
        }
        number
    }

    /// A path, not empty.
    pub(super) fn path<'d>(&mut self, value: Value<'d>) -> Option<At<&'d str>> {
        let path = self.string(value, "a file's path")?;
        if path.value.is_empty() || path.value.contains('\0') {
            self.error(Code::InvalidValue, value, "this is no path of a file");
            return None;
        }
        Some(path)
    }

    /// Says which type was expected and which was found.
    pub(super) fn wrong_type<T>(&mut self, value: Value<'_>, expected: &str) -> Option<T> {
        let found = type_name(value.get_ref());
        self.error(Code::WrongType, value, format!("expected {expected}, found {found}"));
        None
    }
}

/// A text is an integer as TOML writes it: decimal or hexadecimal digits.
fn is_number(text: &str) -> bool {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix))
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Describes a number outside its range.
pub(super) fn outside(number: &str, what: &str, least: u64, most: u64) -> String {
    format!("{number} is not within {least} to {most}, the range of {what}")
}

/// `a`, `b` and `c`, each in backquotes.
pub(super) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
