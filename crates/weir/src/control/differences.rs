//! Objects of a configuration that a reload changed, by their names.

use std::collections::BTreeMap;

use ipnet::IpNet;
use weir_plane::model::{Gateway, NextHop, Origin, Route, RouteTarget, Sa, SaKey, VrfIndex};

use super::objects::{policies, printed};
use crate::render::number::plural;

/// The VRF that needs no name.
const DEFAULT_VRF: &str = "default";

/// Routes of a kind of difference that are named.
const ROUTES: usize = 10;

/// Lists, routes and others that a reload added, removed and changed, in words: `acl edge`, `bridge lan`, `sa east`,
/// `route 0.0.0.0/0`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
    pub(super) changed: Vec<String>,
}

/// A pair of SAs whose indices and place do not count, and the names of its VRF and its interface.
type Pair = (Sa, String, Option<String>);

/// Compares two models. Comments count; the place of a rule in its file does not.
pub(super) fn differences(before: &Gateway, after: &Gateway) -> Differences {
    let mut found = Differences::default();
    found.compare(printed(before), &printed(after), |_, _| "");
    found.compare(policies(before), &policies(after), |_, _| "");
    found.compare(
        pairs(before),
        &pairs(after),
        |before, after| if has_new_key(before, after) { " (new key)" } else { "" },
    );
    found.routes(before, after);
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

/// The identity of a route: its VRF, prefix and metric.
type RouteKey<'g> = (&'g str, IpNet, u32);

impl Differences {
    /// Compares the routes of the configurations. The first of each kind are named, the others counted.
    fn routes(&mut self, before: &Gateway, after: &Gateway) {
        let (old, new) = (routes(before), routes(after));
        let same = |old: &Route, new: &Route| same_target(before, after, &old.target, &new.target);
        let added = new.keys().filter(|key| !old.contains_key(*key));
        named(&mut self.added, added.copied());
        named(&mut self.removed, old.keys().filter(|key| !new.contains_key(*key)).copied());
        let changed = old.iter().filter(|(key, old)| new.get(key).is_some_and(|new| !same(old, new)));
        named(&mut self.changed, changed.map(|(key, _)| *key));
    }
}

fn routes(gateway: &Gateway) -> BTreeMap<RouteKey<'_>, &Route> {
    let vrf = |route: &Route| gateway.vrfs[usize::from(route.vrf.0)].name.as_str();
    let mut all: Vec<(RouteKey<'_>, &Route)> =
        gateway.routes.iter().map(|route| ((vrf(route), route.prefix, route.metric), route)).collect();
    // A map of sorted pairs is built without searches.
    all.sort_unstable_by_key(|(key, _)| *key);
    all.into_iter().collect()
}

/// Adds the words for some routes.
fn named<'g>(words: &mut Vec<String>, routes: impl Iterator<Item = RouteKey<'g>>) {
    let mut more = 0u64;
    for (number, (vrf, prefix, _)) in routes.enumerate() {
        match number < ROUTES {
            true if vrf == DEFAULT_VRF => words.push(format!("route {prefix}")),
            true => words.push(format!("route {prefix} {vrf}")),
            false => more += 1,
        }
    }
    if more > 0 {
        words.push(plural(more, "more route"));
    }
}

