//! Packets that match an SPD one at a time, beside the graph's usual way: datagrams for the gateway whose fragments passed beside
//! the SPD, packets that the host sends by a punt device, and packets whose next hop has no known hardware address.

use weir_packet::packet::Packet;
use weir_packet::parse::ParseFlags;
use weir_packet::wire::{icmpv6, protocol};
use weir_table::classify::{Fields, NO_RULE};

use super::super::acl::fragments::At;
use super::super::stage::Stage;
use super::super::{Context, fields, wire};
use super::beside::is_beside;
use super::dispose;
use super::fragment::{Seen, fragment};
use super::share;
use crate::reason::Reason;
use crate::root::NONE;
use crate::root::family::Family;
use crate::root::spd::{Action, Spd};

/// Matches a datagram for the gateway against the SPD of its interface: one whose fragments passed beside the SPD.
///
/// # Errors
/// The reason to drop it.
#[cold]
pub(in super::super) fn receive(context: &mut Context<'_>, packet: &Packet) -> Result<(), Reason> {
    let Some(spd) = of_interface(context, packet) else { return Ok(()) };
    match packet.flags().contains(ParseFlags::IP4) {
        true => matched::<u32, false>(context, packet, spd, whole::<u32>(packet)),
        false => matched::<u128, false>(context, packet, spd, whole::<u128>(packet)),
    }
    .map(|_| ())
}

/// The fate of a packet that the host sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Sent {
    /// It leaves as it is.
    Clear,
    /// An SA protects it: the number of the SA.
    Protected(u32),
    /// It is a fragment that waits for the first one, or was dropped.
    Gone,
}

/// Matches a parsed packet of the host against the SPD of the interface that it leaves by. Neighbour discovery matches nothing.
///
/// # Errors
/// The reason to drop it.
#[cold]
pub(in super::super) fn send(context: &mut Context<'_>, packet: &mut Packet, place: u8) -> Result<Sent, Reason> {
    let Some(spd) = of_interface(context, packet) else { return Ok(Sent::Clear) };
    if is_discovery(packet) {
        return Ok(Sent::Clear);
    }
    match packet.flags().contains(ParseFlags::IP4) {
        true => send_of::<u32>(context, packet, place, spd),
        false => send_of::<u128>(context, packet, place, spd),
    }
}

fn send_of<K: Family>(context: &mut Context<'_>, packet: &mut Packet, place: u8, spd: &Spd) -> Result<Sent, Reason> {
    let mut own = whole::<K>(packet);
    if packet.flags().contains(ParseFlags::FRAGMENT) {
        let at = At { stage: Stage::Lookup, output: true, interface: packet.interface() };
        match fragment(context, packet, place, K::of(spd), own, at) {
            Seen::Fields(fields) => own = fields,
            Seen::Beside | Seen::Gone => return Ok(Sent::Gone),
        }
    }
    match matched::<K, true>(context, packet, spd, own)? {
        Action::Protect(sa) => Ok(Sent::Protected(sa)),
        Action::Bypass | Action::Discard => Ok(Sent::Clear),
    }
}

/// Whether a policy protects a packet that leaves. Nothing is counted: the SPD itself does that. Of an interface that translates, the
/// addresses that its SPD compares are not known yet.
#[cold]
pub(in super::super) fn protects(context: &Context<'_>, packet: &Packet) -> bool {
    let root = context.root;
    let number = root.adjacencies.get(packet.forwarding() as usize).map_or(NONE, |adjacency| adjacency.interface);
    let Some(interface) = root.interfaces.get(number as usize) else { return false };
    let Some(spd) = root.spd.list.get(usize::from(interface.spd)) else { return false };
    if is_beside::<true>(context, packet) || root.nat.is_active() && interface.nat.finds_out {
        return false;
    }
    let number = match packet.flags().contains(ParseFlags::IP4) {
        true => found::<u32, true>(context, spd, whole(packet)),
        false => found::<u128, true>(context, spd, whole(packet)),
    };
    let action = spd.policy(number).map(|policy| policy.action);
    matches!(action, Some(Action::Protect(_)))
}

fn found<K: Family, const OUTPUT: bool>(context: &Context<'_>, spd: &Spd, own: Fields<K>) -> u32 {
    let mut found = [NO_RULE];
    K::of(spd).table(OUTPUT).lookup_each(context.guard, &[own], &mut found);
    let [number] = found;
    number
}

fn of_interface<'a>(context: &Context<'a>, packet: &Packet) -> Option<&'a Spd> {
    let interface = context.root.interfaces.get(packet.interface() as usize)?;
    context.root.spd.list.get(usize::from(interface.spd)).map(|spd| &**spd)
}

fn whole<K: Family>(packet: &Packet) -> Fields<K> {
    let mut own = Fields::default();
    fields::of::<K>(packet, &mut own);
    own
}

/// Finds the policy of a packet, and counts the packet; returns the action that lets it pass.
fn matched<K: Family, const OUTPUT: bool>(
    context: &mut Context<'_>,
    packet: &Packet,
    spd: &Spd,
    own: Fields<K>,
) -> Result<Action, Reason> {
    let mut number = found::<K, OUTPUT>(context, spd, own);
    if OUTPUT && spd.is_shared {
        number = share::pick(context, spd, packet, number);
    }
    let policy = spd.policy(number);
    if let Some(policy) = policy {
        let (packets, octets) = wire::counts(packet);
        dispose::count::<OUTPUT>(context, policy, packets, octets);
    }
    let action = policy.map(|policy| policy.action);
    let effect = dispose::effect::<OUTPUT>(action);
    dispose::record::<OUTPUT>(context, packet, spd, number, effect);
    match dispose::refusal(effect) {
        Some(reason) => Err(reason),
        None => action.ok_or(Reason::SpdNoMatch),
    }
}

/// The packet is a message of neighbour discovery (RFC 4861, 4).
fn is_discovery(packet: &Packet) -> bool {
    let kinds = icmpv6::kind::ROUTER_SOLICITATION..=icmpv6::kind::REDIRECT;
    packet.protocol() == protocol::ICMPV6
        && packet.parsed().icmp(packet.data()).is_some_and(|(kind, _)| kinds.contains(&kind))
}
