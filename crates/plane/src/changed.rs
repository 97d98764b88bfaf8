//! Kinds of changes after which flows are decided anew.

/// A change since a flow was decided: the first of these that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Changed {
    /// A part of the configuration on which all flows depend.
    All,
    /// A policy of an interface by which the flow's packets come in or leave.
    Interface,
    /// A route, a rule or an entry about a prefix with the flow's source or destination.
    Prefix,
    /// The next hop: packets cannot leave by it now, its link or its neighbour.
    NextHop,
    /// The session: the rules have changed, so that its opener is matched again, or it decides otherwise.
    Session,
}

impl Changed {
    /// How many there are.
    pub const COUNT: usize = 5;
    /// All of them.
    pub const ALL: [Changed; Changed::COUNT] =
        [Changed::All, Changed::Interface, Changed::Prefix, Changed::NextHop, Changed::Session];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Changed::All => "all",
            Changed::Interface => "interface",
            Changed::Prefix => "prefix",
            Changed::NextHop => "next-hop",
            Changed::Session => "session",
        }
    }
}