/// Two targets are the same: their interfaces have the same names.
fn same_target(before: &Gateway, after: &Gateway, old: &RouteTarget, new: &RouteTarget) -> bool {
    let (RouteTarget::Via(old), RouteTarget::Via(new)) = (old, new) else { return old == new };
    let name = |gateway: &Gateway, hop: &NextHop| gateway.interfaces[hop.interface.0 as usize].name.clone();
    let same = |(old, new): (&NextHop, &NextHop)| {
        (old.address, old.weight) == (new.address, new.weight) && name(before, old) == name(after, new)
    };
    old.len() == new.len() && old.iter().zip(new.iter()).all(same)
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
    fn routes_and_tables_that_come_go_and_differ_are_named() {
        let model = |text: &str| {
            let ports: String = ["a", "b"]
                .iter()
                .zip(1..)
                .map(|(name, number)| {
                    format!("[[interface]]\nname = '{name}'\nport = 'null'\naddress = '192.0.{number}.1/24'\n")
                })
                .collect();
            gateway(&format!("{ports}{text}"))
        };
        let route = |prefix: &str, gateway: &str| {
            format!("[[route]]\nprefix = '{prefix}'\nvia = {{ address = '{gateway}' }}\n")
        };
        let table = |session: &str| format!("[classify.own]\nmask = 'l3 ip4 src/24'\nsessions = ['{session}']\n");
        let before = route("0.0.0.0/0", "192.0.1.254") + &route("10.0.0.0/8", "192.0.2.254");
        let after = route("11.0.0.0/8", "192.0.2.254") + &route("0.0.0.0/0", "192.0.2.254");
        let (before, after) = (before + &table("src 10.1.0.0 deny"), after + &table("src 10.1.0.0 permit"));
        let (before, after) = (model(&before), model(&after));
        let found = differences(&before, &after);
        assert_eq!((found.added, found.removed), (vec!["route 11.0.0.0/8".into()], vec!["route 10.0.0.0/8".into()]));
        assert_eq!(found.changed, ["classify own", "route 0.0.0.0/0"]);
        assert_eq!(differences(&after, &after), Differences::default());
        let many: String = (0..12).map(|number| route(&format!("10.{number}.0.0/16"), "192.0.1.254")).collect();
        let found = differences(&model(""), &model(&many));
        assert_eq!((found.added.len(), found.added[10].as_str()), (11, "2 more routes"));
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

    /// Each key of an interface is seen by itself, and indices that move are not.
    #[test]
    fn any_key_of_an_interface_is_a_change() {
        let text = |lan: &str, before: &str| {
            gateway(&format!(
                "{before}[[interface]]\nname = \"lan\"\nport = \"null\"\n{lan}\n[[interface]]\nname = \"lan.5\"\n\
                 parent = \"lan\"\nvlan = {{ outer = 5 }}\n[classify.c]\nmask = \"l3 ip4 src/24\"\n\
                 sessions = [\"src 10.0.0.0 deny\"]\n[mac-ip.l]\nlearn = \"dhcp\"\n"
            ))
        };
        let before = text("", "");
        for key in [
            "classify = { in = \"c\" }",
            "classify = { out = \"c\" }",
            "ethertypes = { in = [\"ipv4\"] }",
            "ethertypes = { out = [\"ipv4\"] }",
            "merge = \"off\"",
            "dhcp-trusted = true",
            "slaac-trusted = true",
            "mac-ip = \"l\"",
            "zone = \"z\"",
            "address = \"2001:db8::1/64\"\nrouter-advertisement = true",
        ] {
            let found = weir_plane::engine::difference(&before, &text(key, ""));
            assert_eq!(found.changed, ["lan"], "{key}");
        }
        let first = "[[interface]]\nname = \"new\"\nport = \"null\"\n";
        let found = weir_plane::engine::difference(&before, &text("", first));
        assert_eq!((found.added, found.changed.len()), (vec!["new".to_owned()], 0));
    }

    /// Each key of these objects is seen by itself.
    #[test]
    fn any_key_of_an_object_is_a_change() {
        let text = |changes: &[(&str, &str)]| {
            let text = r#"
                [[interface]]
                name = "lan"
                port = "null"
                address = "192.0.2.1/24"
                mac-ip = "l"
                sav = "s"
                [[neighbor]]
                interface = "lan"
                address = "192.0.2.2"
                mac = "02:00:00:00:00:02"
                [mac-ip.l]
                learn = ["dhcp", "slaac"]
                rules = ["permit 02:00:00:00:00:02 from 192.0.2.2"]
                [sav.s]
                mechanism = "urpf-loose"
                [icmp]
                error-rate = 10
                [neighbor-discovery]
                probes = 3
                [flow-table]
                sessions = 1000
            "#;
            gateway(&changes.iter().fold(text.to_owned(), |text, (from, to)| {
                assert!(text.contains(from), "{from}");
                text.replace(from, to)
            }))
        };
        for (from, to, named) in [
            ("[\"dhcp\", \"slaac\"]", "\"dhcp\"", "mac-ip l"),
            ("urpf-loose", "urpf-strict", "sav s"),
            ("error-rate = 10", "error-rate = 11", "icmp"),
            ("probes = 3", "probes = 4", "neighbor-discovery"),
            ("sessions = 1000", "sessions = 1001", "flow-table"),
            ("sessions = 1000", "sessions = 1000\ninterfaces = []", "flow-table"),
            ("mac = \"02:00:00:00:00:02\"", "mac = \"02:00:00:00:00:03\"", "neighbor 192.0.2.2 lan"),
        ] {
            let found = differences(&text(&[]), &text(&[(from, to)]));
            assert_eq!((found.added.len(), found.removed.len(), found.changed), (0, 0, vec![named.to_owned()]));
        }
        let gone = differences(&text(&[]), &text(&[("sav = \"s\"", ""), ("[sav.s]", "[sav.t]")]));
        assert_eq!((gone.added, gone.removed), (vec!["sav t".to_owned()], vec!["sav s".to_owned()]));
    }

    #[test]
    fn sas_that_come_go_and_differ_are_named_and_new_keys_are_said() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        for (name, digit) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5")] {
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
            sa("key", 2, "a", "") + &sa("old", 3, "c", "") + &sa("same", 4, "d", "") + &sa("window", 5, "e", "");
        let after = sa("new", 3, "c", "")
            + &sa("window", 5, "e", "window = 1024")
            + &sa("same", 4, "d", "")
            + &sa("key", 2, "b", "");
        let found = differences(&gateway(&before), &gateway(&after));
        assert_eq!((found.added, found.removed), (vec!["sa new".to_owned()], vec!["sa old".to_owned()]));
        assert_eq!(found.changed, ["sa key (new key)", "sa window"]);
    }
}
