//! Rules in strings, and findings about them.

use super::super::diagnostic::{Code, Diagnostic};
use super::super::literal;
use super::super::source::{At, Span};
use super::super::table::{Reader, Value};
use crate::rules::{Finding, Findings, Kind};

/// A rule that stands in a string, which `parse` understands.
pub(super) fn understood<R>(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    parse: impl FnOnce(&str) -> Result<(R, Findings), Findings>,
) -> Option<At<R>> {
    let text = reader.string(value, "a rule")?;
    let (rule, found) = match parse(text.value) {
        Ok((rule, warnings)) => (Some(rule), warnings),
        Err(errors) => (None, errors),
    };
    for found in found.shown() {
        let literal = reader.text.get(text.span.range()).unwrap_or_default();
        let within = literal::within(literal, found.range.clone());
        // The place lies within a text of less than 4 GiB.
        let (start, end) = (text.span.start + within.start as u32, text.span.start + within.end as u32);
        reader.report(diagnostic(found, Span { source: text.span.source, start, end }));
    }
    rule.map(|value| At { value, span: text.span })
}

/// A finding about rules, at a place of the configuration.
pub(in super::super) fn diagnostic(finding: &Finding, span: Span) -> Diagnostic {
    let message = finding.message.as_str();
    let found = match finding.kind {
        Kind::Prefix => Diagnostic::error(Code::InvalidPrefix, span, message),
        Kind::HostBits => Diagnostic::warning(Code::HostBits, span, message),
        Kind::Interface => Diagnostic::error(Code::UnknownInterface, span, message),
        Kind::Group => Diagnostic::error(Code::UnknownGroup, span, message),
        Kind::Repeated => Diagnostic::warning(Code::DuplicateRule, span, message),
        _ => Diagnostic::error(Code::InvalidRule, span, message),
    };
    Diagnostic { help: finding.help.clone(), ..found }
}
