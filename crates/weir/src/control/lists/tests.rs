use weir_plane::model::Gateway;

use super::super::acl::{Change, Insert, Replace, Which};
use super::{Nats as Lists, Put, Rule as _, Said};

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

const MAP: &str = "map ip4 from 10.0.0.80/32 to any as 198.51.100.80";
const WEB: &str = "destination tcp from any to 198.51.100.9/32 port 80 as 10.0.0.8";

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
    let (kept, lost) = lists.carry(&mut moved);
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
    assert!(kept.carry(&mut other).1.is_empty());
    assert_eq!(rules(&other), [rules(&after)[0].as_str(), "source ip4 from 10.0.0.0/9 to any as @pool"]);
    // The anchor or the whole list is gone: the changes end.
    for text in [
        RULES.replace("keep ip4 from 10.0.0.0/8", "keep ip4 from 10.0.0.0/9"),
        "[nat.other]\nrules = \"keep ip from any to any\"".into(),
    ] {
        let mut other = gateway(&text);
        let declared = rules(&other);
        let (kept, lost) = kept.carry(&mut other);
        assert_eq!((rules(&other), lost.len(), lost[0].of.as_str(), lost[0].rules), (declared, 1, "nat edge", 1));
        assert!(kept.carry(&mut other).1.is_empty());
    }
}

fn lists_of(gateway: &Gateway, changes: &[Change]) -> (Gateway, Lists, crate::render::nat_changed::Changed) {
    Lists::default().change(gateway, "edge", &said(), changes).unwrap()
}

/// The list as an engine shows it.
fn shown(gateway: &Gateway) -> weir_plane::stats::NatStats {
    let row = |(id, rule): (u32, &weir_plane::model::NatRule)| weir_plane::stats::NatRuleRow {
        id,
        rule: rule.clone(),
        ..crate::render::sample::nat().0[0].rules[0].clone()
    };
    let rules = (1..).zip(gateway.nat[0].rules.iter()).map(row).collect();
    weir_plane::stats::NatStats { name: "edge".into(), rules, ..crate::render::sample::nat().0[0].clone() }
}
