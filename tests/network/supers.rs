//! ESP in UDP as super-packets of UDP: whole at a gateway at the other end of a veth, and single datagrams for a plain socket.

use std::time::Duration;

use crate::ipsec::Site;
use crate::lab::{Capture, Lab, Line, LineOptions, Weir, bound, transfer, wait};

/// The configuration of a gateway that encapsulates ESP in UDP and merges all packets.
fn config(site: &Site, own: u8) -> String {
    let config = site.config(own, 1).replace("esn = true", "esn = true\nencapsulation = { keepalive = \"off\" }");
    config.replace("spd = \"edge\"", "spd = \"edge\"\nmerge = \"all\"")
}

#[test]
fn esp_in_udp_crosses_a_veth_whole() {
    let Some(mut lab) = Lab::open() else { return };
    let site = Site::new(&mut lab);
    let east = Weir::start(&site.east, &config(&site, 2));
    let west = Weir::start(&site.west, &config(&site, 1));
    let capture = Capture::start(&site.east, "wan", "udp port 4500");
    let to = "10.2.0.2:5001".parse().expect("an address");
    let time = transfer(&site.left, &site.right, to, 5_000_000);
    let packets = capture.stop();
    let long = packets.iter().filter(|packet| packet.frame.len() > 3000).count();
    println!("5 MB in {time:.1?}, {} packets, {long} longer than 3,000 octets", packets.len());
    assert!(long > 10, "{long} of {} came whole", packets.len());
    // What came whole was cut, decrypted and merged again, and counts as its datagrams.
    let (out, back) = (west.interface("wan"), east.interface("wan"));
    let count = |row: &serde_json::Value, name: &str| {
        row.pointer(name).and_then(|own| own.as_u64()).unwrap_or_else(|| panic!("{name}: {row:#}"))
    };
    assert!(count(&out, "/super-packets/merged") > 20, "{out:#}");
    assert!(count(&back, "/super-packets/merged") > 1000, "{back:#}");
    let missing = count(&out, "/tx-packets").abs_diff(count(&back, "/rx-packets"));
    assert!(missing <= 50, "ARP and the like: {out:#}\n{back:#}");
    for gate in [&west, &east] {
        assert!(!gate.drops().keys().any(|reason| reason.starts_with("esp") || reason == "offload-mismatch"));
    }
    west.end();
    east.end();
}

#[test]
fn what_a_limit_leaves_of_a_super_packet_leaves_by_its_port() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions { fixed_neighbors: true, ..LineOptions::default() });
    let config = line.config().replace("queues = 1\n", "queues = 1\nacl = { in = [\"limited\"] }\n");
    let rule = "[acl.limited]\nrules = [\"permit ip from any to any limit 1500pps\"]\n";
    let weir = Weir::start(&line.gate, &format!("{config}\n{rule}"));
    std::thread::scope(|scope| {
        for port in 5001..5005 {
            let (left, right) = (&line.left, &line.right);
            scope.spawn(move || transfer(left, right, ([10, 2, 0, 2], port).into(), 500_000));
        }
    });
    let (drops, way_in) = (weir.drops(), weir.interface("left"));
    println!("{drops:?}\n{way_in:#}");
    assert!(drops.get("acl-rate-limit").is_some_and(|&dropped| dropped > 20), "{drops:?}");
    // One segment is no super-packet: the kernel would not take it as one.
    assert!(!drops.contains_key("transmit-failed") && !drops.contains_key("offload-mismatch"), "{drops:?}");
    weir.end();
}

#[test]
fn a_plain_socket_gets_the_datagrams_of_a_super_packet() {
    const COUNT: usize = 300;
    let Some(mut lab) = Lab::open() else { return };
    let site = Site::new(&mut lab);
    // The kernel of the other gateway's host takes the packets of ESP.
    site.east.ip("address add 198.51.100.2/24 dev wan");
    let receiver = site.east.enter(|| bound("198.51.100.2:4500"));
    receiver.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket has a timeout");
    let west = Weir::start(&site.west, &config(&site, 1));
    let sender = site.left.enter(|| bound("10.1.0.2:7000"));
    // The gateway finds the other one's hardware address.
    wait("the first datagram arrives", Duration::from_secs(20), || {
        sender.send_to(&[0; 1200], "10.2.0.2:7000").expect("the host has a route");
        receiver.recv_from(&mut [0; 2048]).is_ok()
    });
    receiver.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket has a timeout");
    while receiver.recv_from(&mut [0; 2048]).is_ok() {}
    let capture = Capture::start(&site.east, "wan", "udp port 4500");
    // One super-packet of the host after another: the gateway gets, and makes, what belongs together.
    let all = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut all, mut buffer) = (Vec::new(), vec![0; 65_536]);
            while let Ok((length, from)) = receiver.recv_from(&mut buffer) {
                assert_eq!(from, "198.51.100.1:4500".parse().expect("an address"));
                all.push(buffer[..length].to_vec());
            }
            all
        });
        for number in 1..=COUNT {
            sender.send_to(&[7; 1200], "10.2.0.2:7000").expect("the host has a route");
            // The buffer of the receiver has room for less than a hundred.
            if number.is_multiple_of(30) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        reader.join().expect("the reader ends")
    });
    let long = capture.stop().iter().filter(|packet| packet.frame.len() > 2000).count();
    println!("{} datagrams, in super-packets: {long}", all.len());
    assert!(long > 0, "nothing was merged");
    assert!(all.len() > COUNT / 2, "{} of {COUNT}", all.len());
    let mut last = None;
    for datagram in &all {
        assert!((1230..1300).contains(&datagram.len()), "{} octets", datagram.len());
        assert_eq!(datagram[..4], [0, 0, 0x10, 1], "the SPI");
        let number = u32::from_be_bytes([datagram[4], datagram[5], datagram[6], datagram[7]]);
        assert!(last.is_none_or(|last| last < number), "{number} behind {last:?}");
        last = Some(number);
    }
    west.end();
}
