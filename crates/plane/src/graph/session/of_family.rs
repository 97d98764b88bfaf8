//! The sessions of one family.

use weir_base::clock::Time;
use weir_base::reclaim::Guard;
use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::segment;
use weir_packet::vector::VECTOR;
use weir_packet::wire::{protocol, tcp};
use weir_table::classify::NO_RULE;
use weir_table::flow::{Place, Secret, Slab, Table, Target};

use super::bounds::Bounds;
use super::endings::Endings;
use super::log::Waiting;
use super::lookup::Lookup;
use super::mappings::Mappings;
use super::membership::Membership;
use super::nat::Here;
use super::pace::Pace;
use super::record::{NONE, OpenedBy, Opener, Session};
use super::state::{NoOpener, Progress, Way};
use super::tally::Tallies;
use super::tuple::Tuple;
use super::watched::Noted;
use crate::graph::counters::Ending;
use crate::graph::flow::{Decision, UNASKED, Unlearned};
use crate::model::PerFamily;
use crate::root::acl::{Action, Found, MOST_NUMBERS};
use crate::root::family::Family;
use crate::root::{Interface, Root};

/// Steps in which the table grows between two vectors, at most.
const STEPS: usize = 16;

/// The result for a packet that matches a rule which opens sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It has opened this session, or a rule more permits the session.
    Opened(u32),
    /// It passes and opens none.
    Passes,
    /// It is in mid-stream, and sessions do not begin there.
    MidStream,
    /// There is no room.
    Full,
}

/// A packet that took the learned decision of its session or translation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// The number of the rule of NAT; [`NO_NAT`] if it is no translation.
    pub(crate) rule: u32,
    pub(crate) adjacency: u32,
    /// The rules of access lists, as they are in the decision.
    pub(crate) acl: [u32; 2],
    /// It is rewritten.
    pub(crate) leaves: bool,
}

/// The packet is not translated.
pub(crate) const NO_NAT: u32 = u32::MAX;

/// A tuple for which a session is looked up or opened, and where it and its reverse lie in the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sought<K> {
    pub(crate) tuple: Tuple<K>,
    at: [Target; 2],
}

/// The sessions of one family.
pub(crate) struct OfFamily<K: Family> {
    pub(super) table: Table<K::FlowKey, u32>,
    pub(super) sessions: Slab<Session<K>>,
    /// How many translations an inside address has that count for a limit.
    pub(super) users: Table<K::FlowKey, u32>,
    /// The translations of each routing domain, by its zone.
    pub(super) zones: Tallies,
    /// The translations of each list, by the number of its name.
    pub(super) lists: Tallies,
    /// The mappings that translations hold.
    pub(super) mappings: Mappings<K>,
    /// The worker, as hashes of packets name it.
    pub(super) here: Here,
    /// The outside address without a free port, of the last packet for which a rule had none.
    pub(crate) exhausted: Option<K>,
    /// Events of translations that wait for the end of the vector.
    pub(super) log: Waiting,
    /// Sessions that began or ended, for watchers.
    pub(super) noted: Noted<K>,
    half_open: usize,
    oldest: u32,
    newest: u32,
    /// Sessions that the vector opened.
    opened: Vec<u32>,
    pub(super) endings: Endings,
}

/// A table's value: the session's number, and in the lowest bit the direction.
pub(super) fn value(number: u32, way: Way) -> u32 {
    number << 1 | u32::from(way == Way::Reply)
}

impl<K: Family> OfFamily<K> {
    pub(super) fn new(secret: Secret, here: Here) -> Self {
        OfFamily {
            table: Table::new(0, secret),
            sessions: Slab::new(),
            users: Table::new(0, secret),
            zones: Tallies::default(),
            lists: Tallies::default(),
            mappings: Mappings::new(secret),
            here,
            exhausted: None,
            log: Waiting::new(),
            noted: Noted::new(),
            half_open: 0,
            oldest: NONE,
            newest: NONE,
            opened: Vec::new(),
            endings: Endings::default(),
        }
    }

