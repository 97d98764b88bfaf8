//! Sessions and translations as `conntrack -L` writes them.

use std::fmt::Write as _;
use std::net::IpAddr;

use weir_packet::wire::{icmpv4, icmpv6, protocol};

/// A session or a translation, as a line has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'l> {
    /// The name of the protocol, or its number.
    pub(super) protocol: &'l str,
    pub(super) protocol_number: u8,
    pub(super) state: &'l str,
    pub(super) half_open: bool,
    /// Seconds until it ends.
    pub(super) expires: f64,
    /// Packets of both directions take the fast path.
    pub(super) is_fast: bool,
    /// Its packets as they come in, in its original direction and in the other.
    pub(super) ways: [Way; 2],
}

/// One direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) ports: Option<(u16, u16)>,
    /// The type of ICMP, and the identifier.
    pub(super) icmp: Option<(u8, u16)>,
    pub(super) packets: u64,
    pub(super) octets: u64,
    pub(super) zone: u16,
}

/// Returns the type of the replies to ICMP requests of a type.
pub(super) fn reply_type(request: u8, is_v4: bool) -> Option<u8> {
    let queries: &[(u8, u8)] = if is_v4 { &icmpv4::QUERIES } else { &icmpv6::QUERIES };
    queries.iter().find(|(own, _)| *own == request).map(|&(_, reply)| reply)
}

impl Line<'_> {
    /// Formats the line.
    pub(super) fn text(&self) -> String {
        let Line { protocol, protocol_number, state, half_open, expires, is_fast, ways } = *self;
        let name = if protocol_number == protocol::ICMPV6 { "icmpv6" } else { protocol };
        let mut line = format!("{name:<8} {protocol_number} {}", expires as u64);
        if protocol_number == protocol::TCP {
            line.push_str(match state {
                "syn-sent" => " SYN_SENT",
                "syn-recv" => " SYN_RECV",
                "fin-wait" => " FIN_WAIT",
                "time-wait" => " TIME_WAIT",
                "close" | "refused" => " CLOSE",
                _ => " ESTABLISHED",
            });
        }
        let [original, reply] = &ways;
        let is_one_zone = original.zone == reply.zone;
        let is_unreplied = reply.packets == 0;
        let is_icmp = matches!(protocol_number, protocol::ICMP | protocol::ICMPV6);
        for (way, zone) in [(original, "orig"), (reply, "reply")] {
            // Writing into a string cannot fail.
            let _ = write!(line, " src={} dst={}", way.source, way.destination);
            if let Some((source, destination)) = way.ports {
                let _ = write!(line, " sport={source} dport={destination}");
            }
            if let Some((kind, identifier)) = way.icmp {
                let _ = write!(line, " type={kind} code=0 id={identifier}");
            }
            if !is_one_zone {
                let _ = write!(line, " zone-{zone}={}", way.zone);
            }
            let _ = write!(line, " packets={} bytes={}", way.packets, way.octets);
            if zone == "orig" && is_unreplied {
                line.push_str(" [UNREPLIED]");
            }
        }
        if is_fast {
            line.push_str(" [OFFLOAD]");
        } else if !is_unreplied && !half_open && !is_icmp {
            line.push_str(" [ASSURED]");
        }
        line.push_str(" mark=0");
        if is_one_zone {
            let _ = write!(line, " zone={}", original.zone);
        }
        line + " use=1\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(of: (&str, &str), ports: (u16, u16), zone: u16) -> Way {
        let [source, destination] = [of.0, of.1].map(|address| address.parse().unwrap());
        Way { source, destination, ports: Some(ports), icmp: None, packets: 3, octets: 200, zone }
    }

    #[test]
    fn flags_and_zones() {
        let ways = [way(("10.0.0.2", "9.9.9.9"), (7, 53), 4), way(("9.9.9.9", "192.0.2.1"), (53, 6000), 4)];
        let (protocol, state) = ("udp", "assured");
        let udp = Line { protocol, protocol_number: 17, state, half_open: false, expires: 9.7, is_fast: false, ways };
        let tuples = "udp      17 9 src=10.0.0.2 dst=9.9.9.9 sport=7 dport=53 packets=3 bytes=200 \
                      src=9.9.9.9 dst=192.0.2.1 sport=53 dport=6000 packets=3 bytes=200";
        assert_eq!(udp.text(), format!("{tuples} [ASSURED] mark=0 zone=4 use=1\n"));
        assert_eq!(Line { is_fast: true, ..udp }.text(), format!("{tuples} [OFFLOAD] mark=0 zone=4 use=1\n"));
        assert_eq!(Line { half_open: true, ..udp }.text(), format!("{tuples} mark=0 zone=4 use=1\n"));
        let none = Way { packets: 0, octets: 0, zone: 5, ..ways[1] };
        assert_eq!(
            Line { ways: [ways[0], none], ..udp }.text(),
            "udp      17 9 src=10.0.0.2 dst=9.9.9.9 sport=7 dport=53 zone-orig=4 packets=3 bytes=200 [UNREPLIED] \
             src=9.9.9.9 dst=192.0.2.1 sport=53 dport=6000 zone-reply=5 packets=0 bytes=0 mark=0 use=1\n"
        );
    }

    #[test]
    fn requests_and_replies() {
        let of = |icmp| Way { ports: None, icmp, ..way(("2001:db8::1", "2001:db8::2"), (0, 0), 0) };
        assert_eq!([reply_type(8, true), reply_type(128, false), reply_type(0, true)], [Some(0), Some(129), None]);
        let ping = Line {
            protocol: "icmp6",
            protocol_number: 58,
            state: "replied",
            half_open: false,
            expires: 30.0,
            is_fast: false,
            ways: [of(Some((128, 7))), of(Some((129, 7)))],
        };
        let text = ping.text();
        assert!(!text.contains("ASSURED"), "the kernel marks no pings: {text}");
        assert!(text.starts_with("icmpv6   58 30 src=2001:db8::1 dst=2001:db8::2 type=128 code=0 id=7 "), "{text}");
        assert!(text.contains(" type=129 code=0 id=7 packets=3 "), "{text}");
    }
}
