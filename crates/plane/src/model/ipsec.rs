//! Security associations (RFC 4301, 4.1), as they are wanted: pairs of one SA for each direction with one peer.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use weir_base::random::SecureRandom;
use weir_crypto::{Algorithm, Engine, Key, KeyError, Secret, engines};
use weir_packet::esp::{Envelope, Layout};
use weir_packet::wire::{ipv4, ipv6, udp};

use super::index::{InterfaceIndex, VrfIndex};
use super::mss::MssClamp;
use super::origin::Origin;

/// Index of a pair of SAs in [`Gateway::sas`](super::Gateway::sas).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SaIndex(pub u32);

/// Settings of IPsec that concern all SAs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ipsec {
    /// The directory in which sequence numbers and IVs are reserved before they are used.
    pub state: Option<PathBuf>,
    /// Sequence numbers are used only once they are reserved. Else they begin with 1: for gateways that send nothing.
    pub reserves: bool,
    /// Decrypted packets are not checked against the policies: for tests and measurements of SAs alone.
    pub unchecked: bool,
    /// The engine of all SAs; `None`: each SA has the first engine that has its algorithm.
    pub engine: Option<&'static str>,
    /// SAs may have neither encryption nor integrity.
    pub insecure: bool,
    /// The tunnels without an MTU of their own: theirs is what the way and ESP leave.
    pub fitted: Vec<InterfaceIndex>,
}

/// A pair of SAs with one peer: outbound, inbound or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sa {
    /// Its name, unique.
    pub name: String,
    /// The part of a packet that ESP protects.
    pub mode: SaMode,
    /// The routing domain of the outer addresses.
    pub vrf: VrfIndex,
    /// The gateway's outer address.
    pub local: IpAddr,
    /// The peer's outer address, of the same family.
    pub remote: IpAddr,
    /// Cipher and integrity.
    pub algorithm: Algorithm,
    /// Extended sequence numbers (RFC 4303, 2.2.1).
    pub esn: bool,
    /// The SA from the gateway to the peer.
    pub outbound: Option<SaKey>,
    /// The SA from the peer to the gateway.
    pub inbound: Option<SaKey>,
    /// Each worker seals packets for the peer; else one does.
    pub is_shared: bool,
    /// Numbers of the anti-replay window: 0 for none, or a power of two from 32 to 131,072.
    pub window: u32,
    /// ESP in UDP (RFC 3948).
    pub encapsulation: Option<Encapsulation>,
    /// The interface that decrypted packets come in by; `None`: that of the ESP packet.
    pub interface: Option<InterfaceIndex>,
    /// The DSCP of the outer header.
    pub dscp: OuterDscp,
    /// Congestion notification passes between inner and outer header (RFC 6040); false: the outer one is Not-ECT.
    pub ecn: bool,
    /// The DF bit of an outer IPv4 header.
    pub df: OuterDf,
    /// The flow label of an outer IPv6 header.
    pub flow_label: OuterLabel,
    /// The TTL or hop limit of the outer header, from 1.
    pub hop_limit: u8,
    /// The limits of the use of each SA of the pair.
    pub lifetimes: Lifetimes,
    /// Traffic flow confidentiality: shorter packets are padded, in tunnel mode (RFC 4303, 2.7).
    pub tfc: Option<Tfc>,
    /// Packets in a second that dummy packets make up to (RFC 4303, 2.6); 0: none is sent.
    pub dummies: u32,
    /// The greatest segment size in SYN segments that it protects, in both directions; `None`: they stay as they are.
    pub mss_clamp: Option<MssClamp>,
    /// Where it was declared.
    pub origin: Origin,
}

impl Sa {
    /// The lengths of its packets of ESP.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let own = self.algorithm;
        Layout::new(own.iv_octets(), own.icv_octets(), own.block_octets())
    }

    /// The octets around packets that it protects, of which the first `kept` stay in front in transport mode.
    #[must_use]
    pub fn envelope(&self, kept: usize) -> Envelope {
        let udp = if self.encapsulation.is_some() { udp::LENGTH } else { 0 };
        let ip = if self.local.is_ipv4() { ipv4::LENGTH } else { ipv6::LENGTH };
        match self.mode {
            SaMode::Tunnel => Envelope::tunnel(self.layout(), ip + udp),
            SaMode::Transport => Envelope::transport(self.layout(), kept, udp),
        }
    }
}

/// The part of a packet that an SA protects (RFC 4303, 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SaMode {
    /// A whole packet, behind an IP header of the SA.
    Tunnel,
    /// The payload of a packet between the SA's addresses.
    Transport,
}

