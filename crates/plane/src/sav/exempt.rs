//! Rules that say which packets are not validated, as they are looked up.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::vector::VECTOR;
use weir_packet::wire::protocol;
use weir_table::classify::{self, Fields, Fragment, NO_RULE, Small};

/// The rules of a policy, as far as they are about one family.
#[derive(Clone)]
pub struct Exempt<K>(Small<K>);

impl<K: classify::Address> Exempt<K> {
    /// Rules in their order, each with its place in the policy's list and whether it exempts.
    ///
    /// # Errors
    /// When there are more than [`classify::MOST_RULES`].
    pub fn new<'r>(
        rules: impl IntoIterator<Item = (&'r classify::Rule<K>, u32, bool)>,
    ) -> Result<Exempt<K>, classify::Error>
    where
        K: 'r,
    {
        // The identity says both: whether the first rule that matches exempts is all that packets ask.
        let rules = rules.into_iter().map(|(rule, place, permit)| (rule, place << 1 | u32::from(permit)));
        Ok(Exempt(Small::build(rules)?))
    }

    /// Calls `exempt` with the place of each packet that is, and that of the rule that says so. There are [`VECTOR`] packets
    /// at most.
    #[inline]
    pub(crate) fn each(&self, packets: &[Fields<K>], mut exempt: impl FnMut(usize, u32)) {
        let mut found = [NO_RULE; VECTOR];
        let found = &mut found[..packets.len()];
        self.0.lookup_each(packets, found);
        for (at, &rule) in found.iter().enumerate() {
            if rule != NO_RULE && rule & 1 != 0 {
                exempt(at, rule >> 1);
            }
        }
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        self.0.octets()
    }
}

/// What rules ask of a packet with these addresses. Fragments other than the first have neither ports nor types nor flags.
#[inline]
pub(crate) fn fields<K: classify::Address>(packet: &Packet, source: K, destination: K) -> Fields<K> {
    let (parsed, frame) = (packet.parsed(), packet.data());
    let mut fields = Fields::new(source, destination, packet.protocol()).with_interface(packet.interface());
    if let Some((from, to)) = parsed.ports(frame) {
        fields = fields.with_ports(from, to);
        if packet.protocol() == protocol::TCP
            && let Some(flags) = parsed.tcp_flags(frame)
        {
            fields = fields.with_flags(flags.0.into());
        }
    } else if let Some((kind, code)) = parsed.icmp(frame) {
        fields = fields.with_icmp(kind, code);
    }
    if packet.flags().intersects(ParseFlags::FRAGMENT | ParseFlags::LATER_FRAGMENT) {
        let later = packet.flags().contains(ParseFlags::LATER_FRAGMENT);
        fields = fields.with_fragment(if later { Fragment::Later } else { Fragment::First });
    }
    let dscp = match packet.l3() {
        [_, tos, ..] if packet.flags().contains(ParseFlags::IP4) => tos >> 2,
        // Version, eight bits of traffic class of which the upper six count, flow label.
        [first, second, ..] => (first << 4 | second >> 4) >> 2,
        _ => 0,
    };
    fields.with_dscp(dscp)
}
