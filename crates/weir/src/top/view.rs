//! The views that the screen can show.

use super::pair::Pair;
use super::reading::Parts;
use super::table::{Column, Sort, Table};
use super::tables::{drops, flows, interfaces, invalid, nodes, rules, sources};

/// A view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Interfaces, nodes and drops
    Overview,
    /// Interfaces with rates and losses
    Interfaces,
    /// Nodes: packets, vectors and ticks
    Nodes,
    /// Drop reasons
    Drops,
    /// Rules of access lists, NAT, SPDs, steer rules and bindings
    Rules,
    /// Sources of sessions
    Sources,
    /// Sessions
    Flows,
    /// Invalid sources of source address validation
    Invalid,
}

/// A kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Interfaces,
    Nodes,
    Drops,
    Rules,
    Sources,
    Flows,
    Invalid,
}

impl Kind {
    /// Number of kinds.
    pub(super) const COUNT: usize = 7;

    /// Makes the table of two readings.
    pub(super) fn table(self, pair: &Pair) -> Table {
        match self {
            Kind::Interfaces => interfaces::table(pair),
            Kind::Nodes => nodes::table(pair),
            Kind::Drops => drops::table(pair),
            Kind::Rules => rules::table(pair),
            Kind::Sources => sources::table(pair),
            Kind::Flows => flows::table(pair),
            Kind::Invalid => invalid::table(pair),
        }
    }

    /// Returns the columns.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Kind::Interfaces => interfaces::COLUMNS,
            Kind::Nodes => nodes::COLUMNS,
            Kind::Drops => drops::COLUMNS,
            Kind::Rules => rules::COLUMNS,
            Kind::Sources => sources::COLUMNS,
            Kind::Flows => flows::COLUMNS,
            Kind::Invalid => invalid::COLUMNS,
        }
    }

    /// Returns the order at the start: that of the configuration or the graph, or the greatest rate first.
    pub(super) fn sort(self) -> Option<Sort> {
        let column = match self {
            Kind::Interfaces | Kind::Nodes => return None,
            Kind::Drops => drops::RATE,
            Kind::Rules => rules::RATE,
            Kind::Sources => sources::RATE,
            Kind::Flows => flows::RATE,
            Kind::Invalid => invalid::RATE,
        };
        Some(Sort { column, descending: true })
    }
}

impl View {
    /// All views, in the order of their keys from 1 on.
    pub(super) const ALL: [View; 8] = [
        View::Overview,
        View::Interfaces,
        View::Nodes,
        View::Drops,
        View::Rules,
        View::Sources,
        View::Flows,
        View::Invalid,
    ];

    /// Returns the word on the tab.
    pub(super) fn name(self) -> &'static str {
        match self {
            View::Overview => "overview",
            View::Interfaces => "interfaces",
            View::Nodes => "nodes",
            View::Drops => "drops",
            View::Rules => "rules",
            View::Sources => "sources",
            View::Flows => "flows",
            View::Invalid => "invalid",
        }
    }

    /// Returns the tables of the view from top to bottom.
    pub(super) fn kinds(self) -> &'static [Kind] {
        match self {
            View::Overview => &[Kind::Interfaces, Kind::Nodes, Kind::Drops],
            View::Interfaces => &[Kind::Interfaces],
            View::Nodes => &[Kind::Nodes],
            View::Drops => &[Kind::Drops],
            View::Rules => &[Kind::Rules],
            View::Sources => &[Kind::Sources],
            View::Flows => &[Kind::Flows],
            View::Invalid => &[Kind::Invalid],
        }
    }

    /// Returns the parts of a reading that the view shows.
    pub(super) fn parts(self) -> Parts {
        let kinds = self.kinds();
        Parts {
            rules: kinds.contains(&Kind::Rules),
            flows: kinds.contains(&Kind::Flows) || kinds.contains(&Kind::Sources),
            invalid: kinds.contains(&Kind::Invalid),
        }
    }
}
