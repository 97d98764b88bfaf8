//! Pairs of SAs become those of the root. What outlives a version (sequence numbers, windows, counters) goes on where the SA
//! does: sequence numbers with the key, whichever SA has it.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use weir_packet::esp::{Outer, Window};

use super::home::home;
use super::map::Map;
use crate::model::{self, Gateway, InterfaceKind, SaKey, Tfc};
use crate::root::ipsec::{
    Inbound, Ipsec, Outbound, Paths, Sa, SaCounters, Sequence, Sequences, Sharing, SpiTable, Upkeep,
};
use crate::root::path_mtu::PathMtu;
use crate::root::{Interface, NONE};

/// The longest packet that padding makes, in octets: small buffers have room for it.
const LONGEST_PADDED: u32 = 1500;

/// A digest of a secret.
type Fingerprint = [u8; 16];

/// The SPIs and keys of a pair.
type Keys = [Option<(u32, Fingerprint)>; 2];

/// The owner of a window: an inbound SA with its key.
#[derive(Clone, PartialEq, Eq, Hash)]
struct WindowOf {
    vrf: u16,
    local: IpAddr,
    spi: u32,
    fingerprint: Fingerprint,
}

/// The owner of a learned MTU: an outbound SA.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PathOf {
    vrf: u16,
    local: IpAddr,
    remote: IpAddr,
    spi: u32,
}

/// An outbound SA, whichever pair has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct OutboundOf {
    path: PathOf,
    stream: Fingerprint,
}

impl OutboundOf {
    fn of(sa: &Sa) -> Option<OutboundOf> {
        let own = sa.outbound.as_ref()?;
        let path = PathOf { vrf: sa.vrf, local: sa.local, remote: sa.remote, spi: own.spi };
        Some(OutboundOf { path, stream: own.stream })
    }
}

/// The end of a window.
#[derive(Clone, Copy, Default)]
struct Ended {
    /// The greatest number.
    top: u64,
    /// A hard lifetime of its SA was over.
    is_closed: bool,
}

impl Ended {
    fn of(window: &Window) -> Ended {
        Ended { top: window.top(), is_closed: window.is_closed() }
    }
}

/// The SAs in force, and what outlives them.
#[derive(Default)]
pub(super) struct Store {
    /// By key, for as long as the gateway runs: a key that comes back goes on where it was.
    sequences: HashMap<Fingerprint, Arc<Sequence>>,
    windows: HashMap<WindowOf, Arc<Window>>,
    /// Of SAs that are gone, for when they come back.
    ended: HashMap<WindowOf, Ended>,
    /// By name, with the digests of both keys: a new key begins with new counters.
    counters: HashMap<String, (Keys, Arc<[SaCounters]>)>,
    paths: HashMap<PathOf, Arc<PathMtu>>,
    learned: Arc<Paths>,
    sharings: HashMap<Fingerprint, Arc<Sharing>>,
    /// By number: the outbound SAs of pairs that are gone, as long as another pair has them.
    gone: HashMap<u32, OutboundOf>,
    current: Ipsec,
}

/// The parts of the version before, for the SAs that stay.
struct Before {
    windows: HashMap<WindowOf, Arc<Window>>,
    paths: HashMap<PathOf, Arc<PathMtu>>,
    sharings: HashMap<Fingerprint, Arc<Sharing>>,
    counters: HashMap<String, (Keys, Arc<[SaCounters]>)>,
    /// Of pairs whose name is gone, by their keys.
    renamed: HashMap<Keys, Arc<[SaCounters]>>,
}

impl Store {
    /// The SAs in force.
    pub(super) fn current(&self) -> &Ipsec {
        &self.current
    }

    /// The sequence numbers of each outbound key that was ever in force, by the digest of the key.
    pub(super) fn sequences(&self) -> Sequences {
        self.sequences.iter().map(|(key, sequence)| (*key, Arc::clone(sequence))).collect()
    }

