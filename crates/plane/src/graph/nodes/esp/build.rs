//! The packet of ESP around a packet: outer headers, SPI, sequence number, IV and trailer. The text is not sealed yet.

use weir_base::random::SecureRandom;
use weir_packet::esp::{self, Marks};
use weir_packet::offload::Offload;
use weir_packet::packet::{NoRoom, Packet};
use weir_packet::parse::{ParseFlags, Parsed};
use weir_packet::wire::{ipv4, ipv6, protocol, udp};

use crate::model::{OuterDf, OuterDscp, OuterLabel, SaMode};
use crate::root::ipsec::{Outbound, Sa};

/// A number for the packet, and what is drawn for it.
pub(super) struct Draw<'a> {
    pub(super) number: u64,
    /// A hash of the inner flow.
    pub(super) flow: u32,
    /// The octets that a shorter inner packet is padded to in tunnel mode.
    pub(super) padded: usize,
    pub(super) random: &'a mut SecureRandom,
}

/// Builds the packet of ESP around a packet that starts with its IP header behind any link-layer header. Returns the offset
/// of the SPI in the frame.
///
/// # Errors
/// When headroom or tailroom is too short, or the packet would be too long for IP; it is dropped then.
#[inline]
pub(super) fn build(packet: &mut Packet, sa: &Sa, outbound: &Outbound, draw: Draw<'_>) -> Result<usize, NoRoom> {
    match sa.mode {
        SaMode::Tunnel => tunnel(packet, sa, outbound, draw),
        SaMode::Transport => transport(packet, sa, outbound, draw),
    }
}

#[inline]
fn tunnel(packet: &mut Packet, sa: &Sa, outbound: &Outbound, draw: Draw<'_>) -> Result<usize, NoRoom> {
    let mut length = packet.len() - packet.l3_offset();
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let marks = marks(packet, sa, &draw).ok_or(NoRoom)?;
    if length < draw.padded {
        length = pad(packet, draw.padded - length)?;
    }
    let (at, layout) = (sa.outer.length(), sa.layout);
    let (end, trailer) = (at + layout.front() + length, layout.padding(length) + 2);
    packet.enclose(at + layout.front(), trailer + layout.icv())?;
    let data = packet.data_mut();
    sa.outer.write(data, end - at + trailer + layout.icv(), &marks).ok_or(NoRoom)?;
    esp::write_trailer(&mut data[end..end + trailer], if v4 { protocol::IPIP } else { protocol::IPV6 });
    write_header(packet, sa, outbound, at, draw);
    let family = if sa.outer.is_v4() { ParseFlags::IP4 } else { ParseFlags::IP6 };
    describe(packet, sa, family, sa.outer.ip_length());
    Ok(at)
}

/// Appends octets for traffic flow confidentiality (RFC 4303, 2.7); returns the length from the IP header on. The receiver cuts
/// the packet to the length in its IP header.
#[cold]
fn pad(packet: &mut Packet, octets: usize) -> Result<usize, NoRoom> {
    let end = packet.len();
    packet.set_len(end + octets)?;
    packet.data_mut()[end..].fill(0);
    Ok(packet.len() - packet.l3_offset())
}

fn transport(packet: &mut Packet, sa: &Sa, outbound: &Outbound, draw: Draw<'_>) -> Result<usize, NoRoom> {
    let place = esp::place(packet.l3()).ok_or(NoRoom)?;
    let payload = packet.len() - packet.l3_offset() - place.at;
    let next_header = packet.l3().get(place.named_at).copied().ok_or(NoRoom)?;
    let family = packet.flags().without(ParseFlags::L4_HEADER).without(ParseFlags::L4);
    add_trailer(packet, sa, payload, next_header)?;
    let udp = if sa.udp.is_some() { udp::LENGTH } else { 0 };
    let gap = udp + sa.layout.front();
    packet.replace_l2(gap)?;
    let at = place.at + udp;
    let length = at + sa.layout.sealed(payload);
    let data = packet.data_mut();
    data.copy_within(gap..gap + place.at, 0);
    let own = if udp > 0 { protocol::UDP } else { protocol::ESP };
    esp::rename(data, place.named_at, own, length).ok_or(NoRoom)?;
    if let Some((source, destination)) = sa.udp {
        // The packet has at most 65,535 octets, as `rename` has seen.
        let length = (length - place.at) as u16;
        let header = udp::Fields { source, destination, length, checksum: 0 };
        data[place.at..at].copy_from_slice(&header.emit());
    }
    write_header(packet, sa, outbound, at, draw);
    describe(packet, sa, family, place.at);
    Ok(at)
}

