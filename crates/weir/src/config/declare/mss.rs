//! `mss-clamp`, of lists of translations, tunnels and SAs.

use std::ops::RangeInclusive;

use toml::de::DeValue;
use weir_plane::model::MssClamp;

use super::super::table::{Reader, Value};

/// Maximum segment sizes: the least that hosts of Linux accept, and the greatest that fits a packet of IPv4.
const MSS: RangeInclusive<u16> = 88..=65_495;

/// Reads a maximum segment size, or `mtu`.
pub(super) fn mss_clamp(reader: &mut Reader<'_>, value: Value<'_>) -> Option<MssClamp> {
    match value.get_ref() {
        DeValue::Integer(_) => reader.u16(value, "the maximum segment size", MSS).map(MssClamp::Value),
        DeValue::String(_) => reader.choice(value, "maximum segment size", &[("mtu", MssClamp::Mtu)]),
        _ => reader.wrong_type(value, "an integer (the maximum segment size) or `mtu`"),
    }
}
