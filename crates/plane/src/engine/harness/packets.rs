//! Packets of a harness: the caller adds them to the next vector, runs the graph, and gets the outcome of each.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_base::clock::Time;
use weir_packet::buffer::MAX_FRAME;
use weir_packet::offload::Offload;

use super::outcome::{Directed, Filtered, Outcome, Piece, RouteTaken, Secured, Tunnelled, Unlisted, Verdict};
use super::stepped::Harness;
use crate::graph::record::{Fate, Fragmented, SpdEffect};
use crate::graph::worker::UNASKED;
use crate::model::{BridgeIndex, InterfaceIndex, IpFamily, Origin, SaIndex};
use crate::reason::Reason;
use crate::root::{Adjacency, Kind, NONE};

impl Harness {
    /// Adds a frame to the next vector, as received by the port of an interface (the model's index). False when the
    /// vector is full or no buffer is left: run it first. A frame that no buffer can hold is dropped at once.
    pub fn inject(&mut self, interface: u32, frame: &[u8], time: Time, ordinal: u32) -> bool {
        self.inject_offloaded(interface, frame, Offload::default(), time, ordinal)
    }

    /// As [`Harness::inject`], for a frame that a card or the kernel left work on: its checksum, or its segmentation.
    pub fn inject_offloaded(
        &mut self,
        interface: u32,
        frame: &[u8],
        offload: Offload,
        time: Time,
        ordinal: u32,
    ) -> bool {
        if frame.len() > MAX_FRAME {
            let Some(counters) = self.control.counters().next() else { return false };
            counters.received.add(1);
            counters.drops[Reason::FrameTooLong as usize].add(1);
            self.workers
                .first()
                .recorder
                .add_unseen(ordinal, Fate::Dropped { reason: Reason::FrameTooLong, created: false });
            return true;
        }
        let worker = self.workers.of_port(interface);
        let Some(mut packet) = worker.packet(frame) else { return false };
        packet.set_time(time);
        packet.set_ordinal(ordinal);
        packet.set_offload(offload);
        self.frames = true;
        worker.inject(interface, packet).is_ok()
    }

    /// Adds a packet without a link-layer header to the next vector, as if it had been taken out of a tunnel of an interface
    /// (its number), so many tunnels deep. False when the vector is full, no buffer is left, or a frame was added before.
    pub fn inject_decapsulated(&mut self, interface: u32, nesting: u8, packet: &[u8], ordinal: u32) -> bool {
        if self.frames {
            return false;
        }
        let Some(mut packet) = self.workers.first().packet(packet) else { return false };
        packet.set_ordinal(ordinal);
        let added = self.workers.first().inject_decapsulated(interface, nesting, packet).is_ok();
        self.decapsulated += usize::from(added);
        added
    }

    /// Adds a packet without a link-layer header to the next vector, as if a policy had found that a pair of SAs protects it
    /// on its way from an interface (its number). False as for [`Harness::inject_decapsulated`].
    pub fn inject_protected(&mut self, interface: u32, sa: SaIndex, packet: &[u8], ordinal: u32) -> bool {
        self.inject_for_sa(interface, sa, (packet, ordinal), false)
    }

    /// As [`Harness::inject_protected`], for a packet that keeps its TTL or hop limit: the gateway is not the one that forwards it.
    pub fn inject_protected_as_is(&mut self, interface: u32, sa: SaIndex, packet: &[u8], ordinal: u32) -> bool {
        self.inject_for_sa(interface, sa, (packet, ordinal), true)
    }

    fn inject_for_sa(&mut self, interface: u32, sa: SaIndex, (packet, ordinal): (&[u8], u32), keeps_ttl: bool) -> bool {
        if self.frames {
            return false;
        }
        let Some(&number) = self.map.sas.get(sa.0 as usize) else { return false };
        let Some(mut packet) = self.workers.first().packet(packet) else { return false };
        packet.set_ordinal(ordinal);
        let added = self.workers.first().inject_protected(interface, number, packet, keeps_ttl).is_ok();
        self.decapsulated += usize::from(added);
        added
    }

    /// Runs the graph over what was injected and returns what became of it, by ascending number.
    pub fn run(&mut self) -> Vec<Outcome> {
        self.run_and_note(|_| true)
    }

    /// As [`Harness::run`], but with the ends of packets alone, without the decisions on their way: that takes a tenth of the time.
    /// Packets that are held have no outcome.
    pub fn run_to_ends(&mut self) -> Vec<Outcome> {
        self.run_and_note(Fate::is_end)
    }

