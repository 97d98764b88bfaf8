//! The machine by the table of `docs/allowlists.md`: row by row, and at random against a twin that knows the table alone.

use weir_base::random::Random;

use super::super::store::List;
use super::*;
use crate::model::Slaac;
use crate::root::bindings::Key;

const A: Owner = owner(1, 7);
const B: Owner = owner(2, 8);
const TRUSTED: Owner = owner(9, 99);
const MS: u64 = 1_000_000;

const fn owner(interface: u32, last: u8) -> Owner {
    Owner { interface, mac: MacAddress([2, 0, 0, 0, 0, last]) }
}

fn address(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)
}

/// A machine, its store, and the probes that it wanted.
struct Rig {
    machine: FirstCome,
    store: Store,
    probes: Vec<Probe>,
}

impl Rig {
    fn new(limit: u32, of_interface: u32) -> Rig {
        let slaac = Some(Slaac { limit: of_interface, lifetime: 300 });
        let list = List { place: 0, limit, dhcp: false, slaac };
        let mut store = Store::default();
        store.lists.extend([(1, list), (2, list)]);
        // One bridge.
        store.join([1, 2, 9]);
        let machine = FirstCome { trusted: vec![9], own: [(u32::MAX, address(0xff).into())].into() };
        Rig { machine, store, probes: Vec::new() }
    }

    fn claim(&mut self, owner: Owner, last: u16, claim: Claim, ms: u64) {
        self.step(ms);
        self.machine.claim(&mut self.store, owner, (address(last), claim), Time(ms * MS), &mut self.probes);
    }

    fn step(&mut self, ms: u64) {
        while let Some(due) = self.store.next().filter(|due| due.0 <= ms * MS) {
            let subject = self.store.pop_due(due).unwrap();
            self.machine.due(&mut self.store, &subject, due, &mut self.probes);
        }
    }

    /// Whether a station may send from an address; it does.
    fn sends(&mut self, owner: Owner, last: u16, ms: u64) -> bool {
        self.step(ms);
        let key = Key { interface: owner.interface, mac: owner.mac, address: address(last).into() };
        self.store.table().admits(&key, Time(ms * MS))
    }

    fn probed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.probes).into_iter().map(|probe| probe.interface).collect()
    }
}

#[test]
fn who_comes_first_has_an_address_after_half_a_second() {
    let mut rig = Rig::new(10, 10);
    rig.claim(A, 1, Claim::Solicited, 0);
    rig.claim(B, 1, Claim::Used, 100);
    assert!(rig.probed().is_empty(), "the bridge floods the solicitation");
    assert!(!rig.sends(A, 1, 499) && rig.sends(A, 1, 500) && !rig.sends(B, 1, 500));
    assert_eq!(rig.probed(), [9], "and again");
    // Data begins as well, and has trusted interfaces probed.
    rig.claim(B, 2, Claim::Used, 600);
    assert_eq!(rig.probed(), [9]);
    assert!(rig.sends(B, 2, 1100));
    // Neither an advertisement nor the address of the gateway is a claim.
    rig.claim(B, 3, Claim::Advertised, 1100);
    rig.claim(B, 0xff, Claim::Solicited, 1100);
    assert!(!rig.sends(B, 3, 3000) && !rig.sends(B, 0xff, 3000));
}

#[test]
fn an_owner_that_answers_keeps_its_address() {
    let mut rig = Rig::new(10, 10);
    rig.claim(A, 1, Claim::Solicited, 0);
    rig.step(500);
    assert_eq!(rig.probed(), [9]);
    for (claim, start) in [(Claim::Used, 1000), (Claim::Solicited, 2000)] {
        rig.claim(B, 1, claim, start);
        assert_eq!(rig.probed(), [1]);
        // Its answer to the first probe is lost: there is a second one.
        rig.step(start + 250);
        assert_eq!(rig.probed(), [1]);
        assert!(rig.sends(A, 1, start + 300), "until it is known better");
        assert!(rig.sends(A, 1, start + 600) && !rig.sends(B, 1, start + 600));
    }
}

#[test]
fn an_address_moves_once_its_owner_is_gone() {
    let mut rig = Rig::new(10, 10);
    rig.claim(A, 1, Claim::Solicited, 0);
    rig.claim(B, 1, Claim::Used, 1000);
    // A packet of a third one does not come before the second.
    rig.claim(owner(2, 9), 1, Claim::Used, 1100);
    assert!(!rig.sends(B, 1, 1499) && rig.sends(B, 1, 1500) && !rig.sends(A, 1, 1500));
    // And back: the station is at another interface now.
    rig.claim(A, 1, Claim::Solicited, 3000);
    assert!(rig.sends(A, 1, 3500) && !rig.sends(B, 1, 3500));
}

