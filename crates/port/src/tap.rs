//! Ports over tun and tap devices: network devices of the host whose other side is this process.
//!
//! A *tap* is an Ethernet link between host and port. A *tun* carries network-layer packets without a link layer. The
//! port adds an Ethernet header to packets from a tun and removes it from packets to it. The gateway sees a single
//! station there, with a known address ([`crate::Port::peer`]).
//!
//! **Queues.** A file attached to the device is a queue. The kernel sends each packet to one of them and receives
//! packets from all. There are as many files as receive queues, and transmitters share them: worker *n* writes to file
//! *n* modulo their number. A further file would receive packets, too, and a detached file cannot be written to. The
//! kernel spreads flows over queues by a symmetric hash, until a packet of the flow is written; then it uses the queue
//! of that packet. Each direction of a flow stays in order, except when a flow of the kernel is answered for the first
//! time.
//!
//! **Offloads.** Every frame begins with a `virtio_net_hdr` ([`weir_packet::offload::VirtioHeader`]) with partial
//! checksum and segmentation. A system call moves one packet, because the driver has no batches; super-packets of 64
//! KiB compensate.
//!
//! **Deleted devices.** The files of a deleted device stay open, attached to nothing. [`crate::Port::refresh`] attaches
//! them to a new device of the same name and kind, so queues stay. [`crate::Port::recreate`] creates the device itself.

mod error;
mod mode;
mod queue;
mod receive;
mod transmit;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode as Permissions, OFlags};
use rustix::io::Errno;
use weir_packet::buffer::{MAX_FRAME, Pool};
use weir_packet::offload::VirtioHeader;

pub use error::TapError;
pub use mode::Mode;
use mode::NODE;
use queue::{Queue, peer};

use crate::links::Device;
use crate::spec::{PortSpec, TapSpec};
use crate::sys::tun;
use crate::{
    Capabilities, Checksums, Context, Creator, HostSide, Link, Offloads, OpenError, Port, PortCounters, Receiver,
    Segmentation, Transmitter, kernel,
};

/// The largest MTU of a tap: the kernel's limit of 65,535 octets less an Ethernet header.
const LARGEST_TAP_MTU: u32 = 65_521;

pub(crate) struct TapPort {
    mode: Mode,
    spec: TapSpec,
    capabilities: Capabilities,
    /// MTU of the kernel's side, in octets.
    mtu: u32,
    /// The interface's hardware address.
    mac: [u8; 6],
    name: String,
    /// One for each receive queue.
    files: Vec<Arc<OwnedFd>>,
    link: Link,
    /// The kernel's side at the last look.
    host: Option<HostSide>,
    /// The carrier that the kernel's side has while it is up.
    carrier: bool,
    /// The port created the device.
    own: bool,
    /// The device is missing, or lacks settings that the port gives it.
    incomplete: bool,
    received: bool,
    counters: Arc<PortCounters>,
}

impl TapPort {
    /// Creates the device or takes over an existing one, configures the kernel side and sets it up.
    pub(crate) fn open(mode: Mode, spec: &TapSpec, queues: u16, context: &Context) -> Result<TapPort, TapError> {
        check_name(&spec.name)?;
        // Subtracts the link layer and two tags that were added to the interface's MTU.
        let own = context.max_frame.saturating_sub(22) as u32;
        let largest = if mode == Mode::Tap { LARGEST_TAP_MTU } else { 65_535 };
        let files = (0..queues.max(1)).map(|_| open_node().map(Arc::new)).collect::<Result<_, _>>()?;
        let mut port = TapPort {
            mode,
            spec: spec.clone(),
            capabilities: capabilities(mode, spec, &context.pool),
            mtu: spec.mtu.unwrap_or(own.min(largest)),
            mac: context.mac,
            name: spec.name.clone(),
            files,
            link: Link::Down,
            host: None,
            carrier: true,
            own: false,
            incomplete: false,
            received: false,
            counters: Arc::default(),
        };
        let device = Device::named(&spec.name)?;
        port.attach(device.as_ref())?;
        port.own = device.is_none();
        port.link = Link::Up;
        Ok(port)
    }

