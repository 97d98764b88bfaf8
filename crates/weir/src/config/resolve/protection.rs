//! The protection of tunnels: what rules of an SPD do to outer packets.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use weir_packet::tunnel::Carrier;
use weir_packet::wire::{ipv4, ipv6, protocol};
use weir_plane::model::{Addresses, IpFamily, Sa, SaIndex, Spd, SpdAction, SpdIndex, SpdRule, Transport, Tunnel};

/// The source ports of outer packets that the gateway sends.
const OWN_PORTS: RangeInclusive<u16> = 49_152..=u16::MAX;

/// The direction of outer packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// They leave.
    Out,
    /// They come in.
    In,
}

/// The ports of outer packets in UDP, as rules name them: at the gateway's end, and at the other end.
#[derive(Debug, Clone)]
struct Outer {
    local: RangeInclusive<u16>,
    remote: RangeInclusive<u16>,
}

impl Way {
    /// The selectors of a rule that protects the packets of a tunnel in this direction.
    pub(super) fn selectors(self, tunnel: &Tunnel, number: u8) -> String {
        let Tunnel { local, remote, port, .. } = *tunnel;
        match (number, self) {
            (protocol::UDP, Way::Out) => format!("udp from {local} to {remote} port {port}"),
            (protocol::UDP, Way::In) => format!("udp from {local} port {port} to {remote}"),
            _ => format!("{} from {local} to {remote}", protocol::NAMES.name(number).unwrap_or_default()),
        }
    }

    /// Nobody knows the peer's source ports.
    fn outer(self, tunnel: &Tunnel) -> Outer {
        let own = tunnel.port..=tunnel.port;
        match self {
            Way::Out => Outer { local: OWN_PORTS, remote: own },
            Way::In => Outer { local: own, remote: 0..=u16::MAX },
        }
    }
}

/// The effect of an SPD on the packets of a tunnel of one protocol in a direction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Protection {
    /// Some pass in clear.
    pub(super) clear: bool,
    /// Some are dropped, by a rule or since no rule matches them.
    pub(super) dropped: bool,
    /// The pairs of SAs that protect some of them.
    pub(super) sas: Vec<SaIndex>,
}

/// The protocols of outer packets of a carrier.
pub(super) const fn protocols(carrier: Carrier) -> &'static [u8] {
    match carrier {
        Carrier::Gre => &[protocol::GRE],
        // IPv4 inside, and IPv6.
        Carrier::Ip => &[protocol::IPIP, protocol::IPV6],
        Carrier::Vxlan | Carrier::Geneve | Carrier::Gue => &[protocol::UDP],
    }
}

/// Returns the length of the longest outer packet of a tunnel that fits an MTU, with ESP around it if a rule protects it. Of several such
/// rules, the one that leaves least counts.
pub(super) fn longest(tunnel: &Tunnel, mtu: u32, spd: Option<SpdIndex>, spds: &[Spd], sas: &[Sa]) -> u32 {
    let headers = if tunnel.local.is_ipv4() { ipv4::LENGTH } else { ipv6::LENGTH };
    let numbers = protocols(tunnel.carrier).iter();
    let used = numbers.flat_map(|&number| protection(tunnel, (Way::Out, number), spd, spds).sas);
    let room = |sa: SaIndex| Some(sas.get(sa.0 as usize)?.envelope(headers).longest(mtu as usize).unwrap_or(0));
    used.filter_map(room).min().map_or(mtu, |longest| longest as u32)
}

/// Finds the rules that decide about the packets of a tunnel of a protocol: the first one that matches, for each source port.
pub(super) fn protection(tunnel: &Tunnel, (way, number): (Way, u8), spd: Option<SpdIndex>, spds: &[Spd]) -> Protection {
    let Some(spd) = spd.and_then(|spd| spds.get(usize::from(spd.0))) else {
        return Protection { clear: true, ..Protection::default() };
    };
    let (mut left, mut found) = (vec![way.outer(tunnel)], Protection::default());
    for place in spd.order() {
        let rule = &spd.rules[place as usize];
        if left.is_empty() || !is_between(rule, tunnel) {
            continue;
        }
        let Some(rest) = without(&left, &rule.matches.transport, number) else { continue };
        match rule.action {
            SpdAction::Protect(sa) => found.sas.push(sa),
            SpdAction::Bypass => found.clear = true,
            SpdAction::Discard => found.dropped = true,
        }
        left = rest;
    }
    found.dropped |= !left.is_empty();
    found
}

/// The rule matches packets between the outer addresses, if their protocol and ports are right.
fn is_between(rule: &SpdRule, tunnel: &Tunnel) -> bool {
    holds(&rule.matches.from, tunnel.local)
        && holds(&rule.matches.to, tunnel.remote)
        && rule.matches.family.is_none_or(|family| (family == IpFamily::V4) == tunnel.local.is_ipv4())
        && !rule.is_opaque()
}

/// Addresses of a rule have this one.
pub(super) fn holds(addresses: &Addresses, own: IpAddr) -> bool {
    match addresses {
        Addresses::Any => true,
        Addresses::Net(net) => net.contains(&own),
        Addresses::Range(first, last) => first.is_ipv4() == own.is_ipv4() && (*first..=*last).contains(&own),
        Addresses::Group(group) => group.members.iter().any(|member| holds(member, own)),
    }
}

/// Takes away the packets that a rule matches; `None`: it matches none of them.
fn without(left: &[Outer], transport: &Transport, number: u8) -> Option<Vec<Outer>> {
    match transport {
        Transport::Any => Some(Vec::new()),
        Transport::Protocol(own) if *own == number => Some(Vec::new()),
        // Of the two ends, one has a single port: a rule takes a range of the other one away.
        Transport::Ports { protocol, source, destination, .. } if *protocol == number => {
            let (mut rest, mut matches) = (left.to_vec(), false);
            for local in source.ranges() {
                for remote in destination.ranges() {
                    rest = rest
                        .into_iter()
                        .flat_map(|outer| {
                            let cut = outer.without(local, remote);
                            matches |= cut.is_some();
                            cut.unwrap_or_else(|| vec![outer])
                        })
                        .collect();
                }
            }
            matches.then_some(rest)
        }
        Transport::Protocol(_) | Transport::Ports { .. } | Transport::Icmp { .. } => None,
    }
}

impl Outer {
    /// The ports that are left without those of a rule; `None`: the rule has none of them.
    fn without(&self, local: &RangeInclusive<u16>, remote: &RangeInclusive<u16>) -> Option<Vec<Outer>> {
        let [locals, remotes] = [split(&self.local, local)?, split(&self.remote, remote)?];
        let locals = locals.into_iter().map(|local| Outer { local, remote: self.remote.clone() });
        let remotes = remotes.into_iter().map(|remote| Outer { local: self.local.clone(), remote });
        Some(locals.chain(remotes).collect())
    }
}

/// The parts of a range below and above another; `None`: they have nothing in common.
fn split(range: &RangeInclusive<u16>, other: &RangeInclusive<u16>) -> Option<Vec<RangeInclusive<u16>>> {
    if other.start() > range.end() || other.end() < range.start() {
        return None;
    }
    let below = other.start().checked_sub(1).map(|end| *range.start()..=end);
    let above = other.end().checked_add(1).map(|start| start..=*range.end());
    Some([below, above].into_iter().flatten().filter(|part| !part.is_empty()).collect())
}
