//! Messages of rtnetlink about routes, next hop objects, links and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::attributes::{V4, V6, address, attributes, u16_at, u32_at, via};

/// A change that a message reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// There is a route.
    Route(Route),
    /// A route is gone.
    RouteGone(Route),
    /// There is a next hop object, or it is another one than before.
    Nexthop(u32, Nexthop),
    /// A next hop object is gone.
    NexthopGone(u32),
    /// There is a device with an index and a name, which is up or not.
    Device(u32, String, bool),
    /// A device is gone.
    DeviceGone(u32),
    /// An address of a device is gone. The kernel deletes routes with it, and does not say so.
    AddressGone,
    /// The end of a list.
    Done,
    /// The kernel refused a request, with this error number.
    Refused(i32),
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its table.
    pub table: u32,
    /// Its destinations.
    pub prefix: IpNet,
    /// The program that added it (RTPROT_…).
    pub protocol: u8,
    /// The type of service that packets need to have; 0: any.
    pub tos: u8,
    /// The priority. Of several routes for a prefix that of the lowest counts.
    pub metric: u32,
    /// Its treatment of packets.
    pub kind: RouteKind,
    /// Its paths, for [`RouteKind::Unicast`] without an object.
    pub paths: Vec<Path>,
    /// The next hop object that has its paths.
    pub nexthop: Option<u32>,
    /// It takes the place of an equal one (NLM_F_REPLACE).
    pub replaces: bool,
    /// It stands behind equal ones (NLM_F_APPEND).
    pub appends: bool,
}

/// The treatment of packets by a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// Forward.
    Unicast,
    /// Discard silently.
    Blackhole,
    /// Discard and say so.
    Unreachable,
    /// Discard and say so, as forbidden.
    Prohibit,
    /// Any other, such as `local`.
    Other(u8),
}

/// A path of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    /// The index of the egress device.
    pub device: u32,
    /// The gateway's address; `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Its share, 1 ..= 256.
    pub weight: u16,
    /// Packets need an encapsulation there that is not known here.
    pub is_encapsulated: bool,
}

/// A next hop object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nexthop {
    /// One path.
    Path(Path),
    /// Discard silently.
    Blackhole,
    /// Other objects, each with a weight.
    Group(Vec<(u32, u16)>),
    /// Something that is no next hop of packets of IP.
    Other,
}

/// A message that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message of type {kind}, at octet {at}: {what}")]
pub struct Defect {
    /// The type of the message.
    pub kind: u16,
    /// The octet of the datagram at which the message begins.
    pub at: usize,
    /// The defect.
    pub what: &'static str,
}

/// Octets of a netlink header.
const HEADER: usize = 16;

/// NLM_F_REPLACE and NLM_F_APPEND.
const REPLACE: u16 = 0x100;
const APPEND: u16 = 0x800;

/// RTNH_F_DEAD: the device of a path is down.
const DEAD: u8 = 1;

/// Reads the messages of a datagram. Messages of other types are skipped. A defect in the body of a message hides this
/// message alone; a length that does not fit ends the list.
pub fn updates(datagram: &[u8]) -> impl Iterator<Item = Result<Update, Defect>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = datagram.get(at..).filter(|rest| !rest.is_empty())?;
            let begin = at;
            let (Some(length), Some(kind), Some(flags)) = (u32_at(rest, 0), u16_at(rest, 4), u16_at(rest, 6)) else {
                at = datagram.len();
                return Some(Err(Defect { kind: 0, at: begin, what: "it is shorter than a header" }));
            };
            let length = length as usize;
            let Some(body) = rest.get(HEADER..length) else {
                at = datagram.len();
                return Some(Err(Defect { kind, at: begin, what: "its length does not fit" }));
            };
            at += length.next_multiple_of(4);
            match read(kind, flags, body) {
                Ok(None) => {}
                Ok(Some(update)) => return Some(Ok(update)),
                Err(what) => return Some(Err(Defect { kind, at: begin, what })),
            }
        }
    })
}

fn read(kind: u16, flags: u16, body: &[u8]) -> Result<Option<Update>, &'static str> {
    let update = match kind {
        // NLMSG_ERROR: the number is 0 for an acknowledgement.
        2 => match u32_at(body, 0).ok_or("an error without a number")? as i32 {
            0 => return Ok(None),
            number => Update::Refused(number.wrapping_neg()),
        },
        3 => Update::Done,
        16 | 17 => return device(body, kind == 17),
        21 => Update::AddressGone,
        24 | 25 => match route(flags, body)? {
            None => return Ok(None),
            Some(route) if kind == 24 => Update::Route(route),
            Some(route) => Update::RouteGone(route),
        },
        104 | 105 => {
            let (id, nexthop) = nexthop(body)?;
            if kind == 104 { Update::Nexthop(id, nexthop) } else { Update::NexthopGone(id) }
        }
        _ => return Ok(None),
    };
    Ok(Some(update))
}

/// `struct ifinfomsg` with IFLA_IFNAME.
fn device(body: &[u8], gone: bool) -> Result<Option<Update>, &'static str> {
    const SHORT: &str = "it is shorter than a link's header";
    let rest = body.get(16..).ok_or(SHORT)?;
    let (index, flags) = (u32_at(body, 4).ok_or(SHORT)?, u32_at(body, 8).ok_or(SHORT)?);
    // Messages of bridges about their ports have a family.
    if body.first() != Some(&0) {
        return Ok(None);
    }
    if gone {
        return Ok(Some(Update::DeviceGone(index)));
    }
    let name = attributes(rest).find(|(kind, _)| *kind == 3).map(|(_, name)| name).ok_or("a device without a name")?;
    let name = name.strip_suffix(&[0]).unwrap_or(name);
    let name = String::from_utf8(name.to_vec()).map_err(|_| "a device's name that is no text")?;
    Ok(Some(Update::Device(index, name, flags & 1 != 0)))
}

