//! `show nat`: rules that translate, and the outside addresses that they give.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_plane::model::{MssClamp, NatFiltering, NatMapping};
use weir_plane::stats;

use super::Report;
use super::table::{Align, Table};
use crate::rules::nat::Rule as Written;

/// The lists of rules, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatRules {
    /// Each list.
    pub lists: Vec<List>,
}

/// A list of rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// Its name.
    pub name: String,
    /// The interfaces that name it.
    pub interfaces: Vec<String>,
    /// Translations that its rules may begin, at all its interfaces.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Translations that there are, if there is a limit.
    #[serde(default)]
    pub translations: Option<u32>,
    /// Packets beyond the limit.
    #[serde(default)]
    pub limited: u64,
    /// The greatest segment size in SYN segments of its translations: octets, or `mtu`.
    #[serde(rename = "mss-clamp")]
    pub mss_clamp: Option<Clamp>,
    /// Whether inside endpoints keep their outside endpoints: `endpoint-dependent` or `endpoint-independent`.
    #[serde(default)]
    pub mapping: String,
    /// Packets from which outside endpoints reach inside endpoints, in the same words.
    #[serde(default)]
    pub filtering: String,
    /// Its rules, in order.
    pub rules: Vec<Rule>,
    /// Where it was declared.
    pub origin: String,
}

const INDEPENDENT: &str = "endpoint-independent";

/// The word for what depends on endpoints, or does not.
fn dependence(is_independent: bool) -> String {
    if is_independent { INDEPENDENT.to_owned() } else { "endpoint-dependent".to_owned() }
}

/// The greatest segment size in SYN segments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Clamp {
    /// In octets.
    Octets(u16),
    /// `mtu`: that of the interfaces.
    Word(String),
}

impl Clamp {
    fn new(of: MssClamp) -> Clamp {
        match of {
            MssClamp::Value(octets) => Clamp::Octets(octets),
            MssClamp::Mtu => Clamp::Word("mtu".to_owned()),
        }
    }
}

impl fmt::Display for Clamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clamp::Octets(octets) => write!(f, "{octets}"),
            Clamp::Word(word) => f.write_str(word),
        }
    }
}

/// A rule, and what it has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its id, for `weir nat`.
    pub id: u32,
    /// The rule.
    pub rule: String,
    /// Packets that it translated or kept, in both directions.
    pub packets: u64,
    /// Their octets from the IP header on.
    pub bytes: u64,
    /// Translations that it began.
    pub opened: u64,
    /// Packets that found no free port or address.
    pub exhausted: u64,
    /// SYN segments whose maximum segment size it lowered.
    pub clamped: u64,
    /// Packets whose source had as many translations as it may have.
    pub limited: u64,
    /// Where it was declared.
    pub origin: String,
}

impl NatRules {
    /// Of the gateway's lists.
    pub fn new(lists: Vec<stats::NatStats>) -> NatRules {
        let rule = |row: stats::NatRuleRow| Rule {
            id: row.id,
            // No rule of these names an interface.
            rule: Written::of(&row.rule, |_| "".into()).to_string(),
            packets: row.packets,
            bytes: row.bytes,
            opened: row.opened,
            exhausted: row.exhausted,
            clamped: row.clamped,
            limited: row.limited,
            origin: row.origin,
        };
        let list = |list: stats::NatStats| List {
            name: list.name,
            interfaces: list.interfaces,
            limit: list.limit,
            translations: list.held,
            limited: list.limited,
            mss_clamp: list.mss_clamp.map(Clamp::new),
            mapping: dependence(list.mapping != NatMapping::EndpointDependent),
            filtering: dependence(list.mapping == NatMapping::EndpointIndependent(NatFiltering::EndpointIndependent)),
            rules: list.rules.into_iter().map(rule).collect(),
            origin: list.origin,
        };
        NatRules { lists: lists.into_iter().map(list).collect() }
    }
}

