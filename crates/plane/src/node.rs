//! The nodes of the graph, in the order in which the worker visits them.

macro_rules! nodes {
    ($($variant:ident $name:literal $description:literal;)*) => {
        /// A node.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Node {
            $(#[doc = $description] $variant,)*
        }

        impl Node {
            /// Every node, in order.
            pub const ALL: &[Node] = &[$(Node::$variant,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Node::$variant => $name,)* }
            }

            /// Returns the description of the node.
            pub const fn description(self) -> &'static str {
                match self { $(Node::$variant => $description,)* }
            }
        }
    };
}

nodes! {
    Rx "rx" "Takes packets from the ports.";
    HandoverInput "handover-input" "Takes packets that other workers handed over.";
    FlowAge "flow-age" "Ends sessions whose time is over, and forgets decisions about idle flows.";
    EthernetInput "ethernet-input" "Parses and checks frames up to the transport header, and finds their interface.";
    EspDecrypt "esp-decrypt" "Decrypts packets of ESP for the gateway, and checks their integrity and sequence numbers.";
    TunnelDecap "tunnel-decap" "Takes packets out of tunnels.";
    IpInput "ip-input" "Parses and checks packets that were taken out of tunnels or decrypted.";
    BridgeInput "bridge-input" "Checks frames that come in by the ports of bridges.";
    HostInput "host-input" "Passes packets from the host's punt devices to their interfaces.";
    ArpInput "arp-input" "Answers ARP requests for the gateway's addresses, and reports neighbour events.";
    NdInput "nd-input" "Answers neighbour solicitations for the gateway's addresses, and reports neighbour events.";
    Ip4Steer "ip4-steer" "Applies steer rules to IPv4 packets.";
    Ip6Steer "ip6-steer" "Applies steer rules to IPv6 packets.";
    Handover "handover" "Gives packets to the worker that owns their flow.";
    Ip4Flow "ip4-flow" "Lets IPv4 packets of flows that were decided take the decision.";
    Ip6Flow "ip6-flow" "Lets IPv6 packets of flows that were decided take the decision.";
    Ip4Sav "ip4-sav" "Validates the sources of IPv4 packets.";
    Ip6Sav "ip6-sav" "Validates the sources of IPv6 packets.";
    Ip4MacIp "ip4-mac-ip" "Checks the hardware addresses of IPv4 packets against the bindings.";
    Ip6MacIp "ip6-mac-ip" "Checks the hardware addresses of IPv6 packets against the bindings.";
    Ip4AclIn "ip4-acl-in" "Applies ingress access lists to IPv4 packets.";
    Ip6AclIn "ip6-acl-in" "Applies ingress access lists to IPv6 packets.";
    Ip4Allow "ip4-allow" "Checks the sources of IPv4 packets against the allowlists.";
    Ip6Allow "ip6-allow" "Checks the sources of IPv6 packets against the allowlists.";
    Ip4Classify "ip4-classify" "Matches IPv4 packets that come in against classifier tables.";
    Ip6Classify "ip6-classify" "Matches IPv6 packets that come in against classifier tables.";
    Ip4SpdIn "ip4-spd-in" "Matches IPv4 packets that come in against the SPD.";
    Ip6SpdIn "ip6-spd-in" "Matches IPv6 packets that come in against the SPD.";
    Ip4NatIn "ip4-nat-in" "Translates destinations of IPv4 packets.";
    Ip6NatIn "ip6-nat-in" "Translates destinations of IPv6 packets.";
    Ip4Lookup "ip4-lookup" "Finds the route of IPv4 packets.";
    Ip6Lookup "ip6-lookup" "Finds the route of IPv6 packets.";
    BridgeForward "bridge-forward" "Learns the stations of bridges, and finds the ports of frames.";
    Neighbor "neighbor" "Holds packets until the hardware address of their next hop is known.";
    Ip4NatOut "ip4-nat-out" "Translates sources of IPv4 packets.";
    Ip6NatOut "ip6-nat-out" "Translates sources of IPv6 packets.";
    Ip4AclOut "ip4-acl-out" "Applies egress access lists to IPv4 packets.";
    Ip6AclOut "ip6-acl-out" "Applies egress access lists to IPv6 packets.";
    Ip4ClassifyOut "ip4-classify-out" "Matches IPv4 packets that leave against classifier tables.";
    Ip6ClassifyOut "ip6-classify-out" "Matches IPv6 packets that leave against classifier tables.";
    Ip4SpdOut "ip4-spd-out" "Matches IPv4 packets that leave against the SPD.";
    Ip6SpdOut "ip6-spd-out" "Matches IPv6 packets that leave against the SPD.";
    EspEncrypt "esp-encrypt" "Encrypts packets for the peers of their SAs.";
    TunnelEncap "tunnel-encap" "Puts packets into tunnels, behind outer headers.";
    Ip4Rewrite "ip4-rewrite" "Decrements the TTL, checks the MTU and puts on the link-layer header.";
    Ip6Rewrite "ip6-rewrite" "Decrements the hop limit, checks the MTU and puts on the link-layer header.";
    Ip4Fragment "ip4-fragment" "Cuts IPv4 packets to the MTU of the next link.";
    Ip6Fragment "ip6-fragment" "Cuts originated IPv6 packets to the MTU of the next link.";
    Local "local" "Answers local packets.";
    Punt "punt" "Passes local packets that weir does not serve to the host.";
    IcmpError "icmp-error" "Sends an ICMP error or a reset to the source of a dropped packet.";
    BridgeOutput "bridge-output" "Finds the ports of frames that the gateway sends on bridges.";
    Output "output" "Hands packets to the egress ports.";
    Drop "drop" "Counts dropped packets by reason.";
}

impl Node {
    /// How many there are.
    pub const COUNT: usize = Node::ALL.len();

    /// The node of this name.
    pub fn named(name: &str) -> Option<Node> {
        Node::ALL.iter().copied().find(|node| node.name() == name)
    }

    /// It takes packets into the graph.
    pub const fn is_input(self) -> bool {
        matches!(self, Node::Rx | Node::HandoverInput)
    }

    /// Packets come to it, so that they can be traced from it on.
    pub const fn has_packets(self) -> bool {
        !matches!(self, Node::FlowAge)
    }

    /// Packets that come to it were parsed up to the transport header, and rules can match them.
    pub const fn has_fields(self) -> bool {
        !matches!(
            self,
            Node::Rx
                | Node::HandoverInput
                | Node::FlowAge
                | Node::EthernetInput
                | Node::IpInput
                | Node::HostInput
                | Node::ArpInput
                | Node::Output
        )
    }

    /// `polling` for inputs, while their worker is up, `active` for the rest.
    pub const fn state(self) -> &'static str {
        if self.is_input() { "polling" } else { "active" }
    }
}
