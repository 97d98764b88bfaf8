//! Packets that are refused at the entrance (RFC 1812, 5.2.2 and 5.3; RFC 8200), reason by reason, and the sources that
//! get an error.

use crate::kit::*;
use weir_plane::reason::Reason;

const UDP4: &str = "udp from 10.0.0.2 port 1000 to 198.51.100.9 port 53";
const UDP6: &str = "udp from 2001:db8:a::2 port 1000 to 2001:db8:ffff::9 port 53";

/// A frame with one change, its IPv4 header checksum right.
fn changed(rig: &Rig, text: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = rig.frame("lan", text);
    change(&mut frame);
    frame
}

#[test]
fn broken_ethernet() {
    let mut rig = two_ports().rig();
    let whole = rig.frame("lan", UDP4);
    for length in 1..14 {
        rig.drops_frame("lan", &whole[..length], Reason::TruncatedEthernet);
    }
    let tagged = rig.frame("lan", &format!("{UDP4} vlan 7"));
    (14..18).for_each(|length| rig.drops_frame("lan", &tagged[..length], Reason::TruncatedEthernet));
    rig.drops("lan", &format!("{UDP4} mac-to 02:00:00:00:00:99"), Reason::NotOurMac);
    rig.drops("lan", &format!("{UDP6} mac-to 02:00:00:00:00:99"), Reason::NotOurMac);
    for ethertype in [0x0801u16, 0x88cc, 0x05dc, 0, 0xffff] {
        let frame = changed(&rig, UDP4, |frame| frame[12..14].copy_from_slice(&ethertype.to_be_bytes()));
        rig.drops_frame("lan", &frame, Reason::UnhandledEthertype);
    }
}

#[test]
fn broken_ipv4_headers() {
    let mut rig = two_ports().rig();
    let whole = rig.frame("lan", UDP4);
    (14..34).for_each(|length| rig.drops_frame("lan", &whole[..length], Reason::TruncatedIpv4));
    let optional = with_options(&whole, &[1; 8]);
    (34..42).for_each(|length| rig.drops_frame("lan", &optional[..length], Reason::TruncatedIpv4));
    for version in [0u8, 3, 5, 6, 15] {
        let frame = changed(&rig, UDP4, |frame| {
            frame[14] = version << 4 | 5;
            mend(frame);
        });
        rig.drops_frame("lan", &frame, Reason::BadVersion);
    }
    (0..5).for_each(|ihl| {
        let frame = changed(&rig, UDP4, |frame| frame[14] = 0x40 | ihl);
        rig.drops_frame("lan", &frame, Reason::BadIhl);
    });
    for total in [0u16, 19, 29, 1500, 65_535] {
        let frame = changed(&rig, UDP4, |frame| {
            frame[16..18].copy_from_slice(&total.to_be_bytes());
            mend(frame);
        });
        rig.drops_frame("lan", &frame, Reason::BadTotalLength);
    }
    for octet in 14..34 {
        let frame = changed(&rig, UDP4, |frame| frame[octet] ^= 4);
        let reason = if octet == 14 { Reason::BadIhl } else { Reason::BadChecksum };
        rig.drops_frame("lan", &frame, reason);
    }
}

#[test]
fn broken_ipv6_headers() {
    let mut rig = two_ports().rig();
    let whole = rig.frame("lan", UDP6);
    (14..54).for_each(|length| rig.drops_frame("lan", &whole[..length], Reason::TruncatedIpv6));
    (54..62).for_each(|length| rig.drops_frame("lan", &whole[..length], Reason::BadPayloadLength));
    for version in [0u8, 4, 5, 7] {
        let frame = changed(&rig, UDP6, |frame| frame[14] = version << 4);
        rig.drops_frame("lan", &frame, Reason::BadVersion);
    }
    let jumbo = changed(&rig, UDP6, |frame| {
        frame[18..20].fill(0);
        frame[20] = 0;
    });
    rig.drops_frame("lan", &jumbo, Reason::Jumbogram);
}

