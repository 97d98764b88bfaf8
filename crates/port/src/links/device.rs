//! A device of the kernel.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, Nla};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoData, InfoTun, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;

use super::LinksError;
use super::netlink::{change, dump, get};
use crate::sys::ethtool;

/// Octets of the longest name of a device: IFNAMSIZ without the closing zero.
const LONGEST_NAME: usize = 15;

/// The properties of a network device at the time of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Name; differs from the requested one if that is an alternative name.
    pub name: String,
    /// Index, unique in the namespace while the device exists.
    pub index: u32,
    /// Hardware address, if it has 48 bits.
    pub mac: Option<[u8; 6]>,
    /// MTU: octets of the largest network-layer packet.
    pub mtu: u32,
    /// Administratively up (IFF_UP).
    pub up: bool,
    /// Up with carrier (IFF_RUNNING).
    pub running: bool,
    /// Link layer of its frames.
    pub layer: Layer,
    /// The kernel's name of its kind, such as `veth`; `None` for hardware.
    pub kind: Option<String>,
    /// Properties of a tun or tap device.
    pub tuntap: Option<Tuntap>,
    /// Of a veth device: the index of the other end, if that is in the same network namespace.
    pub peer: Option<u32>,
    /// Index of the bridge or bond of the kernel that it is a port of.
    pub master: Option<u32>,
    /// Addresses with prefix lengths.
    pub addresses: Vec<IpNet>,
}

/// Link layer of a device (ARPHRD_…).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// An Ethernet header.
    Ethernet,
    /// An Ethernet header without meaning.
    Loopback,
    /// None: network-layer packets.
    None,
    /// Another link layer, by its ARPHRD number.
    Other(u16),
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer::Ethernet => f.write_str("Ethernet"),
            Layer::Loopback => f.write_str("loopback"),
            Layer::None => f.write_str("no link layer"),
            Layer::Other(number) => write!(f, "link layer {number}"),
        }
    }
}

/// Merging of packets that a device receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Merging {
    /// The kernel: generic receive offload.
    pub gro: bool,
    /// The device: large receive offload.
    pub lro: bool,
}

/// A tun or tap device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tuntap {
    /// Tap (Ethernet frames), not tun (network-layer packets).
    pub tap: bool,
    /// Stays without attached programs.
    pub persistent: bool,
    /// Accepts several queues, and only programs that request them.
    pub multi_queue: bool,
    /// Attached queues; known for multi-queue devices.
    pub queues: Option<u32>,
}

