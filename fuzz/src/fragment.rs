//! Fragmentation: every fragment is valid and fits, and together they are what was cut.

use weir_packet::fragment::Fragmenter;
use weir_packet::parse;
use weir_packet::wire::ipv4;

/// The target.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((mtu, packet)) = data.split_first_chunk::<2>() else { return };
    let mtu = usize::from(u16::from_be_bytes(*mtu)) % 2048;
    let Ok(mut fragmenter) = Fragmenter::new(packet, mtu as u32) else { return };
    let original = ipv4::Header::new(packet).unwrap();
    let data = &packet[original.header_length()..usize::from(original.total_length())];
    let (count, mut seen, mut together) = (fragmenter.count(), 0, Vec::new());
    let mut out = [0; 2048];
    while let Some(length) = fragmenter.next(&mut out) {
        assert!(length <= mtu);
        seen += 1;
        let header = ipv4::Header::new(&out).unwrap();
        if count > 1 {
            let parsed = parse::ipv4(&out[..length], 0).unwrap();
            assert_eq!(parsed.l3_length as usize, length);
            assert_eq!(header.more_fragments(), seen < count || original.more_fragments());
            assert_eq!(usize::from(header.fragment_offset()), usize::from(original.fragment_offset()) + together.len());
        } else {
            assert_eq!(&out[..length], &packet[..length]);
        }
        together.extend_from_slice(&out[header.header_length()..length]);
    }
    assert_eq!(seen, count);
    assert_eq!(together, data);
}
