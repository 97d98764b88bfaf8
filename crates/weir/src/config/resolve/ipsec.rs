//! Pairs of SAs: their names, addresses and interfaces, and which SPIs and keys they share.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_plane::model::{self, InterfaceIndex, SaIndex, VrfIndex};

use super::super::declare::Kind;
use super::super::declare::ipsec::{Keyed, Sa};
use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::{At, Span};
use super::Resolver;

/// The SPIs and keys of the SAs so far, with their places: no other SA may have one of these.
#[derive(Default)]
pub(super) struct KnownSas {
    /// By receiver and SPI, of inbound and of outbound SAs: a gateway may have both ends of an SA. Receivers behind one NAT choose
    /// their SPIs apart, and have different ports.
    spis: [HashMap<Receiver, Span>; 2],
    /// By cipher key: the SA and its place.
    sent: HashMap<[u8; 16], (Ends, Span)>,
    received: HashMap<[u8; 16], (Ends, Span)>,
}

/// A receiver, with its port behind a NAT, and an SPI.
type Receiver = (VrfIndex, IpAddr, Option<u16>, u32);

/// The sender, the receiver and the SPI of an SA.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends(IpAddr, IpAddr, u32);

/// The SAs that share a key.
enum Shared {
    /// Two SAs that send.
    Sent,
    /// Both SAs of a pair.
    Pair,
    /// Two SAs of peers.
    Received,
    /// A peer, by another pair.
    Peer,
}

impl KnownSas {
    /// Notes the SPIs of a pair, by the places of `in` and `out`. Returns a message about each that another SA has, with both places.
    fn spis_of(&mut self, sa: &model::Sa, spans: [Option<Span>; 2]) -> Vec<(String, Span, Span)> {
        let port = sa.encapsulation.map(|own| own.remote_port);
        let ends = [(&sa.inbound, sa.local, None), (&sa.outbound, sa.remote, port)];
        let mut found = Vec::new();
        for (((key, to, port), span), spis) in ends.into_iter().zip(spans).zip(&mut self.spis) {
            let (Some(key), Some(span)) = (key, span) else { continue };
            if let Some(first) = spis.insert((sa.vrf, to, port, key.spi), span) {
                found.push((format!("two SAs to {to} have the SPI {:#x}", key.spi), span, first));
            }
        }
        found
    }

    /// The same of keys, by the places of the files of `in` and `out`.
    fn keys_of(&mut self, sa: &model::Sa, files: [Option<Span>; 2]) -> Vec<(Shared, Span, Span)> {
        let key = |key: &Option<model::SaKey>, file: Option<Span>, (from, to)| {
            let key = key.as_ref().filter(|_| sa.algorithm.has_integrity())?;
            Some((key.stream(), Ends(from, to, key.spi), file?))
        };
        let inbound = key(&sa.inbound, files[0], (sa.remote, sa.local));
        let outbound = key(&sa.outbound, files[1], (sa.local, sa.remote));
        let mut found = Vec::new();
        if let (Some((one, _, other)), Some((key, _, span))) = (inbound, outbound)
            && one == key
        {
            found.push((Shared::Pair, span, other));
        }
        if let Some((key, ends, span)) = outbound {
            // A gateway may have both ends of an SA.
            if let Some(&(_, other)) = self.received.get(&key).filter(|(own, _)| *own != ends) {
                found.push((Shared::Peer, span, other));
            }
            if let Some((_, other)) = self.sent.insert(key, (ends, span)) {
                found.push((Shared::Sent, span, other));
            }
        }
        if let Some((key, ends, span)) = inbound {
            let is_pair = outbound.is_some_and(|(own, ..)| own == key);
            if let Some(&(_, other)) = self.sent.get(&key).filter(|(own, _)| *own != ends && !is_pair) {
                found.push((Shared::Peer, span, other));
            }
            if let Some((_, other)) = self.received.insert(key, (ends, span)) {
                found.push((Shared::Received, span, other));
            }
        }
        found
    }

    /// Notes a pair in force, whose place stands for it.
    pub(super) fn note(&mut self, sa: &model::Sa, place: Span) {
        self.spis_of(sa, [Some(place); 2]);
        self.keys_of(sa, [Some(place); 2]);
    }
}

