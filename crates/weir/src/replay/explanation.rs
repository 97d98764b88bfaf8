//! One packet through the graph, and everything that is to be said of it.

use std::fmt::{self, Write as _};

use serde::Serialize;
use weir_base::clock::Time;
use weir_packet::text::{self, Macs, PacketText};
use weir_packet::wire::{MacAddress, ipv6};
use weir_plane::engine::TraceStep;
use weir_plane::harness::{Harness, Outcome, Protection, RouteTaken, Verdict};
use weir_plane::model::{Gateway, InterfaceIndex, SpdAction, SpdIndex, Tunnel};
use weir_plane::node::Node;
use weir_plane::reason::Reason;
use weir_plane::record::{Lengths, SpdEffect};

use super::access::{self, Allowed, Bound, Filter, Fragment};
use super::bridge::{self, Bridged};
use super::classify::{self, Classified};
use super::fast_path::FastPath;
use super::host::{self, Host};
use super::nat::{self, Translated};
use super::peer::Peers;
use super::quoted::line;
use super::sa::{self, Association};
use super::sink::{self, Memory, Sent};
use super::spd::{self, PolicyMatch};
use super::steer::{self, Steered};
use super::tunnel::{self, Passed};
use super::validation::{Nearest, Rule, Validation};
use super::{Options, ReplayError, by, harness, index_of, names, port};

pub use super::quoted::Line;
pub use super::way::{Esp, Mtu, NextHop, Route};

/// The neighbour that a packet comes from when its text names none.
const NEIGHBOR: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// The verdict on a packet, with its reasons. As JSON, `weir.explain/1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Explanation {
    /// The name and version of its JSON.
    pub schema: &'static str,
    /// The interface whose port it comes in by.
    #[serde(rename = "in")]
    pub input: String,
    /// The packet.
    pub packet: String,
    /// The packet that peers have protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
    /// `forward`, `drop`, `local` or `held`.
    pub verdict: &'static str,
    /// Why it is dropped.
    pub reason: Option<&'static str>,
    /// The description of the reason.
    pub description: Option<&'static str>,
    /// The line that decided; `None` when weir itself did.
    pub by: Option<Line>,
    /// The nodes that it passes, answers to it included.
    pub steps: Vec<Step>,
    /// The steer rules that it matches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steer: Vec<Steered>,
    /// The decision about its source, if the interface has a policy.
    pub sav: Option<Validation>,
    /// The decision of bindings about the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bindings: Option<Bound>,
    /// The treatment as a fragment by access lists, if a rule matches fields that only first fragments have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fragments: Vec<Fragment>,
    /// The decisions of access lists, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acl: Vec<Filter>,
    /// The verdicts of the interface's allowlists on its source, up to the one that refuses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allowed>,
    /// The decisions of classifier tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classify: Vec<Classified>,
    /// The effects of rules that translate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nat: Vec<Translated>,
    /// The policies of SPDs that it matches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spd: Vec<PolicyMatch>,
    /// The SAs that encrypt or decrypt it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sa: Vec<Association>,
    /// The tunnels that it is put into or taken out of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<Passed>,
    /// The bridges that it came to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bridges: Vec<Bridged>,
    /// Whether its flow is learned, or why not; `None` where no flows are learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_path: Option<FastPath>,
    /// The packet of ESP that a policy has an SA make of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub esp: Option<Esp>,
    /// The route that is looked up for it.
    pub route: Option<Route>,
    /// The next hop.
    pub next_hop: Option<NextHop>,
    /// The MTU of the next link.
    pub mtu: Option<Mtu>,
    /// The host, if the packet goes there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// The packets that leave.
    pub out: Vec<Out>,
}

/// A node that the packet passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The node.
    pub node: &'static str,
    /// The action of the route.
    pub does: &'static str,
    /// The packet's interface, as far as it is known there.
    pub interface: String,
    /// The packet as it comes to the node.
    pub packet: String,
    /// The finding for it; may be empty.
    pub note: String,
}

/// A packet that leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Out {
    /// The interface.
    pub interface: String,
    /// The packet.
    pub packet: String,
    /// It is an answer, and not the packet itself or a part of it.
    pub answer: bool,
}

