//! A text with all that a source says of a policy.

use std::sync::Arc;

use ipnet::IpNet;
use weir_plane::compile::{EntryKey, Names};

use super::super::remarks::Remarks;
use super::{Interfaces, keys};
use crate::render::remark::Remark;
use crate::rules::{self, Format};

/// A text that was understood.
#[derive(Debug, Default)]
pub struct Import {
    /// The interfaces of each prefix in each kind of list; each once, in their order.
    pub entries: Vec<(EntryKey, Names)>,
    /// Warnings.
    pub warnings: Remarks,
}

/// Reads a text for a gateway that has these interfaces. As in the configuration, rules of the same prefix and kind add up; that
/// there are such is a warning.
///
/// # Errors
/// When a rule cannot be read, or names an interface that does not exist: the first errors.
pub fn read(format: Format, text: &str, interfaces: &[String]) -> Result<Import, Remarks> {
    let mut errors = Remarks::default();
    let reading = match rules::read(format, text) {
        Ok(reading) => reading,
        Err(findings) => {
            errors.extend(None, &findings);
            return Err(errors);
        }
    };
    let mut import = Import { entries: Vec::with_capacity(reading.lines.len()), warnings: Remarks::default() };
    import.warnings.extend(None, &reading.warnings);
    let mut interfaces = Interfaces::new(interfaces);
    // With the places of their lines.
    let mut found: Vec<(EntryKey, u32, Names)> = Vec::with_capacity(reading.lines.len());
    for line in &reading.lines {
        let at = |offset: usize, message: String, help: Option<String>| {
            let (line, column) = place(text, offset);
            Remark { line: Some(line), column: Some(column), message, help, ..Remark::default() }
        };
        let start = line.start as usize;
        let names = match interfaces.of(&line.rule) {
            Ok(names) => names,
            Err(unknown) => {
                let within = text.get(start..line.end as usize).unwrap_or_default();
                let offset = rules::place_of(format, within, &unknown.name).map_or(0, |place| place.start);
                errors.push(|| at(start + offset, unknown.message(), unknown.help()));
                continue;
            }
        };
        let keys = keys(line.rule.from, line.rule.scope, line.rule.action);
        found.extend(keys.map(|key| (key, line.start, Arc::clone(&names))));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    // Quick where they are in order already, as most are.
    found.sort_by_key(|&(key, ..)| key);
    let mut first = 0;
    for (key, start, names) in found {
        match import.entries.last_mut() {
            Some((last, before)) if *last == key => {
                import.warnings.push(|| again(text, key.prefix, start, first, &names, before));
                *before = union(before, &names);
            }
            _ => {
                first = start;
                import.entries.push((key, names));
            }
        }
    }
    import.warnings.shown.sort_by_key(|remark| (remark.line, remark.column));
    Ok(import)
}

/// That a prefix stands in a text twice.
fn again(text: &str, prefix: IpNet, start: u32, first: u32, names: &Names, before: &Names) -> Remark {
    let (first, _) = place(text, first as usize);
    let (line, column) = place(text, start as usize);
    let same = names.iter().all(|name| before.contains(name));
    let (message, help) = match same {
        true => (format!("{prefix} says nothing that line {first} has not said"), "delete one of the two"),
        false => (format!("{prefix} stands in line {first}, too: the interfaces of both count"), "make it one rule"),
    };
    Remark { line: Some(line), column: Some(column), message, help: Some(help.to_owned()), ..Remark::default() }
}

/// The names of two lists, each once.
fn union(a: &Names, b: &Names) -> Names {
    if b.iter().all(|name| a.contains(name)) {
        return Arc::clone(a);
    }
    a.iter().chain(b.iter().filter(|name| !a.contains(name))).cloned().collect()
}

/// Line and column of an octet of a text, from 1; columns in characters.
fn place(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[start..].chars().filter(|&c| c != '\u{feff}').count() + 1;
    let bounded = |count| u32::try_from(count).unwrap_or(u32::MAX);
    (bounded(line), bounded(column))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interfaces() -> Vec<String> {
        vec!["cust1".into(), "cust2".into()]
    }

    fn texts(remarks: &Remarks) -> Vec<String> {
        remarks.shown.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_of_a_prefix_add_up() {
        let text = "# customers\npermit from 10.0.0.0/8 on cust1\n\npermit from 10.0.0.0/8 on cust2\npermit from 10.0.0.0/8 on cust1\npermit from any on any\ninterface deny from 10.0.0.0/8 on cust1\n";
        let import = read(Format::Rules, text, &interfaces()).unwrap();
        let entries: Vec<String> = import
            .entries
            .iter()
            .map(|(key, names)| {
                format!(
                    "{} {} {}",
                    key.mode.number(),
                    key.prefix,
                    names.iter().map(|name| &**name).collect::<Vec<_>>().join(" ")
                )
            })
            .collect();
        let expected =
            ["3 0.0.0.0/0 cust1 cust2", "2 10.0.0.0/8 cust1", "3 10.0.0.0/8 cust1 cust2", "3 ::/0 cust1 cust2"];
        assert_eq!(entries, expected);
        assert_eq!(
            texts(&import.warnings),
            [
                "line 4, column 1: 10.0.0.0/8 stands in line 2, too: the interfaces of both count (make it one rule)",
                "line 5, column 1: 10.0.0.0/8 says nothing that line 2 has not said (delete one of the two)",
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_whatever_the_format() {
        let rules = "permit from 10.0.0.0/8 on cust1\n  permit from 10.1.0.0/16 on cust1, cus2\ninterface deny from any on cus1\n";
        assert_eq!(
            texts(&read(Format::Rules, rules, &interfaces()).unwrap_err()),
            [
                "line 2, column 37: there is no interface `cus2` (did you mean `cust2`?)",
                "line 3, column 28: there is no interface `cus1` (did you mean `cust1`?)",
            ]
        );
        let csv = "prefix,interfaces\n10.0.0.0/8,cust1\n10.1.0.0/16,cust1 cus2\n";
        let found = texts(&read(Format::Csv, csv, &interfaces()).unwrap_err());
        assert_eq!(found, ["line 3, column 19: there is no interface `cus2` (did you mean `cust2`?)"]);
        let json = "[\n {\"prefix\":\"10.0.0.0/8\",\"interfaces\":[\"cust1\"]},\n {\"prefix\":\"10.1.0.0/33\",\"interfaces\":[\"cust1\"]}\n]";
        let found = texts(&read(Format::Json, json, &interfaces()).unwrap_err());
        assert!(found.len() == 1 && found[0].starts_with("line 3, column "), "{found:?}");
    }

    #[test]
    fn a_source_may_say_nothing() {
        let import = read(Format::Rules, "", &interfaces()).unwrap();
        assert!(import.entries.is_empty() && import.warnings.is_empty());
    }
}
