use netlink_packet_core::NetlinkMessage;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteNextHop, RouteProtocol, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, link::LinkAttribute, link::LinkMessage};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A message as the library writes it, which is an oracle.
fn octets(message: RouteNetlinkMessage) -> Vec<u8> {
    let mut message = NetlinkMessage::from(message);
    message.finalize();
    let mut octets = vec![0; message.buffer_len()];
    message.serialize(&mut octets);
    octets
}

fn message(family: AddressFamily, length: u8, attributes: Vec<RouteAttribute>) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message.header.destination_prefix_length = length;
    message.header.table = 254;
    message.header.protocol = RouteProtocol::Bgp;
    message.header.kind = RouteType::Unicast;
    message.attributes = attributes;
    message
}

fn only(octets: &[u8]) -> Update {
    let all: Vec<_> = updates(octets).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone().unwrap()
}

fn path(device: u32, gateway: Option<&str>, weight: u16) -> Path {
    Path { device, gateway: gateway.map(|text| text.parse().unwrap()), weight, is_encapsulated: false }
}

#[test]
fn routes_are_what_the_library_wrote() {
    let destination = RouteAttribute::Destination(RouteAddress::Inet("10.1.2.0".parse().unwrap()));
    let single = message(
        AddressFamily::Inet,
        24,
        vec![
            destination.clone(),
            RouteAttribute::Oif(7),
            RouteAttribute::Gateway(RouteAddress::Inet("192.0.2.1".parse().unwrap())),
            RouteAttribute::Priority(20),
            RouteAttribute::Table(1000),
        ],
    );
    let Update::Route(route) = only(&octets(RouteNetlinkMessage::NewRoute(single.clone()))) else { panic!() };
    assert_eq!(
        route,
        Route {
            table: 1000,
            prefix: "10.1.2.0/24".parse().unwrap(),
            protocol: 186,
            tos: 0,
            metric: 20,
            kind: RouteKind::Unicast,
            paths: vec![path(7, Some("192.0.2.1"), 1)],
            nexthop: None,
            replaces: false,
            appends: false,
        }
    );
    let gone = only(&octets(RouteNetlinkMessage::DelRoute(single)));
    assert_eq!(gone, Update::RouteGone(route));
    // Several paths, one by a next hop of the other family (RFC 8950).
    let hop = |device, weight: u8, attribute| {
        let mut hop = RouteNextHop::default();
        hop.interface_index = device;
        hop.hops = weight - 1;
        hop.attributes = vec![attribute];
        hop
    };
    let paths = vec![
        hop(7, 3, RouteAttribute::Gateway(RouteAddress::Inet("192.0.2.1".parse().unwrap()))),
        hop(8, 1, RouteAttribute::Via(RouteVia::Inet6("fe80::1".parse().unwrap()))),
    ];
    let many = message(AddressFamily::Inet, 24, vec![destination, RouteAttribute::MultiPath(paths)]);
    let Update::Route(route) = only(&octets(RouteNetlinkMessage::NewRoute(many.clone()))) else { panic!() };
    assert_eq!(route.paths, [path(7, Some("192.0.2.1"), 3), path(8, Some("fe80::1"), 1)]);
    // The flags of a path are the third octet of its header: the path is dead.
    let mut octets_of_many = octets(RouteNetlinkMessage::NewRoute(many));
    let at = octets_of_many.windows(8).position(|own| own[3] == 2 && own[4..] == 7u32.to_ne_bytes()).unwrap();
    octets_of_many[at + 2] = 1;
    let Update::Route(route) = only(&octets_of_many) else { panic!() };
    assert_eq!(route.paths, [path(8, Some("fe80::1"), 1)]);
    let mut refusing = message(AddressFamily::Inet6, 0, vec![RouteAttribute::Priority(1024)]);
    refusing.header.kind = RouteType::Prohibit;
    let Update::Route(route) = only(&octets(RouteNetlinkMessage::NewRoute(refusing))) else { panic!() };
    assert_eq!((route.prefix, route.kind), ("::/0".parse().unwrap(), RouteKind::Prohibit));
    assert!(route.paths.is_empty() && route.table == 254);
}

