//! Fragmentation as RFC 791, 3.2 and RFC 8200, 4.5 have it.
//!
//! Packets of many sizes leave by links of many MTUs. Their fragments are as few as can be, tile the payload in order, and
//! share all that the RFCs want equal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::frame::{self, ICMPV6, Ipv4, UDP};
use crate::program::{Bench, some};
use crate::random::{Random, seeds};

const MTUS: [u16; 26] = [
    68, 69, 75, 76, 77, 100, 296, 576, 577, 583, 1280, 1281, 1287, 1288, 1400, 1401, 1402, 1403, 1404, 1405, 1406,
    1407, 1408, 1499, 1500, 9000,
];

/// One interface that takes the longest packets, and one for each MTU.
fn config() -> String {
    let mut text = String::from("version = 1\n[icmp]\necho-rate = 1000000\necho-burst = 1000000\n");
    text += "[[interface]]\nname = \"in\"\nport = \"null\"\nmac = \"02:00:00:00:00:01\"\nmtu = 65535\n";
    text += "address = [\"10.9.0.1/24\", \"2001:db8:9::1/64\"]\n";
    for (number, mtu) in MTUS.into_iter().enumerate() {
        let six = if mtu >= 1280 { format!(", \"2001:db8:{mtu:x}::1/64\"") } else { String::new() };
        writeln!(text, "[[interface]]\nname = \"m{mtu}\"\nport = \"null\"\nmtu = {mtu}").expect("it fits");
        writeln!(text, "address = [\"172.16.{number}.1/24\"{six}]").expect("it fits");
    }
    text
}

/// The parts of an IPv4 packet.
#[derive(Debug)]
struct Parts {
    header: usize,
    id: u16,
    offset: usize,
    more: bool,
    options: Vec<u8>,
    data: Vec<u8>,
}

/// Takes an IPv4 packet apart that has a right checksum.
fn parts(packet: &[u8]) -> Parts {
    let header = usize::from(packet[0] & 0xf) * 4;
    assert_eq!(frame::checksum(&[&packet[..header]]), 0, "the header's checksum is right");
    let field = u16::from_be_bytes([packet[6], packet[7]]);
    assert_eq!(field & 0xc000, 0, "a fragment may be fragmented");
    Parts {
        header,
        id: u16::from_be_bytes([packet[4], packet[5]]),
        offset: usize::from(field & 0x1fff) * 8,
        more: field & 0x2000 != 0,
        options: packet[20..header].to_vec(),
        data: packet[header..].to_vec(),
    }
}

/// Returns options without padding; with `copied`, only the options that belong into all fragments.
fn options(mut rest: &[u8], copied: bool) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some(&kind) = rest.first() {
        match kind {
            0 => break,
            1 => rest = &rest[1..],
            _ => {
                let (option, next) = rest.split_at(usize::from(rest[1]));
                if kind & 0x80 != 0 || !copied {
                    found.push(option.to_vec());
                }
                rest = next;
            }
        }
    }
    found
}

/// Checks the fragments of one IPv4 packet.
fn check(whole: &[u8], fragments: &[&[u8]], mtu: usize) -> Result<(), String> {
    let original = parts(whole);
    let found: Vec<Parts> = fragments.iter().map(|fragment| parts(fragment)).collect();
    let sizes: Vec<usize> = fragments.iter().map(|fragment| fragment.len()).collect();
    if found.is_empty() {
        return Err("nothing left".to_owned());
    }
    let (mut data, last) = (Vec::<u8>::new(), found.len() - 1);
    for (number, (fragment, octets)) in found.iter().zip(fragments).enumerate() {
        let wrong = |what: &str| Err(format!("fragment {number} of {sizes:?}: {what}"));
        // Version, type of service, protocol and addresses are the packet's; the time to live has gone down.
        if octets[1] != whole[1]
            || octets[9] != whole[9]
            || octets[12..20] != whole[12..20]
            || octets[8] != whole[8] - 1
        {
            return wrong("another header");
        }
        if fragment.id != original.id {
            return wrong("another identification");
        }
        if octets.len() > mtu {
            return wrong("longer than the MTU");
        }
        if fragment.offset != original.offset + data.len() {
            return wrong("another offset");
        }
        if fragment.more != (number < last || original.more) {
            return wrong("another flag");
        }
        if number < last && (fragment.data.len() % 8 != 0 || octets.len() + 8 <= mtu) {
            return wrong("it is not as long as can be");
        }
        if number == 0 && fragment.options != original.options {
            return wrong("the first fragment has all options");
        }
        if number > 0 {
            let copied = options(&original.options, true);
            let length = copied.iter().map(Vec::len).sum::<usize>().next_multiple_of(4);
            if options(&fragment.options, false) != copied || fragment.header != 20 + length {
                return wrong("options that are not to be copied, or others are missing");
            }
        }
        data.extend(&fragment.data);
    }
    if data != original.data {
        return Err(format!("{sizes:?}: another payload"));
    }
    if last > 0 && sizes[last - 1] + found[last].data.len() <= mtu {
        return Err(format!("{sizes:?}: the last two would be one"));
    }
    Ok(())
}

