//! Notes of the nodes about the packets of a vector whose flows are to be learned.

use weir_packet::vector::VECTOR;
use weir_table::classify::Consulted;
use weir_table::flow::Place;

use super::decision::{Decision, Mask, UNMATCHED, Varying};
use super::unlearned::Unlearned;

/// Decisions of nodes, by place of the packet. Only packets that missed are noted; nodes look at [`Notes::is_on`] once for a frame.
pub(crate) struct Notes {
    on: bool,
    bypassed: bool,
    wanted: [bool; VECTOR],
    /// The flow has had the packets that it takes to be learned.
    due: [bool; VECTOR],
    /// Nothing was learned about the packet's flow.
    new: [bool; VECTOR],
    /// The packet takes the noted decision, and a rule of it acts on each packet.
    limited: [bool; VECTOR],
    has_limited: bool,
    /// Of packets that were noted, and are not wanted any more.
    unlearned: [Option<Unlearned>; VECTOR],
    /// By direction: a session permits the packet.
    permitted: [[bool; VECTOR]; 2],
    flows: [u32; VECTOR],
    found: [Place; VECTOR],
    packets: [Varying; VECTOR],
    masks: [Mask; VECTOR],
    decisions: [Decision; VECTOR],
}

impl Default for Notes {
    fn default() -> Self {
        Notes {
            on: false,
            bypassed: false,
            wanted: [false; VECTOR],
            due: [false; VECTOR],
            new: [false; VECTOR],
            limited: [false; VECTOR],
            has_limited: false,
            unlearned: [None; VECTOR],
            permitted: [[false; VECTOR]; 2],
            flows: [0; VECTOR],
            found: [Place::NONE; VECTOR],
            packets: [Varying::NONE; VECTOR],
            masks: [Mask::NONE; VECTOR],
            decisions: [Decision::NONE; VECTOR],
        }
    }
}

impl Notes {
    /// Some packet of the vector is noted.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// A packet of the vector did not come by the nodes that find decisions.
    #[inline(always)]
    pub(crate) fn bypass(&mut self) {
        self.bypassed = true;
    }

    /// Some packet did not: it may be of a flow that they have found.
    #[inline(always)]
    pub(crate) fn is_bypassed(&self) -> bool {
        self.bypassed
    }

    /// The next vector's packets are to come.
    #[inline(always)]
    pub(crate) fn end_pass(&mut self) {
        self.bypassed = false;
        if self.has_limited {
            self.has_limited = false;
            self.limited.fill(false);
        }
    }

    /// Some packet of the vector takes a decision with a rule that acts on each packet.
    #[inline(always)]
    pub(crate) fn has_limited(&self) -> bool {
        self.has_limited
    }

    /// A packet takes a decision with a rule that acts on each packet.
    pub(crate) fn begin_limited(&mut self, place: u8, decision: Decision) {
        let at = usize::from(place);
        (self.limited[at], self.decisions[at]) = (true, decision);
        self.has_limited = true;
    }

    /// The decision that a packet takes, if a rule of it acts on each packet.
    #[inline]
    pub(crate) fn limited(&self, place: u8) -> Option<&Decision> {
        let at = usize::from(place);
        self.limited[at].then(|| &self.decisions[at])
    }

    /// The packet is dropped, or all rules have acted on it.
    pub(crate) fn end_limited(&mut self, place: u8) {
        self.limited[usize::from(place)] = false;
    }

    /// Begins the notes of a packet that missed, with its session's, and the place of an older decision. If its flow is not
    /// due, it is learned only if a rule [hastens](Notes::hasten) that.
    pub(crate) fn begin(&mut self, place: u8, packet: Varying, (flow, found): (u32, Place), due: bool) {
        let at = usize::from(place);
        self.on = true;
        (self.wanted[at], self.due[at], self.new[at], self.unlearned[at]) = (true, due, false, None);
        self.permitted.iter_mut().for_each(|permitted| permitted[at] = false);
        (self.flows[at], self.packets[at], self.masks[at]) = (flow, packet, Mask::NONE);
        self.found[at] = found;
        self.decisions[at] = Decision::NONE;
    }

