//! Rules as CSV (RFC 4180): a header, then a rule a line.

use std::ops::Range;

use super::findings::{Kind, Sink};
use super::names::Names;
use super::words::{self, Problem, shown};
use super::{Action, Line, Rule, Scope};

const COLUMNS: [&str; 5] = ["prefix", "interfaces", "action", "scope", "comment"];

/// Where the columns of a text are.
struct Columns {
    count: usize,
    prefix: usize,
    interfaces: usize,
    action: Option<usize>,
    scope: Option<usize>,
    comment: Option<usize>,
}

/// Reads the records of a text. Without a header that can be understood there are none.
pub(super) fn read(text: &str, names: &mut Names, sink: &mut Sink<'_>) -> Vec<Line> {
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut record = ::csv::StringRecord::new();
    let mut columns = None;
    let mut lines = Vec::with_capacity(text.len() / 32);
    loop {
        let start = reader.position().byte() as usize;
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                // It reads from memory and takes records of any length: only what is no UTF-8 fails, and `text` is.
                sink.error(start..text.len(), Problem::new(Kind::Rule, error.to_string()));
                break;
            }
        }
        let raw = trim(text, start..reader.position().byte() as usize);
        if record.iter().all(|field| field.trim_ascii().is_empty()) && record.len() == 1 {
            continue;
        }
        let Some(columns) = &columns else {
            match header(&record) {
                Ok(found) => columns = Some(found),
                Err((field, problem)) => {
                    sink.error(place(text, raw, field), problem);
                    return lines;
                }
            }
            continue;
        };
        match rule(&record, columns, names, |field, odd| sink.warning(place(text, raw.clone(), Some(field)), odd)) {
            // The text is smaller than 4 GiB.
            Ok(rule) => lines.push(Line { rule, start: raw.start as u32, end: raw.end as u32 }),
            Err((field, problem)) => sink.error(place(text, raw, field), problem),
        }
    }
    if columns.is_none() {
        sink.error(text.len()..text.len(), missing("prefix"));
    }
    lines
}

/// An error about a field of a record, or about the whole record.
type Failure = (Option<usize>, Problem);

fn header(record: &::csv::StringRecord) -> Result<Columns, Failure> {
    let mut found = [None; COLUMNS.len()];
    for (at, field) in record.iter().enumerate() {
        let field = field.trim_ascii();
        let Some(column) = COLUMNS.iter().position(|column| *column == field) else {
            let problem = Problem::new(Kind::Rule, format!("there is no column `{}`", shown(field)));
            let problem = problem.help("the first line names the columns: `prefix,interfaces,action,scope,comment`");
            return Err((Some(at), problem.suggest(field, &COLUMNS)));
        };
        if found[column].replace(at).is_some() {
            return Err((Some(at), Problem::new(Kind::Rule, format!("there are two columns `{field}`"))));
        }
    }
    let [prefix, interfaces, action, scope, comment] = found;
    let prefix = prefix.ok_or_else(|| (None, missing("prefix")))?;
    let interfaces = interfaces.ok_or_else(|| (None, missing("interfaces")))?;
    Ok(Columns { count: record.len(), prefix, interfaces, action, scope, comment })
}

fn missing(column: &str) -> Problem {
    let problem = Problem::new(Kind::Rule, format!("the column `{column}` is missing"));
    problem.help("the first line names the columns: `prefix,interfaces`, perhaps `action`, `scope` and `comment`")
}

fn rule(
    record: &::csv::StringRecord,
    columns: &Columns,
    names: &mut Names,
    mut warn: impl FnMut(usize, Problem),
) -> Result<Rule, Failure> {
    if record.len() != columns.count {
        let message = format!("expected {} fields, found {}", columns.count, record.len());
        return Err((None, Problem::new(Kind::Rule, message)));
    }
    let field = |column: usize| record.get(column).unwrap_or_default().trim_ascii();
    let optional =
        |column: Option<usize>| column.map(|column| (column, field(column))).filter(|(_, text)| !text.is_empty());
    let (from, odd) = words::source(field(columns.prefix)).map_err(|problem| (Some(columns.prefix), problem))?;
    if let Some(odd) = odd {
        warn(columns.prefix, odd);
    }
    let list: Vec<&str> = field(columns.interfaces).split_ascii_whitespace().collect();
    if list.is_empty() {
        return Err((Some(columns.interfaces), words::no_interfaces()));
    }
    let shared = names.list(&list).map_err(|(_, problem)| (Some(columns.interfaces), problem))?;
    if let Some(at) = shared.repeated {
        warn(columns.interfaces, words::repeated(list[at]));
    }
    let action = match optional(columns.action) {
        Some((column, word)) => words::action(word).map_err(|problem| (Some(column), problem))?,
        None => Action::Permit,
    };
    let scope = match optional(columns.scope) {
        Some((column, word)) => words::scope(word).map_err(|problem| (Some(column), problem))?,
        None => Scope::Prefix,
    };
    let comment = match optional(columns.comment) {
        Some((column, text)) => Some(words::comment(text).map_err(|problem| (Some(column), problem))?),
        None => None,
    };
    Ok(Rule { scope, action, from, on: shared.on, comment })
}

/// A part of a text without the blanks and line breaks around it.
fn trim(text: &str, part: Range<usize>) -> Range<usize> {
    let raw = &text[part.clone()];
    let blank = |c: char| c.is_ascii_whitespace() || c == '\u{feff}';
    let start = part.start + raw.len() - raw.trim_start_matches(blank).len();
    start..(part.start + raw.trim_end_matches(blank).len()).max(start)
}

/// Where a field of a record stands, or the record itself.
fn place(text: &str, record: Range<usize>, field: Option<usize>) -> Range<usize> {
    let Some(field) = field else { return record };
    let raw = &text[record.clone()];
    let mut quoted = false;
    let mut start = 0;
    let mut count = 0;
    for (at, byte) in raw.bytes().chain([b',']).enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted || at == raw.len() => {
                if count == field {
                    return trim(text, record.start + start..record.start + at);
                }
                count += 1;
                start = at + 1;
            }
            _ => {}
        }
    }
    record
}

/// Where a record names an interface, in octets of its text.
pub(super) fn place_of(record: &str, interface: &str) -> Option<Range<usize>> {
    let apart = |c: Option<char>| c.is_none_or(|c| c.is_ascii_whitespace() || c == ',' || c == '"');
    let mut found = record.match_indices(interface);
    let (at, _) = found.find(|(at, word)| {
        apart(record[..*at].chars().next_back()) && apart(record[at + word.len()..].chars().next())
    })?;
    Some(at..at + interface.len())
}
