//! Routes of other sources, with the programs that added them and their metrics.

use std::collections::{BTreeMap, HashMap};

use ipnet::IpNet;
use weir_plane::compile::Target;
use weir_plane::stats::RouteRow;

use super::Running;
use crate::config::routes::Table;
use crate::routes::Own;

/// Rows of a source, and their prefixes with the VRFs.
#[derive(Default)]
struct OfSource<'a> {
    rows: Vec<&'a mut RouteRow>,
    prefixes: Vec<(String, IpNet)>,
}

impl Running {
    /// Names the host as the source of routes of its addresses. Adds the programs and metrics of routes of other sources, if these
    /// are not busy.
    pub(super) fn describe<'a>(&self, rows: impl Iterator<Item = &'a mut RouteRow>) {
        let hosts = self.host_so_far().places();
        let mut by_source: BTreeMap<String, OfSource<'_>> = BTreeMap::new();
        for row in rows {
            if let Some(name) = hosts.get(&row.origin) {
                (row.source, row.origin) = ("host".into(), name.clone());
            }
            if row.source == "file" || row.source == "host" {
                continue;
            }
            let Ok(prefix) = row.prefix.parse() else { continue };
            let own = by_source.entry(row.source.to_string()).or_default();
            own.prefixes.push((row.vrf.clone(), prefix));
            own.rows.push(row);
        }
        if by_source.is_empty() {
            return;
        }
        let (model, numbers) = self.engine.numbered();
        let names = numbers.into_iter().zip(model.interfaces.iter().map(|own| own.name.as_str())).collect();
        for (source, OfSource { rows, prefixes }) in by_source {
            let Some(all) = self.sources.own(&source, prefixes) else { continue };
            for (row, own) in rows.into_iter().zip(all) {
                if let Some(own) = shown(row, &own, &names) {
                    row.protocol = Some(protocol(own.protocol));
                    row.metric = Some(own.metric);
                }
            }
        }
    }
}

/// The route of a source that a row shows: the first that leads there.
fn shown<'a>(row: &RouteRow, all: &'a [Own], names: &HashMap<u32, &str>) -> Option<&'a Own> {
    let leads = |own: &&Own| match &*own.target {
        Target::Blackhole => row.kind == "blackhole",
        Target::Unreachable => row.kind == "unreachable",
        Target::Prohibit => row.kind == "prohibit",
        Target::Via(hops, _) => {
            let mut hops: Vec<_> = hops.iter().map(|hop| (names.get(&hop.interface).copied(), hop.address)).collect();
            let mut paths: Vec<_> = row.paths.iter().map(|path| (Some(&*path.interface), path.address)).collect();
            hops.sort_unstable();
            paths.sort_unstable();
            hops == paths
        }
    };
    // Paths that were merged, or left out, stand for one route alone.
    all.iter().find(leads).or(match all {
        [only] => Some(only),
        _ => None,
    })
}

/// The name of a program, or its number.
fn protocol(number: u8) -> std::borrow::Cow<'static, str> {
    let known = Table::PROTOCOLS.iter().find(|(_, own)| *own == number);
    known.map_or_else(|| number.to_string().into(), |(name, _)| (*name).into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_plane::compile::Hop;

    use super::*;
    use crate::render::sample;

    #[test]
    fn a_row_is_the_first_route_that_leads_there() {
        let row = &sample::routes()[0];
        let hop = |interface, address: &str| Hop { interface, address: address.parse().ok(), weight: 1 };
        let own = |metric, target| Own { protocol: 186, metric, target: Arc::new(target) };
        let both = vec![hop(2, "192.0.2.254"), hop(1, "198.51.100.254")];
        let all = [
            own(5, Target::Via([hop(1, "198.51.100.254")].into(), None)),
            own(6, Target::Blackhole),
            own(7, Target::Via(both.into(), None)),
        ];
        let names = HashMap::from([(1, "wan"), (2, "lan")]);
        assert_eq!(shown(row, &all, &names).map(|own| own.metric), Some(7));
        assert_eq!(shown(row, &all[..2], &names), None);
        assert_eq!(shown(row, &all[..1], &names).map(|own| own.metric), Some(5), "there is no other");
        assert_eq!((&*protocol(186), &*protocol(77)), ("bgp", "77"));
    }
}