impl Resolver<'_> {
    /// Makes the pairs of the model. Of equal names, the first counts.
    pub(super) fn sas(&mut self) -> Vec<model::Sa> {
        let declared = self.declared;
        let mut sas: Vec<model::Sa> = Vec::new();
        let mut first: HashMap<&str, Span> = HashMap::new();
        let mut known = KnownSas::default();
        for sa in &declared.sas {
            let name = &sa.name;
            if let Some(&first) = first.get(name.value.as_str()) {
                let message = format!("there are two pairs of SAs `{}`", name.value);
                self.report(Diagnostic::error(Code::DuplicateName, name.span, message).related(first, "first here"));
                continue;
            }
            first.insert(&name.value, name.span);
            let vrf = |own: &mut Self| match &sa.vrf {
                Some(vrf) => own.vrf_named(vrf).inspect(|&found| {
                    if own.connected.own(found, sa.local.value).is_none() && !own.declared.lost_interfaces {
                        own.report(no_address(&sa.local));
                    }
                }),
                None => Some(own.vrf_with(&sa.local)),
            };
            let Some(made) = self.sa(sa, vrf, Self::way_in) else { continue };
            self.unique(sa, &made, &mut known);
            self.sas.insert(&name.value, SaIndex(sas.len() as u32));
            sas.push(made);
        }
        self.unused_ways_in();
        sas
    }

    /// Makes a pair of the model. `vrf` and `way_in` find the objects that it names, and report missing ones.
    pub(super) fn sa(
        &mut self,
        declared: &Sa,
        vrf: impl FnOnce(&mut Self) -> Option<VrfIndex>,
        way_in: impl FnOnce(&mut Self, &At<String>) -> Option<InterfaceIndex>,
    ) -> Option<model::Sa> {
        let (local, remote) = (declared.local.value, declared.remote.value);
        if local.is_ipv4() != remote.is_ipv4() {
            let message = "the outer addresses of an SA are of one family";
            let found = Diagnostic::error(Code::FamilyMismatch, declared.remote.span, message);
            self.report(found.related(declared.local.span, "the other address"));
            return None;
        }
        if local == remote {
            let message = format!("`remote` is {local}, the address of the gateway itself");
            let found = Diagnostic::error(Code::InvalidValue, declared.remote.span, message);
            self.report(found.related(declared.local.span, "`local`").help("name the outer address of the peer"));
            return None;
        }
        if !declared.algorithm.value.has_integrity() && !self.declared.settings.insecure {
            let message = "`null` neither encrypts packets nor recognises forged ones";
            let found = Diagnostic::error(Code::InvalidValue, declared.algorithm.span, message);
            self.report(found.help("use `aes128gcm16`; or, for measurements, write `[ipsec]` and `insecure = true`"));
            return None;
        }
        let vrf = vrf(self)?;
        let state = &self.declared.settings.ipsec_state;
        if let Some(out) = &declared.outbound
            && state.is_none()
        {
            let message = "the SA does not send: there is no directory in which sequence numbers are reserved";
            let found = Diagnostic::warning(Code::NoState, out.spi.span, message);
            self.report(found.help("write `[ipsec]` and `state = \"/var/lib/weir/ipsec\"`"));
        }
        let interface = match &declared.interface {
            Some(name) => Some(way_in(self, name)?),
            None => None,
        };
        let lost = |keyed: &Option<_>, key: Option<&model::SaKey>| keyed.is_some() && key.is_none();
        let outbound = declared.outbound.as_ref().and_then(|own| own.key.clone());
        let inbound = declared.inbound.as_ref().and_then(|own| own.key.clone());
        if lost(&declared.outbound, outbound.as_ref()) || lost(&declared.inbound, inbound.as_ref()) {
            // What is wrong with the file has been reported.
            return None;
        }
        Some(model::Sa {
            name: declared.name.value.clone(),
            mode: declared.mode,
            vrf,
            local,
            remote,
            algorithm: declared.algorithm.value,
            esn: declared.esn,
            outbound,
            inbound,
            is_shared: declared.is_shared,
            window: declared.window,
            encapsulation: declared.encapsulation,
            interface,
            dscp: declared.dscp,
            ecn: declared.ecn,
            df: declared.df,
            flow_label: declared.flow_label,
            hop_limit: declared.hop_limit,
            lifetimes: declared.lifetimes,
            tfc: declared.tfc,
            dummies: declared.dummies,
            mss_clamp: declared.mss_clamp,
            origin: self.origin(declared.name.span),
        })
    }

    pub(super) fn vrf_named(&mut self, name: &At<String>) -> Option<VrfIndex> {
        let found = self.vrfs.get(name.value.as_str()).copied();
        if found.is_none() && !self.declared.lost_vrfs {
            let unknown = Diagnostic::error(Code::UnknownVrf, name.span, format!("there is no VRF `{}`", name.value));
            let unknown = unknown.suggest(&name.value, self.vrfs.keys());
            let help = unknown.help.clone().unwrap_or_else(|| "declare it under `[[vrf]]`".to_owned());
            self.report(unknown.help(help));
        }
        found
    }

    /// The first VRF in which an address is the gateway's.
    fn vrf_with(&mut self, local: &At<IpAddr>) -> VrfIndex {
        let mut vrfs: Vec<VrfIndex> = self.vrfs.values().copied().collect();
        vrfs.sort_unstable();
        let found = vrfs.into_iter().find(|&vrf| self.connected.own(vrf, local.value).is_some());
        if found.is_none() && !self.declared.lost_interfaces {
            self.report(no_address(local));
        }
        found.unwrap_or(VrfIndex(0))
    }

    /// The interface that decrypted packets come in by.
    fn way_in(&mut self, name: &At<String>) -> Option<InterfaceIndex> {
        let at = self.interface(name)?;
        let interface = &self.declared.interfaces[at];
        if !matches!(interface.kind, Some(Kind::Ipsec)) {
            let found = no_way_in(name).related(interface.name.span, "it has a port");
            self.report(found.help("name an interface with `port = \"ipsec\"`"));
            return None;
        }
        self.index_of[at]
    }

    /// Refuses SPIs that two SAs to one address have, and keys by which two SAs would make the same key stream: those of two senders,
    /// or of a sender here and another one at a peer.
    pub(super) fn unique(&mut self, declared: &Sa, sa: &model::Sa, known: &mut KnownSas) {
        let place = |key: &Option<Keyed>| key.as_ref().map(|key| key.spi.span);
        let spans = [place(&declared.inbound), place(&declared.outbound)];
        let messages = known.spis_of(sa, spans);
        for (message, span, first) in messages {
            let found = Diagnostic::error(Code::DuplicateSpi, span, message).related(first, "first here");
            self.report(found.help("give each SA an SPI of its own"));
        }
        let files = [&declared.inbound, &declared.outbound].map(|key| key.as_ref()?.file.as_ref().map(|own| own.span));
        for (shared, span, other) in known.keys_of(sa, files) {
            let (message, label, help) = match shared {
                Shared::Sent => (
                    "two SAs send with this key, and would use its IVs twice",
                    "the other SA",
                    "give each SA a key of its own",
                ),
                Shared::Pair => (
                    "the SAs of both directions have one key: the gateway and the peer would use the same IVs",
                    "the same key",
                    "make a second key: the key of `out` here is the key of `in` at the peer",
                ),
                Shared::Received => (
                    "peers send two SAs with this key, and would use its IVs twice",
                    "the other SA",
                    "give each SA a key of its own, here and at the peer",
                ),
                Shared::Peer => (
                    "a peer sends with this key, and so does the gateway: both would use the same IVs",
                    "the other SA",
                    "give each SA a key of its own",
                ),
            };
            self.report(Diagnostic::error(Code::KeyReused, span, message).related(other, label).help(help));
        }
    }

    /// Warns of interfaces for decrypted packets that no SA names.
    fn unused_ways_in(&mut self) {
        let declared = self.declared;
        if declared.lost_sas {
            return;
        }
        for interface in &declared.interfaces {
            let names = |sa: &Sa| sa.interface.as_ref().is_some_and(|name| name.value == interface.name.value);
            if matches!(interface.kind, Some(Kind::Ipsec)) && !declared.sas.iter().any(names) {
                let message = format!("no packets come in by `{}`: no SA names it", interface.name.value);
                let found = Diagnostic::warning(Code::UnusedInterface, interface.name.span, message);
                self.report(found.help("write `interface` in `[sa.NAME]`"));
            }
        }
    }
}

/// The warning that no interface has the outer address of a pair.
pub(super) fn no_address(local: &At<IpAddr>) -> Diagnostic {
    let message = format!("{} is no address of an interface: no packets of the SA come in", local.value);
    let found = Diagnostic::warning(Code::SaAddress, local.span, message);
    found.help("give an interface the address, or name one that an interface has")
}

/// The error that a pair names an interface by which no decrypted packets come in.
pub(super) fn no_way_in(name: &At<String>) -> Diagnostic {
    let message = format!("no decrypted packets come in by `{}`", name.value);
    Diagnostic::error(Code::InvalidValue, name.span, message)
}
