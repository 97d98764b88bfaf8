//! Steer rules as a list that live edits change.

use std::sync::Arc;

use weir_plane::compile::patch::Effect;
use weir_plane::model::{Gateway, NextHop, Origin, SteerIndex, SteerRule, VrfIndex};

use super::super::next_hop::interface_of;
use super::super::remarks::Remarks;
use super::rule::{ListOf, NO_GROUP, Rule, TextOf};
use crate::rules::Finding;
use crate::rules::steer::checks::{Objection, Site, Translating};
use crate::rules::steer::{self, Rule as Written, Way};
use crate::rules::text::Line;

impl Rule for SteerRule {
    const OBJECT: &'static str = "steer";
    const NOUN: &'static str = "steer rules";
    const KEEPS_IDS: bool = true;

    fn set_origin(&mut self, origin: Origin) {
        self.matches.origin = origin;
    }

    fn origin_of(&self) -> Origin {
        self.matches.origin
    }

    fn names(gateway: &Gateway) -> Vec<String> {
        gateway.steer.iter().map(|list| list.name.clone()).collect()
    }

    fn list<'g>(gateway: &'g Gateway, name: &str) -> Option<&'g Arc<[Self]>> {
        gateway.steer.iter().find(|list| list.name == name).map(|list| &list.rules)
    }

    fn list_mut<'g>(gateway: &'g mut Gateway, name: &str) -> Option<&'g mut Arc<[Self]>> {
        gateway.steer.iter_mut().find(|list| list.name == name).map(|list| &mut list.rules)
    }

    fn read(
        text: &str,
        change: Option<usize>,
        list: &ListOf<'_>,
        (errors, warnings): (&mut Remarks, &mut Remarks),
    ) -> Vec<SteerRule> {
        let at = TextOf::new(change, text);
        let lines = at.lines(steer::read(text), (&mut *errors, &mut *warnings));
        let sites = sites(list.gateway, list.name);
        let mut rules = Vec::with_capacity(lines.len());
        for line in lines {
            match understood(&line, list) {
                Ok(rule) => {
                    for Objection { refuses, behind, message, help, .. } in objections(&sites, list.gateway, &rule) {
                        let finding = steer::finding(&line.text, behind, message, help);
                        let remarks = if refuses { &mut *errors } else { &mut *warnings };
                        remarks.push(|| at.remark(&line, &finding));
                    }
                    rules.push(rule);
                }
                Err(findings) => findings.iter().for_each(|finding| errors.push(|| at.remark(&line, finding))),
            }
        }
        rules
    }

    fn written(&self) -> String {
        Written::of(self).to_string()
    }

    fn text(&self) -> String {
        SteerRule { comment: None, ..self.clone() }.written()
    }

    fn renewed(&self, list: &ListOf<'_>) -> Result<SteerRule, String> {
        let no_group = || NO_GROUP.to_owned();
        let written = self.written().parse::<Written>().map_err(|_| no_group())?;
        let hop = hop(&written, list)?;
        let rule = written.model(list.vocabulary, self.origin(), |_, _| hop).map_err(|_| no_group())?;
        rule.refused(list.name, list.gateway).map_or(Ok(rule), Err)
    }

    fn refused(&self, list: &str, gateway: &Gateway) -> Option<String> {
        let refusal = objections(&sites(gateway, list), gateway, self).into_iter().find(|own| own.refuses);
        refusal.map(|objection| objection.message)
    }

    /// A rule on the other side of another one sends packets another way, whatever both do.
    fn effect(_: &str) -> Effect {
        Effect { opens: true, closes: true }
    }

    fn may_meet(&self, _: &SteerRule) -> bool {
        true
    }

    /// The addition of a rule that does more than count protects, and the removal of a rule that does not drop.
    fn protects(text: &str, is_added: bool) -> bool {
        let Ok(Written { mark, way, .. }) = text.parse::<Written>() else { return true };
        if is_added { way != Way::On || mark.is_some() } else { way != Way::Drop }
    }
}

/// Returns the rule of a line for a gateway, or what its names lack.
fn understood(line: &Line<Written>, list: &ListOf<'_>) -> Result<SteerRule, Vec<Finding>> {
    let hop = hop(&line.rule, list).map_err(|message| vec![steer::finding(&line.text, None, message, None)])?;
    let rule = line.rule.model(list.vocabulary, Origin::default(), |_, _| hop);
    rule.map_err(|wrong| wrong.into_iter().map(|wrong| wrong.finding(&line.text)).collect())
}

