//! `[classify.NAME]`: a classifier table.

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::table::{Reader, Value};
use super::super::rules::understood;
use super::super::{At, refuse};
use crate::rules::classify::{Mask, Session, parse_mask, parse_session};

/// Sessions of a table at most.
const MOST_SESSIONS: u32 = 16_000_000;

/// A table.
pub(in super::super::super) struct Classify {
    pub(in super::super::super) name: At<String>,
    /// `None`: it could not be read.
    pub(in super::super::super) mask: Option<At<Mask>>,
    pub(in super::super::super) size: Option<At<u32>>,
    pub(in super::super::super) next: Option<At<String>>,
    pub(in super::super::super) permits_misses: bool,
    pub(in super::super::super) sessions: Vec<At<Session>>,
}

/// Reads a table that stands under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Classify> {
    let table = reader.table(value, "a classifier table", &["mask", "size", "next", "miss", "sessions"])?;
    let mask = reader.require(&table, "mask").and_then(|value| understood(reader, value, parse_mask));
    let size = table.get("size").and_then(|value| {
        let span = reader.span(value.span());
        Some(At { value: reader.u32(value, "the number of sessions", 1..=MOST_SESSIONS)?, span })
    });
    let next = table.get("next").and_then(|value| reader.reference(value, "a classifier table's name"));
    if table.has("next") {
        refuse(reader, &table, &["miss"], "has no meaning beside `next`, which decides about these packets");
    }
    let miss = table.get("miss");
    let miss = miss.and_then(|value| reader.choice(value, "action", &[("permit", true), ("deny", false)]));
    let mut sessions = Vec::new();
    if let (Some(value), Some(mask)) = (table.get("sessions"), &mask) {
        for value in reader.one_or_more(value) {
            sessions.extend(understood(reader, value, |text| parse_session(text, &mask.value)));
        }
    }
    if sessions.len() > MOST_SESSIONS as usize {
        let message = format!("a table has {MOST_SESSIONS} sessions at most, not {}", sessions.len());
        reader.report(Diagnostic::error(Code::LimitExceeded, name.span, message));
    }
    Some(Classify { name, mask, size, next, permits_misses: miss.unwrap_or(true), sessions })
}
