//! Rules of others as our own.
//!
//! A rule without an equivalent in weir's grammar is an error with its place, and nothing is imported: a list that
//! lacks a rule has another meaning. The import prints as a text of rules.

mod classbench;
mod importer;
#[cfg(test)]
mod tests;
mod vpp;

use super::acl::Rule;
use super::findings::Sink;
use super::{Findings, Names};
use importer::Importer;

/// How others write rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As ClassBench writes filters, one a line:
    ///
    /// ```text
    /// @192.0.2.0/24  198.51.100.7/32  0 : 65535  80 : 80  0x06/0xFF  0x0200/0x1200
    /// ```
    ///
    /// Addresses, source ports, destination ports, protocol and mask, flags and mask. The upper octet of flags is that of
    /// TCP's flags, or the type of ICMP; the lower one the code of ICMP. They may be missing. Filters have no actions:
    /// they come to `permit`.
    Classbench,
    /// As VPP reads rules, by `acl_add_replace` or `set acl-plugin acl`: `ipv4 permit src 192.0.2.0/24 proto 6 dport 80, …`.
    Vpp,
}

/// The imported rules.
#[derive(Debug)]
pub struct Imported {
    /// The rules, in their order.
    pub rules: Vec<Rule>,
    /// The warnings about them.
    pub warnings: Findings,
}

/// Reads rules.
///
/// # Errors
/// If any of them cannot be understood, or not be said, with the first of the places where, and how many there are in all.
pub fn import(text: &str, format: Format) -> Result<Imported, Findings> {
    let mut importer = Importer { sink: Sink::new(text), names: Names::default(), rules: Vec::new() };
    if importer.sink.takes_all() {
        match format {
            Format::Classbench => classbench::read(text, &mut importer),
            Format::Vpp => vpp::read(text, &mut importer),
        }
    }
    let Importer { sink, rules, .. } = importer;
    if sink.errors.is_empty() { Ok(Imported { rules, warnings: sink.warnings }) } else { Err(sink.errors) }
}
