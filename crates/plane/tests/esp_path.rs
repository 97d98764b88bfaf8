//! The MTU of an SA's path: learned from ICMP errors about packets of ESP that the gateway has sent, and from no others.

use std::net::IpAddr;

use crate::kit::esp::{TO_EAST, bare, sa, udp};
use crate::kit::*;
use weir_packet::icmp::{self, ErrorV4, ErrorV6};
use weir_plane::harness::Verdict;
use weir_plane::model::{MssClamp, OuterDf, Sa, SaMode, SpdCache, Tfc};
use weir_plane::reason::Reason;

const V4: (&str, &str) = ("198.51.100.1", "198.51.100.2");
const V6: (&str, &str) = ("2001:db8:ff::1", "2001:db8:ff::2");
const ROUTERS: [&str; 2] = ["198.51.100.77", "2001:db8:ff::77"];
const SECOND: u64 = 1_000_000_000;

/// West, whose SPD protects all traffic between the networks, and lets nothing else pass.
fn west(own: &Sa) -> Rig {
    let mut build =
        crate::kit::esp::west(std::slice::from_ref(own)).spd(&["wan"], SpdCache::default(), &["protect 0 udp"]);
    build.0.ipsec.unchecked = false;
    let mut rig = build.rig();
    rig.advance(SECOND);
    rig
}

fn inner(v4: bool, length: usize) -> String {
    match v4 {
        true => format!("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 ttl 9 length {length} df"),
        false => format!("udp from 2001:db8:1::2 port 7 to 2001:db8:2::2 port 9 ttl 9 length {length}"),
    }
}

/// Sends a packet into the tunnel; returns the packet of ESP from its IP header on.
fn protect(west: &mut Rig, text: &str) -> Vec<u8> {
    let passage = west.send("lan", text);
    assert_eq!(passage.outcome.verdict, Verdict::Forward, "{text}");
    let [(_, frame)] = &passage.out[..] else { panic!("one packet") };
    frame[l3(frame)..].to_vec()
}

/// Builds an error of a router on the path, with an MTU and so many quoted octets of a packet.
fn error(packet: &[u8], mtu: u32, quoted: usize) -> Vec<u8> {
    let mut out = vec![0; 1280];
    let cut = &packet[..quoted.min(packet.len())];
    let (length, kind) = match ROUTERS.map(ip) {
        [IpAddr::V4(router), _] if packet[0] >> 4 == 4 => {
            (icmp::error_v4(&mut out, ErrorV4::FragmentationNeeded { mtu }, router, cut), [8, 0])
        }
        [_, IpAddr::V6(router)] => (icmp::error_v6(&mut out, ErrorV6::PacketTooBig { mtu }, router, cut), [0x86, 0xdd]),
        _ => unreachable!("one router for each family"),
    };
    out.truncate(length.unwrap());
    [&own_mac(1).0[..], &[2, 0, 0, 0, 0, 0x77], &kind, &out].concat()
}

fn learned(west: &Rig) -> Option<u16> {
    west.harness.sas()[0].outbound.as_ref().unwrap().path_mtu.map(|own| own.mtu)
}

fn verdict(west: &mut Rig, frame: &[u8]) -> Verdict {
    let passage = west.put("wan", frame);
    assert!(passage.out.is_empty());
    passage.outcome.verdict
}

/// Returns the greatest inner packet that is sent whole and must not be fragmented: the MTU in errors about longer
/// ones.
fn room(west: &mut Rig, v4: bool) -> u32 {
    let told = west.told("lan", &inner(v4, 1480), Reason::MtuExceeded);
    let (_, _, rest) = told.icmp.unwrap();
    protect(west, &inner(v4, rest as usize));
    let longer = west.told("lan", &inner(v4, rest as usize + 1), Reason::MtuExceeded);
    assert_eq!(longer.icmp.unwrap().2, rest);
    rest
}

