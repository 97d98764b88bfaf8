//! `weir bench spd`: policies of SPDs, matched at the last of so many, with caches and without, and with caches in which no packet
//! finds its flow.

mod published;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_base::tsc;
use weir_plane::model::{
    AclAction, AclRule, Addresses, Gateway, Origin, Ports, Spd as Policies, SpdAction, SpdCache, SpdIndex, SpdRule,
    Transport,
};
use weir_plane::node::Node;

use crate::pair::Pair;
use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::turns::{Outcome, Run, Samples};
use crate::{Error, machine as cpu, model};

/// Packets have one of so many flows, half of them each way.
const FLOWS: u32 = 10_000;

/// Policies before and with the one that matches.
const SIZES: [u32; 5] = [1, 10, 100, 1000, 100_000];

/// The measurement of `weir bench spd`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spd {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Turns: medians are over these.
    pub turns: usize,
    /// Flows.
    pub flows: u32,
    /// The cases.
    pub cases: Vec<Case>,
    /// Packets that leave, as the commit about outbound packets measures them.
    #[serde(default)]
    pub out: Vec<published::Out>,
    /// Packets that come in, as the commit about inbound packets measures them.
    #[serde(default)]
    pub inbound: Vec<published::In>,
}

/// The cost of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Policies; packets match the last one.
    pub policies: u32,
    /// `off`, `hits` or `misses`.
    pub cache: String,
    /// Ticks per packet of the node for packets that leave.
    pub output: Figure,
    /// Ticks per packet of the node for packets that come in.
    pub input: Figure,
    /// Ticks per packet of both, and of what they add elsewhere, to forwarding alone.
    pub added: Figure,
    /// The target for the node of packets that leave.
    pub target: Option<Target>,
}

/// Caches of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cached {
    Off,
    Hits,
    /// Caches of four places: the next packet of a flow finds another flow in its place.
    Misses,
}

impl Cached {
    const ALL: [Cached; 3] = [Cached::Off, Cached::Hits, Cached::Misses];

    const fn name(self) -> &'static str {
        match self {
            Cached::Off => "off",
            Cached::Hits => "hits",
            Cached::Misses => "misses",
        }
    }

    fn settings(self) -> SpdCache {
        let is_on = self != Cached::Off;
        // Sixteen places for each flow: few meet.
        SpdCache { outbound: is_on, inbound: is_on, flows: if self == Cached::Hits { 4 * FLOWS } else { 1 } }
    }
}

impl Report for Spd {
    const SCHEMA: &'static str = "weir.bench.spd/1";

    fn page(&self) -> Page {
        let table = Table::of(&self.cases)
            .words("Family", |case| case.family.clone())
            .number("Policies", 0, |case| Some(f64::from(case.policies)))
            .words("Cache", |case| case.cache.clone())
            .number("Out", 1, |case| Some(case.output.median))
            .number("In", 1, |case| Some(case.input.median))
            .number("Added", 1, |case| Some(case.added.median))
            .target(|case| case.target);
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!(
                "ticks are per packet: medians of {} turns; {} flows of UDP, half of them each way; the last policy matches",
                self.turns, self.flows
            ))
            .table(table)
            .line("")
            .line("packets that leave under null encryption with one SA, frames of 64 octets with FCS, Mpps of one worker:")
            .line("without a cache and with it; beside VPP on Neoverse N1, ThunderX2 and Skylake (its commit of 2021-10-12)")
            .table(published::out_table(&self.out))
            .line("packets that come in under null encryption, frames of 94 octets with FCS, Mbit/s of one worker; beside")
            .line("VPP on ThunderX2 (its commit of 2022), where decrypted packets match a policy, too")
            .table(published::in_table(&self.inbound))
    }
}

impl Spd {
    /// Measures all cases on a CPU, by default the last one that may be used. `quick` takes a small part of the effort.
    ///
    /// # Errors
    /// If there is no room, or packets do not go where they should.
    pub fn measure(cpu: Option<usize>, quick: bool) -> Result<Spd, Error> {
        cpu::pin(cpu)?;
        let (turns, windows) = if quick { (3, 5) } else { (15, 40) };
        let sizes = if quick { &SIZES[..4] } else { &SIZES[..] };
        let mut cases = Vec::new();
        for v4 in [true, false] {
            cases.extend(measure(v4, sizes, turns, windows)?);
        }
        let (out, inbound) = (published::out(turns, windows)?, published::inbound(turns, windows)?);
        let (tick_frequency, cpu) = (tsc::frequency(), cpu::cpu_name());
        Ok(Spd { tick_frequency, cpu, turns, flows: FLOWS, cases, out, inbound })
    }
}

