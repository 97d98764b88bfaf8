//! ICMP: what is built is valid and never answered again; an echo reply is the mirror image of its request.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_packet::icmp::{self, ErrorV4, ErrorV6};
use weir_packet::parse::{self, ParseFlags};
use weir_packet::{checksum, wire::ipv4, wire::ipv6};

/// The target.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((&[choice, value, room], packet)) = data.split_first_chunk::<3>() else { return };
    v4(choice, value, usize::from(room) * 4, packet);
    v6(choice, value, usize::from(room) * 8, packet);
    let mut echo = packet.to_vec();
    if mend(&mut echo).is_some() {
        v4(choice, value, usize::from(room) * 4, &echo);
        v6(choice, value, usize::from(room) * 8, &echo);
    }
}

/// Makes the checksums of an echo request right, which fuzzing would hardly find.
fn mend(packet: &mut [u8]) -> Option<()> {
    let (start, place, pseudo) = match packet.first()? {
        0x45 => {
            let header = packet.first_chunk_mut::<20>()?;
            header[10..12].fill(0);
            let checksum = checksum::of(header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            (20, 22, checksum::Sum::new())
        }
        _ => {
            let header = ipv6::Header::new(packet).ok()?;
            let length = u32::from(header.payload_length());
            (40, 42, checksum::pseudo_v6(header.source(), header.destination(), 58, length))
        }
    };
    let end = match packet[0] {
        0x45 => usize::from(u16::from_be_bytes([packet[2], packet[3]])),
        _ => 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])),
    };
    packet.get_mut(place..place + 2)?.fill(0);
    let checksum = pseudo.bytes(packet.get(start..end)?).checksum();
    packet[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

fn v4(choice: u8, value: u8, room: usize, packet: &[u8]) {
    let error = match choice % 4 {
        0 => ErrorV4::TimeExceeded { code: value },
        1 => ErrorV4::Unreachable { code: value },
        2 => ErrorV4::FragmentationNeeded { mtu: u32::from(value) << 9 },
        _ => ErrorV4::ParameterProblem { pointer: value },
    };
    let mut out = vec![0xaa; room];
    if let Some(length) = icmp::error_v4(&mut out, error, Ipv4Addr::new(192, 0, 2, 1), packet) {
        assert!(length <= icmp::MAX_ERROR_V4);
        let parsed = parse::ipv4(&out[..length], 0).unwrap();
        assert!(parsed.flags.contains(ParseFlags::L4_HEADER));
        assert!(checksum::is_valid(&out[20..length]));
        assert!(icmp::may_answer_v4(&parsed, &out).is_err());
        assert!(packet.starts_with(&out[28..length]));
    }
    if let Ok(parsed) = parse::ipv4(packet, 0) {
        let _ = icmp::may_answer_v4(&parsed, packet);
        let mut reply = packet.to_vec();
        if icmp::echo_reply_v4(&mut reply).is_ok() {
            let (before, after) = (ipv4::Fields::parse(packet).unwrap(), ipv4::Fields::parse(&reply).unwrap());
            assert_eq!((before.source, before.destination), (after.destination, after.source));
            assert!(parse::ipv4(&reply, 0).is_ok());
            assert!(checksum::is_valid(&parsed.packet(&reply)[20..]));
            assert_eq!(packet[24..], reply[24..]);
            assert!(icmp::echo_reply_v4(&mut reply).is_err());
        } else {
            assert_eq!(reply, packet);
        }
    }
}

fn v6(choice: u8, value: u8, room: usize, packet: &[u8]) {
    let error = match choice % 4 {
        0 => ErrorV6::TimeExceeded { code: value },
        1 => ErrorV6::Unreachable { code: value },
        2 => ErrorV6::PacketTooBig { mtu: u32::from(value) << 9 },
        _ => ErrorV6::ParameterProblem { code: value, pointer: u32::from(choice) },
    };
    let mut out = vec![0xaa; room];
    if let Some(length) = icmp::error_v6(&mut out, error, Ipv6Addr::LOCALHOST, packet) {
        assert!(length <= icmp::MAX_ERROR_V6);
        let parsed = parse::ipv6(&out[..length], 0).unwrap();
        let header = ipv6::Header::new(&out).unwrap();
        let pseudo = checksum::pseudo_v6(header.source(), header.destination(), 58, length as u32 - 40);
        assert!(pseudo.bytes(&out[40..length]).is_valid());
        assert!(icmp::may_answer_v6(&parsed, &out, error).is_err());
        assert!(packet.starts_with(&out[48..length]));
    }
    match parse::ipv6(packet, 0) {
        Ok(parsed) => {
            let _ = icmp::may_answer_v6(&parsed, packet, error);
            let _ = ErrorV6::of_unserved(packet);
            let mut reply = packet.to_vec();
            if let Ok(start) = icmp::echo_reply_v6(&mut reply) {
                let header = ipv6::Header::new(&reply[start..]).unwrap();
                let length = u32::from(header.payload_length());
                let pseudo = checksum::pseudo_v6(header.source(), header.destination(), 58, length);
                assert!(pseudo.bytes(&parsed.packet(&reply)[start + 40..]).is_valid());
                assert_eq!(packet[start + 44..], reply[start + 44..]);
            } else {
                assert_eq!(reply, packet);
            }
        }
        Err(malformed) => {
            if let Some(error) = ErrorV6::of_malformed(malformed) {
                let _ = icmp::may_answer_malformed_v6(packet, 0, ParseFlags::empty(), error);
            }
        }
    }
}