impl Report for NatRules {
    const SCHEMA: &'static str = "weir.show.nat-rules/1";

    fn text(&self) -> String {
        if self.lists.is_empty() {
            return "no rules translate addresses\n".to_owned();
        }
        let mut text = String::new();
        for list in &self.lists {
            let List { name, interfaces, mss_clamp, mapping, filtering, rules, origin, .. } = list;
            let outside = if interfaces.is_empty() { "no interface".to_owned() } else { interfaces.join(", ") };
            let clamp = mss_clamp.as_ref().map_or_else(String::new, |own| format!(", mss-clamp {own}"));
            let of = |key: &str, word: &str| match word == INDEPENDENT {
                true => format!(", {key} {word}"),
                false => String::new(),
            };
            let mapping = of("mapping", mapping) + &of("filtering", filtering);
            text.push_str(&format!("{name} at {outside}{}{clamp}{mapping} ({origin})\n", list.occupancy()));
            let mut table = Table::new(&[
                ("Id", Align::Right),
                ("Packets", Align::Right),
                ("Bytes", Align::Right),
                ("Opened", Align::Right),
                ("Exhausted", Align::Right),
                ("Limited", Align::Right),
                ("Clamped", Align::Right),
                ("Rule", Align::Left),
                ("Origin", Align::Left),
            ]);
            for Rule { id, rule, packets, bytes, opened, exhausted, clamped, limited, origin } in rules {
                let count = |number: &u64| number.to_string();
                table.row([
                    id.to_string(),
                    count(packets),
                    count(bytes),
                    count(opened),
                    count(exhausted),
                    count(limited),
                    count(clamped),
                    rule.clone(),
                    origin.clone(),
                ]);
            }
            text.push_str(&table.text());
        }
        text
    }
}

impl List {
    /// The limit with the translations that count for it; nothing without a limit.
    fn occupancy(&self) -> String {
        let Some(limit) = self.limit else { return String::new() };
        let held = self.translations.unwrap_or(0);
        let limited = if self.limited == 0 { String::new() } else { format!(" ({} packets beyond)", self.limited) };
        format!(", limit {limit}: {held} translations{limited}")
    }
}

/// The outside addresses that rules give to sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// One for each rule at each interface.
    pub pools: Vec<Pool>,
}

/// The outside addresses of a rule at an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pool {
    /// The rule's list.
    pub list: String,
    /// Its id there.
    pub rule: u32,
    /// The interface.
    pub interface: String,
    /// How many addresses there are: a number in words, as it may have 39 digits.
    pub addresses: String,
    /// Addresses that have translations.
    pub addresses_used: u64,
    /// The first and the last port; `None`: the ports stay.
    pub ports: Option<(u16, u16)>,
    /// Translations that have one of the addresses now.
    pub translations: u64,
    /// The addresses with the most translations, and how many each has.
    pub greatest: Vec<(IpAddr, u64)>,
    /// Packets that found no free port or address.
    pub exhausted: u64,
    /// The same by outside address and protocol.
    #[serde(default)]
    pub exhausted_by: Vec<Exhausted>,
    /// Where the rule was declared.
    pub origin: String,
}

/// Packets that found no free port or address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exhausted {
    /// The outside address; `None`: those beyond the first 256 of the rule.
    pub address: Option<IpAddr>,
    /// The protocol: `tcp`, `udp`, `icmp` (of both families) or `other`.
    pub protocol: String,
    /// How many packets.
    pub packets: u64,
}

impl Exhausted {
    fn new(of: stats::NatExhausted) -> Exhausted {
        Exhausted { address: of.address, protocol: of.protocol.to_owned(), packets: of.packets }
    }
}

