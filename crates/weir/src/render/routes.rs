//! `show routes`: the forwarding tables.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::number::plural;
use super::table::{Align, Table};

/// Routes, each VRF's in the order of their prefixes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routes {
    /// The number of requested routes; more than are listed if a limit was given.
    pub total: usize,
    /// Each route.
    pub routes: Vec<stats::RouteRow>,
    /// The sources of routes beside the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
}

/// A source of routes, as `show routes` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Source {
    /// `kernel` or `fpm`.
    pub source: String,
    /// `listing`, `following`, `waiting` (for a connection) or `failed`.
    pub state: String,
    /// Routes of the source in the tables that are taken, best or not.
    pub routes: usize,
    /// Next hop objects of the source.
    pub nexthops: usize,
    /// Routes that found no room, since the start.
    pub refused: u64,
    /// Lists that were read, or connections.
    pub lists: u64,
    /// Times that changes came faster than they were read.
    pub overflows: u64,
    /// Routes that it may have, at most.
    #[serde(default)]
    pub limit: u64,
    /// Memory of its routes and next hop objects as the source reports them, in octets, by estimate.
    #[serde(default)]
    pub bytes: u64,
}

/// The filter of routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Only this VRF's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrf: Option<String>,
    /// Only this many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl Routes {
    /// Returns the routes that pass the filter.
    pub fn new(mut rows: Vec<stats::RouteRow>, filter: &Filter) -> Self {
        if let Some(vrf) = &filter.vrf {
            rows.retain(|row| row.vrf == *vrf);
        }
        let total = rows.len();
        rows.truncate(filter.limit.unwrap_or(usize::MAX));
        Routes { total, routes: rows, sources: Vec::new() }
    }
}

/// The headers of the columns of a route.
pub(super) const COLUMNS: [(&str, Align); 6] = [
    ("Kind", Align::Left),
    ("Path", Align::Left),
    ("MAC", Align::Left),
    ("Weight", Align::Right),
    ("Share", Align::Right),
    ("Declared", Align::Left),
];

/// Prints a route: a line for each path, one at least.
pub(super) fn lines(route: &stats::RouteRow) -> Vec<[String; 6]> {
    let stats::RouteRow { kind, paths, .. } = route;
    let declared = declared(route);
    let line = |[path, mac, weight, share]: [String; 4]| [kind.to_string(), path, mac, weight, share, declared.clone()];
    if paths.is_empty() {
        return vec![line(Default::default())];
    }
    let of_path = |one: &stats::PathRow| {
        let share = format!("{:.1} %", f64::from(one.share_permille) / 10.0);
        line([path(one), one.mac.clone().unwrap_or_default(), one.weight.to_string(), share])
    };
    paths.iter().map(of_path).collect()
}

/// Prints `edge.toml:20`, or `kernel bgp, metric 20`.
fn declared(route: &stats::RouteRow) -> String {
    let stats::RouteRow { origin, source, protocol, metric, .. } = route;
    if !origin.is_empty() || source == "file" {
        return origin.clone();
    }
    let protocol = protocol.as_ref().map_or_else(String::new, |protocol| format!(" {protocol}"));
    let metric = metric.map_or_else(String::new, |metric| format!(", metric {metric}"));
    format!("{source}{protocol}{metric}")
}

/// Prints `198.51.100.254 on wan`, or `on wan`.
fn path(path: &stats::PathRow) -> String {
    match path.address {
        Some(address) => format!("{address} on {}", path.interface),
        None => format!("on {}", path.interface),
    }
}

impl Report for Routes {
    const SCHEMA: &'static str = "weir.show.routes/1";

    /// One line a path, so that a route of many paths takes several.
    fn text(&self) -> String {
        let [kind, path, mac, weight, share, declared] = COLUMNS;
        let mut table =
            Table::new(&[("VRF", Align::Left), ("Prefix", Align::Left), kind, path, mac, weight, share, declared]);
        for route in &self.routes {
            for [kind, path, mac, weight, share, declared] in lines(route) {
                let (vrf, prefix) = (route.vrf.clone(), route.prefix.clone());
                table.row([vrf, prefix, kind, path, mac, weight, share, declared]);
            }
        }
        let mut text = table.text();
        if self.routes.len() < self.total {
            let _ = writeln!(text, "{} of {}", self.routes.len(), plural(self.total as u64, "route"));
        }
        for source in &self.sources {
            let Source { source, state, routes, refused, overflows, .. } = source;
            let routes = plural(*routes as u64, "route");
            let overflows = plural(*overflows, "overflow");
            let _ = writeln!(text, "source {source}: {state}, {routes}, {refused} refused, {overflows}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn one_line_a_path() {
        let routes = Routes::new(sample::routes(), &Filter::default());
        assert_eq!(
            routes.text(),
            "\
VRF      Prefix          Kind         Path                   MAC                Weight    Share  Declared
default  0.0.0.0/0       via          198.51.100.254 on wan  02:00:00:00:00:fe       3   75.0 %  edge.toml:20
default  0.0.0.0/0       via          192.0.2.254 on lan     -                       1   25.0 %  edge.toml:20
default  192.0.2.0/24    connected    on lan                 -                       1  100.0 %  edge.toml:9
default  203.0.113.0/24  blackhole    -                      -                       -        -  edge.toml:24
default  ff00::/8        unreachable  -                      -                       -        -  -
"
        );
        assert_eq!(read::<Routes>(&json(&routes)).unwrap(), routes);
    }

    #[test]
    fn a_limit_says_what_it_left_out() {
        let filter = Filter { limit: Some(1), ..Filter::default() };
        assert!(Routes::new(sample::routes(), &filter).text().ends_with("1 of 4 routes\n"));
        let filter = Filter { vrf: Some("blue".into()), ..Filter::default() };
        assert_eq!(Routes::new(sample::routes(), &filter), Routes { total: 0, routes: vec![], sources: vec![] });
    }
}