/// A packet that comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming<'a> {
    /// The name of its interface.
    pub input: &'a str,
    /// The pairs of SAs by whose inbound SAs the peers have protected it, the innermost first.
    pub sas: Vec<&'a str>,
    /// The packet itself.
    pub packet: PacketText,
}

/// The packet that peers have protected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inside {
    /// The packet.
    pub packet: String,
    /// The pairs of SAs, the innermost first.
    pub sa: Vec<String>,
}

impl Inside {
    fn sentence(&self) -> String {
        let peers = if self.sa.len() == 1 { "peer" } else { "peers" };
        format!("{}, protected by the {peers} of {}", self.packet, self.sa.join(", then "))
    }
}

/// Sends a packet through a gateway that has only seen the packets `before`.
///
/// # Errors
/// When a packet cannot come in by its interface, a peer protects no such packet, or there is no room for the gateway.
pub fn explain(
    gateway: Gateway,
    before: &[Incoming<'_>],
    packet: &Incoming<'_>,
    options: Options,
) -> Result<Explanation, ReplayError> {
    let ports = before.iter().chain([packet]).map(|own| port(&gateway, own.input));
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    let mut peers = Peers::default();
    let sas = before.iter().chain([packet]).flat_map(|own| &own.sas);
    sas.into_iter().try_for_each(|sa| peers.add(&gateway, sa))?;
    let mut harness = harness(gateway, options)?;
    let memory = Memory::default();
    sink::connect(&mut harness, &memory);
    let frame = |harness: &Harness, port, packet: &PacketText| {
        let to = MacAddress(harness.interface_mac(bridge::station(harness, port)).unwrap_or_default());
        packet.frame(Macs { from: NEIGHBOR, to })
    };
    let mut ordinal = 1;
    for (own, &port) in before.iter().zip(&ports) {
        let frame = peers.protect(&own.sas, frame(&harness, port, &own.packet))?;
        harness.inject(port, &frame, Time(0), ordinal);
        harness.run();
        ordinal += 1;
    }
    drop(memory.take());
    let port = ports[before.len()];
    let inner = frame(&harness, port, &packet.packet);
    let inside = (!packet.sas.is_empty()).then(|| Inside {
        packet: text::summary(&inner).to_string(),
        sa: packet.sas.iter().map(|&sa| sa.to_owned()).collect(),
    });
    let frame = peers.protect(&packet.sas, inner)?;
    harness.trace(Node::EthernetInput, 1);
    // An empty vector takes a packet.
    harness.inject(port, &frame, Time(0), ordinal);
    let outcome = harness.run().pop();
    let explainer = Explainer { harness: &harness, names: names(&harness), frame: &frame };
    Ok(Explanation { inside, ..explainer.explain(packet.input, outcome, memory.take()) })
}

struct Explainer<'a> {
    harness: &'a Harness,
    names: Vec<String>,
    frame: &'a [u8],
}