#[test]
fn ipv4_packets_become_as_few_fragments_as_can_be() {
    let mut wrong = Vec::new();
    for seed in seeds() {
        let mut random = Random::new(seed);
        let option_sets: [&[u8]; 8] = [
            &[],
            &[1, 1, 1, 1],
            &[7, 7, 4, 0, 0, 0, 0, 0],
            &[148, 4, 0, 0],
            &[148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0],
            &[7, 7, 4, 0, 0, 0, 0, 1, 148, 4, 0, 0],
            &[1, 130, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 148, 4, 0, 0],
            &[136, 4, 0, 9, 148, 4, 0, 0],
        ];
        let mut input = Vec::new();
        for (number, &mtu) in MTUS.iter().enumerate() {
            for (kind, set) in option_sets.iter().enumerate() {
                let header = 20 + set.len();
                let most = (usize::from(mtu) - header) / 8 * 8;
                let mut lengths = vec![8, 2753, 8 + random.below(6000)];
                let turns: &[usize] = if kind == 0 { &[1, 2, 3, 7] } else { &[1, 2] };
                for turn in turns {
                    lengths.extend((0..=9).map(|more| turn * most + more));
                }
                for (case, length) in lengths.into_iter().enumerate() {
                    if header + length > 65_535 {
                        continue;
                    }
                    // Some are fragments themselves, which are cut again.
                    let part = case % 4 == 3;
                    let length = if part { length.next_multiple_of(8) } else { length };
                    let base = Ipv4::new(Ipv4Addr::new(10, 9, 0, 9), Ipv4Addr::new(172, 16, number as u8, 9), UDP);
                    let packet = Ipv4 {
                        tos: random.next() as u8,
                        id: input.len() as u16,
                        offset: if part { 8 * random.below(2) } else { 0 },
                        more: part,
                        options: set.to_vec(),
                        ..base
                    };
                    let data: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                    input.push((mtu, packet.packet(&data)));
                }
            }
        }
        assert!(input.len() < 65_536, "identifications are unique");
        let frames = frame::paced(input.iter().map(|(_, packet)| frame::ethernet(&[], packet)), 1_000_000);
        let bench = Bench::new(&config());
        bench.replay(&[("in", &frames)]);
        let mut sent: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
        for mtu in MTUS {
            for frame in bench.sent(&format!("m{mtu}")) {
                let packet = frame::packet(&frame).to_vec();
                sent.entry(u16::from_be_bytes([packet[4], packet[5]])).or_default().push(packet);
            }
        }
        for (id, (mtu, packet)) in input.iter().enumerate() {
            let fragments = sent.remove(&(id as u16)).unwrap_or_default();
            let fragments: Vec<&[u8]> = fragments.iter().map(Vec::as_slice).collect();
            if let Err(what) = check(packet, &fragments, usize::from(*mtu)) {
                let header = usize::from(packet[0] & 0xf) * 4;
                let set = &packet[20..header];
                wrong.push(format!("seed {seed}: {} octets, options {set:02x?}, over {mtu}: {what}", packet.len()));
            }
        }
        assert!(sent.is_empty(), "nothing else leaves");
    }
    assert!(wrong.is_empty(), "{} packets:\n{}", wrong.len(), some(&wrong));
}

/// Checks the fragments of an echo reply, and returns the reply.
fn reply6(packets: &[Vec<u8>], mtu: usize) -> Result<Vec<u8>, String> {
    let sizes: Vec<usize> = packets.iter().map(Vec::len).collect();
    let [first, rest @ ..] = packets else { return Err("no reply".to_owned()) };
    if first[6] != frame::FRAGMENT {
        let alone = rest.is_empty() && first.len() <= mtu && first[6] == ICMPV6;
        return if alone { Ok(first[40..].to_vec()) } else { Err(format!("{sizes:?}: no fragments")) };
    }
    let mut data = Vec::new();
    for (number, packet) in packets.iter().enumerate() {
        let wrong = |what: &str| Err(format!("fragment {number} of {sizes:?}: {what}"));
        let field = u16::from_be_bytes([packet[42], packet[43]]);
        let last = number + 1 == packets.len();
        if packet.len() > mtu {
            return wrong("longer than the MTU");
        }
        if packet[6] != frame::FRAGMENT || packet[40] != ICMPV6 || packet[44..48] != first[44..48] {
            return wrong("another header");
        }
        if usize::from(field & !7) != data.len() || (field & 1 == 1) == last {
            return wrong("another offset or flag");
        }
        if !last && ((packet.len() - 48) % 8 != 0 || packet.len() + 8 <= mtu) {
            return wrong("it is not as long as can be");
        }
        data.extend(&packet[48..]);
    }
    let count = packets.len();
    if count == 1 || sizes[count - 2] + sizes[count - 1] - 48 <= mtu || 40 + data.len() <= mtu {
        return Err(format!("{sizes:?}: too many fragments"));
    }
    Ok(data)
}

