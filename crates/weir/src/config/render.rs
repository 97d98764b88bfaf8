//! Diagnostics as text for people and as JSON for programs.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{Annotation, AnnotationKind, Element, Group, Level, Renderer, Snippet};
use serde::Serialize;

use super::diagnostic::{Diagnostic, Label, Severity};
use super::source::{Source, SourceId, Sources};

/// Lines of one file that are at most this far apart are shown in one excerpt.
const NEAR: u32 = 12;

/// The diagnostics as a person reads them: each with its place, the line, a caret and what to do.
pub fn text(diagnostics: &[Diagnostic], sources: &Sources, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&renderer.render(&[group(diagnostic, sources)]));
        out.push_str("\n\n");
    }
    let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    if errors + warnings > 0 {
        let parts = [(errors, "error"), (warnings, "warning")];
        let parts: Vec<String> = parts.iter().filter(|part| part.0 > 0).map(|&(n, what)| plural(n, what)).collect();
        let _ = writeln!(out, "{}", parts.join(", "));
    }
    out
}

/// `1 error`, `2 errors`.
pub(crate) fn plural(count: usize, what: &str) -> String {
    crate::render::number::plural(count as u64, what)
}

fn group<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.as_str());
    let mut elements: Vec<Element<'a>> = Vec::new();
    if let Some(primary) = &diagnostic.primary {
        let labels = std::iter::once((AnnotationKind::Primary, primary))
            .chain(diagnostic.related.iter().map(|label| (AnnotationKind::Context, label)));
        for excerpt in excerpts(labels, sources) {
            elements.push(excerpt.snippet(sources).into());
        }
    }
    if let Some(help) = &diagnostic.help {
        elements.push(Level::HELP.message(help.as_str()).into());
    }
    Group::with_title(title).elements(elements)
}

/// Lines of one file with what is said about them.
struct Excerpt<'a> {
    source: SourceId,
    first: u32,
    last: u32,
    labels: Vec<(AnnotationKind, &'a Label)>,
}

/// Gathers labels that lie near each other.
fn excerpts<'a>(labels: impl Iterator<Item = (AnnotationKind, &'a Label)>, sources: &Sources) -> Vec<Excerpt<'a>> {
    let mut excerpts: Vec<Excerpt<'a>> = Vec::new();
    for (kind, label) in labels {
        let source = sources.source(label.span.source);
        let (first, last) = (source.line(label.span.start), source.line(label.span.end));
        let near = |e: &&mut Excerpt<'_>| {
            e.source == label.span.source
                && first <= e.last.saturating_add(NEAR)
                && e.first <= last.saturating_add(NEAR)
        };
        match excerpts.iter_mut().find(near) {
            Some(excerpt) => {
                excerpt.first = excerpt.first.min(first);
                excerpt.last = excerpt.last.max(last);
                excerpt.labels.push((kind, label));
            }
            None => excerpts.push(Excerpt { source: label.span.source, first, last, labels: vec![(kind, label)] }),
        }
    }
    excerpts
}

impl<'a> Excerpt<'a> {
    fn snippet(self, sources: &'a Sources) -> Snippet<'a, Annotation<'a>> {
        let source: &'a Source = sources.source(self.source);
        let mut start = source.line_start(self.first) as usize;
        if source.text[start..].starts_with('\u{feff}') {
            start += '\u{feff}'.len_utf8();
        }
        let end = source.line_range(self.last).end.max(start);
        // Relative to the excerpt, and within it: a span may reach over a line break.
        let relative = |range: Range<usize>| range.start.clamp(start, end) - start..range.end.clamp(start, end) - start;
        let annotations = self.labels.into_iter().map(|(kind, label)| {
            let annotation = kind.span(relative(label.span.range()));
            if label.text.is_empty() { annotation } else { annotation.label(label.text.as_str()) }
        });
        Snippet::source(&source.text[start..end])
            .path(&*source.name)
            .line_start(self.first as usize)
            .annotations(annotations.collect::<Vec<_>>())
    }
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    errors: usize,
    warnings: usize,
    diagnostics: Vec<JsonDiagnostic<'a>>,
}

#[derive(Serialize)]
struct JsonDiagnostic<'a> {
    severity: &'static str,
    code: &'static str,
    message: &'a str,
    #[serde(flatten)]
    place: Option<JsonPlace>,
    #[serde(skip_serializing_if = "str::is_empty")]
    label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related: Vec<JsonRelated<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct JsonPlace {
    file: Arc<str>,
    line: u32,
    column: u32,
    end_line: u32,
    end_column: u32,
}

#[derive(Serialize)]
struct JsonRelated<'a> {
    label: &'a str,
    #[serde(flatten)]
    place: JsonPlace,
}

/// The diagnostics as one line of JSON of the schema `weir.check/1`.
pub fn json(diagnostics: &[Diagnostic], sources: &Sources) -> String {
    let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let place = |label: &Label| {
        let position = sources.position(label.span);
        JsonPlace {
            file: position.file,
            line: position.line,
            column: position.column,
            end_line: position.end_line,
            end_column: position.end_column,
        }
    };
    let report = Report {
        schema: "weir.check/1",
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
        diagnostics: diagnostics
            .iter()
            .map(|diagnostic| JsonDiagnostic {
                severity: diagnostic.severity.as_str(),
                code: diagnostic.code.as_str(),
                message: &diagnostic.message,
                place: diagnostic.primary.as_ref().map(place),
                label: diagnostic.primary.as_ref().map_or("", |primary| &primary.text),
                help: diagnostic.help.as_deref(),
                related: (diagnostic.related.iter())
                    .map(|label| JsonRelated { label: &label.text, place: place(label) })
                    .collect(),
            })
            .collect(),
    };
    serde_json::to_string(&report).expect("strings and numbers serialise")
}