#[test]
fn an_address_that_nobody_uses_is_probed_for_and_ends() {
    let mut rig = Rig::new(10, 10);
    rig.claim(A, 1, Claim::Solicited, 0);
    rig.claim(A, 2, Claim::Solicited, 0);
    rig.step(500);
    assert_eq!(rig.probed(), [9, 9]);
    assert!(rig.sends(A, 1, 200_000));
    rig.step(300_500);
    assert_eq!(rig.probed(), [1], "the one that was used lives on");
    rig.step(301_000);
    assert!(!rig.sends(A, 2, 301_000) && rig.sends(A, 1, 301_000));
    // Another station wants it while its owner is probed for it. A packet is not enough for that.
    rig.step(601_000);
    assert_eq!(rig.probed(), [1, 1]);
    rig.claim(B, 1, Claim::Used, 601_050);
    rig.claim(B, 1, Claim::Solicited, 601_100);
    assert!(rig.sends(B, 1, 602_000));
}

#[test]
fn claims_from_behind_trusted_interfaces_go_before() {
    let mut rig = Rig::new(10, 10);
    // Somebody there has the address, or is about to take it.
    for (last, claim) in [(1, Claim::Advertised), (2, Claim::Solicited)] {
        rig.claim(A, last, Claim::Used, 0);
        rig.claim(TRUSTED, last, claim, 100);
        assert!(!rig.sends(A, last, 1000));
    }
    rig.probed();
    // The owner is probed for it before somebody there gets it.
    rig.claim(A, 3, Claim::Solicited, 2000);
    rig.claim(TRUSTED, 3, Claim::Advertised, 3000);
    assert!(rig.sends(A, 3, 3000));
    assert_eq!(rig.probed(), [9]);
    rig.claim(TRUSTED, 3, Claim::Solicited, 3000);
    assert_eq!(rig.probed(), [1]);
    assert!(!rig.sends(A, 3, 3500));
    // Nothing is learned there.
    rig.claim(TRUSTED, 4, Claim::Solicited, 4000);
    assert!(rig.store.iter().next().is_none());
}

/// Bindings of an interface that bounds refused.
fn refused(rig: &Rig, interface: u32) -> u64 {
    rig.store.refused(interface).iter().map(|(_, count)| count).sum()
}

#[test]
fn the_latest_bindings_make_room_for_others_and_count() {
    let mut rig = Rig::new(3, 2);
    let of = |rig: &Rig| {
        let mut all: Vec<u16> = rig.store.iter().map(|(subject, _)| last(subject)).collect();
        all.sort_unstable();
        all
    };
    (1..=4).for_each(|last| rig.claim(A, last, Claim::Used, u64::from(last)));
    assert_eq!((of(&rig), refused(&rig, 1)), (vec![1, 4], 2));
    // The other interface has no more than is reserved for it.
    (5..=6).for_each(|last| rig.claim(B, last, Claim::Used, u64::from(last)));
    assert_eq!((of(&rig), refused(&rig, 2)), (vec![1, 4, 6], 1));
    // An address that moves takes the place of the latest one.
    rig.claim(A, 6, Claim::Used, 1000);
    rig.step(1500);
    assert_eq!((of(&rig), refused(&rig, 1)), (vec![1, 6], 3));
    assert!(rig.sends(A, 6, 1500) && rig.sends(A, 1, 1500));
}

#[test]
fn few_bindings_of_an_interface_stay_whatever_others_claim() {
    let mut rig = Rig::new(10, 10);
    (1..=4).for_each(|last| rig.claim(B, last, Claim::Used, 1000 + u64::from(last)));
    (10..=60).for_each(|last| rig.claim(A, last, Claim::Used, 2000 + u64::from(last)));
    rig.step(3000);
    assert!((1..=4).all(|last| rig.sends(B, last, 3000)));
    assert!((10..=14).all(|last| rig.sends(A, last, 3000)) && rig.sends(A, 60, 3000));
    // Leases make room for nothing, and have what first use took.
    for last in 100..=105 {
        let subject = rig.store.subject(1, IpAddr::V6(address(last)).into()).unwrap();
        let lease = Binding {
            owner: A,
            state: State::Valid,
            due: Time(u64::MAX),
            leased: true,
            last_use: Arc::default(),
            created: Time(0),
        };
        assert_eq!(rig.store.put(subject, lease).is_ok(), last < 106);
    }
    assert!((1..=4).all(|last| rig.sends(B, last, 3000)) && (100..=105).all(|last| rig.sends(A, last, 3000)));
    assert_eq!(rig.store.len(), 10);
    rig.claim(owner(2, 9), 5, Claim::Used, 3000);
    assert!(!rig.sends(B, 4, 3000) && rig.store.len() == 10);
}