#[test]
fn extension_headers() {
    let mut rig = two_ports().rig();
    let plain = rig.frame("lan", UDP6);
    let (hop, routing, destination, udp) = (0u8, 43u8, 60u8, 17u8);
    let pad = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    // What is in order passes, whatever it is: extension headers are the destination's business.
    rig.forwards_frame("lan", &with_extensions(&plain, hop, &pad(udp)));
    rig.forwards_frame("lan", &with_extensions(&plain, destination, &pad(udp)));
    rig.forwards_frame("lan", &with_extensions(&plain, hop, &[pad(routing), pad(destination), pad(udp)].concat()));
    let eight = [vec![pad(destination); 7], vec![pad(udp)]].concat().concat();
    rig.forwards_frame("lan", &with_extensions(&plain, destination, &eight));
    rig.forwards("lan", "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2 fragment 0+");
    rig.forwards("lan", "udp from 2001:db8:a::2 to 2001:db8:ffff::9 fragment 1480");

    // Nine are too many (RFC 8883): the pointer is to the ninth.
    let nine = [vec![pad(destination); 8], vec![pad(udp)]].concat().concat();
    rig.told_frame("lan", &with_extensions(&plain, destination, &nine), Reason::TooManyExtensionHeaders).assert_icmp(
        "2001:db8:a::1",
        4,
        8,
        40 + 64,
    );
    // Hop-by-hop options that do not come first: the pointer is to the octet that names them.
    let late = [pad(hop), pad(udp)].concat();
    rig.told_frame("lan", &with_extensions(&plain, destination, &late), Reason::MisplacedHopByHop).assert_icmp(
        "2001:db8:a::1",
        4,
        1,
        40,
    );
    // A header that runs past the end.
    let mut long = with_extensions(&plain, destination, &pad(udp));
    long[14 + 41] = 9;
    rig.told_frame("lan", &long, Reason::TruncatedExtensionHeader).assert_icmp("2001:db8:a::1", 4, 0, 41);
    // A first fragment whose chain goes on in the next one (RFC 7112).
    let chain = [[destination, 0, 0, 1, 0, 0, 0, 1], [udp, 9, 1, 4, 0, 0, 0, 0]].concat();
    rig.told_frame("lan", &with_extensions(&plain, 44, &chain), Reason::TruncatedExtensionHeader).assert_icmp(
        "2001:db8:a::1",
        4,
        3,
        0,
    );
    // Never towards a source that is none, or about a packet to a group.
    let mut group = with_extensions(&plain, destination, &late);
    group[14 + 24] = 0xff;
    rig.drops_frame("lan", &group, Reason::MisplacedHopByHop);
    let mut nobody = with_extensions(&plain, destination, &late);
    nobody[14 + 8..14 + 24].fill(0);
    rig.drops_frame("lan", &nobody, Reason::MisplacedHopByHop);
    let mut everybody = with_extensions(&plain, destination, &late);
    everybody[..6].fill(0xff);
    rig.drops_frame("lan", &everybody, Reason::MisplacedHopByHop);
}

#[test]
fn martians() {
    let mut rig = two_ports().rig();
    for source in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.255", "224.0.0.1", "239.9.9.9", "240.0.0.1"] {
        rig.drops("lan", &format!("udp from {source} port 1 to 198.51.100.9 port 2"), Reason::MartianSource);
    }
    rig.drops("lan", "udp from 255.255.255.255 port 1 to 198.51.100.9 port 2", Reason::MartianSource);
    for destination in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.255", "240.0.0.1", "255.255.255.254"] {
        rig.drops("lan", &format!("udp from 10.0.0.2 port 1 to {destination} port 2"), Reason::MartianDestination);
    }
    for source in ["::", "::1", "::ffff:10.0.0.1", "ff02::1", "ff0e::1"] {
        rig.drops("lan", &format!("udp from {source} port 1 to 2001:db8:ffff::9 port 2"), Reason::MartianSource);
    }
    for destination in ["::", "::1", "::ffff:10.0.0.1"] {
        rig.drops("lan", &format!("udp from 2001:db8:a::2 port 1 to {destination} port 2"), Reason::MartianDestination);
    }
    // Odd, but addresses of hosts.
    rig.forwards("lan", "udp from 223.255.255.255 port 1 to 126.255.255.255 port 2");
    rig.forwards("lan", "udp from ::2 port 1 to 64:ff9b::1 port 2");
}

#[test]
fn groups() {
    let mut rig = two_ports().rig();
    for (to, reason) in [("255.255.255.255", Reason::Broadcast), ("224.0.0.1", Reason::Multicast)] {
        for mac_to in ["", " mac-to ff:ff:ff:ff:ff:ff", " mac-to 01:00:5e:00:00:01"] {
            rig.drops("lan", &format!("udp from 10.0.0.2 port 1 to {to} port 2{mac_to}"), reason);
        }
    }
    for to in ["ff02::1", "ff05::2", "ff0e::1"] {
        rig.drops("lan", &format!("udp from 2001:db8:a::2 port 1 to {to} port 2"), Reason::Multicast);
        let text = format!("udp from fe80::9 port 1 to {to} port 2 mac-to 33:33:00:00:00:01");
        rig.drops("lan", &text, Reason::Multicast);
    }
    for mac_to in ["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "33:33:00:00:00:01"] {
        for text in
            [UDP4, UDP6, "icmp from 10.0.0.2 to 10.0.0.1", "udp from 10.0.0.2 port 1 to 203.0.113.1 port 1 ttl 1"]
        {
            rig.drops("lan", &format!("{text} mac-to {mac_to}"), Reason::LinkLayerBroadcast);
        }
    }
}

