//! Lists of steer rules.

use super::traffic::Traffic;

/// A list.
#[derive(Debug, Clone, PartialEq)]
pub struct SteerStats {
    /// Its name.
    pub name: String,
    /// The interfaces that name it.
    pub interfaces: Vec<String>,
    /// Its rules, in the order in which they are matched.
    pub rules: Vec<SteerRuleRow>,
    /// Where it was declared.
    pub origin: String,
}

/// A rule, and what it has matched.
#[derive(Debug, Clone, PartialEq)]
pub struct SteerRuleRow {
    /// The rule.
    pub rule: crate::model::SteerRule,
    /// The name of the interface that it redirects to.
    pub interface: Option<std::sync::Arc<str>>,
    /// Packets that it matched; octets from the IP header on.
    pub matched: Traffic,
    /// Where it was declared.
    pub origin: String,
}
