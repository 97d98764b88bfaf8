//! Ethertypes that interfaces let in and out.

use crate::kit::link::*;
use crate::kit::*;
use weir_plane::harness::{Outcome, Verdict};
use weir_plane::reason::Reason;

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const LLDP: u16 = 0x88cc;

const REFUSED: Reason = Reason::AclEthertype;

const V4: &str = "udp from 10.0.0.2 port 1 to 198.51.100.9 port 2";
const V6: &str = "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2";

fn of_type(rig: &Rig, ethertype: u16) -> Vec<u8> {
    let mut frame = rig.frame("lan", V4);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}

fn arp_request() -> Vec<u8> {
    arp(ALL, &[], request("10.0.0.9", "10.0.0.1"))
}

fn refused(rig: &Rig) -> Vec<(String, &'static str, u64)> {
    rig.harness.ethertypes().into_iter().map(|row| (row.interface, row.direction, row.refused)).collect()
}

#[test]
fn by_default_all_may_come() {
    let mut rig = two_ports().rig();
    rig.forwards("lan", V4);
    rig.forwards("lan", V6);
    let lldp = of_type(&rig, LLDP);
    rig.drops_frame("lan", &lldp, Reason::UnhandledEthertype);
    assert_eq!(rig.put("lan", &arp_request()).outcome.verdict, Verdict::Local);
    assert!(rig.harness.ethertypes().is_empty());
}

#[test]
fn what_is_not_listed_is_blocked_until_the_list_goes() {
    let mut rig = two_ports().ethertypes("lan", Some(&[IPV4, ARP]), None).rig();
    rig.forwards("lan", V4);
    rig.drops("lan", V6, REFUSED);
    let lldp = of_type(&rig, LLDP);
    rig.drops_frame("lan", &lldp, REFUSED);
    assert_eq!(rig.put("lan", &arp_request()).outcome.verdict, Verdict::Local);
    assert_eq!(refused(&rig), [("lan".to_owned(), "in", 2)]);
    // The other interface has no list.
    rig.forwards("wan", "udp from 2001:db8:b::2 port 1 to 2001:db8:a::2 port 2");

    rig.reload(two_ports().ethertypes("lan", Some(&[IPV6]), None));
    rig.drops("lan", V4, REFUSED);
    rig.forwards("lan", V6);
    rig.drops_frame("lan", &arp_request(), REFUSED);

    rig.reload(two_ports());
    rig.forwards("lan", V4);
    rig.forwards("lan", V6);
    rig.drops_frame("lan", &lldp, Reason::UnhandledEthertype);
    // What was refused stays counted.
    assert_eq!(refused(&rig), [("lan".to_owned(), "in", 4)]);
    assert_eq!(rig.harness.ethertypes()[0].ethertypes, None);
}

#[test]
fn lists_with_both_families_still_refuse_the_rest() {
    let mut rig = two_ports().ethertypes("lan", Some(&[IPV4, IPV6]), None).rig();
    rig.forwards("lan", V4);
    rig.forwards("lan", V6);
    rig.drops_frame("lan", &arp_request(), REFUSED);
    // An unusual frame for our own address, which is looked at as a whole.
    let mut arp = arp_request();
    arp[..6].copy_from_slice(&own_mac(0).0);
    rig.drops_frame("lan", &arp, REFUSED);
    // Before the destination address is compared.
    let mut strange = of_type(&rig, LLDP);
    strange[5] ^= 0x40;
    rig.drops_frame("lan", &strange, REFUSED);
    assert_eq!(refused(&rig)[0].2, 3);
}

#[test]
fn an_empty_list_lets_nothing_in() {
    let mut rig = two_ports().ethertypes("lan", Some(&[]), None).rig();
    rig.drops("lan", V4, REFUSED);
    rig.drops("lan", V6, REFUSED);
}

