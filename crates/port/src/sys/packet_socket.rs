//! Packet sockets (packet(7)): the calls that no crate wraps.
//!
//! A socket is opened for no protocol, so that it receives nothing until it is bound. Whoever shares it between threads
//! needs no lock: the kernel has its own.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// What a socket receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receives {
    /// Every frame of the device.
    All,
    /// None.
    Nothing,
}

/// Which buffer of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketBuffer {
    /// The one for received frames.
    Receive,
    /// The one for frames on their way out.
    Send,
}

/// A packet socket.
#[derive(Debug)]
pub(crate) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens a socket in the calling thread's network namespace. Frames have their Ethernet headers, and a
    /// `virtio_net_hdr` in front.
    ///
    /// # Errors
    /// Without CAP_NET_RAW (`EPERM`), or when the system has no room.
    pub(crate) fn open() -> io::Result<PacketSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = PacketSocket(rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?);
        socket.set_packet(libc::PACKET_VNET_HDR, &1i32)?;
        Ok(socket)
    }

    /// Attaches it to a device.
    ///
    /// # Errors
    /// When there is no such device, or the socket is in a fanout group.
    pub(crate) fn bind(&self, index: u32, receives: Receives) -> io::Result<()> {
        let protocol = match receives {
            Receives::All => libc::ETH_P_ALL as u16,
            Receives::Nothing => 0,
        };
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the address lives for the call, and the length is its own.
        let result = unsafe {
            libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), mem::size_of_val(&address) as libc::socklen_t)
        };
        done(result)
    }

    /// The device it is attached to; `None` when that has gone.
    pub(crate) fn device(&self) -> Option<u32> {
        // SAFETY: plain numbers, for which zeros are values.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: both live for the call, and the length is the address's own.
        let result = unsafe { libc::getsockname(self.0.as_raw_fd(), (&raw mut address).cast(), &raw mut length) };
        done(result).ok()?;
        u32::try_from(address.sll_ifindex).ok().filter(|&index| index != 0)
    }

    /// Receives nothing, whatever it is bound to, until [`PacketSocket::listen`].
    pub(crate) fn deafen(&self) -> io::Result<()> {
        let mut nothing = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Receives from now on.
    pub(crate) fn listen(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
    }

    /// Receives no frame that this host sends.
    pub(crate) fn ignore_outgoing(&self) -> io::Result<()> {
        self.set_packet(libc::PACKET_IGNORE_OUTGOING, &1i32)
    }

    /// Frames that are longer than a slot of the ring go to the socket's buffer as a whole, too.
    pub(crate) fn keep_long_frames(&self) -> io::Result<()> {
        self.set_packet(libc::PACKET_COPY_THRESH, &1i32)
    }

    /// Receives what is sent to other stations, too, while it is attached to this device.
    pub(crate) fn be_promiscuous(&self, index: u32) -> io::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set_packet(libc::PACKET_ADD_MEMBERSHIP, &membership)
    }

    /// Joins a group of sockets that share the device's frames by a hash of the flow, the same in both directions;
    /// fragments of a packet stay together. `None` makes a new group. Returns the group.
    pub(crate) fn join(&self, group: Option<u16>) -> io::Result<u16> {
        let mut flags = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        if group.is_none() {
            flags |= libc::PACKET_FANOUT_FLAG_UNIQUEID;
        }
        self.set_packet(libc::PACKET_FANOUT, &(u32::from(group.unwrap_or(0)) | flags << 16))?;
        let mut joined = 0u32;
        self.get_packet(libc::PACKET_FANOUT, &mut joined)?;
        Ok(joined as u16)
    }

    /// Sets the size of a buffer, in octets, beyond the system's limit if this process may (CAP_NET_ADMIN), else up to it.
    pub(crate) fn set_buffer(&self, buffer: SocketBuffer, octets: u32) -> io::Result<()> {
        let (force, plain) = match buffer {
            SocketBuffer::Receive => (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            SocketBuffer::Send => (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        };
        let octets = octets as i32;
        self.set(libc::SOL_SOCKET, force, &octets).or_else(|_| self.set(libc::SOL_SOCKET, plain, &octets))
    }

    /// Frames that found no room since this was last asked.
    pub(crate) fn drops(&self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        match self.get_packet(libc::PACKET_STATISTICS, &mut statistics) {
            Ok(()) => u64::from(statistics.tp_drops),
            // A socket that cannot be asked for its statistics does not exist.
            Err(_) => 0,
        }
    }

    /// Forgets an error that it has to tell, which would keep it readable.
    pub(crate) fn clear_error(&self) {
        let _ = rustix::net::sockopt::socket_error(&self.0);
    }

    /// Makes its ring: `slots` × `slot` octets in blocks of `block`.
    pub(super) fn set_ring(&self, option: i32, block: usize, slot: usize, slots: usize) -> io::Result<()> {
        let version = 1i32; // TPACKET_V2
        self.set_packet(libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: (slot * slots / block) as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: slots as u32,
        };
        self.set_packet(option, &request)
    }

    fn set_packet<T: Copy>(&self, option: i32, value: &T) -> io::Result<()> {
        self.set(libc::SOL_PACKET, option, value)
    }

    fn set<T: Copy>(&self, level: i32, option: i32, value: &T) -> io::Result<()> {
        let length = mem::size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel reads that many octets of the value during the call, and of what a filter program points to,
        // which lives as long (see `deafen`).
        done(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, (&raw const *value).cast(), length) })
    }

    /// Reads an option of numbers only: any octets are a `T`.
    fn get_packet<T: Copy>(&self, option: i32, value: &mut T) -> io::Result<()> {
        let mut length = mem::size_of::<T>() as libc::socklen_t;
        let to = (&raw mut *value).cast();
        // SAFETY: the kernel writes at most that many octets into the value, and callers pass plain numbers.
        done(unsafe { libc::getsockopt(self.0.as_raw_fd(), libc::SOL_PACKET, option, to, &raw mut length) })
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