fn measure(v4: bool, sizes: &[u32], turns: usize, windows: usize) -> Result<Vec<Case>, Error> {
    let plan = Pair::of(v4);
    let plain = plan.plain(FLOWS);
    let mut run = Run::new(&plain)?;
    run.add(&plain, &[], Outcome::Forwarded)?;
    let nodes = if v4 { [Node::Ip4SpdOut, Node::Ip4SpdIn] } else { [Node::Ip6SpdOut, Node::Ip6SpdIn] };
    let versions: Vec<(u32, Cached)> =
        sizes.iter().flat_map(|&size| Cached::ALL.map(|cached| (size, cached))).collect();
    for &(size, cached) in &versions {
        run.add(&plan.secured(&plain, size, cached.settings()), &nodes, Outcome::Forwarded)?;
    }
    let samples = run.turns(turns, windows, 2 * FLOWS as usize)?;
    let [output, input] = nodes;
    let case = |(&(policies, cached), own): (&(u32, Cached), &Samples)| {
        let output = own.node(output);
        let most = match (cached, policies) {
            (Cached::Off, 100_000) => Some(60.0),
            (Cached::Off, _) => Some(25.0),
            (Cached::Hits, _) => Some(20.0),
            (Cached::Misses, _) => None,
        };
        Case {
            family: if v4 { "ipv4" } else { "ipv6" }.to_owned(),
            policies,
            cache: cached.name().to_owned(),
            target: most.filter(|_| v4).map(|most| Target::at_most(most, output.median)),
            output,
            input: own.node(input),
            added: own.added(&samples[0]),
        }
    };
    Ok(versions.iter().zip(&samples[1..]).map(case).collect())
}

impl Pair {
    /// The gateway with an SPD of so many policies at each interface.
    fn secured(&self, plain: &Gateway, size: u32, cache: SpdCache) -> Gateway {
        let mut gateway = plain.clone();
        for (number, interface) in (0..).zip(&mut gateway.interfaces) {
            let [remote, local] = [self.networks[usize::from(number)], self.networks[1 - usize::from(number)]];
            let rules = self.policies(local, remote, size);
            let (name, origin) = (interface.name.clone(), Origin(0));
            gateway.spds.push(Policies { name, rules: rules.into(), cache, origin });
            interface.spd = Some(SpdIndex(number));
        }
        gateway
    }

    /// Policies for ports that no packet has, of hosts that have packets, and behind them one for all packets.
    fn policies(&self, local: IpNet, remote: IpNet, size: u32) -> Vec<SpdRule> {
        let host = |number: u32| {
            let (_, address) = model::range(remote, (number % 0x1_0000) as u16);
            Addresses::Net(address.into())
        };
        let none = |number: u32| {
            let port = (number % 1000) as u16;
            let transport = Transport::Ports {
                protocol: 17,
                source: Ports::Any,
                destination: Ports::from(port..=port),
                flags: None,
            };
            let any = AclRule::all(AclAction::Permit, Origin(0));
            let matches = AclRule { from: Addresses::Net(local), to: host(number), transport, ..any };
            SpdRule::new(SpdAction::Discard, matches)
        };
        let any = AclRule { from: Addresses::Net(local), ..AclRule::all(AclAction::Permit, Origin(0)) };
        (0..size - 1).map(none).chain([SpdRule::new(SpdAction::Bypass, any)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_measured_and_read_back() {
        let cases: Vec<Case> = [true, false].into_iter().flat_map(|v4| measure(v4, &[1, 30], 1, 1).unwrap()).collect();
        assert_eq!(cases.len(), 12);
        assert!(cases.iter().all(|case| case.output.median > 0.0 && case.input.median > 0.0), "{cases:?}");
        let (out, inbound) = (published::out(1, 1).unwrap(), published::inbound(1, 1).unwrap());
        assert!(out.iter().all(|row| row.off > 0.0 && row.cached > 0.0), "{out:?}");
        assert!(inbound.iter().all(|row| row.off > 0.0), "{inbound:?}");
        let report = Spd { tick_frequency: 1e9, cpu: "none".into(), turns: 1, flows: FLOWS, cases, out, inbound };
        assert_eq!(serde_json::from_str::<Spd>(&report.json()).unwrap(), report);
        let text = report.text();
        assert!(text.contains("misses") && text.contains("SKX"), "{text}");
    }
}
