use weir_plane::model::Gateway;

use super::super::acl::{Change, Insert, Replace, Which};
use super::{Nats as Lists, Put, Rule, Said};

const RULES: &str = r#"
[group.pool]
addresses = ["198.51.100.8/30"]
[nat.edge]
rules = [
  "keep ip4 from 10.0.0.0/8 to 10.0.0.0/8",
  "source ip4 from 10.0.0.0/8 to any as @pool",
]
"#;

fn gateway(text: &str) -> Gateway {
    let loaded = crate::config::parse_str("test.toml", &format!("version = 1\n{text}"));
    let findings = loaded.text(false);
    loaded.gateway.unwrap_or_else(|| panic!("{findings}"))
}

fn said() -> Said {
    Said { source: "noc".into(), time: 0 }
}

fn rules(gateway: &Gateway) -> Vec<String> {
    gateway.nat[0].rules.iter().map(Rule::written).collect()
}

fn insert(rules: &str, at: Option<usize>, before: Option<u32>, after: Option<u32>) -> Change {
    Change::Insert(Insert { rules: rules.into(), at, before, after })
}

const EDGE: &str = r#"
[[interface]]
name = "wan"
port = "null"
address = ["198.51.100.1/24"]
nat = "edge"
"#;

#[test]
fn rules_that_a_file_may_not_have_are_refused() {
    let before = gateway(&format!("{EDGE}{RULES}"));
    let refused = |rule: &str| {
        let changes = [insert(rule, None, None, None)];
        Lists::default().change(&before, "edge", &said(), &changes).err().map(|refusal| refusal.message)
    };
    let own = refused("destination tcp from any to any port 81 as 198.51.100.1").unwrap();
    assert!(own.starts_with("change 1, column 44: 198.51.100.1 is an address of the gateway itself"), "{own}");
    let family = refused("source ip6 from fd00::/8 to any as interface").unwrap();
    assert!(family.contains("the interface `wan` has no address for `interface`"), "{family}");
    assert_eq!(refused("destination tcp from any to any port 81 as 10.0.0.8"), None);
    assert_eq!(refused("source ip4 from 10.0.0.0/8 to any as interface"), None);
}

const MAP: &str = "map ip4 from 10.0.0.80 to any as 198.51.100.80";
const WEB: &str = "destination tcp from any to 198.51.100.9 port 80 as 10.0.0.8";

#[test]
fn batches_change_a_list_in_order_or_not_at_all() {
    let before = gateway(RULES);
    let lists = Lists::default();
    let changes = [
        insert(MAP, None, Some(2), None),
        insert(&format!("# two\n{WEB}\n{MAP} comment \"x\"\n"), None, None, Some(3)),
        Change::Delete(Which { id: Some(1), at: None }),
        Change::Replace(Replace { rules: "keep ip from any to any".into(), id: None, at: Some(4) }),
    ];
    let (after, lists, changed) = lists.change(&before, "edge", &said(), &changes).unwrap();
    assert_eq!(rules(&after), [MAP, WEB, &format!("{MAP} comment \"x\""), "keep ip from any to any"]);
    assert_eq!((changed.inserted, changed.deleted, changed.rules), (vec![3, 4, 5, 6], 2, 4));
    assert_eq!(rules(&before).len(), 2);
    let refused = |changes: &[Change]| lists.change(&after, "edge", &said(), changes).unwrap_err().message;
    assert!(refused(&[insert("keep ip", None, None, None)]).starts_with("change 1, column 8: "));
    assert!(refused(&[insert("source ip from any to any as @no", None, None, None)]).contains("no group `no`"));
    assert!(refused(&[insert("", None, None, None)]).contains("there is no rule in it"));
    assert!(refused(&[insert(MAP, Some(6), None, None)]).contains("the list has 4 rules: there is no place 6"));
    assert!(refused(&[Change::Delete(Which { id: Some(1), at: None })]).contains("no rule with the id 1"));
    assert!(refused(&[Change::Delete(Which { id: None, at: Some(5) })]).contains("there is none at place 5"));
    assert!(refused(&[Change::Delete(Which { id: None, at: None })]).contains("either `id` or `at`"));
    let unknown = lists.change(&after, "egde", &said(), &[]).unwrap_err().message;
    assert!(unknown.ends_with("did you mean `edge`?"), "{unknown}");
}

