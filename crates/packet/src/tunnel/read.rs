//! Reading of packets of tunnels: the identifier, and where the inner packet begins.

use super::kind::{Carrier, Id, Inner};
use crate::checksum;
use crate::wire::ethernet::ethertype;
use crate::wire::{geneve, gre, gue, protocol, vxlan};

/// A packet of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The identifier of the tunnel.
    pub id: Id,
    /// Octets in front of the inner packet.
    pub header: usize,
    /// The first header of the inner packet.
    pub inner: Inner,
}

/// Why a packet of a tunnel carries nothing that is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refused {
    /// Its header is not one of the protocol, or carries a protocol that is not taken out.
    Malformed,
    /// It has an option that who does not know it drops the packet for.
    Critical,
    /// It speaks to the end of the tunnel.
    Control,
}

/// Reads the header of a tunnel at the start of `bytes`: what is behind UDP, or behind the IP header, whose protocol is `number`.
///
/// # Errors
/// If nothing is to be taken out.
#[inline]
pub fn read(carrier: Carrier, number: u8, bytes: &[u8]) -> Result<Opened, Refused> {
    match carrier {
        Carrier::Vxlan => {
            let header = vxlan::Header::new(bytes).map_err(|_| Refused::Malformed)?;
            if !header.is_valid() {
                return Err(Refused::Malformed);
            }
            Ok(Opened { id: Id::network(header.vni()), header: vxlan::LENGTH, inner: Inner::Ethernet })
        }
        Carrier::Geneve => read_geneve(bytes),
        Carrier::Gue => read_gue(bytes),
        Carrier::Gre => {
            let fields = gre::Fields::parse(bytes).map_err(|_| Refused::Malformed)?;
            let inner = match fields.protocol {
                ethertype::IPV4 => Inner::V4,
                ethertype::IPV6 => Inner::V6,
                _ => return Err(Refused::Malformed),
            };
            versioned(bytes, Opened { id: Id::key(fields.key), header: fields.length(), inner })
        }
        Carrier::Ip => {
            let inner = if number == protocol::IPIP { Inner::V4 } else { Inner::V6 };
            versioned(bytes, Opened { id: Id::NONE, header: 0, inner })
        }
    }
}

fn read_geneve(bytes: &[u8]) -> Result<Opened, Refused> {
    let header = geneve::Header::new(bytes).map_err(|_| Refused::Malformed)?;
    if header.version() != 0 {
        return Err(Refused::Malformed);
    }
    let end = geneve::LENGTH + header.options_length();
    let options = bytes.get(geneve::LENGTH..end).ok_or(Refused::Malformed)?;
    for option in geneve::Options::new(options) {
        // No option is known here.
        if option.map_err(|_| Refused::Malformed)?.is_critical() {
            return Err(Refused::Critical);
        }
    }
    if header.is_control() {
        return Err(Refused::Control);
    }
    // RFC 8926, 3.4: the flag says that there is one.
    if header.is_critical() || header.protocol() != ethertype::TRANSPARENT_BRIDGING {
        return Err(Refused::Malformed);
    }
    Ok(Opened { id: Id::network(header.vni()), header: end, inner: Inner::Ethernet })
}

fn read_gue(bytes: &[u8]) -> Result<Opened, Refused> {
    let header = gue::Header::new(bytes).map_err(|_| Refused::Malformed)?;
    let of = |header, inner| versioned(bytes, Opened { id: Id::NONE, header, inner });
    match header.variant() {
        0 => {}
        1 if bytes[0] >> 4 == 4 => return of(0, Inner::V4),
        1 if bytes[0] >> 4 == 6 => return of(0, Inner::V6),
        _ => return Err(Refused::Malformed),
    }
    if header.is_control() {
        return Err(Refused::Control);
    }
    // A receiver drops what has flags that it does not know (3.4); without flags, the rest is private data.
    if header.flags() != 0 {
        return Err(Refused::Critical);
    }
    let at = gue::LENGTH + header.extensions();
    match header.protocol() {
        protocol::IPIP => of(at, Inner::V4),
        protocol::IPV6 => of(at, Inner::V6),
        _ => Err(Refused::Malformed),
    }
}

