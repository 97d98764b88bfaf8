//! Lists of rules, SPDs and SAs that a reload changed, by their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_plane::engine::{sa_name, steer_interface};
use weir_plane::model::{AllowedSources, Bridge, Gateway, InterfaceIndex, Origin, Sa, SaKey, VrfIndex};

use crate::rules::binding::Binding;
use crate::rules::{acl, nat, spd, steer};

/// Lists that a reload added, removed and changed, in words: `acl edge`, `nat edge`, `spd edge`, `bridge lan`, `sa east`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
    pub(super) changed: Vec<String>,
}

/// The rules of each list as they print, wherever they stand in files. Members of groups count as rules.
type Printed = BTreeMap<String, Vec<String>>;

/// A pair of SAs whose indices and place do not count, and the names of its VRF and its interface.
type Pair = (Sa, String, Option<String>);

/// Compares two models. Comments count; the place of a rule in its file does not.
pub(super) fn differences(before: &Gateway, after: &Gateway) -> Differences {
    let mut found = Differences::default();
    found.compare(printed(before), &printed(after), |_, _| "");
    found.compare(
        pairs(before),
        &pairs(after),
        |before, after| if has_new_key(before, after) { " (new key)" } else { "" },
    );
    found
}

impl Differences {
    /// Compares objects of equal names. `remark` returns what the name of a changed one is followed by.
    fn compare<T: PartialEq>(
        &mut self,
        before: BTreeMap<String, T>,
        after: &BTreeMap<String, T>,
        remark: impl Fn(&T, &T) -> &'static str,
    ) {
        for (name, new) in after {
            match before.get(name) {
                None => self.added.push(name.clone()),
                Some(old) if old != new => self.changed.push(format!("{name}{}", remark(old, new))),
                Some(_) => {}
            }
        }
        self.removed.extend(before.into_keys().filter(|name| !after.contains_key(name)));
    }
}

fn printed(gateway: &Gateway) -> Printed {
    let name = |index: InterfaceIndex| gateway.interfaces[index.0 as usize].name.as_str().into();
    let acls = gateway.acls.iter().map(|list| {
        let rules = list.rules.iter().map(|rule| acl::Rule::of(rule, name).to_string());
        (format!("acl {}", list.name), rules.chain([format!("{:?}", list.default)]).collect())
    });
    let nats = gateway.nat.iter().map(|list| {
        let rules = list.rules.iter().map(|rule| nat::Rule::of(rule, name).to_string());
        (
            format!("nat {}", list.name),
            rules.chain([format!("{:?}", (list.mss_clamp, list.mapping, list.log, list.ipfix))]).collect(),
        )
    });
    let spds = gateway.spds.iter().map(|spd| {
        let rules = spd.rules.iter().map(|rule| spd::Rule::of(rule, |sa| sa_name(gateway, sa)).to_string());
        (format!("spd {}", spd.name), rules.chain([format!("{:?}", spd.cache)]).collect())
    });
    let bridges = gateway.bridges.iter().map(|bridge| {
        let ports = bridge.ports.iter().map(|port| format!("{} {:?}", name(port.interface), port.group));
        let stations = bridge.stations.iter().map(|own| format!("{} {}", own.mac, name(own.interface)));
        let bare = Bridge { ports: Vec::new(), stations: Vec::new(), origin: Origin::default(), ..bridge.clone() };
        (format!("bridge {}", bridge.name), ports.chain(stations).chain([format!("{bare:?}")]).collect())
    });
    let bindings = gateway.bindings.iter().map(|list| {
        (format!("mac-ip {}", list.name), list.rules.iter().map(|rule| Binding::of(rule).to_string()).collect())
    });
    let allowlists = gateway.allowlists.iter().map(|list| {
        let sources = match &list.sources {
            AllowedSources::Prefixes(prefixes) => {
                let mut prefixes: Vec<String> = prefixes.iter().map(|(net, _)| net.to_string()).collect();
                prefixes.sort_unstable();
                prefixes
            }
            AllowedSources::Vrf(vrf) => vec![format!("vrf {}", gateway.vrfs[usize::from(vrf.0)].name)],
        };
        (format!("allowlist {}", list.name), sources)
    });
    let steer = gateway.steer.iter().map(|list| {
        let rules = list.rules.iter();
        let rules = rules.map(|rule| steer::Rule::of(rule, steer_interface(gateway, rule)).to_string());
        (format!("steer {}", list.name), rules.collect())
    });
    let groups = &gateway.groups;
    let addresses = groups.addresses.iter().map(|group| (&group.name, format!("{:?}", group.members)));
    let ports = groups.ports.iter().map(|group| (&group.name, format!("{:?}", group.members)));
    let interfaces = groups.interfaces.iter().map(|group| {
        let names: Vec<Arc<str>> = group.members.iter().map(|&index| name(index)).collect();
        (&group.name, format!("{names:?}"))
    });
    let groups = addresses.chain(ports).chain(interfaces);
    let groups = groups.map(|(name, members)| (format!("group {name}"), vec![members]));
    acls.chain(nats).chain(bindings).chain(allowlists).chain(spds).chain(steer).chain(bridges).chain(groups).collect()
}