#[test]
fn an_error_about_esp_lowers_the_mtu_of_its_sa_and_inner_senders_learn_it() {
    for (outer, encapsulation, overhead) in [(V4, None, 54), (V6, None, 74), (V4, udp(), 62), (V6, udp(), 82)] {
        let own = Sa { encapsulation, ..sa("aes128gcm16", outer.0, outer.1) };
        let mut west = west(&own);
        let before = room(&mut west, true);
        let packet = protect(&mut west, &inner(true, 1400));
        assert_eq!(verdict(&mut west, &error(&packet, 1400, 1000)), Verdict::Local, "{own:?}");
        assert_eq!(learned(&west), Some(1400));
        for v4 in [true, false] {
            let after = room(&mut west, v4);
            // The text of ESP is a multiple of four octets.
            assert!(after < before && (1400 - overhead - 3..=1400 - overhead).contains(&after), "{after} {overhead}");
        }
        let most = room(&mut west, true) as usize;
        let longest = protect(&mut west, &inner(true, most));
        assert!(longest.len() <= 1400 && longest.len() > 1396);
        // A packet that may be fragmented is cut before it is encrypted.
        let passage = west.send("lan", &inner(true, 1440).replace(" df", ""));
        assert_eq!(passage.out.len(), 2);
        assert!(passage.out.iter().all(|(port, frame)| port == "wan" && frame.len() - l3(frame) <= 1400));
    }
}

/// Padding for traffic flow confidentiality goes as far as packets of ESP fit the path, and grows again once the MTU is forgotten.
#[test]
fn padding_fits_the_mtu_of_the_path() {
    for (outer, overhead) in [(V4, 54), (V6, 74)] {
        let own = Sa { tfc: Some(Tfc::Mtu), dummies: 10, ..sa("aes128gcm16", outer.0, outer.1) };
        let mut west = west(&own);
        let long = protect(&mut west, &inner(true, 100));
        assert!(long.len() > 1490, "{}", long.len());
        assert_eq!(verdict(&mut west, &error(&long, 1300, 1000)), Verdict::Local);
        for length in [100, 700, 1300 - overhead - 3] {
            let packet = protect(&mut west, &inner(true, length));
            assert!((1297..=1300).contains(&packet.len()), "{} of {length}", packet.len());
        }
        west.advance(601 * SECOND);
        assert_eq!(protect(&mut west, &inner(true, 100)).len(), long.len());
    }
}

#[test]
fn it_only_falls_is_bounded_below_and_is_forgotten_after_ten_minutes() {
    for (outer, least) in [(V4, 576), (V6, 1280)] {
        let mut west = west(&Sa { df: OuterDf::Set, ..sa("aes128gcm16", outer.0, outer.1) });
        let packet = protect(&mut west, &inner(true, 1400));
        for (told, expected) in [(1450, 1450), (1452, 1450), (1300, 1300), (1400, 1300)] {
            assert_eq!(verdict(&mut west, &error(&packet, told, 200)), Verdict::Local);
            assert_eq!(learned(&west), Some(expected));
            west.advance(SECOND);
        }
        // The error of 1300 is 2 s old.
        west.advance(597 * SECOND);
        assert_eq!(learned(&west), Some(1300));
        west.advance(SECOND);
        assert_eq!(learned(&west), None);
        assert_eq!(room(&mut west, true), if outer == V4 { 1446 } else { 1426 });
        let packet = protect(&mut west, &inner(true, 1400));
        for told in [68, 1] {
            assert_eq!(verdict(&mut west, &error(&packet, told, 200)), Verdict::Local);
            assert_eq!(learned(&west), Some(least));
        }
        // Errors to senders of IPv6 never have less than 1,280: packets of ESP around such packets are cut.
        let told = west.told("lan", &inner(false, 1400), Reason::MtuExceeded);
        assert_eq!(told.icmp.unwrap().2, 1280);
        let passage = west.send("lan", &inner(false, 1280));
        assert_eq!(passage.outcome.verdict, Verdict::Forward);
        assert!(passage.out.len() > 1);
        assert!(passage.out.iter().all(|(_, frame)| frame.len() - l3(frame) <= usize::from(least)));
    }
}

