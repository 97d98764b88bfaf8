//! The other ends of pairs of SAs: gateways that make packets of ESP of the packets that they protect.
//!
//! A peer is a gateway of its own with the mirrored pair, which runs the graph of any other one: its ESP is that of
//! `esp-encrypt`.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_packet::text;
use weir_packet::wire::ethernet;
use weir_plane::harness::{Harness, HarnessError, Options, Verdict};
use weir_plane::model::{
    Encapsulation, Gateway, Interface, InterfaceIndex, Lifetimes, NextHop, Origin, Route, RouteTarget, Sa, SaIndex,
    VrfIndex,
};
use weir_plane::reason::Reason;
use weir_port::spec::PortSpec;

use super::sink::{self, Memory};
use super::way::parsed;
use crate::suggest::closest;

/// The greatest MTU: packets of ESP of a peer are whole.
const MTU: u32 = 65_535;

/// Why a peer makes no packet of ESP.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// There is no pair of this name.
    #[error("there is no SA `{name}`; {}", known(.names, .suggestion.as_deref()))]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of all pairs with an inbound SA.
        names: Vec<String>,
        /// The one that may have been meant.
        suggestion: Option<String>,
    },
    /// The pair has no inbound SA.
    #[error("`{name}` has no `in`: the peer has no key of it, and the gateway decrypts nothing by it")]
    NoInbound {
        /// The pair.
        name: String,
    },
    /// The packet does not fit the ends of a pair in transport mode.
    #[error(
        "`{name}` is in transport mode: its peer protects whole packets from {from} to {to} alone, and the packet is {packet}"
    )]
    Transport {
        /// The pair.
        name: String,
        /// The peer.
        from: IpAddr,
        /// The gateway.
        to: IpAddr,
        /// The packet.
        packet: String,
    },
    /// The packet is none of IP.
    #[error("`{name}` protects no such packet: it is no valid packet of IP: {packet}")]
    NotIp {
        /// The pair.
        name: String,
        /// The packet.
        packet: String,
    },
    /// The packet is too long for one packet of ESP.
    #[error("`{name}` does not protect the packet: it and its headers of ESP are longer than a packet of IP may be")]
    TooLong {
        /// The pair.
        name: String,
    },
    /// The peer drops the packet.
    #[error("`{name}` does not protect the packet: {}", .reason.map_or("it is lost on its way", Reason::description))]
    Refused {
        /// The pair.
        name: String,
        /// The reason of the drop.
        reason: Option<Reason>,
    },
    /// There is no room for the peer.
    #[error(transparent)]
    Harness(#[from] HarnessError),
}

fn known(names: &[String], suggestion: Option<&str>) -> String {
    match suggestion {
        Some(suggestion) => format!("did you mean `{suggestion}`?"),
        None if names.is_empty() => "the configuration has none that decrypts".to_owned(),
        None => format!("SAs that decrypt are {}", names.join(", ")),
    }
}

/// The peers of a gateway, made when they are needed. Each goes on with its sequence numbers.
#[derive(Default)]
pub(super) struct Peers(HashMap<String, Peer>);

impl Peers {
    /// Makes the peer of a pair of SAs of the gateway, if it is not there yet.
    ///
    /// # Errors
    /// If there is no pair of that name, or it has no inbound SA, or there is no room for the peer.
    pub(super) fn add(&mut self, gateway: &Gateway, name: &str) -> Result<(), PeerError> {
        if !self.0.contains_key(name) {
            let sa = gateway.sas.iter().find(|sa| sa.name == name).ok_or_else(|| unknown(gateway, name))?;
            self.0.insert(name.to_owned(), Peer::new(sa)?);
        }
        Ok(())
    }

    /// Has peers that were added protect the packet of IP in a frame, each what the one before has made. Returns the frame with the packet of
    /// the last one.
    ///
    /// # Errors
    /// If a peer does not protect the packet.
    pub(super) fn protect(&mut self, sas: &[&str], frame: Vec<u8>) -> Result<Vec<u8>, PeerError> {
        sas.iter().try_fold(frame, |frame, &name| match self.0.get_mut(name) {
            Some(peer) => peer.protect(&frame),
            None => Err(PeerError::Refused { name: name.to_owned(), reason: None }),
        })
    }
}

