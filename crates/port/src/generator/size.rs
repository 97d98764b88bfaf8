//! Frame lengths, and the fields that depend on them.

use weir_packet::checksum::Delta;
use weir_packet::wire::{ipv4, ipv6};

use super::error::StreamError;
use super::layout::Layout;
use super::payload::Payload;
use crate::spec::{SizeSpec, Transport};

/// The simple Internet mix, as frames without check sequence.
const IMIX: [(u32, usize); 3] = [(60, 7), (590, 4), (1514, 1)];

/// A frame length and the fields that depend on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) frame: u32,
    pub(super) network_length: u16,
    pub(super) transport_length: u16,
    pub(super) payload_sum: u16,
    /// Change of the IPv4 header's checksum against the template's first size.
    network: Delta,
    /// Change of the transport checksum against the template's first size.
    transport: Delta,
}

/// The lengths of a template's frames.
#[derive(Debug, Clone)]
pub(super) struct Sizes(Box<[Size]>);

impl Sizes {
    pub(super) fn new(
        spec: SizeSpec,
        layout: &Layout,
        payload: &Payload,
        longest: usize,
    ) -> Result<Sizes, StreamError> {
        let least = layout.payload as u32;
        let frames: Vec<u32> = match spec {
            SizeSpec::Fixed(size) => vec![size],
            SizeSpec::Range(low, high) if low > high => return Err(StreamError::Reversed { range: "size" }),
            // Longer frames are refused below; one of them suffices.
            SizeSpec::Range(low, high) => (low..=high.min(longest as u32 + 1)).collect(),
            // If the headers are longer than 60 octets, small frames are as short as possible.
            SizeSpec::Imix => IMIX.iter().flat_map(|&(size, times)| vec![size.max(least); times]).collect(),
        };
        if let Some(&size) = frames.iter().find(|&&size| size < least) {
            return Err(StreamError::TooShort { size, least });
        }
        if let Some(&size) = frames.iter().find(|&&size| size as usize > longest) {
            return Err(StreamError::TooLong { size, most: longest });
        }
        let Some(&first) = frames.first() else {
            return Err(StreamError::TooLong { size: u32::MAX, most: longest });
        };
        let sums = payload.sums();
        let first = Size::new(first as usize, layout, &sums);
        let sizes = frames.iter().map(|&frame| Size::new(frame as usize, layout, &sums).against(&first, layout));
        Ok(Sizes(sizes.collect()))
    }

    /// Returns the size that frames are built for.
    pub(super) fn first(&self) -> &Size {
        &self.0[0]
    }

    /// Returns the only size, if there is one.
    pub(super) fn fixed(&self) -> Option<&Size> {
        if self.0.len() == 1 { self.0.first() } else { None }
    }

    /// Returns the size of the stream's `n`-th packet. Multiples of the golden ratio spread evenly: every part of the
    /// stream has each size as often as it should, within one or two packets, without a visible pattern.
    #[inline(always)]
    pub(super) fn of(&self, n: u64) -> &Size {
        let share = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[((u128::from(share) * self.0.len() as u128) >> 64) as usize]
    }
}

impl Size {
    fn new(frame: usize, layout: &Layout, payload_sums: &[u16]) -> Size {
        Size {
            frame: frame as u32,
            network_length: layout.network_length(frame),
            transport_length: layout.transport_length(frame),
            payload_sum: payload_sums[frame - layout.payload],
            network: Delta::NONE,
            transport: Delta::NONE,
        }
    }

    fn against(self, first: &Size, layout: &Layout) -> Size {
        let network = Delta::word(first.network_length, self.network_length);
        let length = Delta::word(first.transport_length, self.transport_length);
        let payload = Delta::word(first.payload_sum, self.payload_sum);
        let transport = match layout.transport {
            // Once in the pseudo-header, once in the header.
            Transport::Udp => payload.and(length).and(length),
            Transport::Icmp if !layout.ipv6 => payload,
            Transport::Tcp | Transport::Icmp => payload.and(length),
        };
        Size { network, transport, ..self }
    }

    /// Converts a frame of the template's first size and identification 0 into one of this size and `identification`
    /// (IPv4 only). `frame` must hold the headers.
    #[inline(always)]
    pub(super) fn patch(&self, frame: &mut [u8], layout: &Layout, identification: u16) {
        let network = &mut frame[layout.l3..];
        if layout.ipv6 {
            put(network, ipv6::PAYLOAD_LENGTH, self.network_length);
        } else {
            put(network, ipv4::TOTAL_LENGTH, self.network_length);
            put(network, ipv4::IDENTIFICATION, identification);
            let change = self.network.and(Delta::word(0, identification));
            put(network, ipv4::CHECKSUM, change.apply(get(network, ipv4::CHECKSUM)));
        }
        let checksum = layout.checksum();
        let old = get(frame, checksum);
        let new = match layout.transport {
            Transport::Udp => {
                put(frame, layout.l4 + 4, self.transport_length);
                self.transport.apply_udp(old)
            }
            Transport::Tcp | Transport::Icmp => self.transport.apply(old),
        };
        put(frame, checksum, new);
    }
}

/// Sets the identification of a frame with identification 0 (IPv4 only).
#[inline(always)]
pub(super) fn identify(frame: &mut [u8], layout: &Layout, identification: u16) {
    let network = &mut frame[layout.l3..layout.l4];
    put(network, ipv4::IDENTIFICATION, identification);
    put(network, ipv4::CHECKSUM, Delta::word(0, identification).apply(get(network, ipv4::CHECKSUM)));
}

#[inline(always)]
fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
