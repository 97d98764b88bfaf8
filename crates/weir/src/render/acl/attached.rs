//! The outcome of attaching a list to an interface, or detaching it.

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};

use super::super::Report;

/// The lists of an interface and direction after an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The interface.
    pub interface: String,
    /// `in` or `out`.
    pub direction: String,
    /// The list that was attached or detached.
    pub list: String,
    /// It was attached.
    pub attached: bool,
    /// The lists from now on, in the order in which they apply.
    pub lists: Vec<String>,
    /// `denied` or `rejected`: what happens from now on to packets that the list does not match. It is the first of its interface and
    /// direction, where all packets passed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<String>,
}

impl Report for Attached {
    const SCHEMA: &'static str = "weir.acl.attached/1";

    fn text(&self) -> String {
        let Attached { interface, direction, list, attached, lists, others } = self;
        let what = if *attached { "attached" } else { "detached" };
        let (lists, others) = (listed(lists), others.as_ref());
        let others = others.map_or_else(String::new, |what| format!("; all other packets are {what} now"));
        format!("interface {interface}, {direction}: {what} {list}; lists now: {lists}{others}\n")
    }
}

/// Returns the lists of an interface and direction in words.
pub(crate) fn listed<S: Borrow<str>>(lists: &[S]) -> String {
    if lists.is_empty() { "none: all packets pass".to_owned() } else { lists.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::super::{json, read};
    use super::*;

    #[test]
    fn a_line_names_the_lists() {
        let attached = Attached {
            interface: "wan".into(),
            direction: "in".into(),
            list: "block".into(),
            attached: true,
            lists: vec!["block".into(), "edge".into()],
            others: None,
        };
        assert_eq!(attached.text(), "interface wan, in: attached block; lists now: block, edge\n");
        assert_eq!(read::<Attached>(&json(&attached)).unwrap(), attached);
        let first = Attached { lists: vec!["block".into()], others: Some("denied".into()), ..attached.clone() };
        let text = "interface wan, in: attached block; lists now: block; all other packets are denied now\n";
        assert_eq!(first.text(), text);
        assert_eq!(read::<Attached>(&json(&first)).unwrap(), first);
        let none = Attached { attached: false, lists: vec![], ..attached };
        assert_eq!(none.text(), "interface wan, in: detached block; lists now: none: all packets pass\n");
    }
}