#[test]
fn leases_go_before_those_who_come_first() {
    let mut rig = Rig::new(10, 10);
    let subject = rig.store.subject(1, IpAddr::V6(address(1)).into()).unwrap();
    let lease = Binding {
        owner: A,
        state: State::Valid,
        due: Time(10_000 * MS),
        leased: true,
        last_use: Arc::default(),
        created: Time(0),
    };
    rig.store.put(subject, lease).unwrap();
    rig.claim(B, 1, Claim::Used, 0);
    assert!(rig.sends(A, 1, 9999) && !rig.sends(B, 1, 9999) && rig.probed().is_empty());
    // Its client sees solicitations of others for the address, as bridges flood none to it.
    rig.claim(B, 1, Claim::Solicited, 9999);
    rig.claim(TRUSTED, 1, Claim::Solicited, 9999);
    assert_eq!(rig.probed(), [1, 1]);
    rig.claim(B, 1, Claim::Used, 10_000);
    assert!(rig.sends(B, 1, 10_500));
}

/// The stations that take part in events, by the letters of the table.
const LETTERS: [(char, Owner); 4] = [('P', A), ('Q', B), ('R', owner(2, 9)), ('T', TRUSTED)];

fn last(subject: &Subject) -> u16 {
    let IpAddr::V6(address) = subject.net.addr() else { panic!("{subject:?}") };
    address.segments()[7]
}

/// A row of the table.
#[derive(Debug, Clone)]
struct Row {
    state: String,
    /// Claims, or none: the time is over.
    claims: Vec<Claim>,
    /// The station that makes them.
    who: char,
    then: String,
    /// The letter of who has it then, or wants it.
    whose: char,
    /// The station that the gateway sends a solicitation to at once, and after 250 ms.
    probes: [Option<char>; 2],
}

/// The table of the documentation.
fn table() -> Vec<Row> {
    let docs = include_str!("../../../../../../docs/allowlists.md");
    let lines = docs.lines().skip_while(|line| !line.starts_with("| state | event |")).skip(2);
    let rows: Vec<Row> = lines.take_while(|line| line.starts_with('|')).map(row).collect();
    assert_eq!(rows.len(), 30);
    rows
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, state, event, then, probes, rfc, _] = cells[..] else { panic!("{line}") };
    assert!(!rfc.is_empty(), "{line}");
    let (claims, who) = match event.split_once(" of ") {
        None => (Vec::new(), ' '),
        Some((claims, who)) => {
            let claim = |word| match word {
                "solicitation" => Claim::Solicited,
                "advertisement" => Claim::Advertised,
                "packet" => Claim::Used,
                _ => panic!("{line}"),
            };
            (claims.split(", ").map(claim).collect(), who.chars().next().unwrap())
        }
    };
    let probes = match probes {
        "" => [None, None],
        "T after 250 ms" => [None, Some('T')],
        "P" => [Some('P'), None],
        "T, T after 250 ms" => [Some('T'), Some('T')],
        "P, P after 250 ms" => [Some('P'), Some('P')],
        _ => panic!("{line}"),
    };
    let whose = then.chars().last().filter(char::is_ascii_uppercase).unwrap_or(' ');
    let then = then.split([',', ' ']).next().unwrap().to_owned();
    Row { state: state.to_owned(), claims, who, then, whose, probes }
}

/// Claims that a row is about; nothing stands for the time.
fn events(row: &Row) -> Vec<Option<Claim>> {
    if row.claims.is_empty() { vec![None] } else { row.claims.iter().copied().map(Some).collect() }
}

impl Rig {
    /// A station does something with an address, as nodes see it: what it may do is noted, and other things are reported.
    fn acts(&mut self, owner: Owner, last: u16, claim: Claim, ms: u64) {
        self.step(ms);
        let is_reported = claim == Claim::Solicited || owner == TRUSTED || !self.sends(owner, last, ms);
        if is_reported && (owner != TRUSTED || claim != Claim::Used) {
            self.claim(owner, last, claim, ms);
        }
    }