#[test]
fn devices_and_next_hop_objects() {
    let mut link = LinkMessage::default();
    link.header.index = 9;
    link.attributes = vec![LinkAttribute::IfName("wan-host".into())];
    assert_eq!(only(&octets(RouteNetlinkMessage::NewLink(link.clone()))), Update::Device(9, "wan-host".into(), false));
    assert_eq!(only(&octets(RouteNetlinkMessage::DelLink(link))), Update::DeviceGone(9));
    // The library has no next hop objects.
    let object = |kind: u16, family: u8, attributes: &[(u16, &[u8])]| {
        let mut body = vec![family, 0, 0, 0, 0, 0, 0, 0];
        for (kind, value) in attributes {
            body.extend((4 + value.len() as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(body);
        message
    };
    let id = 12u32.to_ne_bytes();
    let single = object(104, V4, &[(1, &id), (5, &7u32.to_ne_bytes()), (6, &[192, 0, 2, 1])]);
    assert_eq!(only(&single), Update::Nexthop(12, Nexthop::Path(path(7, Some("192.0.2.1"), 1))));
    let members = [1, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0];
    let group = object(104, 0, &[(1, &id), (2, &members)]);
    assert_eq!(only(&group), Update::Nexthop(12, Nexthop::Group(vec![(1, 5), (2, 257)])));
    assert_eq!(only(&object(104, V6, &[(1, &id), (4, &[])])), Update::Nexthop(12, Nexthop::Blackhole));
    assert_eq!(only(&object(105, 0, &[(1, &id)])), Update::NexthopGone(12));
    let defects = [
        object(104, 0, &[(1, &id), (2, &members[..12])]),
        object(104, V4, &[(5, &id)]),
        object(104, V4, &[(1, &id), (6, &[0; 16])]),
    ];
    for defect in defects {
        assert!(updates(&defect).next().unwrap().is_err());
    }
}

#[test]
fn a_defect_hides_its_message_alone() {
    let good = octets(RouteNetlinkMessage::NewRoute(message(AddressFamily::Inet, 0, vec![RouteAttribute::Oif(1)])));
    let bad = octets(RouteNetlinkMessage::NewRoute(message(AddressFamily::Inet, 33, vec![])));
    let all: Vec<_> = updates(&[good.clone(), bad, good.clone()].concat()).map(|update| update.is_ok()).collect();
    assert_eq!(all, [true, false, true]);
    for length in [0u32, 15, 200, u32::MAX] {
        let mut wrong = good.clone();
        wrong[..4].copy_from_slice(&length.to_ne_bytes());
        let all: Vec<_> = updates(&[good.clone(), wrong, good.clone()].concat()).collect();
        assert_eq!(all.len(), 2, "{length}");
        assert_eq!(all[1].as_ref().unwrap_err().at, good.len());
    }
}

proptest! {
    /// Any octets come to an end, and a changed message stays within its own octets.
    #[test]
    fn any_datagram_comes_to_its_end(datagram in vec(any::<u8>(), 0..200)) {
        prop_assert!(updates(&datagram).count() <= datagram.len() / HEADER + 1);
    }

    #[test]
    fn a_message_that_lies_is_read_or_refused(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let hop = RouteNextHop::default();
        let attributes = vec![RouteAttribute::Oif(3), RouteAttribute::MultiPath(vec![hop.clone(), hop])];
        let mut datagram = octets(RouteNetlinkMessage::NewRoute(message(AddressFamily::Inet6, 0, attributes)));
        for (place, octet) in changes {
            let place = place.index(datagram.len());
            datagram[place] = octet;
        }
        prop_assert!(updates(&datagram).count() <= datagram.len() / HEADER + 1);
    }
}
