//! A bridge beside the links, whose own station routes: its ports have lists, tables and bindings, some of them learned.

use std::net::{IpAddr, Ipv4Addr};

use weir_base::random::Random;
use weir_packet::checksum;
use weir_packet::offload::Offload;
use weir_packet::wire::MacAddress;
use weir_packet::wire::arp::{Fields as Arp, Operation};
use weir_packet::wire::dhcp::{CLIENT, Kind, Message, SERVER};
use weir_packet::wire::ethernet::ethertype;
use weir_plane::model::{
    Bindings, BindingsIndex, Bridge, BridgeIndex, BridgePort, BridgeStation, Floods, Gateway, Interface,
    InterfaceIndex, InterfaceKind, Learn, Neighbor, Origin, RateLimit, RatePer, RateUnit,
};

use crate::gateway::{Links, PORTS, between, host, pick, remote};
use crate::kit::link::{ALL, framed};
use crate::kit::{Build, frame, mac, own_mac};
use crate::traffic::{From, Input};

/// Ports of the bridge. Its own station comes behind them.
const COUNT: usize = 3;
/// The network of its stations, as the number of a link that is none.
const NETWORK: usize = 60;
/// Stations have numbers from 2 to this one.
const LAST: u64 = 12;

fn station(number: u8) -> MacAddress {
    mac(150 + number)
}

/// The hardware address of the gateway's own station.
fn own(links: &Links) -> MacAddress {
    own_mac(links.count + COUNT)
}

/// Adds the bridge behind the links, with policies that links have.
pub fn bridges(random: &mut Random, links: &Links, build: &mut Build) {
    if !links.bridged {
        return;
    }
    let model = &mut build.0;
    for port in 0..COUNT {
        let like = &model.interfaces[random.below(links.count as u64) as usize];
        let access = if random.chance(0.6) { like.access.clone() } else { Default::default() };
        let sav = if random.chance(0.2) { like.sav } else { Default::default() };
        let index = model.interfaces.len();
        let interface = Interface {
            name: format!("port{port}"),
            kind: model.interfaces[0].kind.clone(),
            mac: Some(own_mac(index)),
            mtu: 9000,
            addresses: Vec::new(),
            access,
            sav,
            ..plain(model)
        };
        model.interfaces.push(interface);
    }
    let like = model.interfaces[random.below(links.count as u64) as usize].clone();
    let nets = [format!("{}/24", host(NETWORK, false, 1)), format!("{}/64", host(NETWORK, true, 1))];
    let bare = Build::new().port("own", &[&nets[0], &nets[1], "fe80::77/64"]);
    let addresses = bare.0.interfaces[0].addresses.clone();
    let first = model.interfaces.len() - COUNT;
    let interface = Interface {
        name: "own".into(),
        kind: InterfaceKind::Bridge(BridgeIndex(0)),
        mac: Some(own(links)),
        addresses,
        punt: None,
        nat: None,
        vrf: model.interfaces[0].vrf,
        zone: None,
        ..like
    };
    model.interfaces.push(interface);
    let index = |port: usize| InterfaceIndex((first + port) as u32);
    let mut bridge = Bridge::new("br", Origin::default());
    let groups = pick(random, &[[None; COUNT], [None; COUNT], [Some(1), Some(1), None]]);
    let port = |(at, group)| BridgePort { interface: index(at), group, origin: Origin::default() };
    bridge.ports = groups.into_iter().enumerate().map(port).collect();
    bridge.ageing = pick(random, &[0, 1, 300]);
    bridge.macs = pick(random, &[4, 1000]);
    bridge.learns = random.chance(0.9);
    bridge.floods = Floods { unknown: random.chance(0.8), ..Floods::ALL };
    let mut limit = |share: f64| {
        let rate = RateLimit { unit: RateUnit::Packets, rate: 50, burst: 20, per: RatePer::Interface };
        random.chance(share).then_some(rate)
    };
    (bridge.storm_limit, bridge.move_limit) = (limit(0.3), limit(0.3));
    if random.chance(0.3) {
        let known = BridgeStation { mac: station(2), interface: index(2), origin: Origin::default() };
        bridge.stations.push(known);
    }
    model.bridges.push(bridge);
    for number in 2..=LAST as u8 {
        for v6 in [false, true] {
            let (address, interface) = (host(NETWORK, v6, number), index(COUNT));
            let known = Neighbor { interface, address, mac: station(number), origin: Origin::default() };
            if random.chance(0.9) {
                model.neighbors.push(known);
            }
        }
    }
    learn(random, first, build);
}