    fn run_and_note(&mut self, noted: fn(&Fate) -> bool) -> Vec<Outcome> {
        self.frames = false;
        self.workers.run(std::mem::take(&mut self.decapsulated));
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut index: HashMap<u32, usize> = HashMap::new();
        let fates = self.workers.iter_mut().flat_map(|worker| worker.recorder.take());
        let fates: Vec<(u32, Fate)> = fates.filter(|(ordinal, fate)| *ordinal != UNASKED && noted(fate)).collect();
        for (ordinal, fate) in fates {
            let place = *index.entry(ordinal).or_insert_with(|| {
                outcomes.push(Outcome {
                    ordinal,
                    verdict: Verdict::Held,
                    out: Vec::new(),
                    answers: Vec::new(),
                    unlisted: None,
                    flow: None,
                    learning: None,
                    sav: None,
                    fragments: Vec::new(),
                    acl: Vec::new(),
                    bindings: None,
                    allow: Vec::new(),
                    classify: Vec::new(),
                    nat: Vec::new(),
                    spd: Vec::new(),
                    steer: Vec::new(),
                    sas: Vec::new(),
                    tunnels: Vec::new(),
                    merged: false,
                    bridges: Vec::new(),
                    route: None,
                    directed: None,
                    octets: None,
                    protected: None,
                    punted: None,
                    waits: false,
                });
                outcomes.len() - 1
            });
            self.note(&mut outcomes[place], fate);
        }
        outcomes.sort_by_key(|outcome| outcome.ordinal);
        outcomes
    }

    fn note(&self, outcome: &mut Outcome, fate: Fate) {
        match fate {
            Fate::Unlisted { interface, output } => outcome.unlisted = self.unlisted(interface, output),
            Fate::Flow { miss, .. } => outcome.flow = Some(miss),
            Fate::Learning { learning, .. } => outcome.learning = Some(learning),
            Fate::Validated { interface, source, policy, said, .. } => {
                let decision = self.decision(policy, interface, source, said);
                outcome.sav = outcome.sav.take().or(decision);
            }
            Fate::Fragment { interface, output, v4, fragmented } => {
                let family = if v4 { IpFamily::V4 } else { IpFamily::V6 };
                // Fragments with the fields of their first one are skipped: a capture may have many.
                let asked_by = match fragmented {
                    Fragmented::Given(..) => None,
                    Fragmented::Waits | Fragmented::NoRoom | Fragmented::Refused => {
                        self.control.look().0.acl_needs_transport((&self.model, &self.map), interface, output, family)
                    }
                };
                outcome.fragments.retain(|piece| (piece.interface, piece.output) != (interface, output));
                outcome.fragments.push(Piece { interface, output, fragmented, asked_by });
                outcome.waits = fragmented == Fragmented::Waits;
            }
            Fate::Filtered { interface, output, found, session } => {
                let decision = self.control.look().0.acl_decision(found);
                outcome.acl.extend(decision.map(|decision| Filtered { interface, output, decision, session }));
            }
            Fate::Bound { interface, mac, number, permit, .. } => {
                let compiler = self.control.look().0;
                outcome.bindings = compiler.binding_decision((&self.model, &self.map), interface, mac, number, permit);
            }
            Fate::Allowed { interface, source, refused_by } => {
                let compiler = self.control.look().0;
                outcome.allow = compiler.allow_decision(&self.model, &self.map, interface, source, refused_by);
            }
            Fate::Classified { interface, output, table, session, permit } => {
                let compiler = self.control.look().0;
                // A harness reads decisions before the next model comes.
                let by = (table, session, u64::MAX);
                let decision = compiler.classify_decision(&self.model, (interface, output), by, permit);
                outcome.classify.extend(decision);
            }
            Fate::Nat { list, place, effect } => outcome.nat.push((list, place, effect)),
            Fate::Spd { spd, place, output, effect, lengths } => {
                outcome.spd.push((spd, place, output, effect));
                if effect == SpdEffect::Protected {
                    // Of the pieces of a packet, the longest counts.
                    let longer = outcome.protected.is_none_or(|own| own.octets < lengths.octets);
                    outcome.protected = if longer { Some(lengths) } else { outcome.protected };
                }
            }
            Fate::Steered { list, place } => outcome.steer.push((list, place)),
            Fate::Secured { sa, inbound } => {
                let index = self.map.sas.iter().position(|&number| number == sa);
                outcome.sas.extend(index.map(|index| Secured { sa: SaIndex(index as u32), inbound }));
                if inbound {
                    // What was inside has a route of its own.
                    (outcome.route, outcome.directed, outcome.octets) = (None, None, None);
                }
            }
            Fate::Tunnelled { interface, inbound } => {
                let index = self.map.interfaces.iter().position(|&number| number == interface);
                let interface = index.map(|index| InterfaceIndex(index as u32));
                outcome.tunnels.extend(interface.map(|interface| Tunnelled { interface, inbound }));
                if inbound {
                    // What was inside has a route of its own.
                    (outcome.route, outcome.directed, outcome.octets) = (None, None, None);
                }
            }
            Fate::Merged { .. } => outcome.merged = true,
            Fate::Bridged { bridge, to } => outcome.bridges.push((BridgeIndex(bridge), to)),
            Fate::LookedUp { vrf, destination, adjacency, octets } => {
                if outcome.directed.is_none() {
                    outcome.octets.get_or_insert(octets);
                    outcome.route.get_or_insert_with(|| self.route(vrf, destination, adjacency));
                }
            }
            Fate::Directed { destination, adjacency, steered, octets } => {
                if outcome.route.is_none() {
                    outcome.octets.get_or_insert(octets);
                    outcome.directed.get_or_insert_with(|| self.directed(destination, adjacency, steered));
                }
            }
            Fate::Punted { interface } => {
                outcome.punted = Some(interface);
                outcome.end(Verdict::Local);
            }
            Fate::Transmitted { interface, created: false } => {
                outcome.out.push(interface);
                outcome.end(Verdict::Forward);
            }
            Fate::Transmitted { interface, created: true } => outcome.answers.push(interface),
            Fate::Local => outcome.end(Verdict::Local),
            Fate::Dropped { reason, created: false } => outcome.end(Verdict::Drop(reason)),
            // An answer that could not be sent changes nothing for the packet that it answers.
            Fate::Dropped { created: true, .. } => {}
        }
    }

