//! SYN segments with a maximum segment size.

use weir_packet::wire::{ipv4, ipv6, protocol};
use weir_packet::{checksum, mss, parse};

/// A segment of each family from west to east, and the octets of its headers without options.
pub const SYN: [(&str, u16); 2] = [
    ("tcp from 10.1.0.2 port 7 to 10.2.0.2 port 9 mss 1460", 40),
    ("tcp from 2001:db8:1::2 port 7 to 2001:db8:2::2 port 9 mss 1440", 60),
];

/// The maximum segment size in a frame, whose checksum has to be right.
pub fn mss(frame: &[u8]) -> u16 {
    let l3 = usize::from(parse::ethernet(frame).unwrap().l3);
    let (parsed, pseudo) = match frame[l3] >> 4 {
        4 => {
            let (parsed, header) = (parse::ipv4(frame, l3).unwrap(), ipv4::Header::new(&frame[l3..]).unwrap());
            let length = (frame.len() - usize::from(parsed.l4)) as u16;
            (parsed, checksum::pseudo_v4(header.source(), header.destination(), protocol::TCP, length))
        }
        _ => {
            let (parsed, header) = (parse::ipv6(frame, l3).unwrap(), ipv6::Header::new(&frame[l3..]).unwrap());
            let length = (frame.len() - usize::from(parsed.l4)) as u32;
            (parsed, checksum::pseudo_v6(header.source(), header.destination(), protocol::TCP, length))
        }
    };
    assert!(pseudo.bytes(&frame[usize::from(parsed.l4)..]).is_valid(), "the checksum of TCP");
    mss::of(&parsed, frame).unwrap()
}