impl Explainer<'_> {
    fn explain(&self, input: &str, outcome: Option<Outcome>, sent: Vec<Sent>) -> Explanation {
        let verdict = outcome.as_ref().map_or(Verdict::Held, |outcome| outcome.verdict);
        let reason = match verdict {
            Verdict::Drop(reason) => Some(reason),
            _ => None,
        };
        let taken = outcome.as_ref().and_then(|outcome| outcome.route.as_ref());
        let answered = outcome.as_ref().is_some_and(|outcome| outcome.out.is_empty());
        Explanation {
            schema: "weir.explain/1",
            input: input.to_owned(),
            packet: text::summary(self.frame).to_string(),
            inside: None,
            verdict: verdict.name(),
            reason: reason.map(Reason::name),
            description: reason.map(Reason::description),
            by: outcome.as_ref().and_then(|outcome| by::place(self.harness, outcome)).map(line),
            steps: self.steps(),
            sav: outcome
                .as_ref()
                .and_then(|outcome| outcome.sav.as_ref())
                .map(|decision| Validation::new(self.harness, decision)),
            bindings: outcome.as_ref().and_then(|outcome| access::bound(self.harness, outcome)),
            fragments: outcome.as_ref().map_or_else(Vec::new, |outcome| access::fragments(&self.names, outcome)),
            steer: outcome.as_ref().map_or_else(Vec::new, |outcome| steer::steered(self.harness, outcome)),
            nat: outcome.as_ref().map_or_else(Vec::new, |outcome| nat::translated(self.harness, outcome)),
            spd: outcome.as_ref().map_or_else(Vec::new, |outcome| spd::secured(self.harness, outcome)),
            sa: outcome.as_ref().map_or_else(Vec::new, |outcome| sa::associations(self.harness, outcome)),
            tunnels: outcome.as_ref().map_or_else(Vec::new, |outcome| tunnel::passed(self.harness, outcome)),
            bridges: outcome.as_ref().map_or_else(Vec::new, |outcome| bridge::passed(self.harness, outcome)),
            fast_path: outcome.as_ref().and_then(FastPath::of),
            acl: outcome.as_ref().map_or_else(Vec::new, |outcome| access::filters(self.harness, &self.names, outcome)),
            allow: outcome.as_ref().map_or_else(Vec::new, |outcome| access::allowed(self.harness, outcome)),
            classify: outcome.as_ref().map_or_else(Vec::new, |outcome| classify::classified(self.harness, outcome)),
            esp: outcome.as_ref().and_then(|outcome| self.esp(outcome)),
            route: taken.map(|taken| self.route(taken)),
            next_hop: outcome.as_ref().and_then(|outcome| self.next_hop(outcome)),
            mtu: outcome.as_ref().and_then(|outcome| self.mtu(outcome)),
            host: outcome.as_ref().and_then(|outcome| host::of(self.harness, outcome)),
            out: sent.into_iter().map(|sent| self.out(&sent, answered)).collect(),
        }
    }

    fn steps(&self) -> Vec<Step> {
        let steps = self.harness.traces().into_iter().next().map_or_else(Vec::new, |trace| trace.steps);
        let step = |step: TraceStep| Step {
            node: step.node,
            does: Node::named(step.node).map_or("", Node::description),
            interface: step.interface,
            packet: step.packet,
            note: step.note,
        };
        steps.into_iter().map(step).collect()
    }

    fn route(&self, taken: &RouteTaken) -> Route {
        let vrf = self.harness.model().vrfs.get(usize::from(taken.vrf));
        Route {
            destination: taken.destination,
            vrf: vrf.map_or_else(String::new, |vrf| vrf.name.clone()),
            prefix: taken.prefix.map(|prefix| prefix.to_string()),
            to: taken.to.clone(),
            by: self.harness.place(taken.origin).map(line),
        }
    }

    fn name(&self, number: u32) -> String {
        self.names.get(number as usize).cloned().unwrap_or_default()
    }

    fn next_hop(&self, outcome: &Outcome) -> Option<NextHop> {
        let (number, address) = outcome.next_hop()?;
        let index = InterfaceIndex(index_of(self.harness, number)?);
        let mut neighbors = self.harness.model().neighbors.iter();
        let known = neighbors.find(|neighbor| neighbor.interface == index && neighbor.address == address);
        Some(NextHop {
            interface: self.name(number),
            address,
            mac: known.map(|neighbor| neighbor.mac.to_string()),
            linkless: self.harness.model().interfaces[index.0 as usize].kind.is_linkless(),
            by: known.and_then(|neighbor| self.harness.place(neighbor.origin)).map(line),
        })
    }

    fn mtu(&self, outcome: &Outcome) -> Option<Mtu> {
        let (number, _) = outcome.next_hop()?;
        let interface = &self.harness.model().interfaces[index_of(self.harness, number)? as usize];
        Some(Mtu {
            interface: interface.name.clone(),
            mtu: interface.mtu,
            length: outcome.octets?,
            by: self.harness.place(interface.origin).map(line),
        })
    }

    /// The packet of ESP that a policy has an SA make.
    fn esp(&self, outcome: &Outcome) -> Option<Esp> {
        let model = self.harness.model();
        let of = |&(spd, place, output, _): &(SpdIndex, Option<u32>, bool, SpdEffect)| {
            let rule = model.spds.get(usize::from(spd.0))?.rules.get(place? as usize)?;
            match rule.action {
                SpdAction::Protect(sa) if output => Some(sa),
                _ => None,
            }
        };
        let index = outcome.spd.iter().rev().find_map(of)?;
        let sa = model.sas.get(index.0 as usize)?;
        let Lengths { octets, headers, v4 } = outcome.protected?;
        let Protection { route, mtu, padded, length, longest } = self.harness.protection(index, octets, headers)?;
        let link = route.interface.zip(mtu).and_then(|(number, mtu)| {
            let interface = &model.interfaces[index_of(self.harness, number)? as usize];
            let by = self.harness.place(interface.origin).map(line);
            Some(Mtu { interface: interface.name.clone(), mtu, length, by })
        });
        // Every path takes IPv6 packets of 1,280 octets.
        let least = |v4: bool| if v4 { 0 } else { ipv6::MIN_MTU as u32 };
        let (tunnels, headers) = self.entered(outcome);
        let longest =
            longest.map(|longest| longest.max(least(v4)).saturating_sub(headers).max(least(!taken_is_v6(outcome))));
        Some(Esp { sa: sa.name.clone(), route: self.route(&route), mtu: link, padded, longest, tunnels })
    }

    /// The kinds of the tunnels that a packet was put into behind its route, and the octets that they add.
    fn entered(&self, outcome: &Outcome) -> (Vec<&'static str>, u32) {
        let own = outcome.tunnels.iter().filter(|own| !own.inbound);
        let interfaces = own.filter_map(|own| self.harness.model().interfaces.get(own.interface.0 as usize));
        let tunnels: Vec<&Tunnel> = interfaces.filter_map(|own| own.kind.tunnel()).collect();
        let headers = tunnels.iter().map(|tunnel| tunnel.overhead()).sum();
        (tunnels.iter().map(|tunnel| tunnel.carrier.name()).collect(), headers)
    }

    fn out(&self, sent: &Sent, answer: bool) -> Out {
        let interface = self.harness.model().interfaces.get(sent.interface as usize);
        Out {
            interface: interface.map_or_else(String::new, |interface| interface.name.clone()),
            packet: text::summary(&sent.frame).to_string(),
            answer,
        }
    }
}

