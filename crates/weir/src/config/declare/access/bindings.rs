//! `[mac-ip.NAME]`: which hardware addresses may use which addresses of IP.

use weir_plane::model::Learn;

use super::super::super::diagnostic::Code;
use super::super::super::table::{Reader, Value};
use super::super::At;
use super::super::rules::understood;
use crate::rules::binding::{self, Binding};

/// A list of bindings.
pub(in super::super::super) struct Bindings {
    pub(in super::super::super) name: At<String>,
    pub(in super::super::super) rules: Vec<At<Binding>>,
    pub(in super::super::super) learn: Option<Learn>,
}

/// Learned bindings of a list at most, unless the list says how many.
const LEARNED: u32 = 4096;

/// Learned bindings of a list at most, whatever it says.
const MOST_LEARNED: u32 = 65_536;

/// Reads bindings that stand under this name.
pub(super) fn read(reader: &mut Reader<'_>, name: At<String>, value: Value<'_>) -> Option<Bindings> {
    let table = reader.table(value, "a list of bindings", &["rules", "learn", "learn-limit"])?;
    let mut rules = Vec::new();
    let learn = table.get("learn").and_then(|value| reader.choice(value, "source of bindings", &[("dhcp", ())]));
    // A list that learns may have no rules of its own.
    let value = if table.has("learn") { table.get("rules") } else { reader.require(&table, "rules") };
    if let Some(value) = value {
        for value in reader.one_at_least(value, "rule") {
            rules.extend(understood(reader, value, binding::parse));
        }
    }
    let limit = table.get("learn-limit").and_then(|value| {
        if !table.has("learn") {
            let message = "`learn-limit` has no meaning without `learn`";
            reader.error(Code::ConflictingKeys, value, message);
        }
        reader.u32(value, "the number of learned bindings", 1..=MOST_LEARNED)
    });
    let learn = learn.map(|()| Learn { limit: limit.unwrap_or(LEARNED) });
    Some(Bindings { name, rules, learn })
}