fn unknown(gateway: &Gateway, name: &str) -> PeerError {
    let names: Vec<String> = gateway.sas.iter().filter(|sa| sa.inbound.is_some()).map(|sa| sa.name.clone()).collect();
    let suggestion = closest(name, gateway.sas.iter().map(|sa| &sa.name));
    PeerError::Unknown { name: name.to_owned(), names, suggestion }
}

/// The other end of a pair of SAs.
struct Peer {
    harness: Harness,
    sent: Memory,
}

impl Peer {
    fn new(own: &Sa) -> Result<Peer, PeerError> {
        let sa = mirrored(own).ok_or_else(|| PeerError::NoInbound { name: own.name.clone() })?;
        let (local, remote) = (sa.local, sa.remote);
        let interface = Interface { mtu: MTU, ..Interface::on_port("peer", PortSpec::Null, IpNet::from(local)) };
        let hop = NextHop { interface: InterfaceIndex(0), address: Some(remote), weight: 1 };
        let (vrf, target) = (VrfIndex(0), RouteTarget::Via([hop].into()));
        let route = Route { vrf, prefix: IpNet::from(remote), metric: 0, target, origin: Origin::default() };
        let gateway = Gateway { interfaces: vec![interface], routes: vec![route], sas: vec![sa], ..Gateway::empty() };
        let mut harness = Harness::new(gateway, Options { seed: 0, invent_neighbors: true })?;
        let sent = Memory::default();
        sink::connect(&mut harness, &sent);
        Ok(Peer { harness, sent })
    }

    /// Makes a packet of ESP of the packet of IP in a frame; returns it behind the link-layer header of the frame.
    fn protect(&mut self, frame: &[u8]) -> Result<Vec<u8>, PeerError> {
        let parsed = parsed(frame).ok_or_else(|| self.not_ip(frame))?;
        if !self.harness.inject_protected_as_is(0, SaIndex(0), parsed.packet(frame), 0) {
            return Err(self.not_ip(frame));
        }
        let outcome = self.harness.run().pop();
        let mut sent = self.sent.take();
        if sent.len() > 1 {
            return Err(PeerError::TooLong { name: self.sa().name.clone() });
        }
        match sent.pop() {
            // Its own header ends with the ethertype, which stands between the tags and the packet.
            Some(sent) => {
                let front = &frame[..usize::from(parsed.l3) - ETHERTYPE];
                Ok([front, sent.frame.get(ethernet::LENGTH - ETHERTYPE..).unwrap_or_default()].concat())
            }
            None => Err(self.refused(frame, outcome.map(|outcome| outcome.verdict))),
        }
    }

    /// The pair as the peer has it.
    fn sa(&self) -> &Sa {
        &self.harness.model().sas[0]
    }

    fn not_ip(&self, frame: &[u8]) -> PeerError {
        PeerError::NotIp { name: self.sa().name.clone(), packet: text::summary(frame).to_string() }
    }

    fn refused(&self, frame: &[u8], verdict: Option<Verdict>) -> PeerError {
        let Sa { name, local, remote, .. } = self.sa();
        match verdict {
            Some(Verdict::Drop(Reason::EspTransport)) => {
                let packet = text::summary(frame).to_string();
                PeerError::Transport { name: name.clone(), from: *local, to: *remote, packet }
            }
            Some(Verdict::Drop(Reason::MtuExceeded | Reason::NoHeadroom)) => PeerError::TooLong { name: name.clone() },
            Some(Verdict::Drop(reason)) => PeerError::Refused { name: name.clone(), reason: Some(reason) },
            _ => PeerError::Refused { name: name.clone(), reason: None },
        }
    }
}

/// Octets of an ethertype.
const ETHERTYPE: usize = 2;

/// A pair as the peer has it, which sends by what is the inbound SA here. The peer's own settings for lengths are unknown: it pads no
/// packet, and changes none.
fn mirrored(own: &Sa) -> Option<Sa> {
    let turn = |udp: Encapsulation| Encapsulation {
        local_port: udp.remote_port,
        remote_port: udp.local_port,
        keepalive: None,
    };
    Some(Sa {
        vrf: VrfIndex(0),
        local: own.remote,
        remote: own.local,
        outbound: Some(own.inbound.clone()?),
        inbound: None,
        is_shared: false,
        encapsulation: own.encapsulation.map(turn),
        interface: None,
        lifetimes: Lifetimes::default(),
        tfc: None,
        dummies: 0,
        mss_clamp: None,
        origin: Origin::default(),
        ..own.clone()
    })
}