/// Returns the next hop of a rule that redirects to one or to an interface.
fn hop(rule: &Written, list: &ListOf<'_>) -> Result<Option<NextHop>, String> {
    let Way::To(name, address) = &rule.way else { return Ok(None) };
    // As in a configuration: a next hop that is known by its address alone is looked for in the VRF that is always there.
    let interface = interface_of(list.gateway, name.as_deref(), *address, VrfIndex(0))?;
    Ok(Some(NextHop { interface, address: *address, weight: 1 }))
}

/// Returns the interfaces that name a list. Sessions of access lists are left to the check of the gateway with all edits: live
/// edits change which lists open some.
fn sites<'g>(gateway: &'g Gateway, list: &str) -> Vec<Site<'g>> {
    let Gateway { steer, vrfs, interfaces, routes, bridges, .. } = gateway;
    let translating = Translating::new(vrfs.len(), interfaces, routes);
    let index = steer.iter().position(|own| own.name == list).map(|at| SteerIndex(at as u16));
    let named = interfaces.iter().filter(|own| own.steer.is_some() && own.steer == index);
    named.map(|own| Site::new(own, (interfaces, bridges), &translating, |_| false)).collect()
}

fn objections(sites: &[Site<'_>], gateway: &Gateway, rule: &SteerRule) -> Vec<Objection> {
    let workers = gateway.workers.count;
    sites.iter().flat_map(|site| site.objections(rule, workers)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::acl::{Change, Insert};
    use super::super::{Put, Said, Steers};
    use super::*;

    const FILE: &str = r#"
version = 1
[workers]
count = 2
[[interface]]
name = "wan"
port = "null"
address = "192.0.2.1/24"
steer = "edge"
[[interface]]
name = "dpi"
port = "null"
address = "198.51.100.1/24"
[steer.edge]
rules = ["count udp from any to any", "drop ip4 gre from any to any"]
"#;
    /// Routes lead from the VRF of `wan` to one that translates.
    const LINKED: &str = r#"
version = 1
[[vrf]]
name = "red"
[workers]
count = 2
[[interface]]
name = "wan"
port = "null"
address = "192.0.2.1/24"
steer = "edge"
[[interface]]
name = "red0"
port = "null"
vrf = "red"
address = "198.51.100.1/24"
nat = "out"
[[route]]
prefix = "0.0.0.0/0"
via = { address = "198.51.100.9", vrf = "red" }
[steer.edge]
rules = ["count udp from any to any"]
[nat.out]
rules = ["source ip4 from any to any as interface"]
"#;
    const LISTED: &str = "name = \"wan\"\nacl = { in = \"some\" }\n";

    fn gateway(text: &str) -> Gateway {
        let loaded = crate::config::parse_str("test.toml", text);
        let findings = loaded.text(false);
        loaded.gateway.unwrap_or_else(|| panic!("{findings}"))
    }

    /// Returns the file with an access list at `wan` that opens sessions, or does not.
    fn with_list(action: &str) -> String {
        FILE.replace("name = \"wan\"\n", LISTED) + &format!("[acl.some]\nrules = \"{action} ip from any to any\"\n")
    }

    fn said() -> Said {
        Said { source: "noc".into(), time: 0 }
    }

    fn insert(rules: &str, at: usize) -> [Change; 1] {
        [Change::Insert(Insert { rules: rules.into(), at: Some(at), before: None, after: None })]
    }

    fn rules(gateway: &Gateway) -> Vec<String> {
        gateway.steer[0].rules.iter().map(Rule::written).collect()
    }

    #[test]
    fn rules_come_with_their_next_hops_and_outlive_a_reload() {
        let before = gateway(FILE);
        let (hop, name) = (
            "redirect next-hop 198.51.100.2 ip4 tcp from any to any",
            "redirect interface dpi ip4 icmp from any to any",
        );
        let (after, lists, changed) =
            Steers::default().change(&before, "edge", &said(), &insert(&format!("{hop}\n{name}"), 2)).unwrap();
        assert_eq!((changed.inserted, changed.rules), (vec![3, 4], 4));
        assert_eq!(rules(&after)[1..3], [hop, name]);
        // Interfaces have other numbers in another file.
        let first = "[[interface]]\nname = \"first\"\nport = \"null\"\n[[interface]]\nname = \"wan\"";
        let mut moved = gateway(&FILE.replacen("[[interface]]\nname = \"wan\"", first, 1));
        let (kept, lost, _) = lists.carry(&after, &mut moved, &[]);
        assert!(lost.is_empty());
        assert_eq!(rules(&moved), rules(&after));
        let hops = |gateway: &Gateway| -> Vec<String> {
            let list = gateway.steer[0].rules.iter();
            list.filter_map(|rule| match &rule.way {
                weir_plane::model::SteerWay::To { hop, .. } => {
                    Some(gateway.interfaces[hop.interface.0 as usize].name.clone())
                }
                _ => None,
            })
            .collect()
        };
        assert_eq!((hops(&moved), hops(&after)), (vec!["dpi".to_owned(); 2], vec!["dpi".to_owned(); 2]));
        assert_eq!(kept.edits().len(), 2);
        // Their interface is gone: they end, and more packets might pass.
        let mut other = gateway(&FILE.replace("name = \"dpi\"", "name = \"dmz\"").replace("198.51.100", "10.0.0"));
        let (kept, lost, protects) = lists.carry(&before, &mut other, &[]);
        assert!(kept.edits().is_empty() && protects);
        let lost = lost[0].lines().join("\n");
        assert!(lost.contains("198.51.100.2 is on no link") && lost.contains("there is no interface `dpi`"), "{lost}");
    }

    #[test]
    fn interfaces_refuse_live_rules_as_they_refuse_rules_of_files() {
        let refused = |file: &str, rule: &str| {
            let error = Steers::default().change(&gateway(file), "edge", &said(), &insert(rule, 1)).unwrap_err();
            error.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        for (file, rule, message) in [
            (FILE.to_owned(), "redirect queue 2 ip from any to any", "column 16: there is no worker 2"),
            (FILE.to_owned(), "redirect interface dqi ip from any to any", "there is no interface `dqi`"),
            (FILE.to_owned(), "redirect next-hop 203.0.113.1 ip4 from any to any", "203.0.113.1 is on no link"),
            (FILE.to_owned(), "redirect next-hop 198.51.100.1 ip4 from any to any", "is the gateway's own address"),
            (FILE.to_owned(), "redirect interface wan next-hop 198.51.100.2 ip4 from any to any", "no link of `wan`"),
            (FILE.to_owned(), "count ip from @no to any", "no group `no`"),
            (FILE.to_owned(), "count ip", "column 9"),
            (with_list("permit"), "redirect node ip4-lookup ip4 from any to any", "would pass by checks"),
            (LINKED.to_owned(), "redirect queue 1 ip from any to any", "both directions have one worker"),
        ] {
            let found = refused(&file, rule);
            assert!(found.contains(message), "{rule}: {found}");
        }
        // Said to be meant, it warns; and a queue without state is taken.
        let file = gateway(&with_list("permit"));
        for (rule, warnings) in
            [("redirect node ip4-lookup unchecked ip4 from any to any", 1), ("redirect queue 1 ip from any to any", 0)]
        {
            let (.., changed) = Steers::default().change(&file, "edge", &said(), &insert(rule, 1)).unwrap();
            assert_eq!(changed.warnings.len(), warnings, "{rule}");
        }
        let put = Put { text: "drop gre from any to any\nredirect queue 9 ip from any to any\n", allow_empty: false };
        let refused = Steers::default().put(&file, "edge", &said(), &put).unwrap_err();
        assert_eq!(refused.problems[0].line, Some(2));
    }

    #[test]
    fn a_rule_that_an_interface_refuses_now_ends() {
        let before = gateway(FILE);
        let rule = "redirect node ip4-lookup ip4 from 10.0.0.0/8 to any";
        let (_, lists, _) = Steers::default().change(&before, "edge", &said(), &insert(rule, 1)).unwrap();
        let mut file = gateway(&with_list("permit"));
        let (_, lost, protects) = lists.carry(&before, &mut file, &[]);
        assert!(protects && lost[0].lines().iter().any(|line| line.contains("would pass by checks")));
        assert_eq!(rules(&file).len(), 2);
    }

    #[test]
    fn edits_that_protect_are_known() {
        for (text, added, removed) in [
            ("count ip from any to any", false, true),
            ("mark 7 ip from any to any", true, true),
            ("drop ip from any to any", true, false),
            ("redirect queue 0 ip from any to any", true, true),
        ] {
            assert_eq!([true, false].map(|is_added| SteerRule::protects(text, is_added)), [added, removed], "{text}");
        }
    }
}
