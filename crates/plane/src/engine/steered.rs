//! Lists of steer rules as `show steer` shows them.

use std::sync::Arc;

use super::cleared::Cleared;
use crate::model::{Gateway, SteerIndex, SteerList, SteerRule};
use crate::root::Root;
use crate::root::counters::TrafficCounter;
use crate::stats::{SteerRuleRow, SteerStats, Traffic};

/// The lists, in the order of the configuration, with the counters of each rule since these were cleared.
pub(crate) fn lists(model: &Gateway, root: &Root, cleared: &Cleared) -> Vec<SteerStats> {
    (0..).zip(&model.steer).map(|(index, own)| list((model, root), SteerIndex(index), own, cleared)).collect()
}

/// Begins the counters of all lists with 0.
pub(crate) fn clear(root: &Root, cleared: &mut Cleared) {
    let rules = root.steer.list.iter().flat_map(|list| list.rules.iter());
    cleared.clear_steer(rules.map(|rule| (Arc::clone(&rule.counters), counted(&rule.counters))));
}

/// Returns the packets that a rule has matched.
fn counted(counters: &[TrafficCounter]) -> Traffic {
    counters.iter().fold(Traffic::default(), |sum, own| Traffic {
        packets: sum.packets + own.packets.value(),
        bytes: sum.bytes + own.bytes.value(),
    })
}

fn list((model, root): (&Gateway, &Root), index: SteerIndex, list: &SteerList, cleared: &Cleared) -> SteerStats {
    let named = model.interfaces.iter().filter(|own| own.steer == Some(index));
    let place = |origin| model.origins.place(origin).map_or_else(String::new, |place| place.to_string());
    let own = root.steer.list.get(usize::from(index.0)).map_or(&[][..], |own| &own.rules);
    let row = |(place_in_list, rule): (usize, &SteerRule)| SteerRuleRow {
        id: place_in_list as u32 + 1,
        rule: rule.clone(),
        matched: own
            .get(place_in_list)
            .map_or_else(Traffic::default, |own| cleared.steer(&own.counters, counted(&own.counters))),
        origin: place(rule.origin()),
    };
    SteerStats {
        name: list.name.clone(),
        interfaces: named.map(|own| own.name.clone()).collect(),
        rules: list.rules.iter().enumerate().map(row).collect(),
        origin: place(list.origin),
    }
}