#[test]
fn behind_tags_the_inner_type_counts_on_the_interface_of_the_vlan() {
    let build = || {
        two_ports()
            .vlan("one", "lan", &[7], &["10.7.0.1/24"])
            .vlan("two", "lan", &[8, 9], &["10.8.0.1/24"])
            .ethertypes("lan", Some(&[ARP]), None)
            .ethertypes("two", Some(&[IPV4]), None)
    };
    let mut rig = build().rig();
    let text = |tags: &str, from: &str| format!("udp from {from} port 1 to 198.51.100.9 port 2 {tags}");
    // The parent's list does not apply to its VLANs.
    rig.forwards("one", &text("vlan 7", "10.7.0.2"));
    rig.forwards("two", &text("vlan 8 inner 9", "10.8.0.2"));
    rig.drops("lan", V4, REFUSED);
    rig.drops("two", "udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2 vlan 8 inner 9", REFUSED);
    // A tag that only says a priority is no VLAN.
    rig.drops("lan", &text("vlan 0", "10.0.0.2"), REFUSED);
}

#[test]
fn what_may_not_leave_is_dropped_at_the_port() {
    let mut rig = two_ports().ethertypes("wan", None, Some(&[IPV6, ARP])).rig();
    rig.drops("lan", V4, REFUSED);
    rig.forwards("lan", V6);
    rig.reload(two_ports().ethertypes("wan", None, Some(&[IPV4])));
    rig.forwards("lan", V4);
    rig.drops("lan", V6, REFUSED);
    assert_eq!(refused(&rig), [("wan".to_owned(), "out", 2)]);
    rig.reload(two_ports());
    rig.forwards("lan", V6);
}

#[test]
fn the_list_that_refuses_is_named() {
    let build = || two_ports().ethertypes("lan", Some(&[IPV4, IPV6]), None).ethertypes("wan", None, Some(&[IPV4]));
    let mut rig = build().rig();
    let place = |rig: &Rig, outcome: &Outcome| {
        let unlisted = outcome.unlisted.unwrap();
        let declared = rig.harness.place(unlisted.origin).unwrap().text.to_string();
        (rig.harness.interface_name(unlisted.interface), unlisted.output, declared)
    };
    let incoming = rig.put("lan", &arp_request()).outcome;
    assert_eq!(place(&rig, &incoming), ("lan".to_owned(), false, "in".to_owned()));
    let lldp = of_type(&rig, LLDP);
    let other = rig.put("lan", &lldp).outcome;
    assert_eq!(place(&rig, &other), ("lan".to_owned(), false, "in".to_owned()));
    let outgoing = rig.send("lan", V6).outcome;
    assert_eq!(place(&rig, &outgoing), ("wan".to_owned(), true, "out".to_owned()));
    assert_eq!(rig.send("lan", V4).outcome.unlisted, None);
    // An answer that may not leave gives no reason to its requester.
    let mut rig = two_ports().ethertypes("lan", None, Some(&[IPV6])).rig();
    assert_eq!(rig.put("lan", &arp_request()).outcome.unlisted, None);
}

#[test]
fn what_we_say_ourselves_is_asked_on_its_way_out() {
    let mut rig = two_ports().ethertypes("lan", None, Some(&[IPV4])).rig();
    // The question is for us; the answer may not leave.
    let asked = rig.put("lan", &arp_request());
    assert_eq!((asked.outcome.verdict, asked.out.len()), (Verdict::Local, 0));
    rig.answers("lan", "icmp from 10.0.0.2 to 10.0.0.1");
    let before = rig.harness.drops(REFUSED);
    assert_eq!(rig.put("lan", &ask(&[], "fe80::9", "2001:db8:a::1", Some(HOST))).out.len(), 0);
    assert_eq!(rig.harness.drops(REFUSED), before + 1);
}

#[test]
fn fragments_and_tagged_frames_are_asked_on_their_way_out() {
    let mut build = two_ports().vlan("far", "wan", &[8, 9], &["10.8.0.1/24"]);
    build.0.interfaces[2].mtu = 600;
    let build = build.neighbor("far", "10.8.0.2", mac(3)).ethertypes("far", None, Some(&[IPV4]));
    let text = "udp from 10.0.0.2 port 1 to 10.8.0.2 port 2 length 1200";
    let mut rig = build.clone().rig();
    assert_eq!(rig.send("lan", text).out.len(), 3);
    let mut rig = build.ethertypes("far", None, Some(&[IPV6])).rig();
    assert_eq!(rig.send("lan", text).out.len(), 0);
    assert_eq!(rig.harness.drops(REFUSED), 3);
}
