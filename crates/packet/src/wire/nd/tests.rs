use proptest::prelude::*;

use super::*;

const US: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const THEM: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x12, 0x3456);
const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);

fn solicitation() -> Fields {
    Fields::NeighborSolicitation { target: THEM, source_mac: Some(MAC) }
}

fn advertisement(solicited: bool) -> Fields {
    Fields::NeighborAdvertisement { target: US, router: true, solicited, overrides: true, target_mac: Some(MAC) }
}

fn read(fields: Fields, source: Ipv6Addr, destination: Ipv6Addr) -> Result<Fields, Refused> {
    Message::parse(source, destination, 255, &fields.emit(source, destination)).map(|message| message.fields())
}

/// A message with these bytes, whose checksum is made right.
fn mended(bytes: &[u8], source: Ipv6Addr, destination: Ipv6Addr) -> Result<Fields, Refused> {
    let mut bytes = bytes.to_vec();
    bytes[CHECKSUM..CHECKSUM + 2].fill(0);
    store_checksum(&mut bytes, source, destination);
    Message::parse(source, destination, 255, &bytes).map(|message| message.fields())
}

#[test]
fn addresses_are_derived_as_the_standards_have_it() {
    assert_eq!(
        solicited_node("4037::1:800:200e:8c6c".parse().unwrap()),
        "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap()
    );
    // RFC 2464 section 4: 34-56-78-9A-BC-DE gives 36-56-78-FF-FE-9A-BC-DE.
    let mac = MacAddress([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
    assert_eq!(link_local(mac), "fe80::3656:78ff:fe9a:bcde".parse::<Ipv6Addr>().unwrap());
    let group = MacAddress::of_ipv6_multicast(solicited_node(THEM));
    assert_eq!(group, MacAddress([0x33, 0x33, 0xff, 0x12, 0x34, 0x56]));
}

#[test]
fn what_came_from_afar_is_refused() {
    let bytes = solicitation().emit(US, THEM);
    for hop_limit in 0..255 {
        assert_eq!(Message::parse(US, THEM, hop_limit, &bytes), Err(Refused::HopLimit(hop_limit)));
    }
    assert!(Message::parse(US, THEM, 255, &bytes).is_ok());
}

#[test]
fn every_bit_is_under_the_checksum() {
    let bytes = advertisement(true).emit(US, THEM);
    for bit in 0..bytes.len() * 8 {
        let mut other = bytes.to_vec();
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(Message::parse(US, THEM, 255, &other).is_err(), "bit {bit}");
    }
    assert_eq!(Message::parse(THEM, Ipv6Addr::LOCALHOST, 255, &bytes), Err(Refused::Checksum));
    let mut other = bytes.to_vec();
    other[2] ^= 1;
    assert!(Message::parse_trusted(US, THEM, 255, &other).is_ok());
}

#[test]
fn a_code_is_refused() {
    let mut bytes = solicitation().emit(US, THEM).to_vec();
    bytes[1] = 3;
    assert_eq!(mended(&bytes, US, THEM), Err(Refused::Code(3)));
}

#[test]
fn other_types_are_refused() {
    for kind in (0..=255).filter(|kind| !(133..=136).contains(kind)) {
        let mut bytes = solicitation().emit(US, THEM).to_vec();
        bytes[0] = kind;
        assert_eq!(mended(&bytes, US, THEM), Err(Refused::Kind(kind)));
    }
}

#[test]
fn short_messages_are_refused() {
    let router = Fields::RouterAdvertisement(RouterAdvertisement::default());
    for (fields, least) in [
        (Fields::RouterSolicitation { source_mac: None }, 8),
        (router, 16),
        (Fields::NeighborSolicitation { target: THEM, source_mac: None }, 24),
    ] {
        let bytes = fields.emit(US, THEM);
        assert_eq!(bytes.len(), least);
        for length in 0..least {
            assert!(matches!(Message::parse_trusted(US, THEM, 255, &bytes[..length]), Err(Refused::Truncated(_))));
        }
    }
}

#[test]
fn options_have_to_fit() {
    let bytes = solicitation().emit(US, THEM);
    for (length, units) in [(32, 0), (32, 2), (32, 255), (31, 1), (25, 1), (30, 0)] {
        let mut other = bytes[..length].to_vec();
        if length > 25 {
            other[25] = units;
        }
        assert_eq!(mended(&other, US, THEM), Err(Refused::Option(24)), "{length} {units}");
    }
    // What is not known is passed over, and what stands behind it is read.
    let mut other = bytes.to_vec();
    other.extend([99, 1, 0, 0, 0, 0, 0, 0]);
    other[24] = 200;
    other.extend([1, 1, 2, 0, 0, 0, 0, 9]);
    let source_mac = Some(MacAddress([2, 0, 0, 0, 0, 9]));
    assert_eq!(mended(&other, US, THEM), Ok(Fields::NeighborSolicitation { target: THEM, source_mac }));
    // So is a hardware address that is longer than Ethernet's.
    let mut other = bytes.to_vec();
    other[25] = 2;
    other.extend([0; 8]);
    assert_eq!(mended(&other, US, THEM), Ok(Fields::NeighborSolicitation { target: THEM, source_mac: None }));
}

#[test]
fn who_has_no_address_may_only_ask_for_his_own() {
    let ask = |source_mac| Fields::NeighborSolicitation { target: THEM, source_mac };
    let nobody = Ipv6Addr::UNSPECIFIED;
    assert_eq!(read(ask(None), nobody, solicited_node(THEM)), Ok(ask(None)));
    assert_eq!(read(ask(None), nobody, THEM), Err(Refused::Destination(THEM)));
    assert_eq!(read(ask(Some(MAC)), nobody, solicited_node(THEM)), Err(Refused::UnspecifiedWithMac));
    let routers = |source_mac| Fields::RouterSolicitation { source_mac };
    assert_eq!(read(routers(None), nobody, ALL_ROUTERS), Ok(routers(None)));
    assert_eq!(read(routers(Some(MAC)), nobody, ALL_ROUTERS), Err(Refused::UnspecifiedWithMac));
}

#[test]
fn addresses_of_many_are_refused() {
    let group = Fields::NeighborSolicitation { target: ALL_NODES, source_mac: None };
    assert_eq!(read(group, US, THEM), Err(Refused::Target(ALL_NODES)));
    assert_eq!(read(solicitation(), ALL_NODES, THEM), Err(Refused::Source(ALL_NODES)));
    assert_eq!(read(advertisement(true), US, ALL_NODES), Err(Refused::Solicited));
    assert_eq!(read(advertisement(false), US, ALL_NODES), Ok(advertisement(false)));
    for mac in [MacAddress::BROADCAST, MacAddress::ZERO, MacAddress([1, 0, 0, 0, 0, 0])] {
        let fields = Fields::NeighborSolicitation { target: THEM, source_mac: Some(mac) };
        assert_eq!(read(fields, US, THEM), Err(Refused::Mac(mac)));
    }
}

#[test]
fn routers_speak_from_the_link() {
    let fields = Fields::RouterAdvertisement(RouterAdvertisement { lifetime: 9, ..Default::default() });
    assert_eq!(read(fields, THEM, ALL_NODES), Err(Refused::Source(THEM)));
    assert_eq!(read(fields, US, ALL_NODES), Ok(fields));
}

fn mac() -> impl Strategy<Value = Option<MacAddress>> {
    proptest::option::of(any::<[u8; 5]>().prop_map(|[a, b, c, d, e]| MacAddress([2, a, b, c, d, e])))
}

fn unicast() -> impl Strategy<Value = Ipv6Addr> {
    any::<[u16; 7]>().prop_map(|[a, b, c, d, e, f, g]| Ipv6Addr::new(0x2001, a, b, c, d, e, f, g))
}

fn router() -> impl Strategy<Value = RouterAdvertisement> {
    let flags = any::<(u8, bool, bool, u16, u32, u32)>();
    (flags, mac(), any::<Option<u32>>()).prop_map(|(flags, source_mac, mtu)| {
        let (hop_limit, managed, other, lifetime, reachable_time, retransmit_time) = flags;
        RouterAdvertisement { hop_limit, managed, other, lifetime, reachable_time, retransmit_time, source_mac, mtu }
    })
}

fn any_fields() -> impl Strategy<Value = Fields> {
    prop_oneof![
        mac().prop_map(|source_mac| Fields::RouterSolicitation { source_mac }),
        router().prop_map(Fields::RouterAdvertisement),
        (unicast(), mac()).prop_map(|(target, source_mac)| Fields::NeighborSolicitation { target, source_mac }),
        (unicast(), any::<[bool; 3]>(), mac()).prop_map(|(target, [router, solicited, overrides], target_mac)| {
            Fields::NeighborAdvertisement { target, router, solicited, overrides, target_mac }
        }),
    ]
}

fn prefix() -> impl Strategy<Value = Prefix> {
    (unicast(), 0..=128u8, any::<(bool, bool, u32, u32)>()).prop_map(|(prefix, length, rest)| {
        let (on_link, autonomous, valid_lifetime, preferred_lifetime) = rest;
        Prefix { prefix, length, on_link, autonomous, valid_lifetime, preferred_lifetime }
    })
}

proptest! {
    #[test]
    fn a_value_survives_the_wire(fields in any_fields()) {
        prop_assert_eq!(read(fields, US, THEM), Ok(fields));
        prop_assert!(fields.emit(US, THEM).len().is_multiple_of(8));
    }

    #[test]
    fn prefixes_survive_the_wire(fields in router(), prefixes in proptest::collection::vec(prefix(), 0..9)) {
        let bytes = fields.emit(&prefixes, US, ALL_NODES);
        let message = Message::parse(US, ALL_NODES, 255, &bytes).unwrap();
        prop_assert_eq!(message.fields(), Fields::RouterAdvertisement(fields));
        prop_assert_eq!(message.prefixes().collect::<Vec<_>>(), prefixes);
    }

    #[test]
    fn nothing_makes_it_panic(
        kind in 130..=138u8, rest in proptest::collection::vec(any::<u8>(), 0..200), source in unicast()
    ) {
        let bytes: Vec<u8> = [kind, 0].into_iter().chain(rest).collect();
        if let Ok(message) = Message::parse_trusted(source, THEM, 255, &bytes) {
            prop_assert!(message.prefixes().count() * 32 <= bytes.len());
        }
    }
}