#[test]
fn a_router_that_tells_no_mtu_gets_the_next_lesser_one_of_links() {
    let mut west = west(&sa("aes128gcm16", V4.0, V4.1));
    let packet = protect(&mut west, &inner(true, 1446));
    assert_eq!(verdict(&mut west, &error(&packet, 0, 28)), Verdict::Local, "28 octets name SPI and number");
    assert_eq!(learned(&west), Some(1492));
}

#[test]
fn forged_errors_change_nothing() {
    for (outer, encapsulation) in [(V4, None), (V6, None), (V4, udp()), (V6, udp())] {
        let mut west = west(&Sa { encapsulation, ..sa("aes128gcm16", outer.0, outer.1) });
        let headers = if outer == V4 { 20 } else { 40 };
        let spi = headers + if encapsulation.is_some() { 8 } else { 0 };
        let packets: Vec<_> = (0..5).map(|_| protect(&mut west, &inner(true, 1400))).collect();
        let genuine = &packets[4];
        assert_eq!(genuine[spi..spi + 4], TO_EAST.to_be_bytes());
        let forged = |at: usize, octet: u8| {
            let mut forged = genuine.clone();
            forged[at] ^= octet;
            if outer == V4 {
                // The header's checksum fits, so that nothing else is wrong.
                let mut frame = [&[0; 12][..], &[8, 0], &forged].concat();
                mend(&mut frame);
                forged = frame.split_off(14);
            }
            error(&forged, 1300, 500)
        };
        let mut errors = vec![
            // Another SPI; a number that was never sent; another peer; an SPI that only the peer uses.
            forged(spi, 1),
            forged(spi + 3, 1),
            forged(spi + 4, 1),
            forged(spi + 7, 8),
            forged(headers - 1, 1),
            // SPI and number are cut off.
            error(genuine, 1300, spi + 7),
            // The packet fits the reported MTU, or is not long.
            error(genuine, genuine.len() as u32, 500),
        ];
        if encapsulation.is_some() {
            errors.extend([forged(headers + 1, 1), forged(headers + 3, 1)]);
        }
        let mut damaged = error(genuine, 1300, 500);
        *damaged.last_mut().unwrap() ^= 1;
        errors.push(damaged);
        for frame in errors {
            let at = l3(&frame);
            let kind = if outer == V4 { frame[at + 20] } else { frame[at + 40] };
            assert!(matches!(kind, 2 | 3));
            // It matches the SPD, as any other packet in clear.
            assert_eq!(verdict(&mut west, &frame), Verdict::Drop(Reason::SpdNoMatch));
            assert_eq!(learned(&west), None);
        }
        // Another error, about the same packet.
        let mut other = error(genuine, 1300, 500);
        let at = l3(&other) + headers;
        (other[at], other[at + 1]) = (if outer == V4 { 3 } else { 1 }, 1);
        assert_ne!(verdict(&mut west, &other), Verdict::Local);
        assert_eq!(learned(&west), None);
        // The first number is one of the last.
        assert_eq!(verdict(&mut west, &error(&packets[0], 1300, 500)), Verdict::Local);
        assert_eq!(learned(&west), Some(1300));
    }
}

#[test]
fn an_old_number_and_another_pair_of_addresses_do_not_count() {
    let mut west = west(&sa("aes128gcm16", V4.0, V4.1));
    let first = protect(&mut west, &inner(true, 1400));
    for (_, sequence) in west.harness.sequences() {
        sequence.begin(2 + (1 << 20));
    }
    assert_eq!(verdict(&mut west, &error(&first, 1300, 500)), Verdict::Drop(Reason::SpdNoMatch));
    let next = protect(&mut west, &inner(true, 1400));
    // The error goes to an address of the gateway that is not the source of the packet of ESP.
    let mut other = error(&next, 1300, 500);
    let at = l3(&other);
    other[at + 16..at + 20].copy_from_slice(&[10, 1, 0, 1]);
    mend(&mut other);
    assert_ne!(verdict(&mut west, &other), Verdict::Local);
    assert_eq!(learned(&west), None);
    assert_eq!(verdict(&mut west, &error(&next, 1300, 500)), Verdict::Local);
}

