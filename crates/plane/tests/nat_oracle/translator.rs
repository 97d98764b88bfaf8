//! The naive translator: rules by first match, sessions in a map of both their tuples. It is written from docs/nat.md,
//! docs/sessions.md and RFC 4787, 5382 and 5508. A port that is drawn is taken from the packet that left, and has to be allowed.

use std::collections::{BTreeMap, HashMap};

use weir_plane::model::{FlowTable, NatVerb};
use weir_plane::reason::Reason;

use crate::gateway::{INTERFACES, out_header, route};
use crate::packet::{ACK, FIN, ICMP, Packet, Quote, RST, SCTP, SYN, TCP, Tuple, has_ports, is_request, source};
use crate::rules::{Lists, Rule};
use crate::state::States;

/// A millisecond, by which time-outs may be late or early.
pub const GRAIN: u64 = 1_000_000;
/// A translation counts for this long after its time-out (docs/nat.md), and after its rule is gone.
const LINGERS: u64 = 1_000_000_000 + GRAIN;
const CHANGES: u64 = 2_000_000_000 + GRAIN;

/// A limit applies to an inside address at an outside interface, by a rule (its place in [`Translator::limits`]).
type Limited = (usize, usize, u32);

/// A translation.
#[derive(Debug, Clone)]
pub struct Session {
    /// The tuple of its first packet as it came, and as it left.
    pub came: Tuple,
    pub left: Tuple,
    pub states: States,
    /// The time of its last packet.
    pub last: u64,
    limited: Option<Limited>,
}

impl Session {
    /// The tuple that packets of a direction come with, and the one that they leave with.
    pub fn way(&self, way: usize) -> (Tuple, Tuple) {
        match way {
            0 => (self.came, self.left),
            _ => (self.left.turned(), self.came.turned()),
        }
    }
}

/// The decision about a packet of no translation.
struct Decision<'a> {
    /// The rule about its destination.
    hit: Option<&'a Rule>,
    /// The rule about its source, and the outside interface whose list has it.
    rule: Option<(&'a Rule, usize)>,
    /// The destination.
    to: (u32, u16),
    out: Option<usize>,
}

/// A claim about a whole vector, whose packets need not be translated in their order.
#[derive(Debug)]
enum Claim {
    /// No port was free.
    Exhausted { fields: Tuple, to: (u32, u16), rule: Option<(Rule, usize)> },
    /// The address had as many translations as it may have.
    Limited(Limited, u32),
    /// The port changed, as another translation has this tuple.
    Changed(Tuple),
    /// One of these.
    Any(Vec<Claim>),
}

impl Claim {
    fn name(&self) -> &'static str {
        match self {
            Claim::Exhausted { .. } => "exhausted",
            Claim::Limited(..) => "limited",
            Claim::Changed(_) => "port not kept",
            Claim::Any(claims) => claims.last().map_or("", Claim::name),
        }
    }
}

/// Events that a run is to have.
pub const NAMES: [&str; 17] = [
    "both translated",
    "destinations translated",
    "ended by a reload",
    "errors about no translation",
    "errors from inside",
    "errors from outside",
    "exhausted",
    "kept by a reload",
    "limited",
    "mid-stream",
    "not translated",
    "opens no translation",
    "packets of translations",
    "port not kept",
    "replies",
    "sources translated",
    "SYN to another translation",
];