    /// The state of an address, and whose it is; of a contested one, who wants it.
    fn state(&self, last: u16) -> (&'static str, Option<Owner>) {
        let subject = Subject { place: 0, link: u32::MAX, net: IpAddr::V6(address(last)).into() };
        let Some(Binding { owner, state, last_use, .. }) = self.store.get(&subject) else { return ("none", None) };
        let used = last_use.time();
        match *state {
            State::Tentative { .. } => ("tentative", Some(*owner)),
            State::Testing { since, .. } if used > since => ("valid", Some(*owner)),
            State::Valid => ("valid", Some(*owner)),
            State::Testing { claimant: None, .. } => ("testing", Some(*owner)),
            State::Testing { claimant, .. } => ("contested", claimant),
        }
    }

    /// Brings the address 1 to a state of which the time has run for 300 ms: returns that time.
    fn bring(&mut self, state: &str) -> u64 {
        let begin = match state {
            "none" => return 300,
            "tentative" => 0,
            "testing" => 300_500,
            _ => 1000,
        };
        self.claim(A, 1, Claim::Used, 0);
        match state {
            "contested" => self.claim(B, 1, Claim::Used, begin),
            _ => self.step(begin),
        }
        self.step(begin + 300);
        self.probes.clear();
        begin + 300
    }
}

#[test]
fn the_machine_does_what_each_row_of_the_table_says() {
    let of = |letter: char| LETTERS.iter().find(|(own, _)| *own == letter).map(|(_, owner)| *owner);
    for row in table() {
        for event in events(&row) {
            let mut rig = Rig::new(10, 10);
            let mut now = rig.bring(&row.state);
            assert_eq!(rig.state(1).0, row.state, "{row:?}");
            match (event, of(row.who)) {
                (Some(claim), Some(who)) => rig.acts(who, 1, claim, now),
                _ => {
                    let wait = if row.state == "valid" { 300_500 } else { now + 200 };
                    rig.step(wait - 1);
                    assert_eq!((rig.state(1).0, rig.probed().len()), (&*row.state, 0), "{row:?}");
                    rig.step(wait);
                    now = wait;
                }
            }
            let probe_of = |letter: Option<char>| letter.and_then(of).map(|owner| owner.interface);
            assert_eq!(rig.state(1), (&*row.then, of(row.whose)), "{event:?} {row:?}");
            assert_eq!(rig.probed().first().copied(), probe_of(row.probes[0]), "{event:?} {row:?}");
            rig.step(now + 250);
            assert_eq!(rig.probed().first().copied(), probe_of(row.probes[1]), "{event:?} {row:?}");
        }
    }
}

/// A twin: the table, and clocks.
struct Twin {
    rows: Vec<Row>,
    state: String,
    owner: Owner,
    wants: Owner,
    until: u64,
    /// The interface of the second solicitation, and its time.
    again: Option<(u64, u32)>,
    probed_at: Vec<(u64, u32)>,
}

impl Twin {
    fn row(&self, who: char, claim: Option<Claim>) -> Row {
        let fits = |row: &&Row| row.state == self.state && row.who == who && events(row).contains(&claim);
        self.rows.iter().find(fits).unwrap_or_else(|| panic!("{} {who} {claim:?}", self.state)).clone()
    }

    fn go(&mut self, row: &Row, by: Owner, now: u64) {
        let before = std::mem::replace(&mut self.state, row.then.clone());
        let probes = if row.probes.contains(&Some('T')) { TRUSTED.interface } else { self.owner.interface };
        if row.probes[0].is_some() {
            self.probed_at.push((now, probes));
        }
        if row.probes[1].is_some() {
            self.again = Some((now + 250, probes));
        }
        match (&*before, &*row.then) {
            (_, "none") => (self.until, self.again) = (u64::MAX, None),
            ("tentative", "tentative") if row.whose == 'P' => {}
            (_, "tentative") => (self.until, self.owner) = (now + 500, by),
            (before, "valid") => {
                self.owner = if before == "contested" && row.whose == 'Q' { self.wants } else { self.owner };
                if row.who != 'T' {
                    (self.until, self.again) = (now + 300_000, None);
                }
            }
            ("valid", _) => (self.until, self.wants) = (now + 500, by),
            (_, "contested") if !(before == "contested" && row.whose == 'Q') => self.wants = by,
            _ => {}
        }
    }