#[test]
fn link_local_addresses_stay_on_their_link() {
    let mut rig = two_ports().neighbor("lan", "fe80::77", mac(7)).rig();
    // To another station on the link, or on any other: without an error.
    rig.drops("lan", "udp from 2001:db8:a::2 port 1 to fe80::77 port 2", Reason::LinkLocal);
    rig.drops("lan", "udp from fe80::77 port 1 to fe80::78 port 2", Reason::LinkLocal);
    // To an address of ours on another link.
    rig.drops("lan", "icmp6 from fe80::77 to fe80::2", Reason::LinkLocal);
    // From a link-local address to a destination off the link: the source gets an error from the gateway's address on
    // that link.
    rig.told("lan", "udp from fe80::77 port 1 to 2001:db8:ffff::1 port 2", Reason::LinkLocal)
        .assert_icmp("fe80::1", 1, 2, 0);
}

#[test]
fn options() {
    let mut rig = two_ports().rig();
    let plain = rig.frame("lan", UDP4);
    let option = |bytes: &[u8]| with_options(&plain, bytes);
    // Record route, timestamp, router alert, no-operation, end: all pass as they are.
    rig.forwards_frame("lan", &option(&[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0]));
    rig.forwards_frame("lan", &option(&[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    rig.forwards_frame("lan", &option(&[148, 4, 0, 0]));
    rig.forwards_frame("lan", &option(&[1, 1, 1, 0]));
    rig.forwards_frame("lan", &option(&[1; 40]));
    rig.forwards_frame("lan", &option(&[0, 9, 9, 9])); // whatever follows the end
    rig.drops_frame("lan", &option(&[131, 7, 4, 10, 0, 0, 1]), Reason::SourceRoute);
    rig.drops_frame("lan", &option(&[1, 137, 7, 4, 10, 0, 0, 1]), Reason::SourceRoute);
    for (octets, pointer) in [
        (&[7u8, 0, 0, 0][..], 21u32),      // less than the least
        (&[7, 1, 0, 0], 21),               // less than itself
        (&[7, 40, 4, 0], 21),              // beyond the header
        (&[1, 1, 68, 9], 23),              // the same, further on
        (&[1, 148, 4, 0, 0, 1, 1, 7], 28), // none at all: one past the header
    ] {
        let frame = option(octets);
        rig.told_frame("lan", &frame, Reason::BadOptions).assert_icmp("10.0.0.1", 12, 0, pointer << 24);
    }
    assert_eq!(rig.harness.drops(Reason::BadOptions), 5);
    // To us they are a problem, too.
    let echo = rig.frame("lan", "icmp from 10.0.0.2 to 10.0.0.1");
    rig.told_frame("lan", &with_options(&echo, &[7, 0]), Reason::BadOptions);
    rig.drops_frame("lan", &with_options(&echo, &[1]), Reason::LocalUnhandled);
    // What went to all of a link is not answered, whatever it was refused for.
    let all = rig.frame("lan", "udp from 198.51.100.9 port 1 to 10.0.0.255 port 2");
    rig.drops_frame("lan", &with_options(&all, &[7, 0]), Reason::BadOptions);
}

#[test]
fn ipv4_link_local_stays_on_its_link() {
    // RFC 3927, 2.7.
    let mut rig = two_ports().port("zero", &["169.254.3.1/16"]).neighbor("zero", "169.254.3.2", mac(3)).rig();
    rig.drops("lan", "udp from 169.254.1.1 port 1 to 198.51.100.9 port 2", Reason::LinkLocal);
    rig.drops("lan", "udp from 10.0.0.2 port 1 to 169.254.1.1 port 2", Reason::LinkLocal);
    rig.drops("lan", "udp from 10.0.0.2 port 1 to 169.254.3.2 port 2", Reason::LinkLocal);
    rig.drops("zero", "udp from 169.254.3.2 port 1 to 198.51.100.9 port 2", Reason::LinkLocal);
    // What is for us is not forwarded; its neighbours in the address space are ordinary.
    assert_eq!(rig.answers("zero", "icmp from 169.254.3.2 to 169.254.3.1").to, mac(3));
    rig.forwards("lan", "udp from 10.0.0.2 port 1 to 169.253.255.255 port 2");
    rig.forwards("lan", "udp from 169.255.0.0 port 1 to 198.51.100.9 port 2");
}