/// Counts events of all seeds.
#[derive(Default)]
pub struct Counts(pub BTreeMap<&'static str, u64>);

impl Counts {
    fn add(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }
}

pub struct Translator {
    pub lists: Lists,
    pub table: FlowTable,
    pub v6: bool,
    pub workers: usize,
    pub sessions: Vec<Option<Session>>,
    pub live: Vec<usize>,
    keys: HashMap<Tuple, usize>,
    /// Tuples and limits of translations that ended a moment ago, and until when they may count.
    gone: HashMap<Tuple, u64>,
    gone_limited: Vec<(Limited, u64)>,
    /// The address of a target that an inside address has.
    paired: HashMap<(Vec<u32>, usize, u32), u32>,
    /// Rules with limits, of all lists there were: a rule that stays keeps its count.
    limits: Vec<Rule>,
    claims: Vec<Claim>,
    /// First packets whose TTL was over: each may have had a translation for a moment.
    moments: Vec<(Tuple, (u32, u16))>,
    /// Packets that were dropped in this vector, each by the reasons that are right.
    drops: Vec<Vec<Reason>>,
}

/// Reasons of drops that the translator knows.
pub const REASONS: [Reason; 6] = [
    Reason::NatExhausted,
    Reason::NatLimit,
    Reason::NatUntranslated,
    Reason::NatWorker,
    Reason::SessionPickup,
    Reason::TtlExpired,
];

impl Translator {
    pub fn new(lists: Lists, table: FlowTable, v6: bool, workers: usize) -> Translator {
        Translator {
            lists,
            table,
            v6,
            workers,
            sessions: Vec::new(),
            live: Vec::new(),
            keys: HashMap::new(),
            gone: HashMap::new(),
            gone_limited: Vec::new(),
            paired: HashMap::new(),
            limits: Vec::new(),
            claims: Vec::new(),
            moments: Vec::new(),
            drops: Vec::new(),
        }
    }

    pub fn session(&self, number: usize) -> &Session {
        self.sessions[number].as_ref().expect("it is alive")
    }

    /// The translation that a packet belongs to, and its direction. A SYN from the other side belongs to none that ends.
    fn belongs(&self, packet: &Packet) -> Option<(usize, usize)> {
        let (number, way) = self.find(&packet.tuple)?;
        let is_request = packet.tuple.protocol == TCP && packet.flags & (SYN | ACK) == SYN;
        let is_other = is_request && way == 1 && self.session(number).states.refuses_requests();
        (!is_other).then_some((number, way))
    }

    /// The translation that has a tuple, and its direction.
    pub fn find(&self, fields: &Tuple) -> Option<(usize, usize)> {
        let number = *self.keys.get(fields)?;
        Some((number, usize::from(self.session(number).came != *fields)))
    }

    /// Ends sessions whose time is over. Moves the time on if one is about to end: then both answers are right.
    pub fn expire(&mut self, mut now: u64) -> u64 {
        let end = |own: &Session, table: &FlowTable| own.last + own.states.timeout(&table.timeouts);
        while let Some(end) =
            self.live.iter().map(|&one| end(self.session(one), &self.table)).find(|end| end.abs_diff(now) < GRAIN)
        {
            now = end + GRAIN;
        }
        for number in self.live.clone() {
            let end = end(self.session(number), &self.table);
            if now >= end {
                self.end(number, end + LINGERS);
            }
        }
        self.live.retain(|&number| self.sessions[number].is_some());
        self.gone.retain(|_, until| *until >= now);
        self.gone_limited.retain(|(_, until)| *until >= now);
        now
    }

    fn end(&mut self, number: usize, until: u64) {
        let session = self.sessions[number].take().expect("it is alive");
        for key in [session.came, session.left.turned()] {
            self.keys.remove(&key);
            self.gone.insert(key, until);
        }
        self.gone_limited.extend(session.limited.map(|limited| (limited, until)));
    }

    /// Puts other rules into force: each translation's first packet is matched again.
    pub fn change(&mut self, lists: Lists, now: u64, counts: &mut Counts) {
        self.lists = lists;
        for number in self.live.clone() {
            let Session { came, left, .. } = *self.session(number);
            let decision = self.decide(entry(came.source), &came);
            let (to, from) = ((left.destination, left.dport), (left.source, left.sport));
            let same_destination = decision.to == to;
            let (same_source, limited) = match decision.rule {
                None => (from == (came.source, came.sport), None),
                Some((rule, edge)) => {
                    let addresses = self.addresses(rule, edge, came.source);
                    let fits = addresses.contains(&from.0) && ports(rule, &came).contains(&from.1);
                    (fits, rule.limit.map(|_| (edge, rule.clone(), came.source)))
                }
            };
            let translates = decision.hit.is_some() || decision.rule.is_some();
            let limited = limited.map(|(edge, rule, source)| (edge, self.limit(&rule), source));
            if same_destination && same_source && translates {
                let old = std::mem::replace(&mut self.sessions[number].as_mut().expect("it is alive").limited, limited);
                self.gone_limited.extend(old.filter(|_| old != limited).map(|old| (old, now + CHANGES)));
                counts.add("kept by a reload");
            } else {
                self.end(number, now + CHANGES);
                counts.add("ended by a reload");
            }
        }
        self.live.retain(|&number| self.sessions[number].is_some());
    }

    /// The number of a rule with a limit.
    fn limit(&mut self, rule: &Rule) -> usize {
        let known = self.limits.iter().position(|known| known == rule);
        known.unwrap_or_else(|| {
            self.limits.push(rule.clone());
            self.limits.len() - 1
        })
    }

    /// The rule about the destination of a packet, and its outside interface.
    fn destination(&self, fields: &Tuple) -> Option<(&Rule, usize, (u32, u16))> {
        for (edge, rules) in &self.lists {
            for rule in rules {
                match rule.verb {
                    NatVerb::Keep if rule.matches(*edge, fields) => return None,
                    NatVerb::Destination | NatVerb::Both if rule.matches(*edge, fields) => {
                        return Some((rule, *edge, rule.given(fields)));
                    }
                    NatVerb::Map => {
                        let (inside, outside) = rule.map();
                        if outside.has(fields.destination) {
                            let back = inside.first + (fields.destination - outside.first);
                            let turned = Tuple { destination: back, ..*fields }.turned();
                            // The rule says which packets from inside it translates: those to the sender.
                            let wanted = Tuple {
                                dport: if fields.protocol == ICMP { fields.dport } else { turned.dport },
                                ..turned
                            };
                            if rule.matches(*edge, &wanted) {
                                return Some((rule, *edge, (back, fields.dport)));
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        None
    }

    /// The rule about the source of a packet that leaves by an interface.
    fn source(&self, edge: usize, fields: &Tuple) -> Option<(&Rule, usize)> {
        let (_, rules) = self.lists.iter().find(|(own, _)| *own == edge)?;
        let is_about = |rule: &Rule| matches!(rule.verb, NatVerb::Keep | NatVerb::Source | NatVerb::Map);
        let rule = rules.iter().find(|rule| is_about(rule) && rule.matches(edge, fields))?;
        (rule.verb != NatVerb::Keep).then_some((rule, edge))
    }

    fn decide(&self, entry: usize, fields: &Tuple) -> Decision<'_> {
        let is_outside = |interface: usize| self.lists.iter().any(|(edge, _)| *edge == interface);
        let hit = self.destination(fields);
        let to = hit.map_or((fields.destination, fields.dport), |(.., to)| to);
        let out = route(to.0);
        let rule = match (hit, out) {
            (Some((rule, edge, _)), _) if rule.verb == NatVerb::Both => Some((rule, edge)),
            (_, Some(out)) if is_outside(out) => self.source(out, &Tuple { destination: to.0, dport: to.1, ..*fields }),
            // A hairpin: as if it left by the outside interface.
            (Some((_, edge, _)), Some(_)) if !is_outside(entry) => self.source(edge, fields),
            _ => None,
        };
        Decision { hit: hit.map(|(rule, ..)| rule), rule, to, out }
    }

    /// The addresses that a rule gives to a source.
    fn addresses(&self, rule: &Rule, edge: usize, source: u32) -> Vec<u32> {
        if rule.verb == NatVerb::Map {
            let (inside, outside) = rule.map();
            return vec![outside.first + (source - inside.first)];
        }
        rule.source.as_ref().map(|target| target.list(edge)).unwrap_or_default()
    }

    /// The address that an inside address has of a rule's target, if it is known.
    fn pair(&self, rule: &Rule, edge: usize, source: u32) -> Option<u32> {
        let addresses = self.addresses(rule, edge, source);
        match &addresses[..] {
            [only] => Some(*only),
            _ => self.paired.get(&(addresses, edge, source)).copied(),
        }
    }

    fn is_taken(&self, tuple: &Tuple) -> bool {
        self.keys.contains_key(tuple)
    }

    fn may_be_taken(&self, tuple: &Tuple) -> bool {
        self.is_taken(tuple) || self.gone.contains_key(tuple)
    }

    /// Checks the outcome of a packet: `left` are the frames that left for it.
    pub fn check(
        &mut self,
        entry: usize,
        packet: &Packet,
        now: u64,
        left: &[&(usize, Vec<u8>)],
        counts: &mut Counts,
    ) -> Result<(), String> {
        if left.len() > 1 {
            return Err(format!("{} frames left", left.len()));
        }
        let left = left.first().copied();
        if let Some(quote) = &packet.quote {
            return self.check_error(entry, packet, quote, left, counts);
        }
        if let Some((number, way)) = self.belongs(packet) {
            if packet.ttl == 1 {
                return self.dropped(left, &[Reason::TtlExpired]);
            }
            let (protocol, flags) = (packet.tuple.protocol, packet.flags);
            let session = self.sessions[number].as_mut().expect("it is alive");
            let wanted = packet.with(session.way(way).1);
            if session.states.packet(protocol, way, flags) {
                session.last = now;
            }
            counts.add(["packets of translations", "replies"][way]);
            return self
                .forwarded(&wanted, left)
                .map_err(|message| format!("{message}\nas way {way} of {:x?}", self.session(number)));
        }
        self.check_first(entry, packet, now, left, counts)
    }

    /// A packet that belongs to no translation.
    fn check_first(
        &mut self,
        entry: usize,
        packet: &Packet,
        now: u64,
        left: Option<&(usize, Vec<u8>)>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let fields = packet.tuple;
        let Decision { hit, rule, to, out } = self.decide(entry, &fields);
        let Tuple { protocol, .. } = fields;
        if hit.is_none() && rule.is_none() {
            counts.add("not translated");
            return match out {
                None => self.dropped(left, &[]),
                Some(_) if packet.ttl == 1 => self.dropped(left, &[Reason::TtlExpired]),
                Some(_) => self.forwarded(packet, left),
            };
        }
        let flags = packet.flags;
        if protocol == TCP && (flags & RST != 0 || flags & (SYN | FIN) == SYN | FIN)
            || protocol == ICMP && !is_request(fields.dport)
        {
            counts.add("opens no translation");
            return self.dropped(left, &[Reason::NatUntranslated]);
        }
        if protocol == TCP && !self.table.tcp_pickup && flags & (SYN | ACK) != SYN {
            counts.add("mid-stream");
            return self.dropped(left, &[Reason::SessionPickup]);
        }
        if self.is_taken(&fields) {
            counts.add("SYN to another translation");
            return self.dropped(left, &[Reason::NatExhausted]);
        }
        let is_outside = |interface: usize| self.lists.iter().any(|(edge, _)| *edge == interface);
        let one_armed = is_outside(entry) && out.is_some_and(is_outside);
        let plain_hairpin = hit.is_some() && rule.is_none() && !is_outside(entry);
        let owned = rule.map(|(rule, edge)| (rule.clone(), edge));
        let pair = rule.and_then(|(rule, edge)| self.pair(rule, edge, fields.source));
        let name = match (hit.is_some(), rule.is_some()) {
            (true, true) => "both translated",
            (true, false) => "destinations translated",
            _ => "sources translated",
        };
        let limited = owned.as_ref().and_then(|(rule, edge)| {
            let most = rule.limit?;
            Some(((*edge, self.limit(rule), fields.source), most))
        });
        let mut reasons = vec![Reason::NatExhausted];
        if packet.ttl == 1 {
            reasons.push(Reason::TtlExpired);
            self.moments.push((fields, to));
        }
        if limited.is_some() {
            reasons.push(Reason::NatLimit);
        }
        if self.workers > 1 && (one_armed || plain_hairpin) {
            reasons.push(Reason::NatWorker);
        }
        let Some((_, frame)) = left else {
            if out.is_none() {
                // The destination is the gateway itself: rules give no such one.
                return Err("a rule's destination is the gateway".into());
            }
            // A drop for another reason than a bound needs no proof; a bound is proved when the vector is over.
            if !reasons.iter().any(|reason| matches!(reason, Reason::TtlExpired | Reason::NatWorker)) {
                let mut proofs = vec![Claim::Exhausted { fields, to, rule: owned }];
                proofs.extend(limited.map(|(limited, most)| Claim::Limited(limited, most)));
                self.claims.push(Claim::Any(proofs));
            }
            return self.dropped(None, &reasons);
        };
        if packet.ttl == 1 {
            return Err("the TTL is over, and it left".into());
        }
        let (address, port) = match &owned {
            Some(_) => source(&frame[14..]),
            None => (fields.source, fields.sport),
        };
        let port = if has_ports(protocol) || protocol == ICMP { port } else { fields.sport };
        let given = Tuple { protocol, source: address, sport: port, destination: to.0, dport: to.1 };
        if let Some((rule, edge)) = &owned {
            let allowed = self.addresses(rule, *edge, fields.source);
            if !allowed.contains(&address) {
                return Err(format!("source {address:#x} of {allowed:x?} by {rule:?}"));
            }
            // SCTP keeps its ports: another address may have them free.
            let with_ports = has_ports(protocol) && protocol != SCTP || protocol == ICMP;
            if let Some(pair) = pair.filter(|&pair| pair != address) {
                let other = Tuple { source: pair, ..given }.turned();
                if with_ports {
                    return Err(format!("source {address:#x}, and the inside address has {pair:#x}"));
                }
                if other != fields {
                    self.claims.push(Claim::Changed(other));
                }
                counts.add("other address without ports");
            }
            if with_ports {
                self.check_port(&fields, &given, rule)?;
                if rule.verb != NatVerb::Map {
                    self.paired.insert((allowed, *edge, fields.source), address);
                }
            }
        }
        for key in [fields, given.turned()] {
            if let Some(number) = self.keys.get(&key) {
                return Err(format!("{key:x?} belongs to {:x?}", self.session(*number)));
            }
        }
        self.forwarded(&packet.with(given), left)?;
        counts.add(name);
        let number = self.sessions.len();
        let states = States::new(protocol, flags);
        let limited = limited.map(|(limited, _)| limited);
        self.sessions.push(Some(Session { came: fields, left: given, states, last: now, limited }));
        self.live.push(number);
        self.keys.extend([fields, given.turned()].map(|key| (key, number)));
        if let Some((limited, most)) = limited.zip(owned.and_then(|(rule, _)| rule.limit)) {
            let count = self.live.iter().filter(|&&one| self.session(one).limited == Some(limited)).count();
            if count > most as usize {
                return Err(format!("{count} translations of the address by a rule, and {most} may be"));
            }
        }
        Ok(())
    }

    /// The port that was drawn has to be one that the rule gives, even or odd and kept if so wanted.
    fn check_port(&mut self, fields: &Tuple, given: &Tuple, rule: &Rule) -> Result<(), String> {
        let ports = ports(rule, fields);
        if !ports.contains(&given.sport) {
            return Err(format!("port {} is not one of {ports:?} by {rule:?}", given.sport));
        }
        if has_parity(rule, fields) && fields.sport % 2 != given.sport % 2 {
            return Err(format!("port {} became {} by {rule:?}", fields.sport, given.sport));
        }
        let kept = Tuple { sport: fields.sport, ..*given };
        if rule.preserve && ports.contains(&fields.sport) && kept != *given && !self.may_be_taken(&kept.turned()) {
            self.claims.push(Claim::Changed(kept.turned()));
        }
        Ok(())
    }

    /// An error about a packet of a translation goes to the sender of that packet.
    fn check_error(
        &mut self,
        entry: usize,
        packet: &Packet,
        quote: &Quote,
        left: Option<&(usize, Vec<u8>)>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let Some((number, way)) = self.find(&quote.packet.tuple.turned()) else {
            let Decision { hit, rule, out, .. } = self.decide(entry, &packet.tuple);
            counts.add("errors about no translation");
            return match out {
                _ if hit.is_some() || rule.is_some() => self.dropped(left, &[Reason::NatUntranslated]),
                None => self.dropped(left, &[]),
                Some(_) => self.forwarded(packet, left),
            };
        };
        // It came the way of the quoted packet's replies.
        let session = self.session(number);
        let (came, leaves) = session.way(way);
        let source = if came.source == leaves.source { packet.tuple.source } else { leaves.source };
        let quoted = quote.packet.with(leaves.turned());
        let quote = Some(Box::new(Quote { packet: quoted, ..quote.clone() }));
        let tuple = Tuple { source, destination: leaves.destination, ..packet.tuple };
        counts.add(["errors from inside", "errors from outside"][way]);
        self.forwarded(&Packet { quote, ..packet.with(tuple) }, left)
    }

    fn dropped(&mut self, left: Option<&(usize, Vec<u8>)>, reasons: &[Reason]) -> Result<(), String> {
        if let Some((port, frame)) = left {
            return Err(format!(
                "left by {}: {frame:02x?}, and had to be dropped for {reasons:?}",
                INTERFACES[*port].0
            ));
        }
        if !reasons.is_empty() {
            self.drops.push(reasons.to_vec());
        }
        Ok(())
    }

    fn forwarded(&self, wanted: &Packet, left: Option<&(usize, Vec<u8>)>) -> Result<(), String> {
        let Some(out) = route(wanted.tuple.destination) else {
            return match left {
                None => Ok(()),
                Some(_) => Err("it left, and is for the gateway".into()),
            };
        };
        let packet = Packet { ttl: wanted.ttl - 1, ..wanted.clone() }.octets(self.v6);
        let frame = [&out_header(out, &packet)[..], &packet].concat();
        match left {
            Some((port, given)) if *port == out && *given == frame => Ok(()),
            Some((port, given)) => Err(format!(
                "left by {}: {given:02x?}\ninstead of {}: {frame:02x?}",
                INTERFACES[*port].0, INTERFACES[out].0
            )),
            None => Err(format!("was dropped instead of {}: {frame:02x?}", INTERFACES[out].0)),
        }
    }

    /// Ends a vector: proves what was claimed, and compares the counts of drops.
    pub fn finish(&mut self, drops: &BTreeMap<Reason, u64>, counts: &mut Counts) -> Result<(), String> {
        let wanted = std::mem::take(&mut self.drops);
        for (&reason, &count) in drops {
            let most = wanted.iter().filter(|reasons| reasons.contains(&reason)).count() as u64;
            let least = wanted.iter().filter(|reasons| reasons[..] == [reason]).count() as u64;
            if !(least..=most).contains(&count) {
                return Err(format!("{count} packets were dropped for {reason:?}, and {least} to {most} had to be"));
            }
        }
        let count: u64 = drops.values().sum();
        if count != wanted.len() as u64 {
            return Err(format!("{drops:?}, and {} packets had to be dropped", wanted.len()));
        }
        for claim in std::mem::take(&mut self.claims) {
            if !self.holds(&claim) {
                return Err(format!("not so: {claim:x?}"));
            }
            counts.add(claim.name());
        }
        self.moments.clear();
        Ok(())
    }

    fn had_a_moment(&self, protocol: u8, to: (u32, u16)) -> bool {
        self.moments
            .iter()
            .any(|(fields, own)| fields.protocol == protocol && (protocol == ICMP || own.1 == to.1) && own.0 == to.0)
    }

    fn holds(&self, claim: &Claim) -> bool {
        match claim {
            Claim::Any(claims) => claims.iter().any(|claim| self.holds(claim)),
            Claim::Changed(tuple) => {
                self.may_be_taken(tuple) || self.had_a_moment(tuple.protocol, (tuple.source, tuple.sport))
            }
            Claim::Limited(limited, most) => {
                let live = self.live.iter().filter(|&&one| self.session(one).limited == Some(*limited)).count();
                let gone = self.gone_limited.iter().filter(|(one, _)| one == limited).count();
                let moments = self.moments.iter().filter(|(fields, _)| fields.source == limited.2).count();
                live + gone + moments >= *most as usize
            }
            Claim::Exhausted { fields, to, .. } if self.had_a_moment(fields.protocol, *to) => true,
            Claim::Exhausted { fields, to, rule } => {
                let mut given = Tuple { destination: to.0, dport: to.1, ..*fields };
                let Some((rule, edge)) = rule else {
                    return self.may_be_taken(&given.turned()) || given.turned() == given;
                };
                let addresses = match self.pair(rule, *edge, fields.source) {
                    Some(pair) if draws(rule, fields) => vec![pair],
                    _ => self.addresses(rule, *edge, fields.source),
                };
                let with_parity = has_parity(rule, fields);
                let full = |address: u32| {
                    given.source = address;
                    if ports(rule, fields).len() > 2 * (self.keys.len() + self.gone.len()) + 2 {
                        return false;
                    }
                    let candidates = ports(rule, fields).filter(|port| !with_parity || port % 2 == fields.sport % 2);
                    let (mut all, mut free) = (0, 0);
                    for sport in candidates {
                        all += 1;
                        let reply = Tuple { sport, ..given }.turned();
                        free += usize::from(!self.may_be_taken(&reply) && reply != *fields);
                    }
                    // More than 512 are not all looked at.
                    free == 0 || all > 512 && free * 10 < all
                };
                addresses.into_iter().any(full)
            }
        }
    }
}

/// The interface by which packets of a source come in.
pub fn entry(source: u32) -> usize {
    route(source).unwrap_or(crate::gateway::WAN)
}

/// Whether a port is drawn for a packet.
fn draws(rule: &Rule, fields: &Tuple) -> bool {
    let protocol = fields.protocol;
    rule.verb != NatVerb::Map && (protocol == ICMP || has_ports(protocol) && protocol != SCTP)
}

/// Whether the port is even or odd as it was: identifiers of ICMP are no ports.
fn has_parity(rule: &Rule, fields: &Tuple) -> bool {
    rule.parity && draws(rule, fields) && fields.protocol != ICMP
}

/// The ports that a rule gives.
fn ports(rule: &Rule, fields: &Tuple) -> std::ops::RangeInclusive<u16> {
    if !draws(rule, fields) {
        return fields.sport..=fields.sport;
    }
    let given = rule.source.as_ref().and_then(|target| target.ports.clone());
    given.unwrap_or(if fields.protocol == ICMP { 0..=65_535 } else { 1024..=65_535 })
}
