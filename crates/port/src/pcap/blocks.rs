//! Blocks of pcapng files, as octets for callers that write them themselves (draft-ietf-opsawg-pcapng, little endian).

use weir_base::clock::Time;

/// The link type of Ethernet frames.
const LINK_ETHERNET: u16 = 1;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Options of blocks.
mod option {
    pub(super) const APPLICATION: u16 = 4;
    pub(super) const NAME: u16 = 2;
    pub(super) const RESOLUTION: u16 = 9;
    pub(super) const FLAGS: u16 = 2;
    pub(super) const RECEIVED: u16 = 4;
    pub(super) const DROPPED: u16 = 5;
}

/// A packet of a capture.
#[derive(Debug, Clone, Copy)]
pub struct CapturedPacket<'a> {
    /// The interface, by its place among the descriptions of the file.
    pub interface: u32,
    /// When it came or left: nanoseconds of the Unix epoch.
    pub time: Time,
    /// Its first octets.
    pub octets: &'a [u8],
    /// Octets of the packet.
    pub length: usize,
    /// It was leaving, not coming in.
    pub output: bool,
}

/// Appends the header of a section, with the name of the program that writes it.
pub fn section(blocks: &mut Vec<u8>, application: &str) {
    block(blocks, SECTION, |body| {
        body.extend(0x1a2b_3c4d_u32.to_le_bytes());
        body.extend([1, 0, 0, 0]); // version 1.0
        body.extend([0xff; 8]); // of no given length
        option(body, option::APPLICATION, application.as_bytes());
        end(body);
    });
}

/// Appends the description of an interface with Ethernet frames, whose times are in nanoseconds.
pub fn interface(blocks: &mut Vec<u8>, name: &str, snap: u32) {
    block(blocks, INTERFACE, |body| {
        body.extend(LINK_ETHERNET.to_le_bytes());
        body.extend([0; 2]);
        body.extend(snap.to_le_bytes());
        option(body, option::NAME, name.as_bytes());
        option(body, option::RESOLUTION, &[9]);
        end(body);
    });
}

/// Appends a packet.
pub fn packet(blocks: &mut Vec<u8>, packet: &CapturedPacket<'_>) {
    let CapturedPacket { interface, time, octets, length, output } = *packet;
    block(blocks, PACKET, |body| {
        for word in [interface, (time.0 >> 32) as u32, time.0 as u32, octets.len() as u32, length as u32] {
            body.extend(word.to_le_bytes());
        }
        body.extend(octets);
        pad(body);
        option(body, option::FLAGS, &(1 + u32::from(output)).to_le_bytes());
        end(body);
    });
}

/// Appends the counts of an interface: packets that were wanted, and those of them that are missing.
pub fn statistics(blocks: &mut Vec<u8>, interface: u32, time: Time, (received, dropped): (u64, u64)) {
    block(blocks, STATISTICS, |body| {
        for word in [interface, (time.0 >> 32) as u32, time.0 as u32] {
            body.extend(word.to_le_bytes());
        }
        option(body, option::RECEIVED, &received.to_le_bytes());
        option(body, option::DROPPED, &dropped.to_le_bytes());
        end(body);
    });
}

/// Appends a block with the body that `fill` appends, whose length is a multiple of four.
fn block(blocks: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = blocks.len();
    blocks.extend(kind.to_le_bytes());
    blocks.extend([0; 4]);
    fill(blocks);
    let length = (blocks.len() - start + 4) as u32;
    blocks[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    blocks.extend(length.to_le_bytes());
}

/// Appends an option. Longer values than an option holds are cut.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn end(body: &mut Vec<u8>) {
    body.extend([0; 4]);
}

/// Fills up to a multiple of four octets. Blocks begin at one, as each has such a length.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Reader;
    use super::*;

    #[test]
    fn the_reader_reads_what_is_written() {
        let frames: Vec<Vec<u8>> = (60..70).map(|length| (0..length).collect()).collect();
        let mut file = Vec::new();
        section(&mut file, "weir 1");
        interface(&mut file, "lan", 64);
        for (number, frame) in (0..).zip(&frames) {
            let time = Time(1_700_000_000_000_000_000 + number);
            let octets = &frame[..frame.len().min(64)];
            packet(&mut file, &CapturedPacket { interface: 0, time, octets, length: frame.len(), output: false });
            statistics(&mut file, 0, time, (number, 3));
        }
        assert_eq!(file.len() % 4, 0);
        let mut reader = Reader::new(&file[..], Path::new("test.pcapng")).unwrap();
        for (number, frame) in (0..).zip(&frames) {
            let record = reader.read().unwrap().unwrap();
            assert_eq!(record.time, Time(1_700_000_000_000_000_000 + number));
            assert_eq!(record.frame, &frame[..frame.len().min(64)]);
        }
        assert!(reader.read().unwrap().is_none());
    }
}
