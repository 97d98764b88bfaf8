//! Packets of ESP of a peer that may do what it wants: whatever stands in an authentic text, and whatever is no authentic packet,
//! comes to one end. Texts that are sealed read back.

use std::cell::RefCell;
use std::net::IpAddr;

use weir::config::parse_str;
use weir_base::clock::Time;
use weir_crypto::{Algorithm, Job, Key, Secret, engines};
use weir_packet::esp::{Layout, read_trailer, write_trailer};
use weir_packet::wire::{ipv4, ipv6, protocol};
use weir_plane::harness::{Harness, Options};
use weir_plane::model::{Gateway, Lifetimes, Origin, OuterDf, OuterDscp, OuterLabel, Sa, SaKey, SaMode, VrfIndex};

const ADDRESSES: [(&str, &str); 2] = [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")];

fn algorithm() -> Algorithm {
    "null-sha256".parse().expect("a name of the list")
}

fn secret() -> Secret {
    Secret::new(&[], &[7; 32])
}

/// A pair of SAs for each family and mode; the SPI is 0x1000 and its index.
fn gateway() -> Gateway {
    let text = r#"
        version = 1
        interface = [{ name = "a", port = "null", address = ["192.0.2.1/24", "2001:db8::1/64", "10.0.0.1/8"] }]
    "#;
    let mut gateway = parse_str("esp.toml", text).gateway.expect("a configuration without errors");
    gateway.ipsec.unchecked = true;
    for (index, mode) in [SaMode::Tunnel, SaMode::Transport, SaMode::Tunnel, SaMode::Transport].into_iter().enumerate()
    {
        let (local, remote) = ADDRESSES[index / 2];
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        gateway.sas.push(Sa {
            name: format!("sa{index}"),
            mode,
            vrf: VrfIndex(0),
            local: address(local),
            remote: address(remote),
            algorithm: algorithm(),
            esn: false,
            outbound: None,
            inbound: SaKey::new(0x1000 + index as u32, algorithm(), &secret()).ok(),
            is_shared: false,
            window: 0,
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
        });
    }
    gateway
}

struct Peer {
    harness: Harness,
    key: Key,
    sequence: u32,
}

impl Peer {
    fn new() -> Peer {
        let options = Options { seed: 1, invent_neighbors: true };
        let harness = Harness::new(gateway(), options).expect("room for a small gateway");
        let key = engines::best(algorithm()).key(algorithm(), &secret()).expect("a key of this length");
        Peer { harness, key, sequence: 0 }
    }

    /// Sends octets of ESP to the SA of an index.
    fn send(&mut self, index: usize, esp: &[u8]) {
        let mac = self.harness.interface_mac(0).unwrap_or_default();
        let (local, remote) = ADDRESSES[index / 2];
        let mut frame = [&mac[..], &[2, 0, 0, 0, 0, 9]].concat();
        match (remote.parse(), local.parse()) {
            (Ok(IpAddr::V4(source)), Ok(IpAddr::V4(destination))) => {
                frame.extend([8, 0]);
                let header = ipv4::Fields {
                    tos: 0,
                    total_length: 20 + esp.len() as u16,
                    identification: 1,
                    dont_fragment: false,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: 64,
                    protocol: protocol::ESP,
                    source,
                    destination,
                };
                frame.extend(header.emit());
            }
            (Ok(IpAddr::V6(source)), Ok(IpAddr::V6(destination))) => {
                frame.extend([0x86, 0xdd]);
                let header = ipv6::Fields {
                    traffic_class: 0,
                    flow_label: 0,
                    payload_length: esp.len() as u16,
                    next_header: protocol::ESP,
                    hop_limit: 64,
                    source,
                    destination,
                };
                frame.extend(header.emit());
            }
            _ => unreachable!("both ends are of one family"),
        }
        frame.extend_from_slice(esp);
        assert!(self.harness.inject(0, &frame, Time(0), 1), "there is room for one packet");
        self.harness.run();
        assert_eq!(self.harness.conservation().imbalance(), 0);
    }

    fn seal(&mut self, index: usize, text: &[u8]) -> Vec<u8> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let spi = 0x1000 + index as u32;
        let mut esp = [&spi.to_be_bytes()[..], &self.sequence.to_be_bytes(), text, &[0; 16]].concat();
        let mut jobs = [Job::esp(&self.key, &mut esp, None)];
        weir_crypto::seal(&mut jobs);
        assert_eq!(jobs[0].result(), Ok(()));
        esp
    }
}

thread_local! {
    static PEER: RefCell<Peer> = RefCell::new(Peer::new());
}

/// The target.
pub(crate) fn fuzz(input: &[u8]) {
    let Some((&first, text)) = input.split_first() else { return };
    if text.len() > 2000 {
        return;
    }
    let index = usize::from(first & 3);
    PEER.with_borrow_mut(|peer| {
        // What the fuzzer says is the text; it ends with a trailer of its own, or with a valid one.
        let esp = peer.seal(index, text);
        peer.send(index, &esp);
        let layout = Layout::new(0, 16, 1);
        let padding = layout.padding(text.len());
        let mut whole = [text, &vec![0; padding + 2]].concat();
        write_trailer(&mut whole[text.len()..], first);
        let trailer = read_trailer(&whole).expect("what was written");
        assert_eq!((trailer.payload, trailer.next_header), (text.len(), first));
        let esp = peer.seal(index, &whole);
        peer.send(index, &esp);
        peer.send(index, text);
    });
}
