//! The outcome of attaching a list to an interface, or detaching it.

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
}

impl Report for Attached {
    const SCHEMA: &'static str = "weir.acl.attached/1";

    fn text(&self) -> String {
        let Attached { interface, direction, list, attached, lists } = self;
        let what = if *attached { "attached" } else { "detached" };
        let lists = if lists.is_empty() { "none: all packets pass".to_owned() } else { lists.join(", ") };
        format!("interface {interface}, {direction}: {what} {list}; lists now: {lists}\n")
    }
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
        };
        assert_eq!(attached.text(), "interface wan, in: attached block; lists now: block, edge\n");
        assert_eq!(read::<Attached>(&json(&attached)).unwrap(), attached);
        let none = Attached { attached: false, lists: vec![], ..attached };
        assert_eq!(none.text(), "interface wan, in: detached block; lists now: none: all packets pass\n");
    }
}
