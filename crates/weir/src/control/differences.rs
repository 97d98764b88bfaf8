//! Lists of rules that a reload changed, by their names.

use std::collections::BTreeMap;

use weir_plane::model::{Gateway, InterfaceIndex};

use crate::rules::{acl, nat};

/// Lists that a reload added, removed and changed, in words: `acl edge`, `nat edge`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
    pub(super) changed: Vec<String>,
}

/// The rules of each list as they print, wherever they stand in files. Members of groups count as rules.
type Printed = BTreeMap<String, Vec<String>>;

/// Compares two models. Comments count; the place of a rule in its file does not.
pub(super) fn differences(before: &Gateway, after: &Gateway) -> Differences {
    let (before, after) = (printed(before), printed(after));
    let mut found = Differences::default();
    for (name, rules) in &after {
        match before.get(name) {
            None => found.added.push(name.clone()),
            Some(old) if old != rules => found.changed.push(name.clone()),
            Some(_) => {}
        }
    }
    found.removed = before.into_keys().filter(|name| !after.contains_key(name)).collect();
    found
}

fn printed(gateway: &Gateway) -> Printed {
    let name = |index: InterfaceIndex| gateway.interfaces[index.0 as usize].name.as_str().into();
    let acls = gateway.acls.iter().map(|list| {
        let rules = list.rules.iter().map(|rule| acl::Rule::of(rule, name).to_string());
        (format!("acl {}", list.name), rules.chain([format!("{:?}", list.default)]).collect())
    });
    let nats = gateway.nat.iter().map(|list| {
        let rules = list.rules.iter().map(|rule| nat::Rule::of(rule, name).to_string());
        (format!("nat {}", list.name), rules.chain([format!("{:?}", list.mss_clamp)]).collect())
    });
    let groups = &gateway.groups;
    let addresses = groups.addresses.iter().map(|group| (&group.name, format!("{:?}", group.members)));
    let ports = groups.ports.iter().map(|group| (&group.name, format!("{:?}", group.members)));
    let interfaces = groups.interfaces.iter().map(|group| {
        let names: Vec<_> = group.members.iter().map(|&index| name(index)).collect();
        (&group.name, format!("{names:?}"))
    });
    let groups = addresses.chain(ports).chain(interfaces);
    let groups = groups.map(|(name, members)| (format!("group {name}"), vec![members]));
    acls.chain(nats).chain(groups).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(text: &str) -> Gateway {
        let loaded = crate::config::parse_str("test.toml", &format!("version = 1\n{text}"));
        let findings = loaded.text(false);
        loaded.gateway.unwrap_or_else(|| panic!("{findings}"))
    }

    #[test]
    fn lists_that_come_go_and_differ_are_named() {
        let before = gateway(
            r#"
            [group.web]
            ports = [80]
            [acl.a]
            rules = "permit tcp from any to any port @web"
            [acl.b]
            rules = "permit ip from any to any"
            [nat.edge]
            rules = ["source ip4 from 10.0.0.0/8 to any as 198.51.100.1"]
            "#,
        );
        let after = gateway(
            r#"
            # Moved to other lines.
            [nat.edge]
            rules = ["source ip4 from 10.0.0.0/8 to any as 198.51.100.2"]
            [group.web]
            ports = [80, 443]
            [acl.a]
            rules = "permit tcp from any to any port @web"
            [acl.c]
            rules = "permit ip from any to any"
            "#,
        );
        let found = differences(&before, &after);
        assert_eq!(found.added, ["acl c"]);
        assert_eq!(found.removed, ["acl b"]);
        assert_eq!(found.changed, ["group web", "nat edge"]);
        assert_eq!(differences(&after, &after), Differences::default());
    }
}