impl Device {
    /// Returns the device of this name in the calling thread's network namespace; `None` if it does not exist.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn named(name: &str) -> Result<Option<Device>, LinksError> {
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Ok(None);
        }
        let what = format!("looking up device {name}");
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let answers = match get(&what, RouteNetlinkMessage::GetLink(request)) {
            Err(error) if error.errno() == Some(Errno::NODEV) => return Ok(None),
            answers => answers?,
        };
        let link = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        });
        let Some(mut device) = link.map(Device::of) else { return Ok(None) };
        device.addresses = addresses(&what, device.index)?;
        Ok(Some(device))
    }

    /// Returns whether packets that the device receives are merged into super-packets, by the kernel (`gro`) and by the device
    /// (`lro`); `None` if the kernel does not say.
    #[must_use]
    pub fn merging(&self) -> Option<Merging> {
        let (gro, lro) = ethtool::merging(&self.name).ok()?;
        Some(Merging { gro, lro })
    }

    fn of(link: LinkMessage) -> Device {
        let header = &link.header;
        let layer = match header.link_layer_type {
            LinkLayerType::Ether => Layer::Ethernet,
            LinkLayerType::Loopback => Layer::Loopback,
            LinkLayerType::None => Layer::None,
            other => Layer::Other(other.into()),
        };
        let mut device = Device {
            name: String::new(),
            index: header.index,
            mac: None,
            mtu: 0,
            up: header.flags.contains(LinkFlags::Up),
            running: header.flags.contains(LinkFlags::Running),
            layer,
            kind: None,
            tuntap: None,
            peer: None,
            master: None,
            addresses: Vec::new(),
        };
        let mut is_elsewhere = false;
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => device.name = name,
                LinkAttribute::Address(mac) => device.mac = mac.try_into().ok(),
                LinkAttribute::Mtu(mtu) => device.mtu = mtu,
                LinkAttribute::Link(index) => device.peer = Some(index),
                LinkAttribute::Controller(index) => device.master = Some(index),
                LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
                LinkAttribute::LinkInfo(infos) => infos.into_iter().for_each(|info| device.learn(info)),
                _ => (),
            }
        }
        // Devices of other kinds have the index of a device that they are on.
        if is_elsewhere || device.kind.as_deref() != Some("veth") {
            device.peer = None;
        }
        device
    }

    fn learn(&mut self, info: LinkInfo) {
        match info {
            LinkInfo::Kind(kind) => self.kind = Some(kind.to_string()),
            LinkInfo::Data(InfoData::Tun(facts)) => self.tuntap = Some(Tuntap::of(&facts)),
            _ => (),
        }
    }

    /// Sets the MTU in octets, if it differs.
    ///
    /// # Errors
    /// If the device refuses, does not exist, or the process lacks CAP_NET_ADMIN.
    pub fn set_mtu(&mut self, mtu: u32) -> Result<(), LinksError> {
        if self.mtu != mtu {
            self.set(&format!("setting the MTU of {} to {mtu}", self.name), |link| {
                link.attributes.push(LinkAttribute::Mtu(mtu));
            })?;
            self.mtu = mtu;
        }
        Ok(())
    }

    /// Sets the hardware address, if it differs.
    ///
    /// # Errors
    /// As [`Device::set_mtu`].
    pub fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), LinksError> {
        if self.mac != Some(mac) {
            self.set(&format!("setting the hardware address of {}", self.name), |link| {
                link.attributes.push(LinkAttribute::Address(mac.to_vec()));
            })?;
            self.mac = Some(mac);
        }
        Ok(())
    }

    /// Sets the device up or down, if it differs.
    ///
    /// # Errors
    /// As [`Device::set_mtu`].
    pub fn set_up(&mut self, up: bool) -> Result<(), LinksError> {
        if self.up != up {
            self.set(&format!("setting {} {}", self.name, if up { "up" } else { "down" }), |link| {
                link.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
                link.header.change_mask = LinkFlags::Up;
            })?;
            self.up = up;
        }
        Ok(())
    }

    fn set(&self, what: &str, edit: impl FnOnce(&mut LinkMessage)) -> Result<(), LinksError> {
        let mut link = LinkMessage::default();
        link.header.index = self.index;
        edit(&mut link);
        change(what, RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Adds the missing ones of `addresses`. IPv6 addresses are usable at once, without duplicate address detection.
    ///
    /// # Errors
    /// As [`Device::set_mtu`]; the addresses before the refused one were added.
    pub fn add_addresses(&mut self, addresses: &[IpNet]) -> Result<(), LinksError> {
        for &address in addresses {
            if self.addresses.contains(&address) {
                continue;
            }
            let what = format!("adding {address} to {}", self.name);
            match change(&what, address_message(self.index, address), NLM_F_CREATE | NLM_F_EXCL) {
                Err(error) if error.errno() == Some(Errno::EXIST) => (),
                result => result?,
            }
            self.addresses.push(address);
        }
        Ok(())
    }

    /// Removes the existing ones of `addresses`.
    ///
    /// # Errors
    /// As [`Device::set_mtu`]; the addresses before the refused one were removed.
    pub fn remove_addresses(&mut self, addresses: &[IpNet]) -> Result<(), LinksError> {
        for &address in addresses.iter().filter(|address| self.addresses.contains(address)).collect::<Vec<_>>() {
            let what = format!("removing {address} from {}", self.name);
            let RouteNetlinkMessage::NewAddress(message) = address_message(self.index, address) else { continue };
            match change(&what, RouteNetlinkMessage::DelAddress(message), 0) {
                Err(error) if error.errno() == Some(Errno::ADDRNOTAVAIL) => (),
                result => result?,
            }
            self.addresses.retain(|other| *other != address);
        }
        Ok(())
    }
}

impl Tuntap {
    fn of(facts: &[InfoTun]) -> Tuntap {
        let mut tuntap = Tuntap::default();
        for fact in facts {
            let mut octets = [0; 4];
            let len = fact.value_len();
            if len > octets.len() {
                continue;
            }
            fact.emit_value(&mut octets[..len]);
            // include/uapi/linux/if_link.h, IFLA_TUN_…; IFF_TAP is 2.
            match fact.kind() {
                3 => tuntap.tap = octets[0] == 2,
                6 => tuntap.persistent = octets[0] != 0,
                7 => tuntap.multi_queue = octets[0] != 0,
                8 => tuntap.queues = Some(u32::from_ne_bytes(octets)),
                _ => (),
            }
        }
        tuntap
    }
}

fn address_message(index: u32, address: IpNet) -> RouteNetlinkMessage {
    use netlink_packet_route::address::{AddressHeaderFlags, AddressScope};

    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.prefix_len = address.prefix_len();
    message.header.scope = AddressScope::Universe;
    message.attributes.push(AddressAttribute::Local(address.addr()));
    message.attributes.push(AddressAttribute::Address(address.addr()));
    match address {
        IpNet::V4(address) => {
            message.header.family = AddressFamily::Inet;
            // The broadcast address of ip-address(8) "brd +"; prefixes of one or two addresses have none (RFC 3021).
            if address.prefix_len() < 31 {
                message.attributes.push(AddressAttribute::Broadcast(address.broadcast()));
            }
        }
        IpNet::V6(_) => {
            message.header.family = AddressFamily::Inet6;
            message.header.flags = AddressHeaderFlags::Nodad;
        }
    }
    RouteNetlinkMessage::NewAddress(message)
}

/// Returns the addresses of the device with this index.
fn addresses(what: &str, index: u32) -> Result<Vec<IpNet>, LinksError> {
    let answers = dump(what, RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    let address = |answer| match answer {
        RouteNetlinkMessage::NewAddress(message) if message.header.index == index => {
            IpNet::new(local(&message.attributes)?, message.header.prefix_len).ok()
        }
        _ => None,
    };
    Ok(answers.into_iter().filter_map(address).collect())
}

/// Returns the local address: IFA_LOCAL, because IFA_ADDRESS is the remote end of a point-to-point link. IPv6 mostly
/// has only the latter.
fn local(attributes: &[AddressAttribute]) -> Option<IpAddr> {
    let local = attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}