    /// Lets time go by; returns whether something is due right then.
    fn step(&mut self, now: u64) -> bool {
        let mut last = None;
        loop {
            let again = self.again.filter(|(at, _)| *at <= now.min(self.until));
            if let Some((at, whom)) = again {
                self.probed_at.push((at, whom));
                self.again = None;
                last = Some(at);
            } else if self.until <= now {
                let (row, at) = (self.row(' ', None), self.until);
                self.go(&row, self.owner, at);
                last = Some(at);
            } else {
                return last == Some(now);
            }
        }
    }

    fn act(&mut self, owner: Owner, claim: Claim, now: u64) {
        let who = match &*self.state {
            _ if owner == TRUSTED => 'T',
            "none" => 'P',
            _ if owner == self.owner => 'P',
            "contested" if owner != self.wants => 'R',
            _ => 'Q',
        };
        if (who, claim) != ('T', Claim::Used) {
            let row = self.row(who, Some(claim));
            self.go(&row, owner, now);
        }
    }
}

#[test]
fn a_twin_that_knows_the_table_alone_does_the_same() {
    let mut random = Random::from_seed(6620);
    let rows = table();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let mut rig = Rig::new(10, 10);
        let (state, probed_at) = ("none".to_owned(), Vec::new());
        let mut twin = Twin { rows: rows.clone(), state, owner: A, wants: A, until: u64::MAX, again: None, probed_at };
        let mut now = 1;
        for _ in 0..60 {
            now += match random.below(8) {
                0 => random.below(400_000),
                1 | 2 => random.below(1000),
                _ => random.below(200),
            } + 1;
            // What happens while a time ends is left to either.
            while twin.step(now) {
                now += 1;
            }
            let (_, who) = LETTERS[random.below(4) as usize];
            let claim = [Claim::Solicited, Claim::Advertised, Claim::Used][random.below(3) as usize];
            let before = twin.state.clone();
            twin.act(who, claim, now);
            rig.acts(who, 1, claim, now);
            let whose = match &*twin.state {
                "none" => None,
                "contested" => Some(twin.wants),
                _ => Some(twin.owner),
            };
            assert_eq!(rig.state(1), (&*twin.state, whose), "{before} {who:?} {claim:?} {now}");
            let probed_at: Vec<u32> =
                std::mem::take(&mut twin.probed_at).into_iter().map(|(_, interface)| interface).collect();
            assert_eq!(rig.probed(), probed_at, "{before} {who:?} {claim:?} {now}");
            seen.insert((before, twin.state.clone()));
        }
    }
    assert_eq!(seen.len(), 13, "all that an event may do: {seen:?}");
}

#[test]
fn room_is_made_as_a_list_in_order_of_creation_would() {
    let mut random = Random::from_seed(41);
    let (limit, most) = (14, 8);
    let mut rig = Rig::new(limit, most);
    // In order of creation.
    let mut twin: Vec<(u16, u32)> = Vec::new();
    for now in 1..2000 {
        let station = [A, B][usize::from(random.below(4) == 0)];
        let number = random.below(400) as u16 + 0x100;
        if twin.iter().any(|(own, _)| *own == number) {
            continue;
        }
        // All within the time of their claims, and some released.
        rig.machine.claim(&mut rig.store, station, (address(number), Claim::Used), Time(now), &mut rig.probes);
        let count = |twin: &[(u16, u32)], own: u32| twin.iter().filter(|(_, interface)| *interface == own).count();
        let end = |twin: &mut Vec<(u16, u32)>, fits: &dyn Fn(u32) -> bool| {
            let at = twin.iter().rposition(|(_, interface)| fits(*interface)).unwrap();
            twin.remove(at);
        };
        if count(&twin, station.interface) == most as usize {
            end(&mut twin, &|interface| interface == station.interface);
        } else if twin.len() == limit as usize {
            let many: Vec<u32> = [1, 2].into_iter().filter(|&own| count(&twin, own) > 4).collect();
            end(&mut twin, &|interface| many.contains(&interface));
        }
        twin.push((number, station.interface));
        let mut all: Vec<(u16, u32)> = rig.store.iter().map(|(key, own)| (last(key), own.owner.interface)).collect();
        let mut wanted = twin.clone();
        all.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(all, wanted);
        if random.below(20) == 0 {
            let at = random.below(twin.len() as u64) as usize;
            let (number, _) = twin.remove(at);
            rig.claim(TRUSTED, number, Claim::Advertised, 0);
        }
    }
}