impl SaMode {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SaMode::Tunnel => "tunnel",
            SaMode::Transport => "transport",
        }
    }
}

/// The ports of ESP in UDP (RFC 3948).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// The gateway's port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
    /// The time without outbound packets after which a keepalive is sent; `None`: never.
    pub keepalive: Option<Duration>,
}

/// The length that packets are padded to before encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tfc {
    /// So many octets from the inner IP header on, or as many as fit the least MTU of an interface.
    Length(u16),
    /// As many as fit the least MTU of an interface.
    Mtu,
}

/// The lifetimes of an SA (RFC 4301, 4.4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lifetimes {
    /// An event is logged.
    pub soft: Lifetime,
    /// The SA sends and accepts nothing more.
    pub hard: Lifetime,
}

/// Limits of the use of an SA: the first one that is reached counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lifetime {
    /// The age of the SA.
    pub time: Option<Duration>,
    /// Octets of inner packets, from their IP header on.
    pub octets: Option<u64>,
    /// Packets.
    pub packets: Option<u64>,
}

impl Lifetime {
    /// Returns true if there is no limit.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Lifetime::default()
    }
}

/// The DSCP of an outer header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OuterDscp {
    /// That of the inner packet.
    #[default]
    Copy,
    /// This one, 0 to 63.
    Fixed(u8),
}

/// The DF bit of an outer IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OuterDf {
    /// That of the inner packet; set for IPv6.
    #[default]
    Copy,
    /// Set.
    Set,
    /// Clear.
    Clear,
}

/// The flow label of an outer IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OuterLabel {
    /// A hash of the inner flow (RFC 6438).
    #[default]
    Flow,
    /// That of an inner IPv6 packet; 0 for IPv4.
    Copy,
    /// 0.
    Zero,
}

/// The SPI and the key of an SA.
#[derive(Clone)]
pub struct SaKey {
    /// The security parameters index, from 256.
    pub spi: u32,
    key: Key,
    fingerprint: [u8; 16],
    stream: [u8; 16],
}

impl SaKey {
    /// Expands a secret with the first engine that supports the algorithm.
    ///
    /// # Errors
    /// If the secret has another length than the algorithm needs.
    pub fn new(spi: u32, algorithm: Algorithm, secret: &Secret) -> Result<SaKey, KeyError> {
        SaKey::by(spi, engines::best(algorithm), algorithm, secret)
    }

    /// Expands a secret with an engine.
    ///
    /// # Errors
    /// If the secret has another length than the algorithm needs, or the engine lacks the algorithm.
    pub fn by(spi: u32, engine: &dyn Engine, algorithm: Algorithm, secret: &Secret) -> Result<SaKey, KeyError> {
        let key = engine.key(algorithm, secret)?;
        // Without a secret, SAs with different SPIs have sequence numbers of their own.
        let own = (!algorithm.has_integrity()).then(|| Secret::new(&spi.to_be_bytes(), &[]));
        let secret = own.as_ref().unwrap_or(secret);
        Ok(SaKey { spi, key, fingerprint: secret.fingerprint(), stream: secret.stream_fingerprint() })
    }

    /// Makes a key of random octets, with the SPI, the algorithm and the engine of this one.
    ///
    /// # Errors
    /// If the engine refuses the octets.
    pub fn at_random(&self, random: &mut SecureRandom) -> Result<SaKey, KeyError> {
        let algorithm = self.key.algorithm();
        let mut octets = |length| -> Vec<u8> { (0..length).map(|_| random.next() as u8).collect() };
        let secret = Secret::new(&octets(algorithm.cipher_key_octets()), &octets(algorithm.integrity_key_octets()));
        SaKey::by(self.spi, engines::of(&self.key), algorithm, &secret)
    }

    /// The expanded key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// A digest of the secret, which does not reveal it: equal secrets have equal ones.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 16] {
        self.fingerprint
    }

    /// The same of the cipher's key and salt alone: sequence numbers belong to these, as each number makes its own key stream.
    #[must_use]
    pub fn stream(&self) -> [u8; 16] {
        self.stream
    }
}

impl PartialEq for SaKey {
    fn eq(&self, other: &SaKey) -> bool {
        let of = |own: &SaKey| (own.spi, own.fingerprint, own.key.algorithm());
        of(self) == of(other)
    }
}

impl Eq for SaKey {}

impl fmt::Debug for SaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaKey").field("spi", &self.spi).field("key", &self.key).finish_non_exhaustive()
    }
}