/// The packet is one of IPv6, as far as it came to a route.
fn taken_is_v6(outcome: &Outcome) -> bool {
    let directed = || outcome.directed.map(|directed| directed.destination);
    outcome.route.as_ref().map(|taken| taken.destination).or_else(directed).is_some_and(|to| to.is_ipv6())
}

impl Explanation {
    fn write_translated(&self, f: &mut fmt::Formatter<'_>, which: impl Fn(&Translated) -> bool) -> fmt::Result {
        for nat in self.nat.iter().filter(|nat| which(nat)) {
            section(f, "nat", &nat.sentence(), None)?;
            nat.by.lines().iter().try_for_each(|line| writeln!(f, "{:MARGIN$}{line}", ""))?;
        }
        Ok(())
    }
}

impl Explanation {
    /// The link of the route carries packets of ESP: the MTU is said of these.
    fn is_in_esp(&self) -> bool {
        self.esp.as_ref().is_some_and(|esp| esp.tunnels.is_empty())
    }

    /// The packet of ESP: its route, its length, and the longest packet that fits.
    fn write_esp(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Esp { sa, route, mtu, padded, longest, tunnels }) = &self.esp else { return Ok(()) };
        section(f, "esp", &format!("the peer of {sa}, {}", route.sentence()), route.by.as_ref())?;
        let Some(Mtu { interface, mtu, length, by }) = mtu else { return Ok(()) };
        let fits = if length <= mtu { "fits" } else { "does not fit" };
        let own = self.mtu.as_ref().map_or_else(String::new, |own| format!(" of {} octets", own.length));
        let with = if tunnels.is_empty() { String::new() } else { format!("{} and ", tunnels.join(", ")) };
        let mut text =
            format!("{interface} carries {mtu} octets: the packet{own} {fits}, as it has {length} with {with}ESP");
        if let Some(padded) = padded {
            write!(text, " and padding to {padded} by `tfc`")?;
        }
        if let Some(longest) = longest {
            // A packet that does not fit behind a tunnel lowers the MTU of the tunnel's path: later ones are reported.
            let reported = if tunnels.is_empty() { ", and is reported," } else { "" };
            write!(text, "; the greatest that fits{reported} has {longest}")?;
        }
        section(f, "mtu", &text, by.as_ref())
    }

    fn write_classified(&self, f: &mut fmt::Formatter<'_>, direction: &str) -> fmt::Result {
        for classified in self.classify.iter().filter(|classified| classified.direction == direction) {
            section(f, "classify", &classified.sentence(), None)?;
            classified.by.lines().iter().try_for_each(|line| writeln!(f, "{:MARGIN$}{line}", ""))?;
        }
        Ok(())
    }

    fn write_steered(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for steered in &self.steer {
            section(f, "steer", &steered.sentence(), None)?;
            steered.by.lines().iter().try_for_each(|line| writeln!(f, "{:MARGIN$}{line}", ""))?;
        }
        Ok(())
    }

    fn write_secured(&self, f: &mut fmt::Formatter<'_>, direction: &str) -> fmt::Result {
        for secured in self.spd.iter().filter(|secured| secured.direction == direction) {
            section(f, "spd", &secured.sentence(), None)?;
            secured.by.lines().iter().try_for_each(|line| writeln!(f, "{:MARGIN$}{line}", ""))?;
        }
        Ok(())
    }
}

