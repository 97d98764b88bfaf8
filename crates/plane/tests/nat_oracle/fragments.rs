//! Fragments of packets by RFC 791 and 8200: split in front of the gateway, joined behind it.

use weir_base::random::Random;

/// Octets of the headers in front of what is split, as packets of the oracle have them.
fn header(packet: &[u8]) -> usize {
    if packet[0] >> 4 == 6 { 40 } else { 20 }
}

/// The sum of an IPv4 header.
fn sum(header: &mut [u8]) {
    header[10..12].fill(0);
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum = words.sum::<u32>();
    let folded = (sum >> 16) + (sum & 0xffff);
    header[10..12].copy_from_slice(&(!((folded >> 16) + folded) as u16).to_be_bytes());
}

/// A fragment of the octets from `first` to `end`.
fn fragment(packet: &[u8], first: usize, end: usize, id: u16) -> Vec<u8> {
    let (start, octets) = (header(packet), packet.len());
    let (mut head, data) = (packet[..start].to_vec(), &packet[start + first..start + end]);
    let more = u16::from(start + end < octets);
    if start == 20 {
        head[2..4].copy_from_slice(&(20 + data.len() as u16).to_be_bytes());
        head[6..8].copy_from_slice(&((more << 13) | (first as u16 / 8)).to_be_bytes());
        sum(&mut head);
    } else {
        head[4..6].copy_from_slice(&(8 + data.len() as u16).to_be_bytes());
        let next = std::mem::replace(&mut head[6], 44);
        head.extend([next, 0]);
        head.extend((first as u16 | more).to_be_bytes());
        head.extend(u32::from(id).to_be_bytes());
    }
    [&head, data].concat()
}

/// Splits a packet behind its `first` octets of payload and then each eight; in any order, also the first one last.
pub fn split(random: &mut Random, packet: &[u8], first: usize, id: u16) -> Vec<Vec<u8>> {
    let payload = packet.len() - header(packet);
    let mut cuts = vec![0, first];
    while cuts[cuts.len() - 1] + 8 < payload {
        cuts.push(cuts[cuts.len() - 1] + 8);
    }
    cuts.push(payload);
    let mut fragments: Vec<Vec<u8>> = cuts.windows(2).map(|ends| fragment(packet, ends[0], ends[1], id)).collect();
    match random.below(3) {
        0 => {}
        1 => fragments.reverse(),
        _ => fragments.rotate_left(1),
    }
    fragments
}

/// The offset of a fragment, whether more follow, and its payload.
fn parts(packet: &[u8]) -> Option<(usize, bool, &[u8])> {
    let word = |at: usize| usize::from(packet[at]) << 8 | usize::from(packet[at + 1]);
    match header(packet) {
        20 => Some(((word(6) & 0x1fff) * 8, word(6) & 0x2000 != 0, &packet[20..])),
        _ if packet[6] == 44 => Some((word(42) & !7, word(42) & 1 != 0, &packet[48..])),
        _ => None,
    }
}

/// Joins frames that leave by one port into the frame of the whole packet; `Err`: they are no whole one.
pub fn join(frames: &[&(usize, Vec<u8>)]) -> Result<(usize, Vec<u8>), String> {
    let mut pieces = Vec::new();
    for (port, frame) in frames {
        let (offset, more, data) = parts(&frame[14..]).ok_or("a frame is no fragment")?;
        pieces.push((offset, more, data, *port, frame));
    }
    pieces.sort_by_key(|piece| piece.0);
    let (_, _, _, port, first) = pieces[0];
    let ip = &first[14..];
    let is_v4 = header(ip) == 20;
    let (mut whole, mut is_whole) = (Vec::new(), false);
    for (offset, more, data, other, frame) in &pieces {
        let same =
            *other == port && frame[..14] == first[..14] && frame[14 + 12..14 + header(ip)] == ip[12..header(ip)];
        let same_hops = if is_v4 { frame[14 + 8] == ip[8] } else { frame[14 + 7] == ip[7] };
        if *offset != whole.len() || is_whole || !same || !same_hops {
            return Err(format!("no fragments of one packet: {frames:02x?}"));
        }
        whole.extend_from_slice(data);
        is_whole = !more;
    }
    if !is_whole {
        return Err(format!("a fragment is missing: {frames:02x?}"));
    }
    let mut head = ip[..header(ip)].to_vec();
    if is_v4 {
        head[2..4].copy_from_slice(&(20 + whole.len() as u16).to_be_bytes());
        head[6..8].fill(0);
        sum(&mut head);
    } else {
        head[4..6].copy_from_slice(&(whole.len() as u16).to_be_bytes());
        head[6] = ip[40];
    }
    Ok((port, [&first[..14], &head, &whole].concat()))
}
