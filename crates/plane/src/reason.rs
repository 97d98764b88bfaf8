//! Why packets are dropped: one enumeration for the whole gateway.

use weir_packet::parse::Malformed;

/// The severity of a drop reason for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The gateway is short of something, or wrong.
    Error,
    /// A sender sends packets that cannot be forwarded.
    Warning,
    /// Policy, as configured.
    Info,
}

impl Severity {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

macro_rules! reasons {
    ($($variant:ident $name:literal $severity:ident $node:literal $description:literal;)*) => {
        /// Why a packet was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Reason {
            $(#[doc = $description] $variant,)*
        }

        impl Reason {
            /// Every reason, in order.
            pub const ALL: &[Reason] = &[$(Reason::$variant,)*];

            /// Its kebab-case name.
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name,)* }
            }

            /// Returns the description of the reason.
            pub const fn description(self) -> &'static str {
                match self { $(Reason::$variant => $description,)* }
            }

            /// Returns the severity of the reason.
            pub const fn severity(self) -> Severity {
                match self { $(Reason::$variant => Severity::$severity,)* }
            }

            /// The node that drops for it.
            pub const fn node(self) -> &'static str {
                match self { $(Reason::$variant => $node,)* }
            }
        }
    };
}

reasons! {
    FrameTooLong "frame-too-long" Warning "rx" "The frame is longer than any buffer.";
    TruncatedEthernet "truncated-ethernet" Warning "ethernet-input" "The frame is shorter than its link-layer headers.";
    NotOurMac "not-our-mac" Warning "ethernet-input" "The destination MAC address is another station's.";
    UnknownVlan "unknown-vlan" Warning "ethernet-input" "No interface is configured for the frame's VLAN tags.";
    UnhandledEthertype "unhandled-ethertype" Info "ethernet-input" "The frame carries neither IPv4 nor IPv6.";
    InterfaceGone "interface-gone" Info "ethernet-input" "The interface was removed while the packet was under way.";
    AclEthertype "acl-ethertype" Info "ethernet-input, output" "The interface does not let frames of this ethertype in, or does not let them out.";
    BridgeSource "bridge-source" Warning "bridge-input" "The source of a bridged frame is a group, no address, or the gateway's own station: perhaps there is a loop.";
    BridgeLinkGroup "bridge-link-group" Info "bridge-input" "The frame is for the stations of one link (IEEE 802.1Q, 8.6.3).";
    BridgeMove "bridge-move" Warning "bridge-forward" "The station is configured on another port, or more stations move than the limit lets move: perhaps there is a loop.";
    BridgeSamePort "bridge-same-port" Info "bridge-forward" "The station is on the port that the frame came in by.";
    BridgeSplitHorizon "bridge-split-horizon" Info "bridge-forward" "The station is on a port of the same split-horizon group.";
    BridgeFloodOff "bridge-flood-off" Info "bridge-forward" "The bridge does not flood frames of this kind.";
    BridgeStorm "bridge-storm" Warning "bridge-forward" "More frames are to be flooded than the limit of the bridge lets through.";
    BridgeNoPort "bridge-no-port" Info "bridge-forward" "The frame is to be flooded, and the bridge has no other port that is up.";
    BadArp "bad-arp" Warning "arp-input" "The ARP packet is malformed, or claims an address that no station has (RFC 1812, 3.3.2).";
    ArpNotForUs "arp-not-for-us" Info "arp-input" "The ARP packet is about others.";
    BadNd "bad-nd" Warning "nd-input" "The neighbour discovery message fails validation (RFC 4861, 6.1, 7.1 and 8.1), or came out of a tunnel.";
    NdNotForUs "nd-not-for-us" Info "nd-input" "The neighbour discovery message is about others.";
    RouterAdvertisement "router-advertisement" Info "nd-input" "A router does not configure itself by what other routers advertise.";
    Redirect "redirect" Info "nd-input" "A router does not follow redirects (RFC 4861, 8.2).";
    NeighborLimited "neighbor-limited" Info "nd-input" "More questions for our hardware addresses on the link, by ARP or ND, than the limit lets us answer, or more said.";
    NestingLimit "nesting-limit" Warning "ip-input" "The packet was inside more tunnels than the gateway takes off.";
    TruncatedIpv4 "truncated-ipv4" Warning "ethernet-input" "The frame ends inside the IPv4 header.";
    TruncatedIpv6 "truncated-ipv6" Warning "ethernet-input" "The frame ends inside the IPv6 header.";
    BadVersion "bad-version" Warning "ethernet-input" "The IP version does not fit the ethertype.";
    BadIhl "bad-ihl" Warning "ethernet-input" "The IPv4 header length is below 20 octets.";
    BadTotalLength "bad-total-length" Warning "ethernet-input" "The IPv4 total length is less than the header's or more than there is.";
    BadPayloadLength "bad-payload-length" Warning "ethernet-input" "The IPv6 payload length is more than there is.";
    BadChecksum "bad-checksum" Warning "ethernet-input" "The IPv4 header checksum is wrong.";
    Jumbogram "jumbogram" Warning "ethernet-input" "An IPv6 jumbogram (RFC 2675).";
    TruncatedExtensionHeader "truncated-extension-header" Warning "ethernet-input" "An IPv6 extension header runs past the end of the packet.";
    TooManyExtensionHeaders "too-many-extension-headers" Warning "ethernet-input" "There are more IPv6 extension headers than weir walks.";
    MisplacedHopByHop "misplaced-hop-by-hop" Warning "ethernet-input" "IPv6 hop-by-hop options that do not come first (RFC 8200, 4.1).";
    BadOptions "bad-options" Warning "ethernet-input" "The IPv4 options are malformed (RFC 1812, 4.2.2.1).";
    SourceRoute "source-route" Warning "ethernet-input" "The packet requests source routing (RFC 7126, 4.3; RFC 5095).";
    OffloadMismatch "offload-mismatch" Warning "ethernet-input" "A packet to be segmented that is not what is to be cut: segments inside of a tunnel.";
    MartianSource "martian-source" Warning "ethernet-input" "The source is no address a packet can come from (RFC 1812, 5.3.7).";
    MartianDestination "martian-destination" Warning "ethernet-input" "The destination is no address a packet can be forwarded to (RFC 1812, 5.3.7).";
    LinkLayerBroadcast "link-layer-broadcast" Warning "ethernet-input" "A unicast packet came in a link-layer broadcast or multicast (RFC 1812, 5.3.4).";
    Multicast "multicast" Info "ethernet-input" "Multicast is not forwarded.";
    Broadcast "broadcast" Info "ip4-lookup" "Broadcasts are not forwarded (RFC 2644).";
    LinkLocal "link-local" Warning "ip-lookup" "Link-local addresses stay on their link (RFC 3927, 2.7; RFC 4291, 2.5.6).";
    SteerDrop "steer-drop" Info "ip-steer" "A steer rule of the interface drops the packet.";
    SteerRedirect "steer-redirect" Warning "ip-steer" "The link by which a steer rule redirects the packet is down, or the rule is gone.";
    SteerAdvance "steer-advance" Warning "ip-steer" "A steer rule advances beyond the end of the packet, or to another header than is there.";
    HandoverFull "handover-full" Error "handover" "The ring to the worker that owns the flow is full.";
    WorkerGone "worker-gone" Error "handover" "The packet was handed over to a worker that failed before it took it.";
    SavAcl "sav-acl" Info "ip-sav" "No entry of the ordered list permits the source on this interface.";
    SavUrpfStrict "sav-urpf-strict" Info "ip-sav" "The route back to the source does not lead over this interface (RFC 3704, 2.2).";
    SavUrpfLoose "sav-urpf-loose" Info "ip-sav" "No route leads back to the source (RFC 3704, 2.4).";
    SavUrpfFeasible "sav-urpf-feasible" Info "ip-sav" "No route back to the source leads over this interface, be it the best or not (RFC 3704, 2.3).";
    SavTable "sav-table" Info "ip-sav" "The table of sources does not have this interface for the source.";
    SavSpecial "sav-special" Info "ip-sav" "The source is a special address, which the interface's policy denies.";
    SavLink "sav-link" Info "ip-sav" "The source is valid, but the frame does not come from the neighbour whom it is behind.";
    SavRateLimit "sav-rate-limit" Info "ip-sav" "The source is not valid, and more of these packets came than the policy lets pass.";
    SavRedirect "sav-redirect" Warning "ip-sav" "The source is not valid, and the redirect target of the policy cannot be reached.";
    AclDeny "acl-deny" Info "ip-acl" "A rule of the interface's access lists denies the packet, or none permits it.";
    AclReject "acl-reject" Info "ip-acl" "A rule of the interface's access lists rejects the packet, with an error or a reset to its source.";
    AclRateLimit "acl-rate-limit" Info "ip-acl" "A rule permits the packet, but more have come than it lets pass.";
    AclFragment "acl-fragment" Warning "ip-acl, ip-nat, ip-spd" "A fragment whose transport header access lists, translation or an SPD look at: the first fragment did not come in time, lacks that header, or contradicts another.";
    SessionLimit "session-limit" Warning "ip-acl, ip-nat" "A rule would open a session, and there are as many as there may be.";
    SessionPickup "session-pickup" Info "ip-acl, ip-nat" "A rule would open a TCP session in mid-stream, which is switched off.";
    NatExhausted "nat-exhausted" Warning "ip-nat" "A rule translates the packet, and no port or address is free.";
    NatLimit "nat-limit" Warning "ip-nat" "A rule translates the packet, and its source has as many translations by the rule as it may have.";
    NatListLimit "nat-list-limit" Warning "ip-nat" "A rule translates the packet, and its list has as many translations as it may have.";
    NatVrfLimit "nat-vrf-limit" Warning "ip-nat" "A rule translates the packet, and its VRF has as many translations as it may have.";
    NatUntranslated "nat-untranslated" Info "ip-nat" "A rule translates the packet, and it belongs to no translation and opens none (a TCP RST, an ICMP error, another message without a reply), or its address has no other (RFC 6296, 3.4 and 3.5).";
    NatWorker "nat-worker" Warning "ip-nat" "Replies to the packet would come to another worker than the one that translates it.";
    SpdDiscard "spd-discard" Info "ip-spd" "A rule of the interface's SPD discards the packet.";
    SpdNoMatch "spd-no-match" Info "ip-spd" "No rule of the interface's SPD matches the packet (RFC 4301, 5.1 and 5.2).";
    SpdUnprotected "spd-unprotected" Warning "ip-spd" "The packet came in clear, and a rule of the interface's SPD protects it (RFC 4301, 5.2).";
    MacIp "mac-ip" Info "ip-mac-ip, arp-input, nd-input" "The bindings of the interface do not let the hardware address use the source, or have it.";
    DhcpServer "dhcp-server" Warning "ip-mac-ip" "A message of a DHCP server that came in by an interface which is not trusted, and whose bindings are learned.";
    NotAllowed "not-allowed" Info "ip-allow" "An allowlist of the interface does not contain the source.";
    ClassifyDeny "classify-deny" Info "ip-classify" "A session of a classifier table denies the packet, or it matches none and the table denies these.";
    ClassifyRateLimit "classify-rate-limit" Info "ip-classify" "A session of a classifier table permits the packet, but more have come than it lets pass.";
    NoRoute "no-route" Warning "ip-lookup" "No route covers the destination.";
    Blackhole "blackhole" Info "ip-lookup" "A blackhole route covers the destination.";
    TentativeAddress "tentative-address" Info "ip-lookup" "The destination is an address of the gateway that is tentative or a duplicate (RFC 4862, 5.4).";
    Unreachable "unreachable" Info "ip-lookup" "An unreachable route covers the destination.";
    Prohibit "prohibit" Info "ip-lookup" "A prohibit route covers the destination.";
    NoNeighbor "no-neighbor" Warning "neighbor" "The next hop did not resolve in time.";
    NeighborQueueFull "neighbor-queue-full" Warning "neighbor" "More packets wait for hardware addresses than may: the oldest made room.";
    EspNoSa "esp-no-sa" Warning "esp-decrypt" "Inbound: no SA has the packet's destination and SPI, plain or in UDP and with the ports as it came.";
    EspNoOutbound "esp-no-outbound" Warning "esp-encrypt" "Outbound: the pair of SAs of the policy has no `out`, or is gone.";
    EspReplay "esp-replay" Warning "esp-decrypt" "The sequence number was received before, or lies behind the anti-replay window (RFC 4303, 3.4.3).";
    EspAuth "esp-auth" Warning "esp-decrypt" "The integrity check value does not match: the packet is not the peer's, or it was changed on its way.";
    EspMalformed "esp-malformed" Warning "esp-decrypt" "The ESP packet is too short, its padding or its protocol is not what its SA allows.";
    EspDummy "esp-dummy" Info "esp-decrypt" "A dummy packet that the peer sends to conceal the traffic (RFC 4303, 2.6).";
    EspEcn "esp-ecn" Warning "esp-decrypt" "The outer header has a congestion mark that the sender of the inner packet does not understand (RFC 6040, 4.2).";
    EspSelector "esp-selector" Warning "ip-input" "The decrypted packet fits no policy that protects with its SA (RFC 4301, 5.2).";
    EspTransport "esp-transport" Warning "esp-encrypt" "The SA is in transport mode, and the packet is a fragment or is not between the SA's addresses.";
    EspExhausted "esp-exhausted" Error "esp-encrypt" "The SA has used its last sequence number.";
    EspExpired "esp-expired" Error "esp-encrypt, esp-decrypt" "A hard lifetime of the SA is over (RFC 4301, 4.4.2.1).";
    EspKeepalive "esp-keepalive" Info "local" "A keepalive of ESP in UDP (RFC 3948, 2.3).";
    EspUnreserved "esp-unreserved" Error "esp-encrypt" "The SA has no sequence number that is reserved on disk: the log says why the directory `state` cannot be written, or it is too slow.";
    TunnelUnknown "tunnel-unknown" Warning "tunnel-decap" "A packet of a kind of tunnel, between other addresses or with another identifier than those of the tunnels.";
    TunnelMalformed "tunnel-malformed" Warning "tunnel-decap" "The header of the tunnel's protocol is malformed, or names a protocol that is not taken out.";
    TunnelOption "tunnel-option" Warning "tunnel-decap" "The packet has a critical option of Geneve, or a flag of GUE, that weir does not know.";
    TunnelControl "tunnel-control" Info "tunnel-decap" "A control packet of Geneve or GUE, which weir does not serve.";
    TunnelChecksum "tunnel-checksum" Warning "tunnel-decap" "The checksum of UDP or GRE around the inner packet is wrong.";
    TunnelEcn "tunnel-ecn" Warning "tunnel-decap" "The outer header has a congestion mark that the sender of the inner packet does not understand (RFC 6040, 4.2).";
    TunnelLoop "tunnel-loop" Warning "tunnel-encap" "The packet is in more tunnels than the gateway nests: the route to the other end of a tunnel leads into the tunnel, perhaps.";
    TtlExpired "ttl-expired" Info "ip-rewrite" "The time to live or hop limit is used up.";
    MtuExceeded "mtu-exceeded" Info "ip-rewrite, bridge-forward" "The packet is longer than the next link's MTU and may not be fragmented.";
    NoHeadroom "no-headroom" Error "ip-rewrite" "There is no room for the link-layer header.";
    FragmentFailed "fragment-failed" Error "ip4-fragment" "The packet cannot be cut into fragments that fit the MTU.";
    LocalUnhandled "local-unhandled" Info "local" "The packet is for the gateway itself, which does not serve it.";
    LocalFragment "local-fragment" Info "local" "A fragment for the gateway itself, of something that it does not serve.";
    BadFragment "bad-fragment" Warning "local" "A fragment that can be part of no datagram: its length, its place or its headers (RFC 8200, 4.5; RFC 7112).";
    ReassemblyOverlap "reassembly-overlap" Warning "local" "Fragments that overlap or contradict each other, and all others of their datagram (RFC 5722).";
    ReassemblyTimeout "reassembly-timeout" Info "local" "The rest of the datagram did not come in time (RFC 792; RFC 8200, 4.5).";
    ReassemblyFull "reassembly-full" Warning "local" "More datagrams are being put together than may be: the oldest made room.";
    LocalBadChecksum "local-bad-checksum" Warning "local" "The ICMP checksum of a packet for the gateway itself is wrong.";
    EchoLimited "echo-limited" Info "local" "More echo requests than the limit lets us answer.";
    PuntLimited "punt-limited" Warning "punt" "More packets for the host than the limit lets through.";
    NoBuffer "no-buffer" Error "any" "The buffer pool is exhausted.";
    TransmitFull "transmit-full" Error "output" "The egress port does not take more packets.";
    TransmitFailed "transmit-failed" Error "output" "The egress port cannot send the packet: its device is down or gone, or sends no packet of this length or kind.";
    NoPort "no-port" Error "output" "The egress port is gone.";
}

