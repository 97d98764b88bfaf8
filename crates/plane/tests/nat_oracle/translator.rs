//! The naive translator: rules by first match, sessions in a map of both their tuples. It is written from docs/nat.md,
//! docs/sessions.md and RFC 4787, 5382 and 5508. A port that is drawn is taken from the packet that left, and has to be allowed.

use std::collections::{BTreeMap, HashMap};

use weir_plane::model::{FlowTable, MssClamp};
use weir_plane::reason::Reason;

use crate::claims::Claim;
use crate::gateway::{INTERFACES, Layout, Limits, MTUS, WAN, WAN2, out_header};
use crate::mapping::{Endpoint, Mapping, Mappings};
use crate::mutant::Mutant;
use crate::packet::{ACK, FIN, ICMP, Packet, Quote, RST, SYN, TCP, Tuple, ends, has_ports, is_request};
use crate::policy::Decision;
use crate::rules::{Lists, Rule};
use crate::state::{State, States};

/// A millisecond, by which time-outs may be late or early.
pub const GRAIN: u64 = 1_000_000;
/// A translation counts for this long after its time-out (docs/nat.md), and after its rule is gone. The gateway looks a tenth of a second
/// later here than it wants.
const LINGERS: u64 = 1_100_000_000 + GRAIN;
pub const CHANGES: u64 = 2_000_000_000 + GRAIN;

/// A tuple with the VRF that its packets come in by.
pub type Key = (usize, Tuple);
/// A limit applies to an inside address of a VRF at an outside interface, by a rule (its place in [`Translator::limits`]).
pub type Limited = (usize, usize, usize, u32);

/// Translations that a limit counts together: of a VRF, or of the list of an outside interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    Vrf(usize),
    List(usize),
}

/// A translation.
#[derive(Debug, Clone)]
pub struct Session {
    /// The tuple of its first packet as it came, and as it left.
    pub came: Tuple,
    pub left: Tuple,
    /// The interfaces that packets of each direction come in by; those of the other direction leave by them.
    pub entries: [usize; 2],
    pub states: States,
    /// The time of its last packet.
    pub last: u64,
    pub limited: Option<Limited>,
    /// The VRF and the list that it counts for.
    pub shares: [Share; 2],
    /// The mapping that gave the destination.
    pub reached: Option<Mapping>,
    /// All its mappings.
    pub mappings: Vec<Mapping>,
    /// No packet of the other direction has passed; of TCP, it was never established, nor did both sides send while it ended.
    pub half_open: bool,
}

impl Session {
    /// The tuple that packets of a direction come with, and the one that they leave with.
    pub fn way(&self, way: usize) -> (Tuple, Tuple) {
        match way {
            0 => (self.came, self.left),
            _ => (self.left.turned(), self.came.turned()),
        }
    }

    /// The tuples that packets of both directions come with.
    fn keys(&self, layout: Layout) -> [Key; 2] {
        [0, 1].map(|way| (layout.vrf(self.entries[way]), self.way(way).0))
    }
}

/// Events that a run is to have.
pub const NAMES: [&str; 24] = [
    "beyond the limit of a VRF",
    "beyond the limit of a list",
    "both translated",
    "destinations translated",
    "ended by a reload",
    "errors about no translation",
    "errors from inside",
    "errors from outside",
    "exhausted",
    "fragments",
    "half-open ones replaced",
    "hairpins by a mapping",
    "kept by a reload",
    "let in by a mapping",
    "limited",
    "mid-stream",
    "more destinations of a mapping",
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
    pub fn add(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }
}

pub struct Translator {
    pub lists: Lists,
    pub table: FlowTable,
    pub layout: Layout,
    pub workers: usize,
    mutant: Option<Mutant>,
    pub sessions: Vec<Option<Session>>,
    pub live: Vec<usize>,
    pub keys: HashMap<Key, usize>,
    pub mappings: Mappings,
    /// Tuples and limits of translations that ended a moment ago, and until when they may count.
    pub gone: HashMap<Key, u64>,
    pub gone_limited: Vec<(Limited, u64)>,
    pub gone_shares: Vec<([Share; 2], u64)>,
    /// The translations that count for a limit.
    pub limited: HashMap<Limited, usize>,
    /// The address of a target that an inside address has.
    pub paired: HashMap<(Vec<u32>, usize, usize, u32), u32>,
    /// Rules with limits, of all lists there were: a rule that stays keeps its count.
    limits: Vec<Rule>,
    pub claims: Vec<Claim>,
    /// First packets whose TTL was over: each may have had a translation for a moment.
    pub moments: Vec<(Tuple, (u32, u16))>,
    /// First packets of this vector with the destinations that rules or mappings give, and with their own sources: each has that tuple
    /// for a moment.
    pub halfway: Vec<Tuple>,
    /// Packets that were dropped in this vector, each by the reasons that are right.
    pub drops: Vec<(Tuple, Vec<Reason>)>,
    /// Packets that the gateway had locally, or dropped for a mapping that ends or began in this vector.
    pub may_drop: usize,
    /// The packet in work.
    now: Option<Tuple>,
    /// The time from which on all translations have been matched by the rules in force.
    pub settled: u64,
}

