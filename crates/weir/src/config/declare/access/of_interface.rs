//! `acl`, `allow`, `classify`, `ethertypes`, `mac-ip`, `dhcp-trusted` and `slaac-trusted` of an interface.

use toml::de::DeValue;
use weir_plane::model::PerFamily;

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::super::source::Span;
use super::super::super::table::{Reader, Table, Value};
use super::super::At;
use crate::ethertype;

/// The least ethertype; what is less is a length (IEEE 802.3, 3.2.6).
const LEAST: u16 = 0x0600;

/// The lists that an interface applies.
#[derive(Default)]
pub(in super::super::super) struct OfInterface {
    /// Names of lists, in order.
    pub(in super::super::super) acl_in: Vec<At<String>>,
    pub(in super::super::super) acl_out: Vec<At<String>>,
    /// Names of allowlists.
    pub(in super::super::super) allow: PerFamily<Vec<At<String>>>,
    pub(in super::super::super) ethertypes_in: Option<Ethertypes>,
    pub(in super::super::super) ethertypes_out: Option<Ethertypes>,
    /// The names of classifier tables.
    pub(in super::super::super) classify_in: Option<At<String>>,
    pub(in super::super::super) classify_out: Option<At<String>>,
    /// The name of bindings.
    pub(in super::super::super) bindings: Option<At<String>>,
    /// Answers of DHCP servers are believed, as this key says.
    pub(in super::super::super) dhcp_trusted: Option<Span>,
    /// Claims of addresses are believed, as this key says.
    pub(in super::super::super) slaac_trusted: Option<Span>,
}

/// The EtherTypes that may pass, and the place of the key.
pub(in super::super::super) type Ethertypes = (Vec<u16>, Span);

/// Reads what a table says of an interface.
pub(in super::super) fn read(reader: &mut Reader<'_>, interface: &Table<'_>) -> OfInterface {
    let mut of = OfInterface::default();
    if let Some(table) = directions(reader, interface, "acl", "`acl`") {
        let mut names = |key: &str| table.get(key).map_or_else(Vec::new, |value| names(reader, value, "a list's name"));
        (of.acl_in, of.acl_out) = (names("in"), names("out"));
    }
    if let Some(value) = interface.get("allow") {
        of.allow = allow(reader, value);
    }
    if let Some(table) = directions(reader, interface, "classify", "`classify`") {
        let mut name =
            |key: &str| table.get(key).and_then(|value| reader.reference(value, "a classifier table's name"));
        (of.classify_in, of.classify_out) = (name("in"), name("out"));
    }
    if let Some(table) = directions(reader, interface, "ethertypes", "`ethertypes`") {
        let mut types = |key: &str| table.get(key).and_then(|value| ethertypes(reader, value));
        (of.ethertypes_in, of.ethertypes_out) = (types("in"), types("out"));
    }
    of.bindings = interface.get("mac-ip").and_then(|value| reader.reference(value, "the name of bindings"));
    let mut trusted = |key: &str| {
        let value = interface.get(key)?;
        reader.boolean(value).filter(|is_on| *is_on).map(|_| reader.span(value.span()))
    };
    (of.dhcp_trusted, of.slaac_trusted) = (trusted("dhcp-trusted"), trusted("slaac-trusted"));
    of
}

/// A table of `in` and `out`, at least one of which is there.
fn directions<'d>(reader: &mut Reader<'_>, interface: &Table<'d>, key: &str, what: &'static str) -> Option<Table<'d>> {
    let table = reader.table(interface.get(key)?, what, &["in", "out"])?;
    if table.len() == 0 {
        let found = Diagnostic::error(Code::MissingKey, table.span, format!("{what} needs `in`, `out` or both"));
        reader.report(found);
    }
    Some(table)
}

fn names(reader: &mut Reader<'_>, value: Value<'_>, what: &str) -> Vec<At<String>> {
    let values = reader.one_or_more(value);
    // Not an error: who generates a file may have nothing to name. But a key that is there and does nothing misleads.
    if values.is_empty() {
        let found =
            Diagnostic::warning(Code::EmptyList, reader.span(value.span()), "no list is named: everything passes");
        reader.report(found.help("name lists, or leave the key out"));
    }
    values.iter().filter_map(|value| reader.reference(value, what)).collect()
}

/// Names of allowlists: for both families, or for each.
fn allow(reader: &mut Reader<'_>, value: Value<'_>) -> PerFamily<Vec<At<String>>> {
    const WHAT: &str = "an allowlist's name";
    let DeValue::Table(_) = value.get_ref() else {
        let v4 = names(reader, value, WHAT);
        return PerFamily { v6: v4.clone(), v4 };
    };
    let Some(table) = reader.table(value, "`allow`", &["ipv4", "ipv6"]) else { return PerFamily::default() };
    if table.len() == 0 {
        reader.report(Diagnostic::error(Code::MissingKey, table.span, "`allow` needs `ipv4`, `ipv6` or both"));
    }
    let mut of = |key: &str| table.get(key).map_or_else(Vec::new, |value| names(reader, value, WHAT));
    PerFamily { v4: of("ipv4"), v6: of("ipv6") }
}

fn ethertypes(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Ethertypes> {
    let span = reader.span(value.span());
    let values = reader.one_or_more(value).iter();
    let types: Vec<_> = values.map(|value| ethertype(reader, value)).collect();
    let mut types = types.into_iter().collect::<Option<Vec<u16>>>()?;
    types.sort_unstable();
    types.dedup();
    Some((types, span))
}

/// An ethertype: a name, a number, or a string of hexadecimal digits behind `0x`.
fn ethertype(reader: &mut Reader<'_>, value: Value<'_>) -> Option<u16> {
    match value.get_ref() {
        DeValue::Integer(_) => reader.u16(value, "an ethertype", LEAST..=u16::MAX),
        DeValue::String(text) => {
            if let Some(digits) = text.strip_prefix("0x") {
                let number = u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
                let number = number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number >= LEAST);
                if number.is_none() {
                    let message = format!("`{text}` is no ethertype: these are 0x{LEAST:04x} to 0xffff");
                    reader.error(Code::OutOfRange, value, message);
                }
                return number;
            }
            reader.choice(value, "ethertype", ethertype::NAMES)
        }
        _ => reader.wrong_type(value, "an ethertype: a name such as `ipv4`, or a number"),
    }
}
