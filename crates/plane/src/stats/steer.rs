//! Lists of steer rules.

use weir_port::Filters;

use super::traffic::Traffic;

/// A list.
#[derive(Debug, Clone, PartialEq)]
pub struct SteerStats {
    /// Its name.
    pub name: String,
    /// The interfaces that name it.
    pub interfaces: Vec<SteerPlace>,
    /// Its rules, in the order in which they are matched.
    pub rules: Vec<SteerRuleRow>,
    /// Where it was declared.
    pub origin: String,
}

/// An interface with a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SteerPlace {
    /// Its name.
    pub name: String,
    /// Filters of the device of its port.
    pub filters: Filters,
}

/// A rule, and what it has matched.
#[derive(Debug, Clone, PartialEq)]
pub struct SteerRuleRow {
    /// Its place in the list, from 1.
    pub id: u32,
    /// The rule.
    pub rule: crate::model::SteerRule,
    /// Packets that it matched; octets from the IP header on.
    pub matched: Traffic,
    /// Where it was declared.
    pub origin: String,
}