#[test]
fn long_echo_replies_become_as_few_fragments_as_can_be() {
    let bench = Bench::new(&config());
    let mtus: Vec<(usize, u16)> =
        MTUS.into_iter().enumerate().filter(|&(_, mtu)| (1280..=1500).contains(&mtu)).collect();
    let mut random = Random::new(7);
    let (mut frames, mut cases) = (Vec::new(), Vec::new());
    for &(number, mtu) in &mtus {
        for six in [false, true] {
            let most = usize::from(mtu) - if six { 48 } else { 20 };
            let mut lengths = vec![56, 3000];
            for turn in 1..=3 {
                lengths.extend((0..=9).map(|more| turn * (most / 8 * 8) + more - 8));
            }
            for length in lengths {
                let data: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                let id = (cases.len() as u16).to_be_bytes();
                let rest = [id[0], id[1], 0, 1];
                let packet = if six {
                    let from: Ipv6Addr = format!("2001:db8:{mtu:x}::9").parse().expect("an address");
                    let to: Ipv6Addr = "2001:db8:9::1".parse().expect("an address");
                    frame::ipv6(from, to, 0, ICMPV6, &frame::icmp(from.into(), to.into(), 128, 0, rest, &data))
                } else {
                    let (from, to) = (Ipv4Addr::new(172, 16, number as u8, 9), Ipv4Addr::new(10, 9, 0, 1));
                    let message = frame::icmp(IpAddr::V4(from), IpAddr::V4(to), 8, 0, rest, &data);
                    Ipv4::new(from, to, frame::ICMP).packet(&message)
                };
                frames.push(frame::ethernet(&[], &packet));
                cases.push((mtu, six, data));
            }
        }
    }
    bench.replay(&[("in", &frame::paced(frames, 1_000_000))]);
    let mut wrong = Vec::new();
    let mut case = 0;
    for &(_, mtu) in &mtus {
        let sent: Vec<Vec<u8>> = bench.sent(&format!("m{mtu}")).iter().map(|f| frame::packet(f).to_vec()).collect();
        let mut sent = sent.into_iter().peekable();
        while cases.get(case).is_some_and(|(of, ..)| *of == mtu) {
            let (_, six, data) = &cases[case];
            // Replies leave in the order of their requests; the last fragment of each says that it is the last.
            let mut packets = Vec::new();
            while let Some(packet) = sent.next_if(|packet| (packet[0] >> 4 == 6) == *six) {
                let more =
                    if *six { packet[6] == frame::FRAGMENT && packet[43] & 1 == 1 } else { packet[6] & 0x20 != 0 };
                packets.push(packet);
                if !more {
                    break;
                }
            }
            let reply = if *six { reply6(&packets, usize::from(mtu)) } else { reply4(&packets, usize::from(mtu)) };
            let id = (case as u16).to_be_bytes();
            match reply {
                Ok(reply) if reply[4..6] == id && reply[8..] == **data => {}
                Ok(reply) => {
                    wrong.push(format!("{} octets over {mtu}: another reply {:02x?}", data.len(), &reply[..8]))
                }
                Err(what) => wrong.push(format!("{} octets of data over {mtu}, IPv6 {six}: {what}", data.len())),
            }
            case += 1;
        }
        assert!(sent.next().is_none(), "nothing else leaves by m{mtu}");
    }
    assert!(wrong.is_empty(), "{} replies:\n{}", wrong.len(), some(&wrong));
}

/// Checks the fragments of an IPv4 echo reply, and returns the reply.
fn reply4(packets: &[Vec<u8>], mtu: usize) -> Result<Vec<u8>, String> {
    let [first, ..] = packets else { return Err("no reply".to_owned()) };
    let found: Vec<Parts> = packets.iter().map(|packet| parts(packet)).collect();
    let data: Vec<u8> = found.iter().flat_map(|part| part.data.clone()).collect();
    // The packet that these are fragments of.
    let header = Ipv4::new(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, first[9]);
    let mut whole = Ipv4 { id: found[0].id, tos: first[1], ..header }.packet(&data);
    whole[12..20].copy_from_slice(&first[12..20]);
    whole[8] = first[8] + 1;
    whole[10..12].fill(0);
    let sum = frame::checksum(&[&whole[..20]]);
    whole[10..12].copy_from_slice(&sum.to_be_bytes());
    let fragments: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    check(&whole, &fragments, mtu).map(|()| data)
}