#[test]
fn what_was_learned_outlives_a_reload_and_is_of_one_path() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let mut west = west(&own);
    let packet = protect(&mut west, &inner(true, 1400));
    assert_eq!(verdict(&mut west, &error(&packet, 1300, 500)), Verdict::Local);
    west.reload(crate::kit::esp::west(&[Sa { hop_limit: 9, ..own.clone() }]));
    assert_eq!(learned(&west), Some(1300));
    west.reload(crate::kit::esp::west(&[sa("aes128gcm16", V6.0, V6.1)]));
    assert_eq!(learned(&west), None);
    west.reload(crate::kit::esp::west(&[own]));
    assert_eq!(learned(&west), None);
}

#[test]
fn packets_of_transport_mode_are_cut_to_the_path() {
    for outer in [V4, V6] {
        let own = Sa { mode: SaMode::Transport, ..sa("aes128gcm16", outer.0, outer.1) };
        let mut west = crate::kit::esp::west(std::slice::from_ref(&own)).rig();
        west.advance(SECOND);
        let protocol = if outer == V4 { "icmp" } else { "icmp6" };
        let request =
            |length| bare(&format!("{protocol} from {} to {} type echo-request length {length}", outer.0, outer.1));
        let (_, out) = west.protect(0, &[request(1440)]);
        let frame = &out[0].1;
        assert_eq!(out.len(), 1);
        assert_eq!(verdict(&mut west, &error(&frame[l3(frame)..], 1300, 500)), Verdict::Local);
        assert_eq!(learned(&west), Some(1300));
        let (outcomes, out) = west.protect(0, &[request(1290)]);
        let lengths: Vec<_> = out.iter().map(|(_, frame)| frame.len() - l3(frame)).collect();
        match outer == V4 {
            true => {
                assert!(lengths.len() == 2 && lengths.iter().all(|&length| length <= 1300), "{lengths:?} {outcomes:?}")
            }
            false => assert!(matches!(outcomes[0].verdict, Verdict::Drop(Reason::MtuExceeded)), "{outcomes:?}"),
        }
    }
}

#[test]
fn segments_of_connections_whose_size_was_lowered_fit_with_esp_and_longer_ones_do_not() {
    for (outer, algorithm, encapsulation) in
        [(V4, "aes128gcm16", None), (V6, "aes256-sha256", None), (V4, "chacha20poly1305", udp())]
    {
        let clamped = |clamp| Sa { mss_clamp: clamp, encapsulation, ..sa(algorithm, outer.0, outer.1) };
        let mtu = Some(MssClamp::Mtu);
        for (at_west, at_east) in [(mtu, None), (None, mtu), (Some(MssClamp::Value(1200)), None), (None, None)] {
            let mut west =
                crate::kit::esp::west(&[clamped(at_west)]).spd(&["wan"], SpdCache::default(), &["protect 0 any"]).rig();
            let mut east = crate::kit::esp::east(&[clamped(at_east)]).rig();
            for (text, headers) in syn::SYN {
                let before = west.frame("lan", text);
                let (_, out) = west.put_all("lan", &[&before]);
                let sealed: Vec<Vec<u8>> = out.into_iter().map(|(_, frame)| frame).collect();
                let (_, out) = east.put_all("wan", &sealed);
                let found = syn::mss(&out[0].1);
                match at_west.or(at_east) {
                    Some(MssClamp::Mtu) => {
                        let fits = usize::from(found + headers);
                        protect(&mut west, &inner(headers == 40, fits));
                        let longer = west.send("lan", &inner(headers == 40, fits + 1));
                        assert_eq!(longer.outcome.verdict, Verdict::Drop(Reason::MtuExceeded));
                    }
                    Some(MssClamp::Value(most)) => assert_eq!(found, most),
                    None => assert_eq!(found, syn::mss(&before)),
                }
            }
        }
    }
}