    /// Attaches every file to the device and configures the kernel side. `None`: creates a device.
    fn attach(&self, device: Option<&Device>) -> Result<(), TapError> {
        self.attach_files(self.flags(device)?)?;
        self.configure()
    }

    /// Configures the kernel side of the device that the files are attached to.
    fn configure(&self) -> Result<(), TapError> {
        let file = self.files[0].as_fd();
        tun::set_header_size(file, VirtioHeader::LEN as i32)
            .map_err(|error| self.system("length of headers", error))?;
        self.set_offload(file).map_err(|error| self.system("offloads", error))?;
        let Some(mut device) = Device::named(&self.name)? else { return Err(self.system("looking", Errno::NODEV)) };
        device.set_mtu(self.mtu)?;
        if let Some(mac) = self.spec.mac.filter(|_| self.mode == Mode::Tap) {
            device.set_mac(mac)?;
        }
        device.add_addresses(&self.spec.addresses)?;
        device.set_up(true)?;
        if self.spec.persistent {
            // Last, so that a device does not stay after an error.
            tun::set_persistent(file, true).map_err(|error| self.system("making it persistent", error))?;
        }
        Ok(())
    }

    fn attach_files(&self, flags: u16) -> Result<(), TapError> {
        for (number, file) in self.files.iter().enumerate() {
            if tun::attached(file.as_fd()).is_err() {
                tun::attach(file.as_fd(), &self.name, flags).map_err(|error| self.refused(number, error))?;
            }
        }
        if !self.carrier {
            self.show_carrier();
        }
        Ok(())
    }

    /// Returns the flags to attach with, or an error if the existing device does not fit.
    fn flags(&self, device: Option<&Device>) -> Result<u16, TapError> {
        let kind = if self.mode == Mode::Tap { tun::TAP } else { tun::TUN };
        let queues = self.files.len() as u16;
        let name = || self.name.clone();
        let several = match device {
            None => queues > 1,
            Some(device) => {
                let tap = (self.mode == Mode::Tap) as u16;
                let Some(tuntap) = device.tuntap.filter(|tuntap| tuntap.tap as u16 == tap) else {
                    let is = match (device.tuntap, &device.kind) {
                        (Some(tuntap), _) => if tuntap.tap { "a tap device" } else { "a tun device" }.to_owned(),
                        (None, Some(kind)) => format!("a device of kind {kind}"),
                        (None, None) => format!("hardware ({})", device.layer),
                    };
                    return Err(TapError::Taken { name: name(), mode: self.mode, is });
                };
                if !tuntap.multi_queue && queues > 1 {
                    return Err(TapError::OneQueue { name: name(), queues });
                }
                // The kernel itself refuses a second user of a single queue.
                if tuntap.queues.is_some_and(|queues| queues > 0) {
                    return Err(TapError::Busy { name: name() });
                }
                tuntap.multi_queue
            }
        };
        Ok(kind | tun::NO_PI | tun::VNET_HDR | if several { tun::MULTI_QUEUE } else { 0 })
    }

    fn set_offload(&self, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
        if !self.spec.offload {
            return tun::set_offload(file, 0);
        }
        // Not TUN_F_TSO_ECN: the CWR flag needs treatment that only the kernel's segmentation gives.
        let offloads = tun::CSUM | tun::TSO4 | tun::TSO6;
        tun::set_offload(file, if kernel::segments_udp() { offloads | tun::USO } else { offloads })
    }

    fn refused(&self, number: usize, error: Errno) -> TapError {
        match error {
            Errno::PERM | Errno::ACCESS => TapError::NoPrivilege { name: self.name.clone(), mode: self.mode },
            Errno::BUSY => TapError::Busy { name: self.name.clone() },
            error => self.system(&format!("attaching queue {}", number + 1), error),
        }
    }

    fn system(&self, what: &str, error: Errno) -> TapError {
        TapError::System { what: format!("{}: {what}", self.name), error: error.into() }
    }

    fn queue(&self, number: usize) -> Queue {
        Queue {
            file: Arc::clone(&self.files[number % self.files.len()]),
            counters: Arc::clone(&self.counters),
            mode: self.mode,
        }
    }