    /// Puts the SAs of a model into force.
    pub(super) fn commit(&mut self, workers: usize, (gateway, map): (&Gateway, &Map), interfaces: &[Interface]) {
        let mut before = self.begin(gateway);
        let length = map.sas.iter().map(|&number| number as usize + 1).max().unwrap_or(0);
        let mut sas: Vec<Option<Arc<Sa>>> = vec![None; length];
        let linked = gateway.interfaces.iter().filter(|own| own.kind != InterfaceKind::Ipsec);
        let least_mtu = linked.map(|own| own.mtu).min().unwrap_or(0);
        let (mut spis, mut peers, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        for (sa, &number) in gateway.sas.iter().zip(&map.sas) {
            let vrf = map.vrfs[usize::from(sa.vrf.0)];
            let udp = sa.encapsulation.map(|own| (own.local_port, own.remote_port));
            // The configuration refuses addresses of two families.
            let Some(outer) = Outer::new(sa.local, sa.remote, udp, sa.hop_limit) else { continue };
            let inbound = sa.inbound.as_ref().and_then(|key| self.inbound((sa, vrf), key, &before));
            if let Some(own) = &inbound {
                spis.push((vrf, sa.local, own.spi, number));
                ports.extend(sa.encapsulation.map(|own| own.local_port));
            }
            let outbound = sa.outbound.as_ref().map(|key| {
                peers.push((vrf, sa.remote, key.spi, number));
                self.outbound((sa, vrf), key, gateway.ipsec.reserves, &before)
            });
            let sharing = sa.outbound.as_ref().filter(|_| sa.is_shared);
            let sharing = sharing.map(|key| self.sharing(workers, (sa, key), &before));
            let counters = self.counters_of(workers, sa, &mut before);
            sas[number as usize] = Some(Arc::new(Sa {
                name: sa.name.as_str().into(),
                mode: sa.mode,
                vrf,
                local: sa.local,
                remote: sa.remote,
                esn: sa.esn,
                layout: sa.layout(),
                tfc: tfc(sa, least_mtu),
                random_iv: sa.algorithm.needs_unpredictable_iv(),
                outer,
                encapsulation: sa.encapsulation,
                udp,
                clamps: sa.mss_clamp.is_some(),
                mss_clamp: sa.mss_clamp,
                dscp: sa.dscp,
                ecn: sa.ecn,
                df: sa.df,
                flow_label: sa.flow_label,
                interface: sa.interface.map_or(NONE, |interface| map.interfaces[interface.0 as usize]),
                home: home(interfaces, vrf, sa.local),
                outbound,
                inbound,
                sharing,
                upkeep: Box::new(Upkeep { lifetimes: sa.lifetimes, dummies: sa.dummies }),
                counters,
            }));
        }
        self.note_ends(before.windows);
        let successors = self.successors(&sas);
        ports.sort_unstable();
        ports.dedup();
        self.current = Ipsec {
            sas: sas.into(),
            successors,
            spis: Arc::new(SpiTable::new(&spis)),
            peers: Arc::new(SpiTable::new(&peers)),
            paths: Arc::clone(&self.learned),
            ports: ports.into(),
            least_mtu,
            unchecked: gateway.ipsec.unchecked,
        };
    }

    /// Finds the pairs that have the outbound SAs of pairs that are gone.
    fn successors(&mut self, sas: &[Option<Arc<Sa>>]) -> Arc<[(u32, u32)]> {
        fn all(sas: &[Option<Arc<Sa>>]) -> impl Iterator<Item = (u32, OutboundOf)> {
            (0..).zip(sas).filter_map(|(number, sa)| Some((number, OutboundOf::of(sa.as_ref()?)?)))
        }
        let mut before = std::mem::take(&mut self.gone);
        before.extend(all(&self.current.sas));
        let is_there = |number: u32| sas.get(number as usize).is_some_and(Option::is_some);
        before.retain(|&number, _| !is_there(number));
        if before.is_empty() {
            return Arc::default();
        }
        let now: HashMap<OutboundOf, u32> = all(sas).map(|(number, own)| (own, number)).collect();
        before.retain(|_, own| now.contains_key(own));
        let mut pairs: Vec<(u32, u32)> =
            before.iter().filter_map(|(&gone, own)| Some((gone, *now.get(own)?))).collect();
        pairs.sort_unstable();
        self.gone = before;
        pairs.into()
    }

    /// Takes out the parts of the version before.
    fn begin(&mut self, gateway: &Gateway) -> Before {
        let mut counters = std::mem::take(&mut self.counters);
        // An SA keeps its counters in a pair of another name.
        let names: HashSet<&str> = gateway.sas.iter().map(|sa| sa.name.as_str()).collect();
        let renamed = counters.extract_if(|name, _| !names.contains(name.as_str())).map(|(_, own)| own).collect();
        Before {
            windows: std::mem::take(&mut self.windows),
            paths: std::mem::take(&mut self.paths),
            sharings: std::mem::take(&mut self.sharings),
            counters,
            renamed,
        }
    }

    /// Notes the windows of SAs that are gone.
    fn note_ends(&mut self, before: HashMap<WindowOf, Arc<Window>>) {
        for (of, window) in before {
            if !self.windows.contains_key(&of) && (window.top() > 0 || window.is_closed()) {
                self.ended.insert(of, Ended::of(&window));
            }
        }
    }

    /// Makes an inbound SA: its window goes on where it was.
    fn inbound(&mut self, (sa, vrf): (&model::Sa, u16), key: &SaKey, before: &Before) -> Option<Inbound> {
        let of = WindowOf { vrf, local: sa.local, spi: key.spi, fingerprint: key.fingerprint() };
        let known = before.windows.get(&of);
        let ended = known.map(|window| Ended::of(window)).or_else(|| self.ended.remove(&of)).unwrap_or_default();
        let window = match known.filter(|window| window.size() == sa.window) {
            Some(window) => Arc::clone(window),
            None => {
                let window = Window::after(sa.window, ended.top)?;
                window.set_closed(ended.is_closed);
                Arc::new(window)
            }
        };
        self.windows.insert(of, Arc::clone(&window));
        Some(Inbound { fingerprint: key.fingerprint(), spi: key.spi, key: key.key().clone(), window })
    }

    /// Makes an outbound SA: the MTU of its path and its sequence numbers go on where they were.
    fn outbound(&mut self, (sa, vrf): (&model::Sa, u16), key: &SaKey, reserves: bool, before: &Before) -> Outbound {
        let of = PathOf { vrf, local: sa.local, remote: sa.remote, spi: key.spi };
        let known = || before.paths.get(&of).cloned().unwrap_or_default();
        let path = Arc::clone(self.paths.entry(of).or_insert_with(known));
        let sequence = self.sequence(key, reserves);
        let (stream, is_shared) = (key.stream(), sa.is_shared);
        Outbound { spi: key.spi, key: key.key().clone(), stream, sequence, path, is_shared }
    }

    /// The numbers that workers show one another, of an outbound SA that they share.
    fn sharing(&mut self, workers: usize, (sa, key): (&model::Sa, &SaKey), before: &Before) -> Arc<Sharing> {
        // One more, for a sender beside the workers.
        let senders = workers + 1;
        let known = before.sharings.get(&key.stream()).filter(|own| own.is_for(senders, sa.window));
        let sharing = known.map_or_else(|| Arc::new(Sharing::new(senders, sa.window)), Arc::clone);
        self.sharings.insert(key.stream(), Arc::clone(&sharing));
        sharing
    }

    /// The counters of a pair: those of its name or, if it was renamed, of its keys.
    fn counters_of(&mut self, workers: usize, sa: &model::Sa, before: &mut Before) -> Arc<[SaCounters]> {
        let keys = [&sa.outbound, &sa.inbound].map(|key| key.as_ref().map(|key| (key.spi, key.fingerprint())));
        let known = before.counters.get(&sa.name).filter(|(own, _)| *own == keys).map(|(_, own)| Arc::clone(own));
        let known = known.or_else(|| before.renamed.remove(&keys));
        let counters = known.unwrap_or_else(|| (0..workers).map(|_| SaCounters::default()).collect());
        self.counters.insert(sa.name.clone(), (keys, Arc::clone(&counters)));
        counters
    }

    /// The sequence numbers of the outbound SAs of a model that is to come into force, for somebody who reserves some before.
    pub(super) fn announced(&mut self, gateway: &Gateway) -> Sequences {
        let outbound = gateway.sas.iter().filter_map(|sa| sa.outbound.as_ref());
        outbound.map(|key| (key.stream(), self.sequence(key, gateway.ipsec.reserves))).collect()
    }

    fn sequence(&mut self, key: &SaKey, reserves: bool) -> Arc<Sequence> {
        let new = || Arc::new(if reserves { Sequence::closed() } else { Sequence::open() });
        Arc::clone(self.sequences.entry(key.stream()).or_insert_with(new))
    }
}

/// The octets that packets of an SA are padded to. Padded packets fit every interface, as well as the buffers that they lie in.
fn tfc(sa: &model::Sa, least_mtu: u32) -> u16 {
    let longest = sa.envelope(0).longest(least_mtu.min(LONGEST_PADDED) as usize).unwrap_or(0) as u16;
    match sa.tfc {
        None => 0,
        Some(Tfc::Length(length)) => length.min(longest),
        Some(Tfc::Mtu) => longest,
    }
}