/// Checks that the inner packet is of the version that the header names.
#[inline]
fn versioned(bytes: &[u8], opened: Opened) -> Result<Opened, Refused> {
    let version = bytes.get(opened.header).map(|first| first >> 4);
    match (opened.inner, version) {
        (Inner::V4, Some(4)) | (Inner::V6, Some(6)) => Ok(opened),
        _ => Err(Refused::Malformed),
    }
}

/// Returns whether a packet of GRE, from its header on, has the checksum that it says, if it has one (RFC 2784, 2.5).
#[inline]
#[must_use]
pub fn is_intact_gre(bytes: &[u8]) -> bool {
    let has = bytes.first().is_some_and(|first| u16::from_be_bytes([*first, 0]) & gre::CHECKSUM != 0);
    !has || checksum::is_valid(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_carries_nothing_is_refused() {
        use Carrier::{Geneve, Gre, Gue, Ip, Vxlan};
        use Refused::{Control, Critical, Malformed};
        let geneve = |options: &[u8], flags: u8| {
            let mut bytes = vec![options.len() as u8 / 4, flags, 0x65, 0x58, 0, 0, 7, 0];
            bytes.extend(options);
            bytes.extend([0; 14]);
            bytes
        };
        type Row = (Carrier, u8, Vec<u8>, Result<(u64, usize, Inner), Refused>);
        let rows: [Row; 20] = [
            (Vxlan, 0, vec![8, 0, 0, 0, 0, 0, 100, 0], Ok((100, 8, Inner::Ethernet))),
            (Vxlan, 0, vec![0, 0, 0, 0, 0, 0, 100, 0], Err(Malformed)),
            (Vxlan, 0, vec![8; 7], Err(Malformed)),
            (Geneve, 0, geneve(&[], 0), Ok((7, 8, Inner::Ethernet))),
            (Geneve, 0, geneve(&[1, 2, 3, 1, 0, 0, 0, 0], 0), Ok((7, 16, Inner::Ethernet))),
            (Geneve, 0, geneve(&[1, 2, 0x83, 0], 0x40), Err(Critical)),
            (Geneve, 0, geneve(&[1, 2, 0x83, 0], 0), Err(Critical)),
            (Geneve, 0, geneve(&[1, 2, 3, 2, 0, 0, 0, 0], 0), Err(Malformed)),
            (Geneve, 0, geneve(&[], 0x80), Err(Control)),
            (Geneve, 0, vec![63, 0, 0x65, 0x58, 0, 0, 7, 0, 0, 0], Err(Malformed)),
            (Gue, 0, vec![0x45, 0, 0, 20], Ok((0, 0, Inner::V4))),
            (Gue, 0, vec![0, 41, 0, 0, 0x60], Ok((0, 4, Inner::V6))),
            (Gue, 0, vec![1, 4, 0, 0, 9, 9, 9, 9, 0x45], Ok((0, 8, Inner::V4))),
            (Gue, 0, vec![0, 4, 0x80, 0, 0x45], Err(Critical)),
            (Gue, 0, vec![0x20, 1, 0, 0], Err(Control)),
            (Gue, 0, vec![0x80, 0, 0, 0], Err(Malformed)),
            (Gre, 0, vec![0x20, 0, 8, 0, 0, 0, 0, 5, 0x45], Ok((1 << 32 | 5, 8, Inner::V4))),
            (Gre, 0, vec![0, 0, 0x65, 0x58, 0x45], Err(Malformed)),
            (Ip, 4, vec![0x45], Ok((0, 0, Inner::V4))),
            (Ip, 41, vec![0x45], Err(Malformed)),
        ];
        for (carrier, number, bytes, expected) in rows {
            let opened = read(carrier, number, &bytes).map(|own| (own.id.0, own.header, own.inner));
            assert_eq!(opened, expected, "{carrier:?} {bytes:02x?}");
        }
    }

    #[test]
    fn keys_differ_from_none() {
        let all = [Id::NONE, Id::key(Some(0)), Id::key(Some(1)), Id::key(Some(u32::MAX))];
        assert_eq!(Id::key(None), Id::NONE);
        assert!(all.is_sorted_by(|a, b| a < b));
    }

    proptest! {
        #[test]
        fn an_inner_packet_lies_within(bytes in proptest::collection::vec(any::<u8>(), 0..300), number: u8) {
            for carrier in Carrier::ALL {
                if let Ok(opened) = read(carrier, number, &bytes) {
                    prop_assert!(opened.header <= bytes.len());
                }
            }
            let _ = is_intact_gre(&bytes);
        }
    }
}