    /// Updates the device and returns its link state.
    fn look(&mut self) -> Result<Link, TapError> {
        let up = |device: &Device| if device.up { Link::Up } else { Link::Down };
        if let Some((name, flags)) = self.files.iter().find_map(|file| tun::attached(file.as_fd()).ok()) {
            self.name = name;
            // Files that an earlier attempt did not attach.
            self.attach_files(flags & (tun::TAP | tun::TUN | tun::NO_PI | tun::VNET_HDR | tun::MULTI_QUEUE))?;
            if std::mem::take(&mut self.incomplete) {
                // That attempt failed behind the files.
                self.configure().inspect_err(|_| self.incomplete = true)?;
            }
            // An invisible device was moved to another network namespace, where it works as well.
            let device = Device::named(&self.name)?;
            self.note_host(device.as_ref());
            return Ok(device.as_ref().map_or(Link::Up, up));
        }
        self.host = None;
        self.name.clone_from(&self.spec.name);
        self.incomplete = true;
        let Some(device) = Device::named(&self.name)? else { return Ok(Link::Down) };
        self.attach(Some(&device))?;
        (self.own, self.incomplete) = (false, false);
        Ok(Link::Up)
    }

    fn note_host(&mut self, device: Option<&Device>) {
        self.host = device.map(|device| {
            let (index, mtu, addresses) = (device.index, device.mtu, device.addresses.clone());
            HostSide { index, mtu, addresses }
        });
    }

    /// Gives the kernel's side its carrier.
    fn show_carrier(&self) {
        // A missing device gets it when its files are attached again. An old kernel shows a carrier always.
        let _ = tun::set_carrier(self.files[0].as_fd(), self.carrier);
    }

    fn is_attached(&self) -> bool {
        self.files.iter().any(|file| tun::attached(file.as_fd()).is_ok())
    }

    /// Creates a missing device, or attaches to a new one, and configures it.
    fn complete(&mut self) -> Result<(), TapError> {
        self.incomplete = true;
        if self.is_attached() {
            // An earlier attempt created it, and failed later.
            self.configure()?;
        } else {
            self.name.clone_from(&self.spec.name);
            let device = Device::named(&self.name)?;
            self.own = device.is_none();
            self.attach(device.as_ref())?;
        }
        self.incomplete = false;
        self.link = Link::Up;
        Ok(())
    }
}