/// Columns of what stands in front of a section.
const MARGIN: usize = 10;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        section(f, "packet", &self.packet, None)?;
        if let Some(inside) = &self.inside {
            section(f, "inside", &inside.sentence(), None)?;
        }
        section(f, "in", &self.input, None)?;
        f.write_str("\n")?;
        self.write_steps(f)?;
        self.write_steered(f)?;
        f.write_str("\n")?;
        if let Some(sav) = &self.sav {
            write_validation(f, sav)?;
        }
        if let Some(bound) = &self.bindings {
            section(f, "mac-ip", &bound.sentence(), None)?;
            let lines = bound.by.as_ref().map_or_else(Vec::new, Rule::lines);
            lines.iter().try_for_each(|line| writeln!(f, "{:MARGIN$}{line}", ""))?;
        }
        self.write_access(f, "in")?;
        for allowed in &self.allow {
            section(f, "allow", &allowed.sentence(), None)?;
            let lines = allowed.within.as_ref().map_or_else(|| allowed.by.iter().cloned().collect(), Rule::lines);
            lines.iter().try_for_each(|line| writeln!(f, "{:MARGIN$}{line}", ""))?;
        }
        self.write_classified(f, "in")?;
        self.write_secured(f, "in")?;
        self.write_translated(f, |nat| nat.direction != Some("out"))?;
        if let Some(route) = &self.route {
            section(f, "route", &route.sentence(), route.by.as_ref())?;
        }
        if let Some(NextHop { interface, address, mac, linkless, by }) = &self.next_hop {
            let known = match mac {
                Some(mac) => format!("is at {mac}"),
                None if *linkless => "is the other end of the tunnel".to_owned(),
                None => "has no [[neighbor]], so its hardware address has to be resolved".to_owned(),
            };
            section(f, "next hop", &format!("{address} on {interface} {known}"), by.as_ref())?;
        }
        if let Some(Mtu { interface, mtu, length, by }) = self.mtu.as_ref().filter(|_| !self.is_in_esp()) {
            let fits = if length <= mtu { "fit" } else { "do not fit" };
            section(f, "mtu", &format!("{interface} carries {mtu} octets: the packet's {length} {fits}"), by.as_ref())?;
        }
        self.write_translated(f, |nat| nat.direction == Some("out"))?;
        self.write_access(f, "out")?;
        self.write_classified(f, "out")?;
        self.write_secured(f, "out")?;
        self.bridges.iter().try_for_each(|own| section(f, "bridge", &own.sentence(), own.by.as_ref()))?;
        self.tunnels.iter().try_for_each(|own| section(f, "tunnel", &own.sentence(), own.by.as_ref()))?;
        self.sa.iter().try_for_each(|sa| section(f, "sa", &sa.sentence(), sa.by.as_ref()))?;
        self.write_esp(f)?;
        if let Some(FastPath { sentence, .. }) = &self.fast_path {
            section(f, "fast path", sentence, None)?;
        }
        let mut verdict = self.verdict.to_owned();
        if let (Some(reason), Some(description)) = (self.reason, self.description) {
            write!(verdict, " {reason}: {description}")?;
        }
        section(f, "verdict", &verdict, self.by.as_ref())?;
        if let Some(host) = &self.host {
            section(f, "host", &host.sentence(), host.by.as_ref())?;
        }
        for Out { interface, packet, answer } in &self.out {
            section(f, if *answer { "answer" } else { "out" }, &format!("{interface} {packet}"), None)?;
        }
        if self.out.is_empty() {
            section(f, "out", "nothing", None)?;
        }
        Ok(())
    }
}

