//! Steer rules that name nothing but the packets they match.

use weir_plane::model::{AclRule, SteerMacs, SteerRule, SteerWay};

/// A rule with a way and a mark.
pub(super) fn rule(way: SteerWay, mark: Option<u32>, matches: AclRule) -> SteerRule {
    SteerRule {
        count: false,
        mark,
        way,
        unchecked: false,
        vlan: None,
        id: None,
        octets: None,
        macs: SteerMacs::default(),
        inner: None,
        frame: None,
        matches,
        names_family: false,
        comment: None,
    }
}
