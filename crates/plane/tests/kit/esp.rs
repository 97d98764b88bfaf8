//! Two gateways, `west` and `east`, with a pair of SAs between them.

use std::net::IpAddr;

use weir_crypto::{Algorithm, Job, Secret, engines};
use weir_plane::harness::Outcome;
use weir_plane::model::{
    Encapsulation, Lifetimes, Origin, OuterDf, OuterDscp, OuterLabel, Sa, SaIndex, SaKey, SaMode, VrfIndex,
};

use super::{Build, Rig, ip, l3, own_mac};

/// The secret of one direction.
pub fn secret(algorithm: Algorithm, direction: u8) -> Secret {
    let octets = |length: usize| (0..length).map(|at| at as u8 ^ direction).collect::<Vec<_>>();
    Secret::new(&octets(algorithm.cipher_key_octets()), &octets(algorithm.integrity_key_octets()))
}

/// SPIs from west to east, and back.
pub const TO_EAST: u32 = 0x1001;
pub const TO_WEST: u32 = 0x2001;

/// A pair of SAs of west, in tunnel mode.
pub fn sa(algorithm: &str, local: &str, remote: &str) -> Sa {
    let algorithm: Algorithm = algorithm.parse().unwrap();
    let key = |spi: u32, direction: u8| Some(SaKey::new(spi, algorithm, &secret(algorithm, direction)).unwrap());
    Sa {
        name: "peer".into(),
        mode: SaMode::Tunnel,
        vrf: VrfIndex(0),
        local: ip(local),
        remote: ip(remote),
        algorithm,
        esn: false,
        outbound: key(TO_EAST, 0x51),
        inbound: key(TO_WEST, 0x52),
        is_shared: false,
        window: 64,
        encapsulation: None,
        interface: None,
        dscp: OuterDscp::Copy,
        ecn: true,
        df: OuterDf::Copy,
        flow_label: OuterLabel::Flow,
        hop_limit: 64,
        lifetimes: Lifetimes::default(),
        tfc: None,
        dummies: 0,
        mss_clamp: None,
        origin: Origin::default(),
    }
}

/// Pairs of one tunnel, for the keys of both directions and SPIs of their own.
pub fn pairs<const N: usize>() -> [Sa; N] {
    let first = sa("aes128gcm16", "198.51.100.1", "198.51.100.2");
    std::array::from_fn(|number| {
        let key = |spi: u32, direction: u8| {
            let secret = secret(first.algorithm, direction + 2 * number as u8);
            Some(SaKey::new(spi + number as u32, first.algorithm, &secret).unwrap())
        };
        Sa { name: format!("pair{number}"), outbound: key(0x1001, 0x61), inbound: key(0x2001, 0x62), ..first.clone() }
    })
}

/// The same as east has it.
pub fn mirrored(sa: &Sa) -> Sa {
    let turn = |own: Encapsulation| Encapsulation { local_port: own.remote_port, remote_port: own.local_port, ..own };
    Sa {
        local: sa.remote,
        remote: sa.local,
        outbound: sa.inbound.clone(),
        inbound: sa.outbound.clone(),
        encapsulation: sa.encapsulation.map(turn),
        ..sa.clone()
    }
}

pub fn udp() -> Option<Encapsulation> {
    Some(Encapsulation { local_port: 4500, remote_port: 4501, keepalive: None })
}

/// A gateway: a network behind `lan`, and the other gateway on the link of `wan`.
fn gateway(own: u8, other: u8) -> Build {
    let nets = |of: u8| [format!("10.{of}.0.0/16"), format!("2001:db8:{of}::/48")];
    let wan = [format!("198.51.100.{own}/24"), format!("2001:db8:ff::{own}/64")];
    let [v4, v6] = [format!("198.51.100.{other}"), format!("2001:db8:ff::{other}")];
    let [to_v4, to_v6] = nets(other);
    let lan = [format!("10.{own}.0.1/24"), format!("2001:db8:{own}::1/64")];

    Build::new()
        .port("lan", &[&lan[0], &lan[1]])
        .port("wan", &[&wan[0], &wan[1]])
        .neighbor("lan", &format!("10.{own}.0.2"), super::mac(own))
        .neighbor("lan", &format!("2001:db8:{own}::2"), super::mac(own))
        // The kit gives the second port of each gateway this address.
        .neighbor("wan", &v4, own_mac(1))
        .neighbor("wan", &v6, own_mac(1))
        .via(&to_v4, &[&format!("wan {v4}")])
        .via(&to_v6, &[&format!("wan {v6}")])
}

/// West with these SAs, whose decrypted packets are not checked.
pub fn west(sas: &[Sa]) -> Build {
    with(gateway(1, 2), sas.to_vec())
}

/// East with the other ends of SAs of west.
pub fn east(sas: &[Sa]) -> Build {
    with(gateway(2, 1), sas.iter().map(mirrored).collect())
}

fn with(mut build: Build, sas: Vec<Sa>) -> Build {
    build.0.sas = sas;
    build.0.ipsec.unchecked = true;
    build
}

/// The octets of a packet from its IP header on.
pub fn bare(text: &str) -> Vec<u8> {
    let frame = super::frame(text, super::mac(9));
    frame[l3(&frame)..].to_vec()
}

impl Rig {
    /// Sends packets to an SA in one vector, as a policy would that protects them.
    pub fn protect<P: AsRef<[u8]>>(&mut self, sa: usize, packets: &[P]) -> (Vec<Outcome>, Vec<(String, Vec<u8>)>) {
        let interface = self.index("lan");
        let sa = SaIndex(sa as u32);
        self.put_by(packets, |harness, number, packet| harness.inject_protected(interface, sa, packet, number))
    }

    /// The same for each packet's own SA.
    pub fn protect_each(&mut self, packets: &[(usize, Vec<u8>)]) -> (Vec<Outcome>, Vec<(String, Vec<u8>)>) {
        let interface = self.index("lan");
        let octets: Vec<&[u8]> = packets.iter().map(|(_, packet)| packet.as_slice()).collect();
        self.put_by(&octets, |harness, number, packet| {
            harness.inject_protected(interface, SaIndex(packets[number as usize].0 as u32), packet, number)
        })
    }
}

/// Seals a text as a peer would that may do what it wants: a frame for the gateway `to`.
pub fn sealed(sa: &Sa, sequence: u64, text: &[u8], direction: u8, spi: u32) -> Vec<u8> {
    let key = engines::best(sa.algorithm).key(sa.algorithm, &secret(sa.algorithm, direction)).unwrap();
    let mut esp =
        [&spi.to_be_bytes()[..], &(sequence as u32).to_be_bytes(), &vec![7; sa.algorithm.iv_octets()], text].concat();
    esp.extend(vec![0; sa.algorithm.icv_octets()]);
    let mut jobs = [Job::esp(&key, &mut esp, sa.esn.then_some((sequence >> 32) as u32))];
    weir_crypto::seal(&mut jobs);
    jobs[0].result().unwrap();
    let [from, to] = [sa.local, sa.remote].map(|end| match end {
        IpAddr::V4(end) => end,
        IpAddr::V6(_) => panic!("IPv4"),
    });
    let header = weir_packet::wire::ipv4::Fields {
        tos: 0,
        total_length: (20 + esp.len()) as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: 50,
        source: from,
        destination: to,
    };
    [&own_mac(1).0[..], &[2, 0, 0, 0, 0, 7], &[8, 0], &header.emit(), &esp].concat()
}
