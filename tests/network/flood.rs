//! A link full of unknown stations: a million solicitations from unused addresses.

use std::net::Ipv6Addr;
use std::time::Instant;

use weir_base::random::Random;
use weir_packet::checksum;

use crate::lab::{Lab, Line, LineOptions, Sender, Sink, StreamSpec, Weir, echo, inject};

/// Questions of each kind.
const QUESTIONS: u64 = 1_000_000;

/// Questions a second: more than any link has, less than what fills the sender's own queue.
const RATE: u32 = 200_000;

/// Neighbours that the table may hold.
const NEIGHBORS: u64 = 2000;

/// A neighbour solicitation (RFC 4861, 4.3) for 2001:db8:1::1 from a stranger with a hardware address.
fn solicitation(stranger: u64) -> Vec<u8> {
    let [.., a, b, c, d] = stranger.to_be_bytes();
    let mut frame = vec![0x33, 0x33, 0xff, 0, 0, 1, 2, 0xff, a, b, c, d, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 32, 58, 255]);
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0]);
    frame.extend(stranger.to_be_bytes());
    frame.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1]);
    frame.extend([135, 0, 0, 0, 0, 0, 0, 0]);
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([1, 1, 2, 0xff, a, b, c, d]);
    complete(&mut frame, 58, 2);
    frame
}

/// Puts the checksum of an IPv6 packet's transport at its place, by the pseudo-header of RFC 8200, 8.1.
fn complete(frame: &mut [u8], protocol: u8, place: usize) {
    let address = |at: usize| -> Ipv6Addr { <[u8; 16]>::try_from(&frame[at..at + 16]).expect("sixteen octets").into() };
    let length = (frame.len() - 54) as u32;
    let sum = checksum::pseudo_v6(address(22), address(38), protocol, length).bytes(&frame[54..]).checksum();
    frame[54 + place..56 + place].copy_from_slice(&sum.to_be_bytes());
}

/// A question by ARP (RFC 826) for 10.1.0.1 from a stranger within 10.1.0.0/16 who takes nobody's address.
fn arp_request(stranger: u64) -> Vec<u8> {
    let [.., a, b, c, d] = stranger.to_be_bytes();
    let c = c.max(1);
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0xfe, a, b, c, d, 8, 6]);
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([2, 0xfe, a, b, c, d, 10, 1, c, d]);
    frame.extend([0, 0, 0, 0, 0, 0, 10, 1, 0, 1]);
    frame.resize(60, 0);
    frame
}

#[test]
fn a_million_questions_from_strangers_change_nothing() {
    let Some(mut lab) = Lab::alone() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    // A link of 65,536 addresses, so that there are enough strangers for ARP as well.
    let config = line.config().replace("10.1.0.1/24", "10.1.0.1/16") + &format!("[limits]\nneighbors = {NEIGHBORS}\n");
    let weir = Weir::start(&line.gate, &config);
    let friends = ["10.1.0.2", "10.2.0.2", "2001:db8:1::2", "2001:db8:2::2"];
    let known = || {
        for target in ["10.2.0.2", "2001:db8:2::2"] {
            echo(&line.left, target, [56]);
        }
    };
    known();
    // A first wave fills what may be filled.
    let mut random = Random::from_seed(7);
    let mut strangers = move |count: u64| (0..count).map(|_| random.below(u64::MAX)).collect::<Vec<u64>>();
    inject(&line.left, "e0", RATE, strangers(20_000).into_iter().flat_map(|who| [solicitation(who), arp_request(who)]));
    let before = weir.resident();

    let to = "10.2.0.2:9000".parse().expect("an address");
    let sink = Sink::start(&line.right, to);
    let from = "10.1.0.2".parse().expect("an address");
    let sender = Sender::start(&line.left, StreamSpec { from, to, flows: 16, rate: 2000, size: 200 });
    let start = Instant::now();
    let questions = strangers(QUESTIONS);
    inject(&line.left, "e0", RATE, questions.into_iter().flat_map(|who| [solicitation(who), arp_request(who)]));
    println!("{} questions in {:.1?}", 2 * QUESTIONS, start.elapsed());
    let (sent, receipt) = (sender.stop(), sink.stop());
    println!("{} of {} datagrams passed beside them; {:?}", receipt.total(), sent.total(), weir.drops());

    let after = weir.resident();
    println!("resident {before} KiB before, {after} KiB after");
    assert!(after < before + 1024, "grew from {before} to {after} KiB");
    let neighbors = weir.show("neighbors");
    let list = neighbors["neighbors"].as_array().expect("a list");
    println!("{} neighbours", list.len());
    assert!(list.len() as u64 <= NEIGHBORS, "{} neighbours", list.len());
    for friend in friends {
        let known = list.iter().find(|neighbor| neighbor["address"] == friend);
        assert!(known.is_some_and(|friend| friend["mac"] != ""), "{friend} was forgotten: {known:?}");
    }
    // What the ring between kernel and weir has no room for, as weir had no CPU, is lost before weir sees it, and counted
    // apart.
    assert_eq!((receipt.misplaced, receipt.changed), (0, 0));
    let unseen = weir.interface("left")["kernel-drops"].as_u64().expect("frames");
    let passed = (receipt.total() + unseen) * 100 >= sent.total() * 99;
    assert!(passed, "{} of {} datagrams, and {unseen} frames dropped before", receipt.total(), sent.total());
    known();
    weir.end();
}

#[test]
fn a_scan_of_a_prefix_leaves_room_for_neighbors() {
    let Some(mut lab) = Lab::alone() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let config = line.config() + &format!("[limits]\nneighbors = {NEIGHBORS}\n");
    let weir = Weir::start(&line.gate, &config);
    echo(&line.left, "2001:db8:2::2", [56]);
    let before = weir.resident();
    // UDP to 100,000 unused addresses of the right link (RFC 6583).
    let mac = |device: &str| -> Vec<u8> {
        let path = format!("/sys/class/net/{device}/address");
        let text = line.gate.run("cat", &[&path]);
        text.trim().split(':').map(|octet| u8::from_str_radix(octet, 16).expect("an octet")).collect()
    };
    let gateway = mac("left");
    let probe = |target: u64| {
        let mut frame = gateway.clone();
        frame.extend([2, 0, 0, 0, 1, 1, 0x86, 0xdd]);
        frame.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 2, 0, 0]);
        frame.extend(target.to_be_bytes());
        frame.extend([0x30, 0x39, 0, 80, 0, 8, 0, 0]);
        complete(&mut frame, 17, 6);
        frame
    };
    let mut random = Random::from_seed(8);
    let targets: Vec<u64> = (0..100_000).map(|_| random.below(u64::MAX)).collect();
    inject(&line.left, "e0", 50_000, targets.into_iter().map(probe));
    // The scan fills the table with solicitations, and must not prevent the resolution of others.
    for target in ["10.2.0.2", "2001:db8:2::2"] {
        let text = line.left.run("ping", &["-n", "-q", "-c", "5", "-i", "0.2", "-w", "30", target]);
        assert!(!text.contains(" 0 received"), "{text}");
    }
    let after = weir.resident();
    println!("resident {before} KiB before, {after} KiB after; {:?}", weir.drops());
    assert!(after < before + 4096, "grew from {before} to {after} KiB");
    let count = weir.show("neighbors")["neighbors"].as_array().map_or(0, Vec::len) as u64;
    assert!(count <= NEIGHBORS, "{count} neighbours");
    weir.end();
}
