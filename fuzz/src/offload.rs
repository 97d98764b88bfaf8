//! The kernel's offloads (virtio_net_hdr). With any header and any frame, accepted fields lie within the frame, survive
//! being passed on, and can be completed. Segments lie within their super-packet.

use std::cell::RefCell;

use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::checksum;
use weir_packet::offload::{Checksum, Gso, Offload, VirtioHeader};
use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::segment::{self, Segmenter};
use weir_packet::wire::ethernet::ethertype;

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::new(Pool::new(PoolSize { small: 4, large: 4 }).expect("room").cache());
}

/// The target.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((header, frame)) = data.split_first_chunk() else { return };
    let header = VirtioHeader::parse(header);
    assert_eq!(VirtioHeader::parse(&header.emit()), header);
    let Ok(state) = header.offload(frame.len()) else { return };
    assert_eq!(state.gso == Gso::None, state.segment == 0);
    let (start, place) = (usize::from(state.start), usize::from(state.start) + usize::from(state.offset));
    match state.checksum {
        Checksum::Partial => assert!(place + 2 <= frame.len()),
        _ => assert_eq!((start, place), (0, 0)),
    }
    assert_eq!(VirtioHeader::of(&state, 0).offload(frame.len()), Ok(state));
    CACHE.with_borrow_mut(|cache| {
        let Some(mut packet) = Packet::copy_of(cache, frame) else { return };
        packet.set_offload(state);
        assert_eq!(packet.offload(), state);
        checksum::complete(&mut packet);
        if state.checksum == Checksum::Partial && state.gso == Gso::None {
            assert_eq!(packet.offload(), Offload::default());
            let mut expected = frame.to_vec();
            if !state.is_crc() {
                expected[place..place + 2].copy_from_slice(&completed(&frame[start..]).to_be_bytes());
            } else if expected.len() >= place + 4 {
                // A frame that ends inside of the field stays as it is.
                expected[place..place + 4].fill(0);
                let crc = crc32c(&expected[start..]);
                expected[place..place + 4].copy_from_slice(&crc.to_le_bytes());
            }
            assert_eq!(packet.data(), expected);
        } else {
            // Each segment gets a checksum of its own when it is cut.
            assert_eq!((packet.offload(), packet.data()), (state, frame));
        }
        if state.gso != Gso::None {
            cut(&mut packet);
        }
        packet.recycle(cache);
    });
}

/// Cuts a super-packet that says anything of itself: its segments lie within it, and are as many and as long as it counts for.
fn cut(packet: &mut Packet) {
    let Ok(l2) = parse::ethernet(packet.data()) else { return };
    let parsed = match l2.ethertype {
        ethertype::IPV4 => parse::ipv4(packet.data(), usize::from(l2.l3)),
        ethertype::IPV6 => parse::ipv6(packet.data(), usize::from(l2.l3)),
        _ => return,
    };
    let Ok(parsed) = parsed else { return };
    packet.set_parsed(&parsed);
    let (count, octets) = segment::on_wire(packet);
    let (is_nested, front) = (segment::is_nested(packet), packet.l3_offset());
    let Ok(mut segmenter) = Segmenter::new(packet) else { return };
    let (mut pieces, mut sum, mut last) = (0u32, 0usize, Vec::new());
    while let Some(length) = segmenter.next_length() {
        assert!(front + length <= packet.len());
        last = vec![0; length];
        assert_eq!(segmenter.next(&mut last), Some(length));
        (pieces, sum) = (pieces + 1, sum + front + length);
    }
    if is_nested {
        return;
    }
    assert_eq!((count, octets as usize), (pieces, sum));
    let mut segmenter = Segmenter::new(packet).expect("it was cut a moment ago");
    segmenter.skip_to_last();
    let mut piece = vec![0; last.len()];
    assert_eq!((segmenter.next(&mut piece), piece), (Some(last.len()), last));
    let keeps = pieces.div_ceil(2) as usize;
    segment::keep(packet, keeps).expect("its headers are what its state says");
    assert_eq!(segment::on_wire(packet).0 as usize, keeps);
}

/// RFC 9260, appendix A, bit by bit.
fn crc32c(octets: &[u8]) -> u32 {
    let bit = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !octets.iter().fold(!0, |crc, &octet| (0..8).fold(crc ^ u32::from(octet), bit))
}

/// RFC 1071 to the letter; none is 0xffff.
fn completed(octets: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u64 = octets.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    match !(sum as u16) {
        0 => 0xffff,
        checksum => checksum,
    }
}