    fn unlisted(&self, interface: u32, output: bool) -> Option<Unlisted> {
        let index = self.map.interfaces.iter().position(|&number| number == interface)?;
        let access = &self.model.interfaces[index].access;
        let declared = if output { &access.ethertypes_out } else { &access.ethertypes_in };
        Some(Unlisted { interface, output, origin: declared.as_ref()?.origin })
    }

    pub(super) fn route(&self, vrf: u16, destination: IpAddr, adjacency: u32) -> RouteTaken {
        if let IpAddr::V6(address) = destination
            && address.is_unicast_link_local()
        {
            return self.own_link_local(vrf, destination);
        }
        let found = self.control.look().0.ribs().get(usize::from(vrf)).and_then(|rib| rib.covering(destination));
        let none = Adjacency::terminal(Kind::NoRoute);
        let (to, adjacency) = self.control.root.with(|root| {
            let adjacency = root.adjacencies.get(adjacency as usize).copied().unwrap_or(none);
            (root.describe(&adjacency), adjacency)
        });
        RouteTaken {
            destination,
            vrf,
            prefix: found.map(|(prefix, _)| prefix),
            origin: found.map_or(Origin::default(), |(_, entry)| entry.origin),
            to,
            interface: (adjacency.interface != NONE).then_some(adjacency.interface),
            next_hop: adjacency.next_hop,
        }
    }

    fn directed(&self, destination: IpAddr, adjacency: u32, steered: bool) -> Directed {
        let none = Adjacency::terminal(Kind::NoRoute);
        let adjacency =
            self.control.root.with(|root| root.adjacencies.get(adjacency as usize).copied().unwrap_or(none));
        let interface = (adjacency.interface != NONE).then_some(adjacency.interface);
        Directed { destination, interface, next_hop: adjacency.next_hop, steered }
    }

    /// Link-local addresses are in no table: what is recorded of them is that they are ours.
    fn own_link_local(&self, vrf: u16, destination: IpAddr) -> RouteTaken {
        let mut addresses = self.model.interfaces.iter().flat_map(|interface| &interface.addresses);
        let own = addresses.find(|address| address.net.addr() == destination);
        let origin = own.map_or(Origin::default(), |address| address.origin);
        let (prefix, to) = (Some(destination.into()), "local".to_owned());
        RouteTaken { destination, vrf, prefix, origin, to, interface: None, next_hop: None }
    }
}
