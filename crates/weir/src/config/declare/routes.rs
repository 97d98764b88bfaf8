//! `[routes]`.

use std::net::SocketAddr;
use std::time::Duration;

use toml::de::DeValue;

use super::super::diagnostic::{Code, Diagnostic};
use super::super::routes::{Routes, Table as RouteTable};
use super::super::source::At;
use super::super::table::{Reader, Table, Value};

/// The keys of the table.
pub(super) const KEYS: &[&str] = &["kernel", "fpm", "limit", "stale-time", "table"];

/// Reads the table. `None` if it names no source. The names of VRFs are checked later: each has a place.
pub(super) fn read(reader: &mut Reader<'_>, table: &Table<'_>) -> (Option<Routes>, Vec<At<String>>) {
    let kernel = table.get("kernel").and_then(|value| reader.boolean(value)).unwrap_or(false);
    let fpm = table.get("fpm").and_then(|value| listen(reader, value));
    let limit = table.get("limit").and_then(|value| reader.u32(value, "the number of routes", 1..=1 << 26));
    let seconds = Duration::from_secs;
    let stale = table.get("stale-time").and_then(|value| {
        reader.duration(value, "the time for stale routes", seconds(1)..=seconds(86_400), Duration::from_millis(1))
    });
    let (mut tables, mut vrfs): (Vec<RouteTable>, Vec<At<String>>) = (Vec::new(), Vec::new());
    for value in reader.tables(table, "table") {
        let Some((own, vrf)) = one(reader, value) else { continue };
        if tables.iter().any(|other| (other.id, &other.vrf) == (own.id, &own.vrf)) {
            let message = format!("table {} stands twice for the VRF `{}`", own.id, own.vrf);
            reader.error(Code::InvalidValue, value, message);
        }
        tables.push(own);
        vrfs.extend(vrf);
    }
    if tables.is_empty() {
        tables.push(RouteTable::main());
    }
    warn(reader, table, kernel);
    let limit = limit.unwrap_or(Routes::LIMIT);
    let routes = Routes { kernel, fpm, limit, stale_time: stale.unwrap_or(Routes::STALE_TIME), tables };
    ((kernel || fpm.is_some()).then_some(routes), vrfs)
}

/// Warns of keys that do nothing without others.
fn warn(reader: &mut Reader<'_>, table: &Table<'_>, kernel: bool) {
    if let (Some(value), false) = (table.get("stale-time"), table.has("fpm")) {
        let span = reader.span(value.span());
        let message = "`stale-time` does nothing without `fpm`: routes of the kernel are never stale";
        reader.report(Diagnostic::warning(Code::IdleRoutes, span, message));
    }
    if !kernel && !table.has("fpm") {
        let found =
            Diagnostic::warning(Code::IdleRoutes, table.span, "`[routes]` names no source: no routes are taken");
        reader.report(found.help("write `kernel = true`, or `fpm = \"127.0.0.1:2620\"`"));
    }
}

/// A `[[routes.table]]`, with its VRF if it names one.
fn one(reader: &mut Reader<'_>, value: Value<'_>) -> Option<(RouteTable, Option<At<String>>)> {
    let table = reader.table(value, "a table of routes", &["vrf", "id", "protocols", "max-metric"])?;
    let mut own = RouteTable::main();
    let vrf = table.get("vrf").and_then(|value| reader.reference(value, "a VRF's name"));
    if let Some(vrf) = &vrf {
        own.vrf.clone_from(&vrf.value);
    }
    let mut is_known = true;
    if let Some(value) = table.get("id") {
        let id = reader.u32(value, "the number of a table", 1..=u32::MAX);
        is_known = id.is_some();
        own.id = id.unwrap_or(own.id);
    }
    if let Some(value) = table.get("max-metric") {
        own.max_metric = reader.u32(value, "a metric", 0..=u32::MAX).unwrap_or(own.max_metric);
    }
    if let Some(value) = table.get("protocols") {
        for value in reader.one_at_least(value, "protocol") {
            own.protocols.extend(match value.get_ref() {
                DeValue::Integer(_) => reader.u8(value, "the number of a protocol", 1..=255),
                _ => reader.choice(value, "protocol of routes", RouteTable::PROTOCOLS),
            });
        }
    }
    // Without its number, it is not known which tables are the same.
    is_known.then_some((own, vrf))
}

/// An address with a port.
fn listen(reader: &mut Reader<'_>, value: Value<'_>) -> Option<SocketAddr> {
    let text = reader.string(value, "an address with a port")?;
    let wrong = match text.value.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => "port 0 is no port that a program could know".to_owned(),
        Ok(address) => {
            if !address.ip().is_loopback() {
                let message = format!("programs of other hosts can set routes at {address}");
                let found = Diagnostic::warning(Code::OpenFpm, text.span, message);
                reader.report(found.help("use an address of the loopback, as `127.0.0.1:2620`"));
            }
            return Some(address);
        }
        Err(_) => format!("`{}` is no address with a port", text.value.escape_debug()),
    };
    let wrong = Diagnostic::error(Code::InvalidValue, text.span, wrong);
    reader.report(wrong.help("write `127.0.0.1:2620` or `[::1]:2620`: FRR's default is 127.0.0.1:2620"));
    None
}
