//! Reassembly: whatever comes, in whatever order, nothing but the octets of fragments that do not overlap makes a packet,
//! and the packet parses.

use weir_packet::parse;
use weir_packet::reassembly::{DATA, Datagram, Piece, Progress, ROOM};

/// The target.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else { return };
    arbitrary(rest);
    let mut room = vec![0x55; ROOM];
    let mut datagram = Datagram::new();
    // Octet by octet, what came last for it.
    let mut naive: Vec<Option<u8>> = Vec::new();
    let mut end = None;
    while let Some((&[place, size, flags], behind)) = rest.split_first_chunk::<3>() {
        rest = behind;
        let more = flags & 1 != 0;
        let offset = usize::from(place) * 8 * if flags & 2 != 0 { 32 } else { 1 };
        let length = if more { (usize::from(size) + 1) * 8 } else { usize::from(size) + 1 };
        let octets: Vec<u8> = (offset..offset + length).map(|at| (at as u8) ^ (flags >> 7)).collect();
        let packet = if choice & 1 == 0 { v4(offset, more, &octets) } else { v6(offset, more, &octets) };
        let parsed = if choice & 1 == 0 { parse::ipv4(&packet, 0) } else { parse::ipv6(&packet, 0) };
        let Ok(parsed) = parsed else { continue };
        let Ok(piece) = Piece::new(&parsed, &packet) else { continue };
        let progress = datagram.add(&mut room, &piece, &packet);
        naive.resize(naive.len().max(offset + length), None);
        let before = naive[offset..offset + length].to_vec();
        match progress {
            Progress::Spoilt => return,
            Progress::Repeated => {
                assert!(before.iter().zip(&octets).all(|(before, octet)| *before == Some(*octet)));
                continue;
            }
            Progress::Added | Progress::Complete => {
                assert!(before.iter().all(Option::is_none));
                naive[offset..offset + length].iter_mut().zip(&octets).for_each(|(to, from)| *to = Some(*from));
            }
        }
        if !more {
            assert_eq!(end.replace(offset + length), None);
        }
        let whole = end.is_some_and(|end| naive.len() == end) && naive.iter().all(Option::is_some);
        assert_eq!(progress == Progress::Complete, whole);
        assert_eq!(datagram.finish(&mut room).is_some(), whole);
        if whole {
            let packet = &room[DATA - 40..DATA + naive.len()];
            let (start, parsed) = match choice & 1 {
                0 => (20, parse::ipv4(packet, 20)),
                _ => (0, parse::ipv6(packet, 0)),
            };
            assert_eq!(parsed.unwrap().l3_length as usize, packet.len() - start);
            assert!(packet[40..].iter().zip(&naive).all(|(octet, expected)| Some(*octet) == *expected));
            return;
        }
    }
}

/// Any octets at all.
fn arbitrary(packet: &[u8]) {
    for parsed in [parse::ipv4(packet, 0), parse::ipv6(packet, 0)].into_iter().flatten() {
        if let Ok(piece) = Piece::new(&parsed, packet) {
            let mut room = vec![0; ROOM];
            let mut datagram = Datagram::new();
            assert_ne!(datagram.add(&mut room, &piece, packet), Progress::Complete);
            if piece.offset == 0 {
                let length = usize::from(piece.headers) + usize::from(piece.length);
                assert_eq!(room[datagram.first_fragment().unwrap()], packet[..length]);
            }
        }
    }
}

fn v4(offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let total = (20 + data.len()) as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[6..8].copy_from_slice(&((offset / 8) as u16 | u16::from(more) << 13).to_be_bytes());
    let checksum = weir_packet::checksum::of(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend_from_slice(data);
    packet
}

fn v6(offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 48];
    (packet[0], packet[6], packet[7], packet[23], packet[39]) = (0x60, 44, 64, 1, 2);
    packet[4..6].copy_from_slice(&((8 + data.len()) as u16).to_be_bytes());
    packet[40] = 17;
    packet[42..44].copy_from_slice(&(offset as u16 | u16::from(more)).to_be_bytes());
    packet.extend_from_slice(data);
    packet
}