/// Appends padding, trailer and room for the ICV to a packet with so many octets of payload.
#[inline(always)]
fn add_trailer(packet: &mut Packet, sa: &Sa, payload: usize, next_header: u8) -> Result<(), NoRoom> {
    let end = packet.len();
    let trailer = sa.layout.padding(payload) + 2;
    packet.set_len(end + trailer + sa.layout.icv())?;
    esp::write_trailer(&mut packet.data_mut()[end..end + trailer], next_header);
    Ok(())
}

/// Writes SPI, sequence number and IV.
#[inline(always)]
pub(super) fn write_header(packet: &mut Packet, sa: &Sa, outbound: &Outbound, at: usize, draw: Draw<'_>) {
    let front = &mut packet.data_mut()[at..at + sa.layout.front()];
    front[..4].copy_from_slice(&outbound.spi.to_be_bytes());
    front[4..8].copy_from_slice(&(draw.number as u32).to_be_bytes());
    let iv = &mut front[8..];
    if sa.random_iv {
        for chunk in iv.chunks_mut(8) {
            chunk.copy_from_slice(&draw.random.next().to_be_bytes()[..chunk.len()]);
        }
    } else if let Some(iv) = iv.first_chunk_mut::<8>() {
        // Unique under the key, as the number is.
        *iv = draw.number.to_be_bytes();
    }
}

/// Notes what the packet is now, as the parser would.
#[inline(always)]
fn describe(packet: &mut Packet, sa: &Sa, family: ParseFlags, l4: usize) {
    let udp = sa.udp.is_some();
    let flags = family | if udp { ParseFlags::L4 | ParseFlags::L4_HEADER } else { ParseFlags::empty() };
    let protocol = if udp { protocol::UDP } else { protocol::ESP };
    packet.set_parsed(&Parsed { l3: 0, l4: l4 as u16, protocol, flags, l3_length: packet.len() as u32 });
    packet.set_offload(Offload::default());
}

/// The fields of the outer header.
#[inline(always)]
fn marks(packet: &Packet, sa: &Sa, draw: &Draw<'_>) -> Option<Marks> {
    let (class, inner_df, label) = if packet.flags().contains(ParseFlags::IP4) {
        let header = ipv4::Header::new(packet.l3_header::<{ ipv4::LENGTH }>()?).ok()?;
        (header.dscp() << 2 | header.ecn(), header.dont_fragment(), 0)
    } else {
        let header = ipv6::Header::new(packet.l3_header::<{ ipv6::LENGTH }>()?).ok()?;
        (header.traffic_class(), true, header.flow_label())
    };
    let dscp = match sa.dscp {
        OuterDscp::Copy => class & !3,
        OuterDscp::Fixed(dscp) => dscp << 2,
    };
    let dont_fragment = match sa.df {
        OuterDf::Copy => inner_df,
        OuterDf::Set => true,
        OuterDf::Clear => false,
    };
    let flow_label = match sa.flow_label {
        OuterLabel::Flow => draw.flow & 0xf_ffff,
        OuterLabel::Copy => label,
        OuterLabel::Zero => 0,
    };
    // Packets that are not fragmented need no identification (RFC 6864, 4.1).
    let identification = if dont_fragment { 0 } else { draw.number as u16 };
    let ecn = if sa.ecn { class & 3 } else { esp::ecn::NOT_ECT };
    Some(Marks { traffic_class: dscp | ecn, dont_fragment, identification, flow_label })
}
