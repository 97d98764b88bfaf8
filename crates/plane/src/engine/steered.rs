//! Lists of steer rules as `show steer` shows them.

use std::sync::Arc;

use weir_port::Filters;

use super::cleared::Cleared;
use super::ports::OpenPort;
use crate::compile::Map;
use crate::model::{Gateway, SteerIndex, SteerList, SteerRule};
use crate::root::counters::TrafficCounter;
use crate::root::{NONE, Root};
use crate::stats::{SteerPlace, SteerRuleRow, SteerStats, Traffic};

/// The lists, in the order of the configuration, with the counters of each rule since these were cleared.
pub(crate) fn lists(
    (model, map, root): (&Gateway, &Map, &Root),
    ports: &[Option<OpenPort>],
    cleared: &Cleared,
) -> Vec<SteerStats> {
    let place = |index: usize| {
        let number = map.interfaces.get(index).copied().unwrap_or(NONE);
        let port = root.interfaces.get(number as usize).and_then(|own| ports.get(own.port as usize)?.as_ref());
        let filters = port.map_or(Filters::None, |own| own.port.capabilities().filters);
        SteerPlace { name: model.interfaces[index].name.clone(), filters }
    };
    let list = |(index, own)| {
        let index = SteerIndex(index);
        let named = (0..model.interfaces.len()).filter(|&at| model.interfaces[at].steer == Some(index));
        list((model, root), index, (own, named.map(place).collect()), cleared)
    };
    (0..).zip(&model.steer).map(list).collect()
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

fn list(
    (model, root): (&Gateway, &Root),
    index: SteerIndex,
    (list, interfaces): (&SteerList, Vec<SteerPlace>),
    cleared: &Cleared,
) -> SteerStats {
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
        interfaces,
        rules: list.rules.iter().enumerate().map(row).collect(),
        origin: place(list.origin),
    }
}