impl Explanation {
    /// Writes the decisions of access lists in a direction.
    fn write_access(&self, f: &mut fmt::Formatter<'_>, direction: &str) -> fmt::Result {
        for fragment in self.fragments.iter().filter(|fragment| fragment.direction == direction) {
            section(f, "fragment", &fragment.sentence(self.verdict == Verdict::Held.name()), None)?;
        }
        let mut filters = self.acl.iter().filter(|filter| filter.direction == direction);
        filters.try_for_each(|filter| write_filter(f, filter))
    }

    /// The nodes in order; the packet where it is another than at the node before.
    fn write_steps(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.steps.iter().map(|step| step.node.len()).max().unwrap_or(0);
        let mut last = self.packet.as_str();
        for (number, Step { node, does, packet, note, .. }) in self.steps.iter().enumerate() {
            writeln!(f, "{:>3}  {node:width$}  {does}", number + 1)?;
            let mut more = |text: &str| writeln!(f, "     {:width$}  {text}", "");
            if packet != last {
                more(packet)?;
            }
            if !note.is_empty() {
                more(note)?;
            }
            last = packet;
        }
        Ok(())
    }
}

fn write_validation(f: &mut fmt::Formatter<'_>, sav: &Validation) -> fmt::Result {
    let Validation { policy, mechanism, interface, source, verdict, why, by, nearest, .. } = sav;
    let goes_on = sav.fate().map_or_else(String::new, |fate| format!(", and {fate}"));
    let text = format!("{policy} ({mechanism}): {source} on {interface} is {verdict}{goes_on}: {why}");
    section(f, "sav", &text, None)?;
    let mut more = |rule: &Rule| rule.lines().iter().try_for_each(|line| writeln!(f, "{:MARGIN$}{line}", ""));
    by.iter().try_for_each(&mut more)?;
    match nearest {
        Some(Nearest { rule, why }) => {
            let mut lines = rule.lines().into_iter();
            section(f, "nearest", &lines.next().unwrap_or_default(), None)?;
            lines.chain([why.clone()]).try_for_each(|line| writeln!(f, "{:MARGIN$}{line}", ""))
        }
        None => Ok(()),
    }
}

fn write_filter(f: &mut fmt::Formatter<'_>, filter: &Filter) -> fmt::Result {
    section(f, if filter.direction == "in" { "acl in" } else { "acl out" }, &filter.sentence(), None)?;
    if let Some(rule) = filter.rule_beside() {
        writeln!(f, "{:MARGIN$}{rule}", "")?;
    }
    filter.by.lines().iter().try_for_each(|line| writeln!(f, "{:MARGIN$}{line}", ""))
}

fn section(f: &mut fmt::Formatter<'_>, name: &str, text: &str, by: Option<&Line>) -> fmt::Result {
    writeln!(f, "{name:MARGIN$}{text}")?;
    match by {
        Some(Line { place, text }) => writeln!(f, "{:MARGIN$}{place}: {text}", ""),
        None => Ok(()),
    }
}