impl Port for TapPort {
    fn kind(&self) -> &'static str {
        match self.mode {
            Mode::Tap => "tap",
            Mode::Tun => "tun",
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn link(&self) -> Link {
        self.link
    }

    fn device(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn refresh(&mut self) {
        // A device that does not fit counts as none; its next change is checked again.
        self.link = self.look().unwrap_or(Link::Down);
    }

    fn missing(&self) -> Option<Creator> {
        let creator = if self.own { Creator::Port } else { Creator::Other };
        self.incomplete.then_some(creator)
    }

    fn recreate(&mut self) -> Result<(), OpenError> {
        if self.incomplete || !self.is_attached() {
            self.complete()?;
        }
        Ok(())
    }

    fn host_side(&self) -> Option<&HostSide> {
        self.host.as_ref()
    }

    fn set_carrier(&mut self, carrier: bool) {
        if std::mem::replace(&mut self.carrier, carrier) != carrier {
            self.show_carrier();
        }
    }

    fn adjust(&mut self, spec: &PortSpec) -> Result<bool, OpenError> {
        let ((PortSpec::Tap(new), Mode::Tap) | (PortSpec::Tun(new), Mode::Tun)) = (spec, self.mode) else {
            return Ok(false);
        };
        let TapSpec { mac, mtu, addresses, .. } = self.spec.clone();
        let other = TapSpec { mac, mtu, addresses, ..new.clone() };
        // The original MTU of the interface and the hardware address that the kernel chose are no longer known.
        let lost = new.mtu.is_none() && mtu.is_some() || new.mac.is_none() && mac.is_some();
        if other != self.spec || lost {
            return Ok(false);
        }
        let before = std::mem::replace(&mut self.spec, new.clone());
        self.mtu = new.mtu.unwrap_or(self.mtu);
        // A missing device is configured when it returns.
        if let Some(mut device) = Device::named(&self.name).map_err(TapError::from)? {
            device.set_mtu(self.mtu).map_err(TapError::from)?;
            if let Some(mac) = new.mac.filter(|_| self.mode == Mode::Tap) {
                device.set_mac(mac).map_err(TapError::from)?;
            }
            let gone: Vec<_> = before.addresses.into_iter().filter(|own| !new.addresses.contains(own)).collect();
            device.remove_addresses(&gone).map_err(TapError::from)?;
        }
        // Read again: the kernel removes the other addresses of a prefix with its first one (promote_secondaries).
        if let Some(mut device) = Device::named(&self.name).map_err(TapError::from)? {
            device.add_addresses(&new.addresses).map_err(TapError::from)?;
            // Not what it was before the change: that would count as the host's.
            self.note_host(Some(&device));
        }
        Ok(true)
    }

    fn peer(&self) -> Option<[u8; 6]> {
        (self.mode == Mode::Tun).then(|| peer(self.mac))
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }

    fn receivers(&mut self) -> Vec<Box<dyn Receiver>> {
        if std::mem::replace(&mut self.received, true) {
            return Vec::new();
        }
        let receiver = |number| Box::new(receive::Queue::new(self.queue(number), self.mac)) as Box<dyn Receiver>;
        (0..self.files.len()).map(receiver).collect()
    }

    fn transmitters(&mut self, workers: usize) -> Vec<Box<dyn Transmitter>> {
        let transmitter = |number| {
            Box::new(transmit::Queue::new(self.queue(number), self.capabilities.transmit)) as Box<dyn Transmitter>
        };
        (0..workers).map(transmitter).collect()
    }
}

/// Returns the capabilities of a port. The kernel takes super-packets and partial checksums in any case, and sends them only
/// with `offload`.
fn capabilities(mode: Mode, spec: &TapSpec, pool: &Pool) -> Capabilities {
    let offloads = |largest| Offloads {
        segmentation: Segmentation { tcp4: true, tcp6: true, udp: kernel::segments_udp(), largest },
        checksums: Checksums { internet: true, crc32c: false },
    };
    Capabilities {
        transmit: offloads(MAX_FRAME),
        receive: if spec.offload { offloads(pool.longest_frame()) } else { Offloads::default() },
        verified: true,
        // The header of a tun takes the place of the Ethernet header.
        headroom: if mode == Mode::Tap { VirtioHeader::LEN } else { 0 },
        ..Capabilities::default()
    }
}

/// Checks a name as the kernel does (`dev_valid_name`), and refuses '%', which the kernel replaces.
fn check_name(name: &str) -> Result<(), TapError> {
    let octet = |octet: u8| octet.is_ascii_graphic() && !b"/:%".contains(&octet) || octet >= 0x80;
    let valid = (1..=15).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(octet);
    if valid { Ok(()) } else { Err(TapError::Name { name: name.to_owned() }) }
}

fn open_node() -> Result<OwnedFd, TapError> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(NODE, flags, Permissions::empty()).map_err(|error| match error {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => TapError::NoDriver { error: error.into() },
        Errno::ACCESS | Errno::PERM => TapError::Node { error: error.into() },
        error => TapError::System { what: NODE.to_owned(), error: error.into() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_the_kernel_takes_them() {
        for name in ["a", "wan0", "tap-1.5", "fifteen-octets-", "tür"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "sixteen-octets--", "a b", "a/b", "a:b", "tap%d", "a\u{7f}", "a\n"] {
            let error = check_name(name).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{name:?} is no name")), "{error}");
        }
    }

    #[test]
    fn the_station_behind_a_tun_is_another_than_we() {
        for mac in [[0; 6], [2, 0, 0, 0, 0, 1], [0xff; 6], [0x52, 0x54, 0, 1, 2, 3]] {
            let peer = peer(mac);
            assert_ne!(peer, mac);
            assert_eq!(peer[0] & 3, 2, "one station, locally administered");
        }
    }
}
