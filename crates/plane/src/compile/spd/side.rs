//! The boxes of rules in a direction: for packets that come in, source and destination are exchanged.

use weir_table::classify::{Rule, Upper};

use crate::compile::boxes::{Bits, boxes};
use crate::model::{AclRule, SpdRule};

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Input,
    Output,
}

/// The boxes of a rule in a direction.
pub(super) fn boxes_of<K: Bits>(rule: &SpdRule, side: Side) -> Vec<Rule<K>> {
    let matches = match side {
        Side::Input => &inbound(&rule.matches),
        Side::Output => &rule.matches,
    };
    let mut all = boxes::<K>(matches, |interface| interface.0);
    if rule.is_opaque() {
        all.iter_mut().for_each(|own| own.upper = Upper::Bare);
    }
    all
}

/// The packets that come in and match a rule: source and destination are exchanged.
fn inbound(matches: &AclRule) -> AclRule {
    let transport = matches.transport.exchanged();
    AclRule { from: matches.to.clone(), to: matches.from.clone(), transport, ..matches.clone() }
}