/// Reasons of drops that the translator knows.
pub const REASONS: [Reason; 8] = [
    Reason::NatExhausted,
    Reason::NatLimit,
    Reason::NatListLimit,
    Reason::NatVrfLimit,
    Reason::NatUntranslated,
    Reason::NatWorker,
    Reason::SessionPickup,
    Reason::TtlExpired,
];

type Left<'a> = Option<&'a (usize, Vec<u8>)>;

impl Translator {
    pub fn new(lists: Lists, table: FlowTable, layout: Layout, workers: usize, mutant: Option<Mutant>) -> Translator {
        Translator {
            lists,
            table,
            layout,
            workers,
            mutant,
            sessions: Vec::new(),
            live: Vec::new(),
            keys: HashMap::new(),
            mappings: Mappings::default(),
            gone: HashMap::new(),
            gone_limited: Vec::new(),
            gone_shares: Vec::new(),
            limited: HashMap::new(),
            paired: HashMap::new(),
            limits: Vec::new(),
            claims: Vec::new(),
            moments: Vec::new(),
            halfway: Vec::new(),
            drops: Vec::new(),
            may_drop: 0,
            now: None,
            settled: 0,
        }
    }

    /// Whether the oracle has a fault.
    pub fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub fn session(&self, number: usize) -> &Session {
        self.sessions[number].as_ref().expect("it is alive")
    }

    /// The translation that a packet belongs to, and its direction. A SYN from the other side belongs to none that ends.
    fn belongs(&self, entry: usize, packet: &Packet) -> Option<(usize, usize)> {
        let (number, way) = self.find(entry, &packet.tuple)?;
        let is_request = packet.tuple.protocol == TCP && packet.flags & (SYN | ACK) == SYN;
        let is_other = is_request && way == 1 && self.session(number).states.refuses_requests();
        (!is_other || self.is(Mutant::ReopensFromOutside)).then_some((number, way))
    }

    /// The translation that has the tuple of a packet, and its direction.
    pub fn find(&self, entry: usize, fields: &Tuple) -> Option<(usize, usize)> {
        let key = (self.layout.vrf(entry), *fields);
        let number = *self.keys.get(&key)?;
        Some((number, usize::from(self.session(number).keys(self.layout)[0] != key)))
    }

    /// The time at which a translation ends.
    pub fn end_of(&self, session: &Session) -> u64 {
        let time = session.states.timeout(&self.table.timeouts);
        session.last + if self.is(Mutant::WaitsLonger) { time * 6 / 5 } else { time }
    }

    /// Ends sessions whose time is over. Moves the time on if one is about to end: then both answers are right.
    pub fn expire(&mut self, mut now: u64) -> u64 {
        let mut ends: Vec<(u64, usize)> =
            self.live.iter().map(|&number| (self.end_of(self.session(number)), number)).collect();
        ends.retain(|(end, _)| *end < now + LINGERS);
        ends.sort_unstable();
        for (end, _) in &ends {
            if end.abs_diff(now) < GRAIN {
                now = end + GRAIN;
            }
        }
        for (end, number) in ends.into_iter().filter(|(end, _)| now >= *end) {
            self.end(number, end + LINGERS);
        }
        self.live.retain(|&number| self.sessions[number].is_some());
        self.gone.retain(|_, until| *until >= now);
        self.gone_limited.retain(|(_, until)| *until >= now);
        self.gone_shares.retain(|(_, until)| *until >= now);
        self.mappings.expire(now);
        now
    }

    /// The greatest segment size of translations between two interfaces (docs/nat.md).
    fn clamp(&self, interfaces: [usize; 2]) -> u16 {
        let headers = if self.layout.v6 { 60 } else { 40 };
        match self.lists[0].mss_clamp {
            _ if self.is(Mutant::ClampsNothing) => u16::MAX,
            None => u16::MAX,
            Some(MssClamp::Value(most)) => most,
            Some(MssClamp::Mtu) => (interfaces.map(|one| MTUS[one]).into_iter().min().unwrap_or(0) - headers) as u16,
        }
    }

