//! The rules of access lists that matched packets in a run.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::acl::Hits;
use super::number::plural;
use super::table::{Align, Table};

/// The most rules that text lists. JSON has all.
const SHOWN: usize = 20;

/// A rule that matched packets, or the default of a list that decided about packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matched {
    /// The list.
    pub list: String,
    /// Position of the rule in the list, from 1; `None` for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
    /// The rule, or the default's action.
    pub rule: String,
    /// The packets, and their octets from the IP header on.
    #[serde(flatten)]
    pub hits: Hits,
}

/// Formats the rules that matched most, in the order of lists and rules.
pub(super) fn table(matched: &[Matched]) -> String {
    let mut heaviest: Vec<usize> = (0..matched.len()).collect();
    heaviest.sort_by_key(|&index| std::cmp::Reverse(matched[index].hits.packets));
    heaviest.truncate(SHOWN);
    heaviest.sort_unstable();
    let columns = [("Packets", Align::Right), ("List", Align::Left), ("Place", Align::Right), ("Rule", Align::Left)];
    let mut table = Table::new(&columns);
    for index in heaviest {
        let Matched { list, place, rule, hits } = &matched[index];
        let place = place.map_or_else(|| "default".to_owned(), |place| place.to_string());
        table.row([hits.packets.to_string(), list.clone(), place, rule.clone()]);
    }
    let mut text = table.text();
    if matched.len() > SHOWN {
        let _ =
            writeln!(text, "{SHOWN} of {} that matched; the others matched less", plural(matched.len() as u64, "rule"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(place: usize, packets: u64) -> Matched {
        let hits = Hits { packets, bytes: 64 * packets };
        Matched { list: "edge".to_owned(), place: Some(place), rule: "permit all".to_owned(), hits }
    }

    #[test]
    fn text_lists_the_rules_that_matched_most() {
        let mut all: Vec<Matched> = (1..=21).map(|place| matched(place, 100 * place as u64)).collect();
        all.rotate_left(5);
        let text = table(&all);
        assert!(!text.contains("\n    100 "), "{text}");
        assert!(text.lines().nth(1).unwrap().contains(" 600 "), "{text}");
        assert!(text.ends_with("20 of 21 rules that matched; the others matched less\n"), "{text}");
        let one = Matched { place: None, rule: "deny".to_owned(), ..matched(1, 7) };
        assert_eq!(table(&[one]), "Packets  List    Place  Rule\n      7  edge  default  deny\n");
    }
}