/// `struct rtmsg` with its attributes; `None` for entries of a cache.
fn route(flags: u16, body: &[u8]) -> Result<Option<Route>, &'static str> {
    let (&[family, length, _, tos, table, protocol, _, kind], rest) =
        body.split_first_chunk::<8>().ok_or("it is shorter than a route's header")?;
    let (Some(own), Some(rest)) = (u32_at(rest, 0), rest.get(4..)) else {
        return Err("it is shorter than a route's header");
    };
    // RTM_F_CLONED.
    if own & 0x200 != 0 {
        return Ok(None);
    }
    let any: IpAddr = match family {
        V4 => Ipv4Addr::UNSPECIFIED.into(),
        V6 => Ipv6Addr::UNSPECIFIED.into(),
        // Routes of other families, such as MPLS.
        _ => return Ok(None),
    };
    let mut route = Route {
        table: table.into(),
        prefix: IpNet::new(any, 0).map_err(|_| "a prefix that is too long")?,
        protocol,
        tos,
        metric: 0,
        kind: match kind {
            1 => RouteKind::Unicast,
            6 => RouteKind::Blackhole,
            7 => RouteKind::Unreachable,
            8 => RouteKind::Prohibit,
            other => RouteKind::Other(other),
        },
        paths: Vec::new(),
        nexthop: None,
        replaces: flags & REPLACE != 0,
        appends: flags & APPEND != 0,
    };
    let mut destination = any;
    let mut path = Path { device: 0, gateway: None, weight: 1, is_encapsulated: false };
    for (kind, value) in attributes(rest) {
        let number = || u32_at(value, 0).ok_or("a number that is cut");
        match kind {
            1 => destination = address(family, value).ok_or("a destination that is no address of its family")?,
            4 => path.device = number()?,
            5 => path.gateway = Some(address(family, value).ok_or("a gateway that is no address of its family")?),
            6 => route.metric = number()?,
            9 => paths(family, value, &mut route.paths)?,
            15 => route.table = number()?,
            18 => path.gateway = Some(via(value).ok_or("a gateway that is no address")?),
            22 => path.is_encapsulated = true,
            30 => route.nexthop = Some(number()?),
            _ => {}
        }
    }
    route.prefix = IpNet::new(destination, length).map_err(|_| "a prefix that is too long")?.trunc();
    if route.paths.is_empty() && path.device != 0 {
        route.paths.push(path);
    }
    Ok(Some(route))
}

/// The paths of RTA_MULTIPATH: `struct rtnexthop`, each with attributes. Paths over devices that are down are left out.
fn paths(family: u8, mut octets: &[u8], all: &mut Vec<Path>) -> Result<(), &'static str> {
    const SHORT: &str = "a path that is cut";
    while !octets.is_empty() {
        let length = usize::from(u16_at(octets, 0).ok_or(SHORT)?);
        let own = octets.get(..length).filter(|own| own.len() >= 8).ok_or(SHORT)?;
        let device = u32_at(own, 4).ok_or(SHORT)?;
        let mut path = Path { device, gateway: None, weight: u16::from(own[3]) + 1, is_encapsulated: false };
        let is_dead = own[2] & DEAD != 0;
        for (kind, value) in attributes(&own[8..]) {
            match kind {
                5 => path.gateway = Some(address(family, value).ok_or("a gateway that is no address of its family")?),
                18 => path.gateway = Some(via(value).ok_or("a gateway that is no address")?),
                22 => path.is_encapsulated = true,
                _ => {}
            }
        }
        if !is_dead {
            all.push(path);
        }
        octets = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

/// `struct nhmsg` with its attributes.
fn nexthop(body: &[u8]) -> Result<(u32, Nexthop), &'static str> {
    let (&[family, ..], rest) = body.split_first_chunk::<8>().ok_or("it is shorter than a next hop's header")?;
    let mut id = None;
    let mut path = Path { device: 0, gateway: None, weight: 1, is_encapsulated: false };
    let mut other = None;
    for (kind, value) in attributes(rest) {
        let number = || u32_at(value, 0).ok_or("a number that is cut");
        match kind {
            1 => id = Some(number()?),
            2 => other = Some(Nexthop::Group(group(value)?)),
            4 => other = Some(Nexthop::Blackhole),
            5 => path.device = number()?,
            6 => path.gateway = Some(address(family, value).ok_or("a gateway that is no address of its family")?),
            8 => path.is_encapsulated = true,
            11 => other = Some(Nexthop::Other),
            _ => {}
        }
    }
    let id = id.ok_or("a next hop without a number")?;
    let single = || if path.device == 0 { Nexthop::Other } else { Nexthop::Path(path) };
    Ok((id, other.unwrap_or_else(single)))
}

/// The members of NHA_GROUP: number, weight less one in two octets that do not stand together, two octets of padding.
fn group(value: &[u8]) -> Result<Vec<(u32, u16)>, &'static str> {
    let (members, rest) = value.as_chunks::<8>();
    if !rest.is_empty() {
        return Err("a group that is cut");
    }
    let member = |&[a, b, c, d, low, high, ..]: &[u8; 8]| {
        (u32::from_ne_bytes([a, b, c, d]), u16::from_le_bytes([low, high]).saturating_add(1))
    };
    Ok(members.iter().map(member).collect())
}

#[cfg(test)]
mod tests;
