//! `[[route]]` and `[[route-file]]`.

use super::super::diagnostic::{Code, Diagnostic};
use super::super::table::{Reader, Table, Value};
use super::{At, Path, Route, RouteFile, Target};

#[derive(Clone, Copy)]
enum Type {
    Blackhole,
    Unreachable,
    Prohibit,
    Local,
}

const TYPES: &[(&str, Type)] = &[
    ("blackhole", Type::Blackhole),
    ("unreachable", Type::Unreachable),
    ("prohibit", Type::Prohibit),
    ("local", Type::Local),
];

pub(super) fn read(reader: &mut Reader<'_>, value: Value<'_>) -> Option<Route> {
    let table = reader.table(value, "a route", &["prefix", "vrf", "metric", "via", "type"])?;
    let prefix = reader.require(&table, "prefix").and_then(|value| reader.prefix(value));
    let vrf = table.get("vrf").and_then(|value| reader.reference(value, "a VRF's name"));
    let metric = metric(reader, &table);
    let target = target(reader, &table);
    if table.has("vrf") && vrf.is_none() {
        return None;
    }
    Some(Route { vrf, metric: metric?, prefix: prefix?, target })
}

pub(super) fn read_file(reader: &mut Reader<'_>, value: Value<'_>) -> Option<RouteFile> {
    let table = reader.table(value, "a file of routes", &["path", "vrf", "metric", "via", "type"])?;
    let path = reader.require(&table, "path").and_then(|value| reader.path(value));
    let vrf = table.get("vrf").and_then(|value| reader.reference(value, "a VRF's name"));
    let metric = metric(reader, &table);
    let target = target(reader, &table);
    if table.has("vrf") && vrf.is_none() {
        return None;
    }
    let path = path.map(|path| At { value: path.value.to_owned(), span: path.span });
    Some(RouteFile { path: path?, vrf, metric: metric?, target, source: None, routes: Vec::new() })
}

/// Returns the metric, by default 0. `None`: it could not be read, so duplicates of the route cannot be found.
fn metric(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<u32> {
    match table.get("metric") {
        Some(value) => reader.u32(value, "a metric", 0..=u32::MAX),
        None => Some(0),
    }
}

fn target(reader: &mut Reader<'_>, table: &Table<'_>) -> Option<Target> {
    match (table.get("via"), table.get("type")) {
        (Some(value), None) => {
            let values = reader.one_at_least(value, "path");
            let keys = &["address", "interface", "vrf", "weight"];
            let paths: Vec<_> = values.iter().map(|value| path(reader, value, "a path", keys)).collect();
            let lost = paths.iter().any(Option::is_none);
            Some(Target::Via { paths: paths.into_iter().flatten().collect(), lost })
        }
        (None, Some(value)) => reader.choice(value, "type of route", TYPES).map(|kind| match kind {
            Type::Blackhole => Target::Blackhole,
            Type::Unreachable => Target::Unreachable,
            Type::Prohibit => Target::Prohibit,
            Type::Local => Target::Local,
        }),
        (Some(via), Some(kind)) => {
            let (via, kind) = (reader.span(via.span()), reader.span(kind.span()));
            let message = "a route has either `via` or `type`";
            reader.report(Diagnostic::error(Code::ConflictingKeys, kind, message).related(via, "beside these paths"));
            None
        }
        (None, None) => {
            if !reader.is_excused(table, "via") && !reader.is_excused(table, "type") {
                let message = format!("{} needs `via`, or a `type`", table.what);
                let found = Diagnostic::error(Code::MissingKey, table.span, message);
                reader.report(found.help("write `via = { address = \"…\" }`, or `type = \"blackhole\"`"));
            }
            None
        }
    }
}

/// Where packets are sent: `what`, with its article.
pub(super) fn path(reader: &mut Reader<'_>, value: Value<'_>, what: &'static str, keys: &[&str]) -> Option<Path> {
    let table = reader.table(value, what, keys)?;
    let address = match table.get("address") {
        Some(value) => Some(reader.host_address(value)?),
        None => None,
    };
    let interface = match table.get("interface") {
        Some(value) => Some(reader.reference(value, "an interface's name")?),
        None => None,
    };
    let vrf = match table.get("vrf") {
        Some(value) => Some(reader.reference(value, "a VRF's name")?),
        None => None,
    };
    let weight = match table.get("weight") {
        Some(value) => reader.u8(value, "a weight", 1..=u8::MAX)?,
        None => 1,
    };
    if address.is_none() && interface.is_none() {
        let message = format!("{what} needs `address`, `interface` or both");
        reader.report(Diagnostic::error(Code::MissingKey, table.span, message));
        return None;
    }
    Some(Path { address, interface, vrf, weight, span: table.span })
}
