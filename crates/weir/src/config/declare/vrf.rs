//! `[[vrf]]`: routing domains.

use std::ops::RangeInclusive;

use super::super::table::{Reader, Value};
use super::At;

/// Translations that a VRF or a list may be limited to.
const NAT_LIMITS: RangeInclusive<u32> = 1..=16_000_000;

/// A routing domain.
pub(in super::super) struct Vrf {
    pub(in super::super) name: At<String>,
    pub(in super::super) nat_limit: Option<At<u32>>,
}

/// Reads a routing domain.
pub(super) fn read(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Vrf> {
    let table = reader.table(value, "a VRF", &["name", "nat-limit"])?;
    let name = reader.require(&table, "name").and_then(|value| reader.name(value));
    let nat_limit = table.get("nat-limit").and_then(|value| nat_limit(reader, value));
    Some(Vrf { name: name?, nat_limit })
}

/// Reads a limit on translations.
pub(super) fn nat_limit(reader: &mut Reader<'_>, value: Value<'_>) -> Option<At<u32>> {
    let span = reader.span(value.span());
    reader.u32(value, "a number of translations", NAT_LIMITS).map(|value| At { value, span })
}
