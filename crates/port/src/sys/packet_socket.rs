//! Packet sockets (packet(7)): system calls without a safe wrapper.
//!
//! A socket has no protocol at first, so it receives nothing before it is bound. Threads can share it without a lock:
//! the kernel has its own.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Frames that a socket receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receives {
    /// Every frame of the device.
    All,
    /// No frame.
    Nothing,
}

/// A buffer of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketBuffer {
    /// Received frames.
    Receive,
    /// Frames to send.
    Send,
}

/// A packet socket.
#[derive(Debug)]
pub(crate) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens a socket in the calling thread's network namespace. Frames begin with a `virtio_net_hdr` and the Ethernet
    /// header.
    ///
    /// # Errors
    /// If CAP_NET_RAW is missing (`EPERM`), or the system lacks memory.
    pub(crate) fn open() -> io::Result<PacketSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = PacketSocket(rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?);
        socket.set_packet(libc::PACKET_VNET_HDR, &1i32)?;
        Ok(socket)
    }

    /// Attaches the socket to a device.
    ///
    /// # Errors
    /// If the device does not exist, or the socket is in a fanout group.
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
        // SAFETY: the address lives for the call with its own length.
        let result = unsafe {
            libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), mem::size_of_val(&address) as libc::socklen_t)
        };
        done(result)
    }

    /// Returns the device of the socket; `None` if it is gone.
    pub(crate) fn device(&self) -> Option<u32> {
        // SAFETY: integers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: both live for the call; the length is the address's own.
        let result = unsafe { libc::getsockname(self.0.as_raw_fd(), (&raw mut address).cast(), &raw mut length) };
        done(result).ok()?;
        u32::try_from(address.sll_ifindex).ok().filter(|&index| index != 0)
    }

    /// Stops receiving until [`PacketSocket::listen`].
    pub(crate) fn deafen(&self) -> io::Result<()> {
        let mut nothing = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Starts receiving.
    pub(crate) fn listen(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
    }

    /// Excludes frames that this host sends.
    pub(crate) fn ignore_outgoing(&self) -> io::Result<()> {
        self.set_packet(libc::PACKET_IGNORE_OUTGOING, &1i32)
    }

    /// Also puts frames that are longer than a slot into the socket's buffer, whole.
    pub(crate) fn keep_long_frames(&self) -> io::Result<()> {
        self.set_packet(libc::PACKET_COPY_THRESH, &1i32)
    }

    /// Also receives frames to other stations, while attached to this device.
    pub(crate) fn be_promiscuous(&self, index: u32) -> io::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set_packet(libc::PACKET_ADD_MEMBERSHIP, &membership)
    }

    /// Joins a fanout group: its sockets share the frames of the device by a hash of the flow, equal in both
    /// directions; fragments of a packet stay together. `None` creates a group. Returns the group.
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

    /// Sets the size of a buffer in octets. Exceeds the system's limit only with CAP_NET_ADMIN.
    pub(crate) fn set_buffer(&self, buffer: SocketBuffer, octets: u32) -> io::Result<()> {
        let (force, plain) = match buffer {
            SocketBuffer::Receive => (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            SocketBuffer::Send => (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        };
        let octets = octets as i32;
        self.set(libc::SOL_SOCKET, force, &octets).or_else(|_| self.set(libc::SOL_SOCKET, plain, &octets))
    }

    /// Returns the frames that were dropped since the last call.
    pub(crate) fn drops(&self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        match self.get_packet(libc::PACKET_STATISTICS, &mut statistics) {
            Ok(()) => u64::from(statistics.tp_drops),
            // Every packet socket has statistics.
            Err(_) => 0,
        }
    }

    /// Clears a pending error, which would keep the socket readable.
    pub(crate) fn clear_error(&self) {
        let _ = rustix::net::sockopt::socket_error(&self.0);
    }

    /// Creates its ring: `slots` × `slot` octets in blocks of `block`.
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
        // SAFETY: during the call the kernel reads that many octets of the value, and a filter program behind its
        // pointer, which lives as long (see `deafen`).
        done(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, (&raw const *value).cast(), length) })
    }

    /// Reads an option of integers: any octets are a valid `T`.
    fn get_packet<T: Copy>(&self, option: i32, value: &mut T) -> io::Result<()> {
        let mut length = mem::size_of::<T>() as libc::socklen_t;
        let to = (&raw mut *value).cast();
        // SAFETY: the kernel writes at most that many octets into the value, which consists of integers.
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