/// Log lines and counters name rules by their ids: no other rule has one of them afterwards.
#[test]
fn ids_of_edits_that_are_taken_back_are_not_given_again() {
    let before = gateway(RULES);
    let append = |lists: &Lists, gateway: &Gateway| {
        lists.change(gateway, "edge", &said(), &[insert(MAP, None, None, None)]).unwrap()
    };
    let none = Lists::default();
    let (after, edited, changed) = append(&none, &before);
    assert_eq!(changed.inserted, [3]);
    let back = none.restored(&edited);
    assert_eq!(append(&back, &before).2.inserted, [4]);
    // The same if there were edits before, and over a reload.
    let (_, twice, changed) = append(&edited, &after);
    assert_eq!(changed.inserted, [4]);
    let back = edited.restored(&twice);
    assert_eq!(append(&back, &after).2.inserted, [5]);
    let mut same = gateway(RULES);
    let (carried, lost, _) = back.carry(&after, &mut same, &[]);
    assert!(lost.is_empty());
    assert_eq!(append(&carried, &same).2.inserted, [5]);
    let (carried, ..) = none.restored(&twice).carry(&before, &mut gateway(RULES), &[]);
    assert_eq!(append(&carried, &before).2.inserted, [5]);
}

/// The log of translations, and scripts, name rules by their ids.
#[test]
fn rules_keep_their_ids_over_reloads() {
    const LATER: &str = r#"
[group.pool]
addresses = ["198.51.100.8/30"]
[nat.edge]
rules = [
  "keep ip4 from 10.0.0.9 to any",
  "keep ip4 from 10.0.0.0/8 to 10.0.0.0/8",
  "source ip4 from 10.0.0.0/8 to any as @pool",
]
"#;
    let ids = |gateway: &Gateway| (0..3).map(|place| gateway.nat[0].id(place)).collect::<Vec<_>>();
    let (before, mut after) = (gateway(RULES), gateway(LATER));
    let (lists, ..) = Lists::default().carry(&before, &mut after, &[]);
    assert_eq!(ids(&after), [3, 1, 2]);
    assert!(lists.edits().is_empty() && lists.rules().next().is_none());
    let mut again = gateway(LATER);
    let (lists, lost, _) = lists.carry(&after, &mut again, &[]);
    assert!(lost.is_empty());
    assert_eq!(ids(&again), [3, 1, 2]);
    // The file takes over a live rule, as `weir save` writes it.
    let changed = lists.change(&again, "edge", &said(), &[insert(MAP, Some(1), None, None)]).unwrap();
    let mut saved = gateway(&LATER.replace("rules = [", &format!("rules = [\n  \"{MAP}\",")));
    let (lists, lost, _) = changed.1.carry(&changed.0, &mut saved, &[]);
    assert!(lost.is_empty() && lists.edits().is_empty());
    assert_eq!(ids(&saved), [4, 3, 1]);
}

#[test]
fn whole_lists_keep_what_stays() {
    let before = gateway(RULES);
    let [keep, source] = [rules(&before)[0].clone(), rules(&before)[1].clone()];
    let put = |lists: &Lists, gateway: &Gateway, text: &str, allow_empty| {
        lists.put(gateway, "edge", &said(), &Put { text, allow_empty })
    };
    let text = format!("{source}\n{MAP}\n{keep}\n");
    let (after, lists, changed) = put(&Lists::default(), &before, &text, false).unwrap();
    assert_eq!((changed.inserted, changed.deleted, changed.moved, changed.rules), (vec![3], 0, 1, 3));
    let (_, _, changed) = put(&lists, &after, &text, false).unwrap();
    assert_eq!((changed.inserted, changed.deleted, changed.moved), (vec![], 0, 0));
    assert!(put(&lists, &after, "# none\n", false).unwrap_err().message.contains("--allow-empty"));
    let (empty, _, changed) = put(&lists, &after, "", true).unwrap();
    assert_eq!((changed.deleted, rules(&empty).len()), (3, 0));
}

