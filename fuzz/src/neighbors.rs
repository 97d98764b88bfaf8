//! ARP and neighbour discovery: whatever the bytes, no panic; what is read is allowed, and survives being written.

use std::net::Ipv6Addr;

use weir_packet::checksum;
use weir_packet::wire::nd::{self, Fields, HOP_LIMIT, Message, Refused, solicited_node};
use weir_packet::wire::{MacAddress, arp};

/// The target.
pub(crate) fn fuzz(data: &[u8]) {
    if let Ok(fields) = arp::Fields::parse(data) {
        assert_eq!(fields.emit(), data[..arp::LENGTH]);
    }
    let Some((&source, rest)) = data.split_first_chunk::<16>() else { return };
    let Some((&destination, rest)) = rest.split_first_chunk::<16>() else { return };
    let Some((&hop_limit, bytes)) = rest.split_first() else { return };
    let (source, destination) = (Ipv6Addr::from(source), Ipv6Addr::from(destination));
    let read = |bytes| Message::parse(source, destination, hop_limit, bytes);
    let trusted = Message::parse_trusted(source, destination, hop_limit, bytes);
    assert!(read(bytes) == trusted || (trusted.is_ok() && read(bytes) == Err(Refused::Checksum)));
    // The checksum is the last check; fuzzing would hardly find a right one.
    let mended = mend(source, destination, bytes);
    match Message::parse_trusted(source, destination, hop_limit, &mended) {
        Ok(message) => {
            assert_eq!(read(&mended), Ok(message));
            assert_eq!(hop_limit, HOP_LIMIT);
            check(source, destination, &message);
        }
        Err(refused) => {
            assert_eq!(read(&mended), Err(refused));
            assert!(!refused.to_string().is_empty());
        }
    }
}

/// The same message with its checksum made right.
fn mend(source: Ipv6Addr, destination: Ipv6Addr, bytes: &[u8]) -> Vec<u8> {
    let mut mended = bytes.to_vec();
    if let Some(place) = mended.get_mut(2..4) {
        place.fill(0);
        let checksum = checksum::pseudo_v6(source, destination, 58, bytes.len() as u32).bytes(&mended).checksum();
        mended[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    mended
}

fn check(source: Ipv6Addr, destination: Ipv6Addr, message: &Message<'_>) {
    let station = |mac: Option<MacAddress>| assert!(mac.is_none_or(|mac| mac.is_unicast()));
    assert!(!source.is_multicast());
    match message.fields() {
        Fields::RouterSolicitation { source_mac } => {
            station(source_mac);
            assert!(!source.is_unspecified() || source_mac.is_none());
        }
        Fields::RouterAdvertisement(fields) => {
            station(fields.source_mac);
            assert!(source.is_unicast_link_local());
            let prefixes: Vec<_> = message.prefixes().collect();
            let written = fields.emit(&prefixes, source, destination);
            let again = Message::parse(source, destination, HOP_LIMIT, &written).unwrap();
            assert_eq!(again.fields(), message.fields());
            assert!(again.prefixes().eq(prefixes.iter().copied()));
            assert!(prefixes.iter().all(|prefix| prefix.length <= 128));
        }
        Fields::NeighborSolicitation { target, source_mac } => {
            station(source_mac);
            assert!(!target.is_multicast());
            assert!(!source.is_unspecified() || (source_mac.is_none() && destination == solicited_node(target)));
        }
        Fields::NeighborAdvertisement { target, solicited, target_mac, .. } => {
            station(target_mac);
            assert!(!target.is_multicast());
            assert!(!solicited || !destination.is_multicast());
        }
    }
    if !matches!(message.fields(), Fields::RouterAdvertisement(_)) {
        assert_eq!(message.prefixes().count(), 0);
    }
    let written = message.fields().emit(source, destination);
    assert!(written.len() <= nd::LONGEST);
    let again = Message::parse(source, destination, HOP_LIMIT, &written).unwrap();
    assert_eq!(again.fields(), message.fields());
}