    /// Nothing was learned about the flow of a packet whose notes were begun.
    #[inline]
    pub(crate) fn is_new(&mut self, place: u8) {
        self.new[usize::from(place)] = true;
    }

    /// A rule has no flows learned: the decision about this packet is not one for its flow. Gives whether the packet counts as one of a new
    /// flow.
    pub(crate) fn refuse(&mut self, place: u8) -> bool {
        self.forget(place, Unlearned::NoFlow);
        std::mem::take(&mut self.new[usize::from(place)])
    }

    /// The session's note that a packet had when it missed.
    pub(crate) fn flow(&self, place: u8) -> u32 {
        self.flows[usize::from(place)]
    }

    /// The decision about this packet is not one for its flow.
    #[inline]
    pub(crate) fn forget(&mut self, place: u8, why: Unlearned) {
        let at = usize::from(place);
        if std::mem::take(&mut self.wanted[at]) {
            self.unlearned[at] = Some(why);
        }
    }

    /// Why the decision about a packet that was noted is not one for its flow.
    pub(crate) fn unlearned(&self, place: u8) -> Option<Unlearned> {
        self.unlearned[usize::from(place)]
    }

    /// A packet has notes, and the decision about it is one for its flow.
    pub(crate) fn is_wanted(&self, place: u8) -> bool {
        self.wanted[usize::from(place)]
    }

    /// A rule has the flow learned at this packet.
    pub(crate) fn hasten(&mut self, place: u8) {
        self.due[usize::from(place)] = true;
    }

    /// A session permits the packet: no rule's fields are compared.
    #[inline]
    pub(crate) fn permitted(&mut self, place: u8, output: bool) {
        self.permitted[usize::from(output)][usize::from(place)] = true;
    }

    /// A session permits the packet in a direction.
    pub(crate) fn is_permitted(&self, place: u8, output: bool) -> bool {
        self.permitted[usize::from(output)][usize::from(place)]
    }

    /// The rule that lists found, and the fields that their rules match on.
    pub(crate) fn filtered(&mut self, place: u8, output: bool, found: u32, consulted: Consulted) {
        let at = usize::from(place);
        let is_permitted = self.permitted[usize::from(output)][at];
        let consulted = if is_permitted { Consulted::NONE } else { consulted };
        let decision = &mut self.decisions[at];
        *(if output { &mut decision.acl_out } else { &mut decision.acl_in }) = found;
        self.masks[at] = self.masks[at].and(Mask::of_rules(consulted));
    }

    /// The verdict of bindings, which depends on the source's hardware address.
    pub(crate) fn bound(&mut self, place: u8, verdict: u32) {
        let at = usize::from(place);
        self.decisions[at].bound = verdict;
        self.masks[at] = self.masks[at].and(Mask::MAC);
    }

    /// The row of a validator's table.
    pub(crate) fn validated(&mut self, place: u8, row: u32) {
        self.decisions[usize::from(place)].row = row;
    }

    /// The policy of an SPD that matched, by its number. A number too great for a decision has the packet's flow not learned.
    pub(crate) fn matched(&mut self, place: u8, output: bool, policy: u32) {
        let at = usize::from(place);
        let decision = &mut self.decisions[at];
        match u16::try_from(policy) {
            Ok(number) if number != UNMATCHED => {
                *(if output { &mut decision.spd_out } else { &mut decision.spd_in }) = number;
            }
            _ => self.wanted[at] = false,
        }
    }

    /// The decision about a packet and the place of the older one, if it is one for its flow; it is given once.
    pub(crate) fn take(&mut self, place: u8, epoch: u32, interface: u32, adjacency: u32) -> Option<(Decision, Place)> {
        let at = usize::from(place);
        (std::mem::take(&mut self.wanted[at]) && self.due[at]).then(|| {
            let mask = self.masks[at];
            let decision = self.decisions[at].about((epoch, adjacency), interface, self.packets[at], mask);
            (decision, self.found[at])
        })
    }

    /// The vector's packets have gone.
    #[inline]
    pub(crate) fn end_vector(&mut self) {
        if self.on {
            self.on = false;
            self.wanted.fill(false);
            self.new.fill(false);
            self.unlearned.fill(None);
        }
    }
}