    pub(super) fn set_most(&mut self, entries: usize) {
        self.table.set_most(entries);
        self.users.set_most(entries);
        self.mappings.set_most(entries);
    }

    pub(super) fn prepare(&mut self, room: usize) {
        let more = room.min(VECTOR);
        // A session may take the place of another; the number of that one is given again after the vector only.
        self.sessions.prepare(VECTOR);
        self.opened.reserve(VECTOR);
        (0..STEPS).any(|_| self.table.prepare(2 * more));
    }

    /// Allocates memory for the inside addresses that one vector, and the hand, may count.
    pub(super) fn prepare_users(&mut self) {
        (0..STEPS).any(|_| self.users.prepare(3 * VECTOR));
    }

    /// Allocates memory for the mappings that one vector, and the hand, may add: two for each translation.
    pub(super) fn prepare_mappings(&mut self) {
        (0..STEPS).any(|_| self.mappings.prepare(6 * VECTOR));
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn half_open(&self) -> usize {
        self.half_open
    }

    pub(super) fn octets(&self) -> usize {
        self.table.octets() + self.sessions.octets() + self.users.octets() + self.mappings.octets()
    }

    /// Numbers below this one may be sessions.
    pub(crate) fn extent(&self) -> u32 {
        self.sessions.extent()
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Session<K>> {
        self.sessions.get(number)
    }

    /// Sessions were opened in this vector.
    #[inline]
    pub(crate) fn has_opened(&self) -> bool {
        !self.opened.is_empty()
    }

    /// The session of a tuple, if it has not ended.
    pub(crate) fn find(&self, tuple: &Tuple<K>, bounds: &Bounds, now: Time) -> Option<Membership> {
        let place = self.table.find(&tuple.key())?;
        self.membership(place, bounds, now)
    }

    /// Seeks a tuple and its reverse, and fetches memory for both.
    #[inline]
    pub(crate) fn seek(&self, tuple: Tuple<K>) -> Sought<K> {
        Sought { tuple, at: [self.table.seek(&tuple.key()), self.table.seek(&tuple.reversed().key())] }
    }

    /// Fetches the memory of a session that is to be opened when so many others were.
    #[inline]
    pub(crate) fn fetch_vacant(&self, sought: &Sought<K>, before: usize) {
        sought.at.into_iter().for_each(|at| self.table.fetch_vacant(at));
        self.sessions.fetch_vacant(before);
    }

    /// The session of a tuple that was sought, if it has not ended.
    #[inline]
    pub(crate) fn find_sought(&self, sought: &Sought<K>, bounds: &Bounds, now: Time) -> Option<Membership> {
        let place = self.table.find_at(sought.at[0], &sought.tuple.key())?;
        self.membership(place, bounds, now)
    }

    /// Begins a lookup of the sessions of a vector's tuples.
    #[inline(always)]
    pub(crate) fn lookup(&mut self) -> Lookup<'_, K> {
        Lookup::new(self.table.lookup(), &self.sessions)
    }

    /// Finds the sessions of a vector's tuples.
    #[inline]
    pub(crate) fn find_each(&self, keys: &[K::FlowKey], places: &mut [Place]) {
        self.table.find_each(keys, places);
    }

    /// The session at a place of the table, if it has not ended.
    #[inline]
    pub(crate) fn membership(&self, place: Place, bounds: &Bounds, now: Time) -> Option<Membership> {
        member(&self.sessions, *self.table.value(place)?, bounds, now)
    }

    /// The rule by which a session permits a packet that was matched by an older version of the lists, and is matched again;
    /// `None`: it ends, and lists decide about the packet.
    #[cold]
    pub(crate) fn permits_again(
        &mut self,
        (root, guard): (&Root, &Guard<'_>),
        version: u64,
        bounds: &Bounds,
        member: Membership,
        output: bool,
    ) -> Option<Found> {
        if !self.match_again((root, guard), version, bounds, member.number) {
            self.end(member.number, Ending::Revoked);
            return None;
        }
        self.sessions.get(member.number)?.permits(member.way, output)
    }

    /// Matches a session by the lists that there are now; gives whether it goes on. If other rules permit it, what was learned about its
    /// packets is forgotten.
    pub(super) fn match_again(&mut self, at: (&Root, &Guard<'_>), version: u64, bounds: &Bounds, number: u32) -> bool {
        let Some(session) = self.sessions.get_mut(number) else { return false };
        session.version = version;
        let rules = rules_now(at, bounds, session);
        if rules != session.rules {
            session.rules = rules;
            session.forget();
        }
        rules.iter().any(Option::is_some)
    }

    /// Whether the lists that there are now permit a session by the rules that it has. If so, it is one of this version.
    #[inline]
    pub(crate) fn holds_on(&mut self, at: (&Root, &Guard<'_>), version: u64, bounds: &Bounds, number: u32) -> bool {
        let is_current = self.sessions.get(number).is_some_and(|session| session.version == version);
        is_current || self.holds_on_under(at, version, bounds, number)
    }

    #[cold]
    fn holds_on_under(&mut self, at: (&Root, &Guard<'_>), version: u64, bounds: &Bounds, number: u32) -> bool {
        let Some(session) = self.sessions.get_mut(number) else { return false };
        if rules_now(at, bounds, session) != session.rules {
            return false;
        }
        session.version = version;
        true
    }

    /// The progress of a session that a packet would open, or why it opens none.
    pub(crate) fn admit(tuple: &Tuple<K>, opener: &Opener, bounds: &Bounds) -> Result<Progress, Admission> {
        let lacks_flags = tuple.protocol == protocol::TCP && opener.flags().is_none();
        if tuple.is_reply() || K::is_group(tuple.destination) || lacks_flags {
            return Err(Admission::Passes);
        }
        Progress::open(opener.flags(), bounds.settings.tcp_pickup).map_err(|no| match no {
            NoOpener::Ends => Admission::Passes,
            NoOpener::MidStream => Admission::MidStream,
        })
    }

    /// The sessions that have a tuple or its reverse, whatever their time.
    pub(crate) fn others(&self, sought: &Sought<K>) -> [Option<u32>; 2] {
        let Sought { tuple, at } = sought;
        let with = |at: Target, key| Some(self.table.value(self.table.find_at(at, &key)?)? >> 1);
        [with(at[0], tuple.key()), with(at[1], tuple.reversed().key())]
    }

    /// Opens a session, for which there is room.
    pub(crate) fn open(
        &mut self,
        sought: &Sought<K>,
        progress: Progress,
        opener: Opener,
        by: OpenedBy,
        output: bool,
        (version, now): (u64, Time),
    ) -> Admission {
        let mut rules = [None; 2];
        rules[usize::from(output)] = Some(by);
        self.add_at(Session { rules, ..Session::new(sought.tuple, progress, opener, (version, now)) }, sought.at)
    }

    /// Adds a session, for which there is room.
    pub(super) fn add(&mut self, session: Session<K>) -> Admission {
        let at = [session.tuple.key(), session.reply().key()].map(|key| self.table.seek(&key));
        self.add_at(session, at)
    }

    /// Adds a session whose tuples are to lie there.
    #[inline]
    fn add_at(&mut self, session: Session<K>, at: [Target; 2]) -> Admission {
        if self.opened.len() == self.opened.capacity() {
            return Admission::Full;
        }
        let (key, reply) = (session.tuple.key(), session.reply().key());
        let Some(number) = self.sessions.insert(session) else { return Admission::Full };
        if self.table.insert_at(at[0], key, value(number, Way::Original)).is_err() {
            self.sessions.remove(number);
            return Admission::Full;
        }
        // A tuple may be its own reverse: then one entry has both directions.
        if reply != key && self.table.insert_at(at[1], reply, value(number, Way::Reply)).is_err() {
            self.table.remove(&key);
            self.sessions.remove(number);
            return Admission::Full;
        }
        self.opened.push(number);
        self.link(number);
        Admission::Opened(number)
    }

    /// No reply has passed, or the session was never established.
    #[inline]
    pub(crate) fn is_half_open(&self, member: Membership) -> bool {
        self.sessions.get(member.number).is_some_and(|session| session.progress.is_half_open())
    }

    /// The learned decision about a packet of a session.
    #[inline]
    pub(crate) fn learned(&self, member: Membership) -> Option<&Decision> {
        self.sessions.get(member.number)?.decision(member.way)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn learned_mut(&mut self, member: Membership) -> Option<&mut Decision> {
        self.sessions.get_mut(member.number)?.learned(member.way).as_mut()
    }

    /// Learns the decision about a packet of a session; `false` if the session has ended, or permits such packets
    /// by another rule now.
    pub(crate) fn learn(&mut self, member: Membership, decision: Decision) -> bool {
        let Some(session) = self.sessions.get_mut(member.number) else { return false };
        // Behind the packet, another one of the vector may have added a rule to the session.
        let crosses = decision.crossing().is_some();
        let is_its = |(output, found)| {
            // A session of another zone has decided about the egress.
            if output && crosses {
                return true;
            }
            let permits = session.permits(member.way, output).map(Found::identity);
            found == UNASKED || permits.is_none_or(|word| word == found)
        };
        if ![(false, decision.acl_in), (true, decision.acl_out)].into_iter().all(is_its) {
            return false;
        }
        *session.learned(member.way) = Some(decision);
        session.note_change(member.way);
        true
    }

    /// No decision about packets of a session's direction is learned.
    pub(crate) fn leave_unlearned(&mut self, member: Membership, why: Unlearned) {
        if let Some(session) = self.sessions.get_mut(member.number) {
            *session.learned(member.way) = None;
            session.unlearned[usize::from(member.way == Way::Reply)] = why;
        }
    }

    /// Decisions about packets of a session's direction are learned elsewhere.
    pub(crate) fn note_unlearned(&mut self, member: Membership, why: Unlearned) {
        if let Some(session) = self.sessions.get_mut(member.number) {
            session.unlearned[usize::from(member.way == Way::Reply)] = why;
        }
    }

    /// A rule of the other direction's list opens a session that is there already.
    pub(crate) fn add_rule(&mut self, number: u32, by: OpenedBy, output: bool) {
        if let Some(session) = self.sessions.get_mut(number) {
            session.rules[usize::from(output)] = Some(by);
            session.forget();
        }
    }

    /// A packet of a session has passed.
    #[inline]
    pub(super) fn pass(&mut self, packet: &Packet, member: Membership, now: Time) {
        if member.is_error {
            return;
        }
        let Some(session) = self.sessions.get_mut(member.number) else { return };
        // The gateway itself answers an opener that it rejects: that the answer leaves does not mean that the opener did.
        if !session.confirmed && member.way == Way::Reply {
            return;
        }
        let is_tcp = session.protocol == protocol::TCP;
        let has_header = is_tcp && !packet.flags().contains(ParseFlags::LATER_FRAGMENT);
        let header = packet.l4_header::<{ tcp::LENGTH }>().filter(|_| has_header);
        let flags = header.map(|header| header[tcp::FLAGS]);
        if !session.progress.has(member.way, flags) {
            return session.progress.note_request(member.way);
        }
        let at = usize::from(member.way == Way::Reply);
        let (packets, octets) = segment::of_ip(packet);
        session.packets[at] += u64::from(packets);
        session.octets[at] += u64::from(octets);
        if session.progress.restarts(flags) {
            session.last = now;
        }
        session.confirmed = true;
        let was_half_open = session.progress.is_half_open();
        if flags.is_some() || !is_tcp {
            session.progress.advance(member.way, flags);
        }
        session.pace = Pace::of(&session.progress, session.protocol, true);
        if was_half_open && !session.progress.is_half_open() {
            self.unlink(member.number);
        }
    }

    /// Lets a usual packet of a session take its learned decision: translates it if the session `translates`, and rewrites it if it
    /// can. A packet that is rewritten counts as passed. `None`, with nothing changed: it is translated by the tuples. The packet has
    /// neither SYN, FIN nor RST.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        packet: &mut Packet,
        member: Membership,
        translates: bool,
        now: Time,
        rewrite: impl FnOnce(&mut Packet, &Decision) -> bool,
    ) -> Option<Taken> {
        let session = self.sessions.get_mut(member.number)?;
        let decision = session.decision(member.way)?;
        let rule = if translates { session.change(packet, member.way)? } else { NO_NAT };
        let (adjacency, acl) = (decision.adjacency, [decision.acl_in, decision.acl_out]);
        let leaves = rewrite(packet, decision);
        // A packet that leaves is no super-packet.
        let octets = (packet.len() - packet.l3_offset()) as u64;
        if leaves && !session.count_steady(member.way, octets, now) {
            self.pass_unsteady(packet, member, now);
        }
        Some(Taken { rule, adjacency, acl, leaves })
    }

    #[inline(never)]
    fn pass_unsteady(&mut self, packet: &Packet, member: Membership, now: Time) {
        self.pass(packet, member, now);
    }

    /// Ends a session.
    pub(crate) fn end(&mut self, number: u32, why: Ending) {
        if self.noted.is_on {
            self.note_end(number, why);
        }
        if self.withdraw(number) {
            self.endings.add(why);
        }
    }

    /// Notes the end of a session that has begun.
    #[cold]
    fn note_end(&mut self, number: u32, why: Ending) {
        let now = self.log.now;
        let Some(session) = self.sessions.get(number).filter(|session| session.confirmed) else { return };
        // It began in this vector, whose end it does not see.
        if self.opened.contains(&number) {
            self.noted.push(session, None, now);
        }
        self.noted.push(session, Some(why), now);
    }

    /// Takes a session away that does not count as opened; gives whether it was there.
    pub(crate) fn withdraw(&mut self, number: u32) -> bool {
        let Some(session) = self.sessions.get(number) else { return false };
        let (key, reply, half_open) = (session.tuple.key(), session.reply().key(), session.progress.is_half_open());
        let (counted, inside) = (session.translation.and_then(|own| own.counted), session.tuple);
        let list = session.translation.map(|own| own.list);
        self.uncount(counted, &inside);
        if let Some(list) = list {
            self.zones.end(inside.zone);
            self.lists.end(list);
        }
        self.release_mappings(number);
        self.log_end(number);
        if half_open {
            self.unlink(number);
        }
        self.table.remove(&key);
        self.table.remove(&reply);
        self.sessions.remove(number);
        true
    }

    /// Ends a session for a user, if it was created at this time; gives whether it was.
    pub(super) fn end_if(&mut self, number: u32, created: Time) -> bool {
        let is_that = self.sessions.get(number).is_some_and(|session| session.created == created);
        if is_that {
            self.end(number, Ending::Cleared);
        }
        is_that
    }

    /// Ends the sessions that no packet of the vector confirmed, and logs the beginning of others.
    pub(super) fn end_vector(&mut self, root: &Root) {
        while let Some(number) = self.opened.pop() {
            if self.sessions.get(number).is_some_and(|session| !session.confirmed) {
                self.end(number, Ending::Unconfirmed);
                continue;
            }
            if root.nat.has_log {
                self.log_beginning(root, number);
            }
            if let Some(session) = self.sessions.get(number).filter(|_| self.noted.is_on) {
                self.noted.push(session, None, self.log.now);
            }
        }
        self.sessions.recycle();
    }

    /// The oldest half-open session and its time.
    pub(super) fn oldest_half_open(&self) -> Option<(u32, Time)> {
        self.sessions.get(self.oldest).map(|session| (self.oldest, session.created))
    }

    fn link(&mut self, number: u32) {
        let newest = std::mem::replace(&mut self.newest, number);
        if let Some(session) = self.sessions.get_mut(number) {
            session.older = newest;
        }
        match self.sessions.get_mut(newest) {
            Some(session) => session.newer = number,
            None => self.oldest = number,
        }
        self.half_open += 1;
    }

    /// Takes a session out of the list of half-open ones; nothing happens to one that is not in it.
    fn unlink(&mut self, number: u32) {
        let Some(session) = self.sessions.get_mut(number) else { return };
        let (older, newer) = (std::mem::replace(&mut session.older, NONE), std::mem::replace(&mut session.newer, NONE));
        if older == NONE && newer == NONE && self.oldest != number {
            return;
        }
        match self.sessions.get_mut(older) {
            Some(session) => session.newer = newer,
            None => self.oldest = newer,
        }
        match self.sessions.get_mut(newer) {
            Some(session) => session.older = older,
            None => self.newest = older,
        }
        self.half_open -= 1;
    }
}

/// The session of a value of the table, if it has not ended.
#[inline(always)]
fn member<K: Family>(sessions: &Slab<Session<K>>, value: u32, bounds: &Bounds, now: Time) -> Option<Membership> {
    let member = Membership::of_value(value);
    (sessions.get(member.number)?.left(bounds, now) > 0).then_some(member)
}

/// The rules that permit a session by the lists that there are now.
fn rules_now<K: Family>(
    (root, guard): (&Root, &Guard<'_>),
    bounds: &Bounds,
    session: &Session<K>,
) -> [Option<OpenedBy>; 2] {
    let fields = session.fields();
    let now = |by: Option<OpenedBy>, output| {
        let interface = by?.interface;
        let own = root.interfaces.get(interface as usize)?;
        if !own.present || own.zone != session.tuple.zone {
            return None;
        }
        let found = look_up(root, guard, own, output, &fields).and_then(|found| reflected(root, found));
        // A session that goes on in any case counts for no rule that is not its own.
        let kept = || (Found::new(MOST_NUMBERS - 1, Action::Permit, false), false);
        let kept = (!bounds.settings.recheck).then(kept);
        found.or(kept).map(|(found, hastens)| OpenedBy { interface, found, hastens })
    };
    let [input, egress] = session.rules;
    [now(input, false), now(egress, true)]
}

/// The rule that an interface's lists find for a packet.
fn look_up<K: Family>(
    root: &Root,
    guard: &Guard<'_>,
    interface: &Interface,
    output: bool,
    fields: &weir_table::classify::Fields<K>,
) -> Option<Found> {
    let chain: &PerFamily<u16> = if output { &interface.acl_out } else { &interface.acl_in };
    let chains = K::of(&root.acl);
    let chain = chains.get(usize::from(*K::of(chain)))?;
    let mut found = [NO_RULE];
    chain.lookup_each(chains, guard, std::slice::from_ref(fields), &mut found);
    Some(Found::of(found[0]))
}

/// A rule that opens sessions, as their packets find it: with its limit and sampler, if it has them; and whether it has them
/// learned from their first packet on. `None`: the rule opens none.
pub(crate) fn reflected(root: &Root, found: Found) -> Option<(Found, bool)> {
    if found.action() != Action::Permit || !found.is_special() {
        return None;
    }
    let special = root.acl.pages.special(found).filter(|special| special.reflects)?;
    let own = if special.only_reflects() { Found::new(found.number(), Action::Permit, false) } else { found };
    Some((own, special.flow == Some(true)))
}