fn pairs(gateway: &Gateway) -> BTreeMap<String, Pair> {
    let of = |sa: &Sa| {
        let vrf = gateway.vrfs[usize::from(sa.vrf.0)].name.clone();
        let interface = sa.interface.map(|index| gateway.interfaces[index.0 as usize].name.clone());
        let bare = Sa { vrf: VrfIndex(0), interface: None, origin: Origin::default(), ..sa.clone() };
        (format!("sa {}", sa.name), (bare, vrf, interface))
    };
    gateway.sas.iter().map(of).collect()
}

/// An SA of the pair has another key than before.
fn has_new_key((before, ..): &Pair, (after, ..): &Pair) -> bool {
    let differs = |before: &Option<SaKey>, after: &Option<SaKey>| {
        before.as_ref().zip(after.as_ref()).is_some_and(|(before, after)| before.fingerprint() != after.fingerprint())
    };
    differs(&before.outbound, &after.outbound) || differs(&before.inbound, &after.inbound)
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

    #[test]
    fn bridges_that_come_go_and_differ_are_named() {
        let model = |text: &str| {
            let ports: String =
                ["a", "b", "c"].iter().map(|name| format!("[[interface]]\nname = '{name}'\nport = 'null'\n")).collect();
            gateway(&format!("{ports}{text}"))
        };
        let before = model("[bridge.one]\ninterfaces = ['a']\n[bridge.two]\ninterfaces = ['b']\nmacs = 10\n");
        let after = model("[bridge.three]\ninterfaces = ['a']\n[bridge.two]\ninterfaces = ['b', 'c']\nmacs = 10\n");
        let found = differences(&before, &after);
        assert_eq!((found.added, found.removed), (vec!["bridge three".to_owned()], vec!["bridge one".to_owned()]));
        assert_eq!(found.changed, ["bridge two"]);
        assert_eq!(differences(&after, &after), Differences::default());
    }

    #[test]
    fn spds_that_come_go_and_differ_are_named() {
        let before = gateway(
            r#"
            [spd.edge]
            rules = ["bypass udp from any to any", "discard ip from any to any"]
            [spd.cached]
            rules = ["bypass ip from any to any"]
            [spd.old]
            rules = ["bypass ip from any to any"]
            "#,
        );
        let after = gateway(
            r#"
            [spd.cached]
            rules = ["bypass ip from any to any"]
            cache = { outbound = true }
            [spd.edge]
            rules = ["discard ip from any to any", "bypass udp from any to any"]
            [spd.new]
            rules = ["bypass ip from any to any"]
            "#,
        );
        let found = differences(&before, &after);
        assert_eq!((found.added, found.removed), (vec!["spd new".to_owned()], vec!["spd old".to_owned()]));
        assert_eq!(found.changed, ["spd cached", "spd edge"]);
    }

    #[test]
    fn sas_that_come_go_and_differ_are_named_and_new_keys_are_said() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        for (name, digit) in [("a", "1"), ("b", "2")] {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("{digit}0{digit}1").repeat(10)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let gateway = |text: &str| {
            let path = folder.path().join("weir.toml");
            std::fs::write(&path, format!("version = 1\n{text}")).unwrap();
            let loaded = crate::config::load(&path);
            let findings = loaded.text(false);
            loaded.gateway.unwrap_or_else(|| panic!("{findings}"))
        };
        let sa = |name: &str, number: u8, key: &str, more: &str| {
            format!(
                "[sa.{name}]\nlocal = \"198.51.100.1\"\nremote = \"198.51.100.{number}\"\nalgorithm = \"aes128gcm16\"\n\
                 in = {{ spi = 0x100{number}, key-file = \"{key}\" }}\n{more}\n"
            )
        };
        let before =
            sa("key", 2, "a", "") + &sa("old", 3, "a", "") + &sa("same", 4, "a", "") + &sa("window", 5, "a", "");
        let after = sa("new", 3, "a", "")
            + &sa("window", 5, "a", "window = 1024")
            + &sa("same", 4, "a", "")
            + &sa("key", 2, "b", "");
        let found = differences(&gateway(&before), &gateway(&after));
        assert_eq!((found.added, found.removed), (vec!["sa new".to_owned()], vec!["sa old".to_owned()]));
        assert_eq!(found.changed, ["sa key (new key)", "sa window"]);
    }
}