/// An interface without addresses and policies.
fn plain(model: &Gateway) -> Interface {
    let bare = Build::new().port("bare", &[]);
    Interface { vrf: model.interfaces[0].vrf, ..bare.0.interfaces[0].clone() }
}

/// Has bindings of some ports learned from DHCP, whose servers are at the last port.
fn learn(random: &mut Random, first: usize, build: &mut Build) {
    if random.chance(0.6) {
        return;
    }
    let number = build.0.bindings.len() as u16;
    let mut rules = vec!["deny 02:00:00:00:00:66 from any".to_owned()];
    for number in 2..=LAST as u8 {
        if random.chance(0.6) {
            rules.push(format!("permit {} from {}/32", station(number), host(NETWORK, false, number)));
        }
    }
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    *build = build.clone().bindings("learned", &rules);
    let own: &mut Bindings = &mut build.0.bindings[usize::from(number)];
    own.learn = Some(Learn { limit: pick(random, &[2, 100]), ..Learn::DHCP });
    for port in 0..COUNT - 1 {
        if random.chance(0.7) {
            build.0.interfaces[first + port].access.bindings = Some(BindingsIndex(number));
        }
    }
    build.0.interfaces[first + COUNT - 1].access.dhcp_trusted = true;
}

/// Adds frames of the bridge, and packets between its stations and those of links, to those of a vector.
pub fn add(random: &mut Random, links: &Links, inputs: &mut Vec<Input>, most: usize) {
    if !links.bridged {
        return;
    }
    let first = inputs.iter().take_while(|input| matches!(input.from, From::Tunnel(_))).count();
    for _ in 0..random.below(24) {
        if inputs.len() >= most {
            return;
        }
        let at = between(random, first as u64, inputs.len() as u64) as usize;
        inputs.insert(at, one(random, links));
    }
}

fn one(random: &mut Random, links: &Links) -> Input {
    let number = between(random, 2, LAST) as u8;
    // A station moves now and then.
    let port = if random.chance(0.03) { random.below(COUNT as u64) as usize } else { usize::from(number) % COUNT };
    let (mut port, v6) = (links.count + port, random.chance(0.4));
    let name = match random.below(10) {
        0..=3 => "udp",
        4..=7 => "tcp",
        _ if v6 => "icmp6",
        _ => "icmp",
    };
    let near = host(NETWORK, v6, number);
    let link = random.below(links.count as u64) as usize;
    let far = if random.chance(0.5) { host(link, v6, between(random, 2, 6) as u8) } else { remote(link, v6, 3) };
    let other = between(random, 2, LAST) as u8;
    let text = |random: &mut Random, from: IpAddr, to: IpAddr| match name {
        "icmp" | "icmp6" => format!("{name} from {from} to {to} id 3 length 100"),
        _ => {
            let ports = [(); 2].map(|()| pick(random, &PORTS));
            let flags = if name == "tcp" { " flags ack" } else { "" };
            format!("{name} from {from} port {} to {to} port {}{flags} length 100", ports[0], ports[1])
        }
    };
    let frame = match random.below(12) {
        0..=3 => named(&text(random, near, host(NETWORK, v6, other)), station(number), station(other)),
        4..=6 => named(&text(random, near, far), station(number), own(links)),
        7 | 8 => {
            let home = links.home(link);
            let tags;
            (port, tags) = links.port(home);
            let text = format!("{}{tags}", text(random, remote(link, v6, 3), near));
            named(&text, crate::gateway::station(home, 2), links.mac(home))
        }
        9 => dhcp(random, number, &mut port, links),
        10 => {
            let (IpAddr::V4(sender), IpAddr::V4(target)) = (host(NETWORK, false, number), host(NETWORK, false, other))
            else {
                unreachable!("two addresses of IPv4")
            };
            let (operation, sender_mac) = (Operation::Request, station(number));
            let fields = Arp { operation, sender_mac, sender, target_mac: MacAddress::ZERO, target };
            by(framed(ALL, &[], ethertype::ARP, &fields.emit()), station(number))
        }
        _ => by(framed(pick(random, &[ALL, station(other)]), &[], 0x88b5, &[number; 46]), station(number)),
    };
    Input { port, from: From::Link, frame, offload: Offload::default(), eligible: false }
}

/// A packet in words, from a station to another.
fn named(text: &str, from: MacAddress, to: MacAddress) -> Vec<u8> {
    frame(&format!("{text} mac-from {from}"), to)
}