impl From<Malformed> for Reason {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::TruncatedEthernet => Reason::TruncatedEthernet,
            Malformed::TruncatedIpv4 => Reason::TruncatedIpv4,
            Malformed::BadVersion => Reason::BadVersion,
            Malformed::BadIhl => Reason::BadIhl,
            Malformed::BadTotalLength => Reason::BadTotalLength,
            Malformed::BadChecksum => Reason::BadChecksum,
            Malformed::TruncatedIpv6 => Reason::TruncatedIpv6,
            Malformed::BadPayloadLength => Reason::BadPayloadLength,
            Malformed::Jumbogram => Reason::Jumbogram,
            Malformed::TruncatedExtensionHeader { .. } => Reason::TruncatedExtensionHeader,
            Malformed::TooManyExtensionHeaders { .. } => Reason::TooManyExtensionHeaders,
            Malformed::MisplacedHopByHop { .. } => Reason::MisplacedHopByHop,
        }
    }
}

impl Reason {
    /// How many there are.
    pub const COUNT: usize = Reason::ALL.len();

    /// Its number as kept in a packet: never 0, which stands for "not dropped".
    #[inline]
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The reason of this number.
    #[inline]
    pub fn of(number: u8) -> Option<Reason> {
        Reason::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_kebab_case_and_numbers_come_back() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert!(
            names.iter().all(|name| name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-'))
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::COUNT);
        assert!(Reason::ALL.iter().all(|&reason| Reason::of(reason.number()) == Some(reason)));
        assert!(Malformed::ALL.iter().all(|&malformed| Reason::from(malformed).name() == malformed.name()));
        assert_eq!(Reason::of(0), None);
        assert_eq!(Reason::of(255), None);
    }
}