#[test]
fn a_reload_keeps_changes_while_their_anchors_stay() {
    let before = gateway(RULES);
    let changes = [
        insert("source udp from any to any as @pool", Some(1), None, None),
        Change::Delete(Which { id: Some(1), at: None }),
    ];
    let (after, lists, _) = lists_of(&before, &changes);
    assert_eq!(rules(&after)[0], "source udp from any to any as @pool");
    // Elsewhere in the file, and with other members.
    let mut moved = gateway(&format!("# moved\n\n{}", RULES.replace("100.8/30", "100.16/30")));
    let (kept, lost, _) = lists.carry(&after, &mut moved, &[]);
    assert!(lost.is_empty());
    assert_eq!(rules(&moved), rules(&after));
    let pool = |gateway: &Gateway, at: usize| format!("{:?}", gateway.nat[0].rules[at].source);
    assert!(pool(&moved, 0).contains("198.51.100.16/30") && pool(&moved, 1).contains("198.51.100.16/30"));
    let mut shown = vec![shown(&moved)];
    kept.name(&mut shown);
    assert_eq!(shown[0].rules.iter().map(|row| row.id).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(shown[0].rules[0].origin, "noc 1970-01-01T00:00:00Z");
    // The anchor of the added rule stays, and so does the removed rule.
    let mut other = gateway(&RULES.replace("10.0.0.0/8 to any", "10.0.0.0/9 to any"));
    assert!(kept.carry(&moved, &mut other, &[]).1.is_empty());
    assert_eq!(rules(&other), [rules(&after)[0].as_str(), "source ip4 from 10.0.0.0/9 to any as @pool"]);
    // The anchor or the whole list is gone: the changes end.
    for text in [
        RULES.replace("keep ip4 from 10.0.0.0/8", "keep ip4 from 10.0.0.0/9"),
        "[nat.other]\nrules = \"keep ip from any to any\"".into(),
    ] {
        let mut other = gateway(&text);
        let declared = rules(&other);
        let (kept, lost, _) = kept.carry(&moved, &mut other, &[]);
        assert_eq!((rules(&other), lost.len(), lost[0].of.as_str(), lost[0].rules), (declared, 1, "nat edge", 1));
        assert!(kept.carry(&moved, &mut other, &[]).1.is_empty());
    }
}

fn lists_of(gateway: &Gateway, changes: &[Change]) -> (Gateway, Lists, crate::render::nat_changed::Changed) {
    Lists::default().change(gateway, "edge", &said(), changes).unwrap()
}

/// The list as an engine shows it.
fn shown(gateway: &Gateway) -> weir_plane::stats::NatStats {
    let row = |(place, rule): (u32, &weir_plane::model::NatRule)| weir_plane::stats::NatRuleRow {
        id: gateway.nat[0].id(place),
        rule: rule.clone(),
        ..crate::render::sample::nat().0[0].rules[0].clone()
    };
    let rules = (0..).zip(gateway.nat[0].rules.iter()).map(row).collect();
    weir_plane::stats::NatStats { name: "edge".into(), rules, ..crate::render::sample::nat().0[0].clone() }
}

const BINDINGS: &str = r#"
[[interface]]
name = "lan"
port = "null"
mac-ip = "hosts"
allow = "ours"
[mac-ip.hosts]
rules = [
  "permit 02:00:00:00:00:01 from 192.0.2.1",
  "permit 02:00:00:00:00:02 from 192.0.2.2",
  "deny any from 192.0.2.0/24",
]
[allowlist.ours]
prefixes = ["192.0.2.0/24", "198.51.100.0/24"]
"#;

fn bindings(gateway: &Gateway) -> Vec<String> {
    gateway.bindings[0].rules.iter().map(Rule::written).collect()
}

#[test]
fn a_reload_says_which_bindings_protected() {
    let before = gateway(BINDINGS);
    let deny = "deny 02:00:00:00:00:03 from any";
    let changes = |changes: &[Change]| super::Bindings::default().change(&before, "hosts", &said(), changes).unwrap();
    let (after, denied, _) = changes(&[insert(deny, None, Some(2), None)]);
    assert_eq!(bindings(&after)[1], deny);
    let carried = |lists: &super::Bindings, text: &str| {
        let mut other = gateway(text);
        let (lists, lost, protects) = lists.carry(&before, &mut other, &[]);
        let lost: Vec<String> = lost.iter().flat_map(|lost| lost.lines()).collect();
        (bindings(&other), lost, protects, lists.edits().len())
    };
    // The anchor stays, wherever the file has it.
    let moved = BINDINGS.replace("rules = [", "rules = [\"permit any from fe80::/10\",");
    let (rules, lost, protects, edits) = carried(&denied, &moved);
    assert_eq!((rules[2].as_str(), lost.len(), protects, edits), (deny, 0, false, 1));
    // It is gone: with a `deny`, more packets might pass.
    let gone = BINDINGS.replace("from 192.0.2.2\"", "from 192.0.2.22\"");
    let (rules, lost, protects, edits) = carried(&denied, &gone);
    assert_eq!((rules.len(), protects, edits), (3, true, 0));
    assert_eq!(
        lost,
        [format!(
            "mac-ip hosts: rule 4 is gone: the file no longer has its anchor `permit 02:00:00:00:00:02 from 192.0.2.2`: \
             `{deny}`"
        )]
    );
    let (_, permitted, _) = changes(&[insert("permit any from 203.0.113.0/24", None, Some(2), None)]);
    assert!(!carried(&permitted, &gone).2);
    // A removed `permit` protects, too: of a rule that the file has twice now, and of a list that is gone.
    let (_, removed, _) = changes(&[Change::Delete(Which { id: Some(1), at: None })]);
    let first = "\"permit 02:00:00:00:00:01 from 192.0.2.1\",";
    let (_, lost, protects, _) = carried(&removed, &BINDINGS.replace(first, &first.repeat(2)));
    assert_eq!((lost.len(), protects), (1, true), "{lost:?}");
    let other = gateway(&BINDINGS.replace("hosts", "others"));
    assert!(removed.carry(&before, &mut other.clone(), &[]).2);
    let (_, removed, _) = changes(&[Change::Delete(Which { id: Some(3), at: None })]);
    assert!(!removed.carry(&before, &mut other.clone(), &[]).2);
    // A rule that may not meet the others may stand on either side of them.
    let (_, apart, _) = changes(&[insert("permit any from 2001:db8::/32", None, None, Some(3))]);
    let swapped = BINDINGS
        .replace("\"deny any from 192.0.2.0/24\"", "\"deny any from 192.0.2.0/24\", \"deny any from 203.0.113.0/24\"");
    assert_eq!(carried(&apart, &swapped).3, 1);
}

#[test]
fn bindings_that_are_wrong_change_nothing() {
    let before = gateway(BINDINGS);
    let refused = |changes: &[Change]| {
        let refused = super::Bindings::default().change(&before, "hosts", &said(), changes);
        refused.map(drop).unwrap_err().message
    };
    let wrong = refused(&[insert("permit 02:00 from any", None, None, None)]);
    assert!(wrong.starts_with("change 1, column 8: `02:00` is no hardware address"), "{wrong}");
    let two = refused(&[insert("deny any from any\npermt any from any", None, None, None)]);
    assert!(two.starts_with("change 1, line 2, column 1: "), "{two}");
    let unknown = super::Bindings::default().change(&before, "host", &said(), &[]).map(drop).unwrap_err().message;
    assert_eq!(unknown, "there is no list of bindings with the name `host`; did you mean `hosts`?");
    // Opposite edits cancel.
    let (after, lists, _) = super::Bindings::default()
        .change(&before, "hosts", &said(), &[Change::Delete(Which { id: Some(1), at: None })])
        .unwrap();
    let first = bindings(&before)[0].clone();
    let (after, lists, _) = lists.change(&after, "hosts", &said(), &[insert(&first, Some(1), None, None)]).unwrap();
    assert_eq!((bindings(&after), lists.edits()), (bindings(&before), vec![]));
}

fn prefixes(gateway: &Gateway) -> Vec<String> {
    let weir_plane::model::AllowedSources::Prefixes(prefixes) = &gateway.allowlists[0].sources else {
        panic!("a list of prefixes")
    };
    prefixes.iter().map(|(net, _)| net.to_string()).collect()
}

fn edit(insert: &str, delete: &str) -> super::SetRequest {
    super::SetRequest { source: "noc".into(), insert: insert.into(), delete: delete.into() }
}

#[test]
fn prefixes_of_allowlists_come_and_go() {
    let before = gateway(BINDINGS);
    let none = super::Allowlists::default();
    let change = |lists: &super::Allowlists, gateway: &Gateway, insert: &str, delete: &str| {
        lists.change(gateway, "ours", &said(), &edit(insert, delete))
    };
    let (after, lists, changed) = change(&none, &before, "203.0.113.0/24\n2001:db8::/32", "192.0.2.0/24").unwrap();
    assert_eq!(prefixes(&after), ["198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"]);
    assert_eq!((changed.inserted, changed.deleted, changed.prefixes), (2, 1, 3));
    assert_eq!(lists.edits().len(), 3);
    let shown = lists.prefixes(&after, "ours").unwrap().prefixes;
    assert_eq!(shown[1].origin, "noc 1970-01-01T00:00:00Z");
    assert!(shown[0].origin.starts_with("test.toml:"), "{}", shown[0].origin);
    let refused = |insert: &str, delete: &str| change(&lists, &after, insert, delete).map(drop).unwrap_err().message;
    assert!(refused("203.0.113.0/24", "").contains("the list has 203.0.113.0/24 already"));
    assert!(refused("", "192.0.2.0/24").contains("the list does not have 192.0.2.0/24"));
    assert!(refused("10.0.0.1", "").contains("write `10.0.0.1/32` for this address alone"));
    assert!(refused("::ffff:10.0.0.0/104", "").contains("write `10.0.0.0/8`"));
    // Opposite edits cancel.
    let (now, lists, _) = change(&lists, &after, "192.0.2.0/24", "2001:db8::/32\n203.0.113.0/24").unwrap();
    assert_eq!((prefixes(&now), lists.edits()), (prefixes(&before), vec![]));
    // A whole list, and one of routes.
    let put = |text: &str, allow_empty| none.put(&before, "ours", &said(), &Put { text, allow_empty });
    let (now, lists, changed) = put("198.51.100.0/24 # a\n10.0.0.1/8\n", false).unwrap();
    assert_eq!((prefixes(&now), lists.edits().len()), (vec!["198.51.100.0/24".into(), "10.0.0.0/8".into()], 2));
    assert_eq!(changed.warnings.len(), 1);
    assert!(put("", false).map(drop).unwrap_err().message.contains("--allow-empty"));
    assert_eq!(put("", true).unwrap().2.prefixes, 0);
    let routes = gateway("[allowlist.ours]\nvrf = \"default\"\n");
    let refused = change(&none, &routes, "10.0.0.0/8", "").map(drop).unwrap_err().message;
    assert!(refused.contains("has the routes of the VRF `default`"), "{refused}");
}

#[test]
fn a_reload_applies_the_patch_of_an_allowlist() {
    let before = gateway(BINDINGS);
    let (_, lists, _) =
        super::Allowlists::default().change(&before, "ours", &said(), &edit("203.0.113.0/24", "192.0.2.0/24")).unwrap();
    let carried = |text: &str| {
        let mut other = gateway(text);
        let (lists, lost, protects) = lists.carry(&mut other);
        (other, lost.len(), protects, lists.edits().len())
    };
    let (now, lost, protects, edits) = carried(&BINDINGS.replace("198.51.100.0/24", "10.0.0.0/8"));
    assert_eq!(prefixes(&now), ["10.0.0.0/8", "203.0.113.0/24"]);
    assert_eq!((lost, protects, edits), (0, false, 2));
    // The file says what the edits say.
    let (now, lost, protects, edits) = carried(&BINDINGS.replace("192.0.2.0/24\", ", "203.0.113.0/24\", "));
    assert_eq!(prefixes(&now), ["203.0.113.0/24", "198.51.100.0/24"]);
    assert_eq!((lost, protects, edits), (0, false, 0));
    // The list is gone, or another one: the removal of a prefix protected.
    let gone = BINDINGS.replace("ours", "theirs");
    let routes = BINDINGS.replace("prefixes = [\"192.0.2.0/24\", \"198.51.100.0/24\"]", "vrf = \"default\"");
    for text in [gone, routes] {
        let (_, lost, protects, edits) = carried(&text);
        assert_eq!((lost, protects, edits), (1, true, 0));
    }
}

#[test]
fn a_live_steer_rule_has_its_source() {
    let before = gateway("[steer.e]\nrules = [\"count udp from any to any\"]\n");
    let first = [insert("drop tcp from any to any", Some(1), None, None)];
    let (_, lists, _) = super::Steers::default().change(&before, "e", &said(), &first).unwrap();
    assert_eq!(lists.said_at("e", 0).as_deref(), Some("noc 1970-01-01T00:00:00Z"));
    assert_eq!((lists.said_at("e", 1), lists.said_at("f", 0)), (None, None));
}

/// A rule that comes back is that of the file, wherever it was typed.
#[test]
fn a_rule_of_the_file_that_comes_back_has_its_line() {
    let gateway = gateway(BINDINGS);
    let lines = |gateway: &Gateway| -> Vec<_> { gateway.bindings[0].rules.iter().map(|rule| rule.origin).collect() };
    let text = "permit 02:00:00:00:00:01 from 192.0.2.1";
    let lists = super::Bindings::default();
    let delete = Change::Delete(Which { at: Some(1), id: None });
    let (without, lists, _) = lists.change(&gateway, "hosts", &said(), &[delete]).unwrap();
    assert_eq!(lines(&without), lines(&gateway)[1..]);
    let (back, ..) = lists.change(&without, "hosts", &said(), &[insert(text, Some(1), None, None)]).unwrap();
    assert_eq!(lines(&back), lines(&gateway));
    let all = bindings(&gateway).join("\n");
    let (back, ..) = lists.put(&without, "hosts", &said(), &Put { text: &all, allow_empty: false }).unwrap();
    assert_eq!(lines(&back), lines(&gateway));
}
