//! Flows under all policies that are translated, too, beside forwarding alone by the same routes. `weir bench nat` has them.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::model::{Gateway, Route, RouteTarget};

use super::plan::{Plan, Version};
use crate::prefixes::Prefixes;
use crate::report::figure::Figure;
use crate::turns::{Outcome, Run};
use crate::{Error, model};

/// Prefixes of each network that has packets.
const PREFIXES: u32 = 256;

/// Ticks per packet from `ethernet-input` to `output`.
pub(crate) struct Measured {
    /// Routes of the gateway.
    pub(crate) routes: usize,
    pub(crate) plain: Figure,
    pub(crate) translated: Figure,
    /// The second by the first.
    pub(crate) ratio: Figure,
}

/// Measures so many flows; `full`: prefixes of a full table beside those of the packets.
pub(crate) fn measure(
    v4: bool,
    flows: u32,
    full: Option<&Prefixes>,
    (turns, windows): (usize, usize),
) -> Result<Measured, Error> {
    let plan = Plan::of(v4);
    let plain = Gateway { routes: routes(&plan, full), ..plan.gateway(flows) };
    let mut run = Run::new(&plain)?;
    let translating = Version { nat: true, fast: true, ..Version::policies("policies, translation, fast path") };
    for version in [Version::new("forwarding"), translating] {
        let mut model = plain.clone();
        plan.apply(&mut model, &version);
        run.add_version(version.name, &model, &[], Outcome::Forwarded, None)?;
    }
    // Each flow opens its translation, has its decision learned, and takes it twice before the first window.
    let samples = run.turns(turns, windows, 4 * flows as usize)?;
    let ratio = samples[1].against(&samples[0], |own, plain| own.graph / plain.graph);
    let [plain_graph, translated] = [samples[0].graph(), samples[1].graph()];
    Ok(Measured { routes: plain.routes.len(), plain: plain_graph, translated, ratio })
}

/// Routes to the networks of the packets, in many prefixes, and to others beside them.
fn routes(plan: &Plan, full: Option<&Prefixes>) -> Vec<Route> {
    let to = |number: usize| RouteTarget::Via([model::hop(number as u32, plan.links[number].1)].into());
    let used: Vec<Vec<IpNet>> = plan.networks.iter().map(|&network| split(network)).collect();
    let mut routes: Vec<Route> = Vec::new();
    for (number, prefixes) in used.iter().enumerate() {
        routes.extend(prefixes.iter().map(|&prefix| model::route(prefix, to(number))));
    }
    // A prefix inside one of these would lead packets elsewhere.
    let is_other = |prefix: &IpNet| used.iter().flatten().all(|own| !own.contains(prefix));
    let net = |prefix: String| prefix.parse::<IpNet>().ok();
    let more: Vec<IpNet> = match full {
        Some(full) if plan.v4 => full.v4.iter().filter_map(|own| net(own.to_string())).collect(),
        Some(full) => full.v6.iter().filter_map(|own| net(own.to_string())).collect(),
        None => Vec::new(),
    };
    // Few of so many prefixes are near the packets': the others need no look at each of them.
    let is_near = |prefix: &IpNet| plan.networks.iter().any(|network| network.contains(prefix));
    let more = more.into_iter().filter(|prefix| !is_near(prefix) || is_other(prefix));
    routes.extend(more.map(|prefix| model::route(prefix, to(0))));
    routes
}

/// The prefixes of the addresses that packets of a network have: those of its first 65,536 addresses.
fn split(network: IpNet) -> Vec<IpNet> {
    let length = network.max_prefix_len() - 8;
    let step = |number: u32| match network.network() {
        IpAddr::V4(first) => IpNet::new(IpAddr::V4((first.to_bits() + (number << 8)).into()), length),
        IpAddr::V6(first) => IpNet::new(IpAddr::V6((first.to_bits() + u128::from(number << 8)).into()), length),
    };
    (0..PREFIXES).filter_map(|number| step(number).ok()).collect()
}
