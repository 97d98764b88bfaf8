//! The neighbour events of a worker for the control side: through a bounded ring, without waiting. An event that finds
//! the ring full is counted and dropped; important events happen again.

use std::net::{IpAddr, Ipv6Addr};

use weir_base::clock::Time;
use weir_base::ring::Producer;
use weir_base::wake::Waker;
use weir_packet::wire::{MacAddress, arp, dhcp, dhcpv6, nd};

use crate::root::counters::Counter;

/// Prefixes of a router advertisement that are reported, and that are learned at an interface, at most.
pub(crate) const MOST_PREFIXES: usize = 32;

/// An observation of a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A packet waits for this neighbour's hardware address, or went to one that has not been confirmed for long.
    Wanted {
        /// Number of the interface.
        interface: u32,
        /// The neighbour.
        address: IpAddr,
    },
    /// An ARP packet arrived, addressed to us or to all. Requests for our addresses have been answered.
    Arp {
        /// Number of the interface.
        interface: u32,
        /// The contents of the packet.
        packet: arp::Fields,
    },
    /// A neighbour discovery message arrived. Solicitations for our addresses have been answered.
    Nd {
        /// Number of the interface.
        interface: u32,
        /// The source; the unspecified address in duplicate address detection.
        source: Ipv6Addr,
        /// The contents of the packet.
        packet: nd::Fields,
    },
    /// A message of DHCP came in, or the host sent one.
    Dhcp {
        /// Number of the interface.
        interface: u32,
        /// The message.
        message: dhcp::Message,
        /// Its answers are believed.
        trusted: bool,
    },
    /// A part of a message of DHCP for IPv6.
    Dhcpv6(Dhcpv6),
    /// A station claims an address of IPv6.
    Claim {
        /// Number of the interface.
        interface: u32,
        /// The station.
        mac: MacAddress,
        /// The address.
        address: Ipv6Addr,
        /// How it does.
        claim: Claim,
    },
    /// A router behind a trusted interface advertises a prefix.
    Prefix {
        /// Number of the interface.
        interface: u32,
        /// The prefix.
        prefix: nd::Prefix,
    },
}

/// A part of a message of DHCP for IPv6, and the exchange that the message is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dhcpv6 {
    /// Number of the interface.
    pub interface: u32,
    /// The station that sent the frame.
    pub mac: MacAddress,
    /// The kind of message.
    pub kind: dhcpv6::Kind,
    /// The number of the exchange.
    pub transaction: u32,
    /// The address of the client.
    pub client: Ipv6Addr,
    /// A Solicit takes a Reply.
    pub rapid: bool,
    /// A Reply has no other status than success.
    pub success: bool,
    /// Its answers are believed.
    pub trusted: bool,
    /// The part.
    pub part: Part,
}

/// A part of a message of DHCP for IPv6. The head comes first in messages of clients, and last in those of servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Part {
    /// All but the leases.
    Head,
    /// A lease.
    Lease(dhcpv6::Lease),
}

/// How a station claims an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// By a solicitation of duplicate address detection.
    Solicited,
    /// By an advertisement.
    Advertised,
    /// By a packet that it may not send yet.
    Used,
}

/// Events that wait for the control side at most, per worker.
pub(crate) const RING: usize = 4096;

/// The least time between two reports of an adjacency in use, in nanoseconds.
const QUIET: u64 = 100_000_000;

/// A worker's end of the ring.
pub(crate) struct Events {
    /// `None`: events have no reader (replays).
    ring: Option<Producer<Event>>,
    /// Wakes the control side, if it is a thread.
    waker: Option<Waker>,
    told: bool,
    /// The last reports of neighbours in use: number of the adjacency, and time.
    lately: [(u32, Time); 64],
}

impl Events {
    /// Creates events without a reader.
    pub(crate) fn unheard() -> Events {
        Events { ring: None, waker: None, told: false, lately: [(u32::MAX, Time(0)); 64] }
    }

    /// Sends events by this ring from now on, and wakes its reader.
    pub(crate) fn connect(&mut self, ring: Producer<Event>, waker: Option<Waker>) {
        (self.ring, self.waker) = (Some(ring), waker);
    }

    /// Reports an event; returns false if the ring had no room.
    pub(crate) fn tell(&mut self, event: Event, lost: &Counter) -> bool {
        let Some(ring) = &mut self.ring else { return true };
        self.told = true;
        let told = ring.push(event).is_ok();
        if !told {
            lost.add(1);
        }
        told
    }

    /// Returns whether the use of an adjacency is to be reported now. A use is reported at most once per vector, whose
    /// packets share one time, and not again for a while.
    pub(crate) fn is_news(&mut self, adjacency: u32, now: Time) -> bool {
        let entry = &mut self.lately[adjacency as usize % 64];
        let news = if entry.0 == adjacency { now.since(entry.1) >= QUIET } else { entry.1 != now };
        if news {
            *entry = (adjacency, now);
        }
        news
    }

    /// Publishes the events to the control side, and wakes it. Not for nodes, as this may be a system call.
    pub(crate) fn flush(&mut self) {
        if std::mem::take(&mut self.told)
            && let Some(ring) = &mut self.ring
        {
            ring.flush();
            if let Some(waker) = &self.waker {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_base::ring::ring;

    use super::*;

    fn wanted(interface: u32) -> Event {
        Event::Wanted { interface, address: std::net::Ipv4Addr::LOCALHOST.into() }
    }

    #[test]
    fn a_full_ring_loses_events_and_counts_them() {
        let (producer, mut consumer) = ring(4);
        let (mut events, lost) = (Events::unheard(), Counter::default());
        assert!(events.tell(wanted(0), &lost), "nobody listens");
        events.connect(producer, None);
        assert_eq!((1..10).filter(|&number| events.tell(wanted(number), &lost)).count(), 4);
        assert_eq!(lost.value(), 5);
        assert!(consumer.is_empty());
        events.flush();
        let mut seen = Vec::new();
        consumer.pop(10, |event| seen.push(event));
        assert_eq!(seen, [1, 2, 3, 4].map(wanted));
    }

    #[test]
    fn use_is_news_now_and_then() {
        let mut events = Events::unheard();
        let mut news = |adjacency, ms: u64| events.is_news(adjacency, Time(ms * 1_000_000));
        assert!(news(1, 5) && news(2, 5));
        assert!(!news(1, 5) && !news(65, 5), "once per vector, even where two share a place");
        assert!(!news(1, 104) && news(1, 105));
        assert!(news(65, 106) && news(1, 107) && !news(1, 108));
    }
}
