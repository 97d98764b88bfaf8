//! Access lists between a bridge and a routed network: the list is on a port of the bridge or on the gateway's own station, packets
//! go either way, in both families, plain, behind extension headers and in fragments, with a denial and with sessions.

use crate::kit::*;
use weir_packet::wire::MacAddress;
use weir_plane::harness::Verdict;
use weir_plane::reason::Reason;

const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0xcc, 2]);

/// The way of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From a station of the bridge to a host behind `wan`.
    Routed,
    /// From there to the station.
    Bridged,
}

impl Way {
    fn back(self) -> Way {
        if self == Way::Routed { Way::Bridged } else { Way::Routed }
    }
}

/// The form of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    /// Behind extension headers of IPv6.
    Extended,
    Fragments,
}

/// The families with the forms that each has.
const FORMS: [(bool, Form); 5] = [
    (true, Form::Plain),
    (false, Form::Plain),
    (false, Form::Extended),
    (true, Form::Fragments),
    (false, Form::Fragments),
];

fn build() -> Build {
    Build::new()
        .port("a", &[])
        .port("b", &[])
        .port("wan", &["192.0.2.1/24", "2001:db8:b::1/64"])
        .neighbor("wan", "192.0.2.2", mac(2))
        .neighbor("wan", "2001:db8:b::2", mac(2))
        .via("0.0.0.0/0", &["wan 192.0.2.2"])
        .via("::/0", &["wan 2001:db8:b::2"])
        .bridge(&["a", "b"])
        .own_station("gw", &["10.0.0.1/24", "2001:db8:a::1/64"])
        .neighbor("gw", "10.0.0.2", STATION)
        .neighbor("gw", "2001:db8:a::2", STATION)
}

/// A packet: the transport protocol with the words of both its ends, and of its options.
#[derive(Clone, Copy)]
struct Text<'t> {
    protocol: &'t str,
    ports: [&'t str; 2],
    options: &'t str,
}

/// Returns the frames of a packet.
fn frames(rig: &Rig, way: Way, (v4, form): (bool, Form), text: Text<'_>) -> Vec<Vec<u8>> {
    let station = if v4 { "10.0.0.2" } else { "2001:db8:a::2" };
    let host = if v4 { "198.51.100.9" } else { "2001:db8:ffff::9" };
    let (into, from, to) = if way == Way::Routed { ("gw", station, host) } else { ("wan", host, station) };
    let Text { protocol, ports: [source, destination], options } = text;
    let made = |ports: [&str; 2], options: &str| {
        let text = format!("{protocol} from {from}{} to {to}{}{options}", ports[0], ports[1]);
        let mut frame = rig.frame(into, &text);
        if way == Way::Routed {
            frame[6..12].copy_from_slice(&STATION.0);
        }
        frame
    };
    let whole = [source, destination];
    match form {
        Form::Plain => vec![made(whole, options)],
        Form::Extended => {
            let next = if protocol == "udp" { 17 } else { 58 };
            let plain = made(whole, options);
            vec![with_extensions(&plain, 0, &[[60, 0, 1, 4, 0, 0, 0, 0], [next, 0, 1, 4, 0, 0, 0, 0]].concat())]
        }
        Form::Fragments => {
            vec![made(whole, &format!("{options} fragment 0+")), made(["", ""], " fragment 1480")]
        }
    }
}

/// Sends the frames of a packet, each in a vector of its own; all of them meet the same end.
#[track_caller]
fn send(rig: &mut Rig, way: Way, frames: &[Vec<u8>], denied: bool) {
    let (by, to) = if way == Way::Routed { ("b", "wan") } else { ("wan", "b") };
    for (frame, number) in frames.iter().zip(0..) {
        let passage = rig.put(by, frame);
        let out: Vec<&str> = passage.out.iter().map(|(port, _)| port.as_str()).collect();
        let verdict = passage.outcome.verdict;
        match (denied, number) {
            (false, _) => assert_eq!(out, [to], "{verdict:?}"),
            (true, 0) => assert_eq!((verdict, out.len()), (Verdict::Drop(Reason::AclDeny), 0)),
            (true, _) => assert_eq!(out.len(), 0, "{verdict:?}"),
        }
    }
}

/// A gateway with a list at a place in the direction in which packets of a way pass it.
fn with_list(build: Build, place: &str, way: Way, list: &str) -> Build {
    if way == Way::Routed { build.acl_in(place, &[list]) } else { build.acl_out(place, &[list]) }
}

/// Stations are known once they have sent; their ARP is not held to lists.
fn introduce(rig: &mut Rig) {
    let hello = [&[0xff; 6][..], &STATION.0, &[0x88, 0xb5], &[0; 46]].concat();
    rig.put("b", &hello);
}

#[test]
fn a_denial_holds_each_way_on_a_port_and_on_the_station() {
    for place in ["b", "gw"] {
        for way in [Way::Routed, Way::Bridged] {
            for form in FORMS {
                let build = build().acl("edge", &["deny udp port 53", "permit any"]);
                let mut rig = with_list(build, place, way, "edge").rig();
                introduce(&mut rig);
                for (port, denied) in [(" port 53", true), (" port 54", false)] {
                    let text = Text { protocol: "udp", ports: [" port 9", port], options: "" };
                    // Fragments of another packet do not have the identification of these.
                    let mut parts = frames(&rig, way, form, text);
                    identify(&mut parts, form, u8::from(denied));
                    send(&mut rig, way, &parts, denied);
                }
                assert!(rig.acl_hits("edge")[0] > 0, "{place} {way:?} {form:?}");
            }
        }
    }
}

/// Gives fragments an identification of their own.
fn identify(frames: &mut [Vec<u8>], (v4, form): (bool, Form), number: u8) {
    if form != Form::Fragments {
        return;
    }
    for frame in frames {
        if v4 {
            frame[19] = number;
            mend(frame);
        } else {
            frame[14 + 47] = number;
        }
    }
}

#[test]
fn replies_pass_by_sessions_each_way_on_a_port_and_on_the_station() {
    for place in ["b", "gw"] {
        for way in [Way::Routed, Way::Bridged] {
            for form in FORMS {
                for is_icmp in [false, true] {
                    let icmp = if form.0 { "icmp" } else { "icmp6" };
                    let [question, answer] = match is_icmp {
                        false => [[" port 9", " port 53"], [" port 53", " port 9"]].map(|ports| Text {
                            protocol: "udp",
                            ports,
                            options: "",
                        }),
                        true => [" type echo-request id 7", " type echo-reply id 7"].map(|options| Text {
                            protocol: icmp,
                            ports: ["", ""],
                            options,
                        }),
                    };
                    let open = if is_icmp {
                        format!("permit+reflect {icmp}")
                    } else {
                        "permit+reflect udp port 53".to_owned()
                    };
                    let build = build().acl("open", &[&open]).acl("none", &["deny any"]);
                    let build = with_list(with_list(build, place, way, "open"), place, way.back(), "none");
                    let mut rig = build.rig();
                    introduce(&mut rig);
                    let replies = |number: u8| {
                        let mut parts = frames(&rig, way.back(), form, answer);
                        identify(&mut parts, form, number);
                        parts
                    };
                    let (early, late) = (replies(1), replies(2));
                    let requests = frames(&rig, way, form, question);
                    send(&mut rig, way.back(), &early, true);
                    send(&mut rig, way, &requests, false);
                    send(&mut rig, way.back(), &late, false);
                }
            }
        }
    }
}