fn by(mut frame: Vec<u8>, from: MacAddress) -> Vec<u8> {
    frame[6..12].copy_from_slice(&from.0);
    frame
}

/// A request of a station, or the answer of a server, which is at any port now and then.
fn dhcp(random: &mut Random, number: u8, port: &mut usize, links: &Links) -> Vec<u8> {
    let IpAddr::V4(given) = host(NETWORK, false, number) else { unreachable!("an address of IPv4") };
    let answers = random.chance(0.5);
    let message = Message {
        reply: answers,
        kind: if answers { Kind::ACK } else { Kind::REQUEST },
        transaction: number.into(),
        client: station(number),
        own: Ipv4Addr::UNSPECIFIED,
        given: if answers { given } else { Ipv4Addr::UNSPECIFIED },
        relay: Ipv4Addr::UNSPECIFIED,
        requested: None,
        lease: answers.then_some(60),
    };
    let [source, target] = match answers {
        true => [Ipv4Addr::new(10, NETWORK as u8, 0, 14), given],
        false => [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST],
    };
    if answers && random.chance(0.8) {
        *port = links.count + COUNT - 1;
    }
    let (payload, ports) = (message.emit(), if answers { [SERVER, CLIENT] } else { [CLIENT, SERVER] });
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet[2..4].copy_from_slice(&((20 + 8 + payload.len()) as u16).to_be_bytes());
    packet.extend([source.octets(), target.octets()].concat());
    let sum = checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    ports.iter().for_each(|port| packet.extend(port.to_be_bytes()));
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    let to = if answers { station(number) } else { ALL };
    by(framed(to, &[], ethertype::IPV4, &packet), if answers { station(14) } else { station(number) })
}

/// Adds packets that carry others, and frames without IP, which steer rules look at.
pub fn carried(random: &mut Random, links: &Links, inputs: &mut Vec<Input>, most: usize) {
    let first = inputs.iter().take_while(|input| matches!(input.from, From::Tunnel(_))).count();
    for _ in 0..random.below(6) {
        if inputs.len() >= most {
            return;
        }
        let at = between(random, first as u64, inputs.len() as u64) as usize;
        inputs.insert(at, outer(random, links));
    }
}

fn outer(random: &mut Random, links: &Links) -> Input {
    let link = random.below(links.count as u64) as usize;
    let (port, tags) = links.port(link);
    let (from, v6) = (crate::gateway::station(link, 3), random.chance(0.4));
    if random.chance(0.2) {
        let tags: &[(u16, u16)] = if tags == " vlan 5" { &[(0x8100, 5)] } else { &[] };
        let frame = by(framed(links.mac(link), tags, pick(random, &[0x88b5, 0x88cc]), &[7; 46]), from);
        return Input { port, from: From::Link, frame, offload: Offload::default(), eligible: false };
    }
    let inside_v6 = random.chance(0.4);
    let inside = format!(
        "{} from {} port {} to {} port {} length 100",
        pick(random, &["udp", "tcp"]),
        host(link, inside_v6, 4),
        pick(random, &PORTS),
        remote(random.below(3) as usize, inside_v6, 3),
        pick(random, &PORTS),
    );
    let mut inside = frame(&inside, station(9));
    let (source, target) = (host(link, v6, 3), remote(random.below(8) as usize, v6, 3));
    let (words, mut header) = match random.below(3) {
        0 => {
            let vni = random.below(3) as u8;
            (format!("udp from {source} port 7 to {target} port 4789"), vec![8, 0, 0, 0, 0, 0, vni, 0])
        }
        1 => {
            let inside_length = (inside.len() - 14) as u16;
            let mut gtp = vec![0x30, 0xff];
            gtp.extend(inside_length.to_be_bytes());
            gtp.extend([0, 0, 0, random.below(3) as u8]);
            inside.drain(..14);
            (format!("udp from {source} port 2152 to {target} port 2152"), gtp)
        }
        _ => {
            inside.drain(..14);
            (format!("{} from {source} to {target}", if inside_v6 { 41 } else { 4 }), Vec::new())
        }
    };
    header.extend(inside);
    let least = if v6 { 40 } else { 20 } + if words.starts_with("udp") { 8 } else { 0 };
    let mut frame = named(&format!("{words} length {}{tags}", least + header.len()), from, links.mac(link));
    let start = frame.len() - header.len();
    frame[start..].copy_from_slice(&header);
    Input { port, from: From::Link, frame, offload: Offload::default(), eligible: false }
}