impl Pools {
    /// Of the gateway's pools.
    pub fn new(pools: Vec<stats::NatPool>) -> Pools {
        let pool = |own: stats::NatPool| Pool {
            list: own.list,
            rule: own.rule,
            interface: own.interface,
            addresses: own.addresses.to_string(),
            addresses_used: own.addresses_used as u64,
            ports: own.ports.map(|ports| (*ports.start(), *ports.end())),
            translations: own.translations as u64,
            greatest: own.greatest.into_iter().map(|(address, count)| (address, count as u64)).collect(),
            exhausted: own.exhausted,
            exhausted_by: own.exhausted_by.into_iter().map(Exhausted::new).collect(),
            origin: own.origin,
        };
        Pools { pools: pools.into_iter().map(pool).collect() }
    }
}

impl Report for Pools {
    const SCHEMA: &'static str = "weir.show.nat-pools/1";

    fn text(&self) -> String {
        if self.pools.is_empty() {
            return "no rule gives outside addresses to sources\n".to_owned();
        }
        let mut table = Table::new(&[
            ("Rule", Align::Left),
            ("Interface", Align::Left),
            ("Addresses", Align::Right),
            ("Used", Align::Right),
            ("Ports", Align::Left),
            ("Translations", Align::Right),
            ("Exhausted", Align::Right),
            ("Greatest", Align::Left),
        ]);
        for own in &self.pools {
            let greatest: Vec<String> =
                own.greatest.iter().map(|(address, count)| format!("{address} {count}")).collect();
            table.row([
                format!("{} {}", own.list, own.rule),
                own.interface.clone(),
                own.addresses.clone(),
                own.addresses_used.to_string(),
                own.ports.map_or_else(|| "any".to_owned(), |(first, last)| format!("{first}-{last}")),
                own.translations.to_string(),
                own.exhausted.to_string(),
                greatest.join(", "),
            ]);
        }
        table.text() + &self.exhausted()
    }
}

impl Pools {
    /// The packets without a port, by outside address and protocol; nothing if there are none.
    fn exhausted(&self) -> String {
        if self.pools.iter().all(|own| own.exhausted_by.is_empty()) {
            return String::new();
        }
        let mut table = Table::new(&[
            ("Rule", Align::Left),
            ("Interface", Align::Left),
            ("Exhausted_address", Align::Left),
            ("Protocol", Align::Left),
            ("Packets", Align::Right),
        ]);
        for (pool, own) in self.pools.iter().flat_map(|pool| pool.exhausted_by.iter().map(move |own| (pool, own))) {
            table.row([
                format!("{} {}", pool.list, pool.rule),
                pool.interface.clone(),
                own.address.map_or_else(|| "others".to_owned(), |address| address.to_string()),
                own.protocol.clone(),
                own.packets.to_string(),
            ]);
        }
        "\n".to_owned() + &table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn tables_and_json() {
        let (rules, _, pools) = sample::nat();
        let rules = NatRules::new(rules);
        assert_eq!(
            rules.text(),
            "\
edge at wan, limit 2000: 3 translations (7 packets beyond), mss-clamp 1400, mapping endpoint-independent (edge.toml:9)
Id  Packets  Bytes  Opened  Exhausted  Limited  Clamped  Rule                                                                   Origin
 7       12   1200       3          1        4        2  source ip4 from 10.0.0.0/8 to any as 198.51.100.9 limit-per-address 2  edge.toml:11
"
        );
        assert_eq!(read::<NatRules>(&json(&rules)).unwrap(), rules);
        let pools = Pools::new(pools);
        assert_eq!(
            pools.text(),
            "\
Rule    Interface  Addresses  Used  Ports  Translations  Exhausted  Greatest
edge 7  wan                1     1  any               2          1  198.51.100.9 2

Rule    Interface  Exhausted_address  Protocol  Packets
edge 7  wan        198.51.100.9       tcp             1
"
        );
        assert_eq!(read::<Pools>(&json(&pools)).unwrap(), pools);
        assert_eq!(NatRules { lists: vec![] }.text(), "no rules translate addresses\n");
        assert_eq!(Pools { pools: vec![] }.text(), "no rule gives outside addresses to sources\n");
    }
}