    /// Ends the oldest translation that is half-open, if there are as many as there may be.
    fn bound_half_open(&mut self, now: u64, counts: &mut Counts) {
        let mut half_open = self.live.iter().copied().filter(|&number| self.session(number).half_open);
        let Some(oldest) = half_open.next() else { return };
        if 1 + half_open.count() >= self.table.half_open as usize && !self.is(Mutant::BoundsNothing) {
            self.end(oldest, now);
            self.live.retain(|&other| other != oldest);
            counts.add("half-open ones replaced");
        }
    }

    pub fn end(&mut self, number: usize, until: u64) {
        let session = self.sessions[number].take().expect("it is alive");
        for key in session.keys(self.layout) {
            self.keys.remove(&key);
            self.gone.insert(key, until);
        }
        session.mappings.iter().for_each(|mapping| self.mappings.release(mapping, until));
        self.uncount(session.limited, until);
        self.gone_shares.push((session.shares, until));
    }

    /// The translations that a limit counts together.
    pub fn count_of(&self, share: Share) -> usize {
        self.live
            .iter()
            .filter_map(|&number| self.sessions[number].as_ref())
            .filter(|own| own.shares.contains(&share))
            .count()
    }

    /// The limits that a translation counts for; `None`: it has no such limit.
    fn limits_of(&self, shares: [Share; 2]) -> [(Share, Option<u32>, Reason); 2] {
        let late = u32::from(self.is(Mutant::SharedLimitIsLate));
        let Limits { vrf, list } = self.layout.limits;
        let [of_vrf, of_list] = shares;
        [(of_vrf, vrf, Reason::NatVrfLimit), (of_list, list, Reason::NatListLimit)]
            .map(|(share, most, reason)| (share, most.map(|most| most + late), reason))
    }

    pub fn count(&mut self, limited: Option<Limited>) -> usize {
        limited.map_or(0, |limited| {
            let count = self.limited.entry(limited).or_default();
            *count += 1;
            *count
        })
    }

    pub fn uncount(&mut self, limited: Option<Limited>, until: u64) {
        if let Some(limited) = limited {
            *self.limited.get_mut(&limited).expect("it was counted") -= 1;
            self.gone_limited.push((limited, until));
        }
    }

    /// The number of a rule with a limit.
    pub fn limit(&mut self, rule: &Rule) -> usize {
        let known = self.limits.iter().position(|known| known == rule);
        known.unwrap_or_else(|| {
            self.limits.push(rule.clone());
            self.limits.len() - 1
        })
    }

    pub fn may_be_taken(&self, key: &Key) -> bool {
        self.keys.contains_key(key) || self.gone.contains_key(key)
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
        self.now = Some(packet.tuple);
        if let Some(quote) = &packet.quote {
            return self.check_error(entry, packet, quote, left, counts);
        }
        if let Some((number, way)) = self.belongs(entry, packet) {
            if packet.ttl == 1 {
                return self.dropped(left, &[Reason::TtlExpired]);
            }
            let (protocol, flags) = (packet.tuple.protocol, packet.flags);
            let refreshes = way == 1 || !self.is(Mutant::RefreshesByReplies);
            let ends_at_reset = self.is(Mutant::EndsAtReset) && flags & RST != 0;
            let ends_at_fin = self.is(Mutant::EndsAtFirstFin) && flags & FIN != 0;
            let clamp = self.clamp(self.session(number).entries);
            let session = self.sessions[number].as_mut().expect("it is alive");
            let (mut wanted, out) = (packet.with(session.way(way).1), session.entries[1 - way]);
            if session.states.packet(protocol, way, flags) && refreshes {
                session.last = now;
            }
            wanted.mss = wanted.mss.map(|mss| if flags & SYN != 0 { mss.min(clamp) } else { mss });
            session.half_open &= if protocol == TCP { !session.states.was_there } else { way == 0 };
            if ends_at_fin {
                session.states.now = State::TimeWait;
            }
            counts.add(["packets of translations", "replies"][way]);
            self.forwarded(&wanted, Some(out), left)
                .map_err(|message| format!("{message}\nas way {way} of {:x?}", self.session(number)))?;
            if ends_at_reset {
                self.end(number, now + LINGERS);
                self.live.retain(|&other| other != number);
            }
            return Ok(());
        }
        self.check_first(entry, packet, now, left, counts)
    }

    /// A packet that belongs to no translation.
    fn check_first(
        &mut self,
        entry: usize,
        packet: &Packet,
        now: u64,
        left: Left<'_>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let fields = packet.tuple;
        let seen = left.map(|(_, frame)| ends(&frame[14..]).1);
        let Decision { hit, mapping, begins, rule, to, out } = self.decide(entry, &fields, seen);
        let shares = [Share::Vrf(self.layout.vrf(entry)), Share::List(begins.unwrap_or(entry))];
        let Tuple { protocol, .. } = fields;
        if !hit && rule.is_none() {
            counts.add("not translated");
            return match out {
                None => {
                    self.may_drop += usize::from(self.may_reach(&fields));
                    self.dropped(left, &[])
                }
                Some(_) if packet.ttl == 1 => self.dropped(left, &[Reason::TtlExpired]),
                Some(_) => self.forwarded(packet, out, left),
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
        let vrf = self.layout.vrf(entry);
        let came = (vrf, fields);
        if self.keys.contains_key(&came) {
            counts.add("SYN to another translation");
            return self.dropped(left, &[Reason::NatExhausted]);
        }
        let Some(exit) = out else { return Err("a rule's destination is the gateway".into()) };
        let zone = self.layout.vrf(exit);
        let one_armed = self.is_outside(entry) && self.is_outside(exit);
        let plain_hairpin = hit && rule.is_none() && !self.is_outside(entry);
        let name = match (hit, rule.is_some()) {
            _ if mapping.is_some() => {
                ["let in by a mapping", "hairpins by a mapping"][usize::from(!self.is_outside(entry))]
            }
            (true, true) => "both translated",
            (true, false) => "destinations translated",
            _ => "sources translated",
        };
        let owned = rule.map(|(rule, edge)| (rule.clone(), edge));
        let pair = rule.and_then(|(rule, edge)| self.pair(rule, edge, vrf, fields.source));
        if hit {
            self.halfway.push(Tuple { destination: to.0, dport: to.1, ..fields });
        }
        let limited = owned.as_ref().and_then(|(rule, edge)| {
            let most = rule.limit? + u32::from(self.is(Mutant::LimitIsLate));
            Some(((*edge, self.limit(rule), vrf, fields.source), most))
        });
        let mut reasons = vec![Reason::NatExhausted];
        if packet.ttl == 1 {
            reasons.push(Reason::TtlExpired);
            self.moments.push((fields, to));
        }
        if limited.is_some() {
            reasons.push(Reason::NatLimit);
        }
        let together = self.limits_of(shares);
        reasons.extend(together.iter().filter(|(_, most, _)| most.is_some()).map(|(.., reason)| *reason));
        // A tenant's packet to an outside address that no rule gives a destination leaves by the tenant's route.
        let is_own = [WAN, WAN2].iter().any(|&edge| INTERFACES[edge].1.contains(&fields.destination));
        let leaves_again = self.layout.tenants && !hit && is_own && !self.is_outside(entry);
        // The reply of a hairpin between VRFs has no route of its own to the client.
        let crosses = self.layout.tenants && plain_hairpin;
        if self.workers > 1 && (one_armed || crosses || leaves_again) {
            reasons.push(Reason::NatWorker);
        }
        let Some((_, frame)) = left else {
            // A drop for another reason than a bound needs no proof; a bound is proved when the vector is over.
            if !reasons.iter().any(|reason| matches!(reason, Reason::TtlExpired | Reason::NatWorker)) {
                // A rule about destinations has its tuple in the VRF that the packet came in by at first.
                let zones = [zone, if hit { vrf } else { zone }];
                let mut proofs = vec![Claim::Exhausted { fields, to, rule: owned, came, zones }];
                proofs.extend(together.iter().filter_map(|&(share, most, _)| Some(Claim::Full(share, most?))));
                proofs.extend(limited.map(|(limited, most)| Claim::Limited(limited, most)));
                self.claims.push(Claim::Any(proofs));
            }
            return self.dropped(None, &reasons);
        };
        if packet.ttl == 1 {
            return Err("the TTL is over, and it left".into());
        }
        let (address, port) = match &owned {
            Some(_) => ends(&frame[14..]).0,
            None => (fields.source, fields.sport),
        };
        let port = if has_ports(protocol) || protocol == ICMP { port } else { fields.sport };
        let given = Tuple { protocol, source: address, sport: port, destination: to.0, dport: to.1 };
        let mut mappings: Vec<Mapping> = mapping.clone().into_iter().collect();
        if let Some((rule, edge)) = &owned {
            self.check_source(rule, *edge, pair, (vrf, &fields), (zone, &given), counts)?;
            if self.maps(rule, *edge, &fields) {
                mappings.push(self.check_mapping(rule, *edge, &fields, &given, counts)?);
            }
        }
        for key in [came, (zone, given.turned())] {
            if let Some(number) = self.keys.get(&key) {
                return Err(format!("{key:x?} belongs to {:x?}", self.session(*number)));
            }
        }
        let is_other = |number: &usize| {
            let other = self.session(*number);
            Endpoint::source(&other.left) == Endpoint::source(&given) && other.came.source != fields.source
        };
        if self.is(Mutant::SharesNoPorts) && owned.is_some() && self.live.iter().any(is_other) {
            return Err("another inside endpoint has the outside endpoint".into());
        }
        let mut wanted = packet.with(given);
        if self.is(Mutant::KeepsPorts) {
            wanted.tuple.sport = fields.sport;
        }
        if flags & SYN != 0 {
            wanted.mss = wanted.mss.map(|mss| mss.min(self.clamp([entry, exit])));
        }
        self.forwarded(&wanted, out, left)?;
        counts.add(name);
        mappings.iter().for_each(|mapping| self.mappings.hold(mapping));
        let session = Session {
            came: fields,
            left: given,
            entries: [entry, exit],
            states: States::new(protocol, flags),
            last: now,
            limited: limited.map(|(limited, _)| limited),
            shares,
            reached: mapping,
            mappings,
            half_open: true,
        };
        self.bound_half_open(now, counts);
        let (number, keys) = (self.sessions.len(), session.keys(self.layout));
        let count = self.count(session.limited);
        self.sessions.push(Some(session));
        self.live.push(number);
        self.keys.extend(keys.map(|key| (key, number)));
        // Translations that a change gave to the list count once they are matched again.
        let of_list = self.count_of(shares[1]);
        if self.layout.limits.list.is_some_and(|most| of_list > most as usize) && now >= self.settled {
            return Err(format!("the list has {of_list} translations"));
        }
        match limited {
            // Translations that a change gave to the rule count once they are matched again.
            Some((_, most)) if count > most as usize && now >= self.settled => {
                Err(format!("{count} translations of the address by a rule, and {most} may be"))
            }
            _ => Ok(()),
        }
    }

    /// An error about a packet of a translation goes to the sender of that packet.
    fn check_error(
        &mut self,
        entry: usize,
        packet: &Packet,
        quote: &Quote,
        left: Left<'_>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let Some((number, way)) = self.find(entry, &quote.packet.tuple.turned()) else {
            let Decision { hit, rule, out, .. } = self.decide(entry, &packet.tuple, None);
            counts.add("errors about no translation");
            return match out {
                _ if hit || rule.is_some() => self.dropped(left, &[Reason::NatUntranslated]),
                None => self.dropped(left, &[]),
                Some(_) => self.forwarded(packet, out, left),
            };
        };
        // It came the way of the quoted packet's replies.
        let session = self.session(number);
        let (came, leaves) = session.way(way);
        let keeps = came.source == leaves.source
            || self.is(Mutant::LeavesSourcesOfErrors) && packet.tuple.source != came.source;
        let source = if keeps { packet.tuple.source } else { leaves.source };
        let quoted = if self.is(Mutant::LeavesQuotes) { came.turned() } else { leaves.turned() };
        let quoted = quote.packet.with(quoted);
        let quote = Some(Box::new(Quote { packet: quoted, ..quote.clone() }));
        let tuple = Tuple { source, destination: leaves.destination, ..packet.tuple };
        counts.add(["errors from inside", "errors from outside"][way]);
        self.forwarded(&Packet { quote, ..packet.with(tuple) }, Some(session.entries[1 - way]), left)
            .map_err(|message| format!("{message}\nas way {way} of {session:x?}"))?;
        if self.is(Mutant::EndsAtError) {
            self.end(number, 0);
            self.live.retain(|&other| other != number);
        }
        Ok(())
    }

    pub fn dropped(&mut self, left: Left<'_>, reasons: &[Reason]) -> Result<(), String> {
        if let Some((port, frame)) = left {
            return Err(format!(
                "left by {}: {frame:02x?}, and had to be dropped for {reasons:?}",
                INTERFACES[*port].0
            ));
        }
        if !reasons.is_empty() {
            self.drops.extend(self.now.map(|fields| (fields, reasons.to_vec())));
        }
        Ok(())
    }

    pub fn forwarded(&self, wanted: &Packet, out: Option<usize>, left: Left<'_>) -> Result<(), String> {
        let Some(out) = out else {
            return match left {
                None => Ok(()),
                Some(_) => Err("it left, and is for the gateway".into()),
            };
        };
        let unsummed = wanted.unsummed && !self.is(Mutant::SumsUnsummed);
        let packet = Packet { ttl: wanted.ttl - 1, unsummed, ..wanted.clone() }.octets(self.layout.v6);
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
}
