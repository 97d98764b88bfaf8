use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use proptest::prelude::*;

use super::*;

#[test]
fn rules_print_as_they_were_read() {
    for text in [
        "permit from 2001:db8::/32 on cust1",
        "permit from 192.0.2.0/24 on cust1, cust2.100 comment \"a \\\"b\\\" \\\\ c # d\"",
        "deny from any on any",
        "permit from any on on, from comment \"\"",
        "permit from 0.0.0.0/0 on comment",
        "interface permit from 192.0.2.0/24 on interface",
        "interface deny from any on a, b comment \"c\"",
    ] {
        assert_eq!(text.parse::<Rule>().map(|rule| rule.to_string()), Ok(text.to_owned()));
    }
    let loose = "\tpermit  from 2001:DB8:0::/32 on a ,b,c comment\"x\" # not part of it";
    let rule: Rule = loose.parse().expect("a rule");
    assert_eq!(rule.to_string(), "permit from 2001:db8::/32 on a, b, c comment \"x\"");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, expected) in [
        ("", "line 1, column 1: expected `permit` or `deny`, found the end of the rule"),
        ("permit # from", "line 1, column 7: expected `from`, found the end of the rule"),
        ("allow from any on a", "line 1, column 1: expected `permit` or `deny`, found `allow`"),
        (
            "interfce deny from any on a",
            "line 1, column 1: expected `permit` or `deny`, found `interfce` (did you mean `interface`?)",
        ),
        ("interface", "line 1, column 10: expected `permit` or `deny`, found the end of the rule"),
        ("interface interface deny from any on a", "line 1, column 11: expected `permit` or `deny`, found `interface`"),
        ("permit fro any on a", "line 1, column 8: expected `from`, found `fro` (did you mean `from`?)"),
        (
            "permit from é on a",
            "line 1, column 13: `é` is no prefix (it looks like `203.0.113.0/24` or `2001:db8::/32`)",
        ),
        ("permit from any on , a", "line 1, column 20: expected an interface's name or `any`, found `,`"),
        (
            "permit from any on a \"x\"",
            "line 1, column 22: expected `,`, `comment` or the end of the rule, found a text in quotes",
        ),
        ("permit from any on a comment \"", "line 1, column 30: a double quote is not closed"),
        (
            "permit from any on a comment \"\\t\"",
            "line 1, column 31: `\\t` means nothing in a comment (only `\\\"` and `\\\\` do)",
        ),
    ] {
        assert_eq!(text.parse::<Rule>().expect_err(text).to_string(), expected, "{text}");
    }
    let long = format!("permit from any on a comment \"{}\"", "x".repeat(LONGEST_COMMENT + 1));
    let found = long.parse::<Rule>().expect_err("too long").to_string();
    assert_eq!(found, "line 1, column 30: a comment has at most 255 octets, not 256");
}

#[test]
fn host_bits_are_cleared_and_told() {
    let (rule, odd) = parse("permit from 192.0.2.77/24 on a, b, a", &mut Names::default()).expect("a rule");
    assert_eq!(rule.to_string(), "permit from 192.0.2.0/24 on a, b");
    let odd: Vec<_> = odd.shown().iter().map(|found| (found.kind, found.column)).collect();
    assert_eq!(odd, [(Kind::HostBits, 13), (Kind::Repeated, 36)]);
}

/// The rules of a text, as lines, and which lines of the text they are from.
fn lines(format: Format, text: &str) -> Vec<(String, String)> {
    let reading = read(format, text).unwrap_or_else(|found| panic!("{found}"));
    let cut = |line: &Line| text[line.start as usize..line.end as usize].to_owned();
    reading.lines.iter().map(|line| (line.rule.to_string(), cut(line))).collect()
}

#[test]
fn three_formats_say_the_same() {
    let rules = "\u{feff}permit from 10.0.0.0/8 on a, b comment \"x \\\"y\\\", z\"   # 1\r\n\r\n# 2\n  interface deny from any on any";
    let csv = "\u{feff}comment,scope,prefix,interfaces,action\r\n\"x \"\"y\"\", z\",prefix,10.0.0.0/8, a  b ,\r\n\n,interface ,any,any, deny";
    let json = "\u{feff}[{\"prefix\": \"10.0.0.0/8\", \"interfaces\": [\"a\", \"\\u0062\"], \"comment\": \"x \\\"y\\\", z\"},\n\
        {\"action\": \"deny\", \"scope\": \"interface\", \"interfaces\": [\"any\"], \"prefix\": \"any\"}]\n";
    let expected = ["permit from 10.0.0.0/8 on a, b comment \"x \\\"y\\\", z\"", "interface deny from any on any"];
    for (format, text) in [(Format::Rules, rules), (Format::Csv, csv), (Format::Json, json)] {
        let found = lines(format, text);
        assert_eq!(found.iter().map(|(rule, _)| rule.as_str()).collect::<Vec<_>>(), expected, "{format:?}");
        let ends = |text: &str, a: &str, b: &str| text.starts_with(a) && text.ends_with(b);
        let (first, last) = (&found[0].1, &found[1].1);
        match format {
            Format::Rules => assert!(ends(first, "permit", "# 1") && ends(last, "interface deny", "any"), "{found:?}"),
            Format::Csv => assert!(ends(first, "\"x", "b ,") && ends(last, ",interface", "deny"), "{found:?}"),
            Format::Json => assert!(ends(first, "{\"prefix", "}") && ends(last, "{\"action", "}"), "{found:?}"),
        }
    }
}

#[test]
fn equal_lists_are_shared() {
    let text = "prefix,interfaces\n10.0.0.0/8,a b\n11.0.0.0/8,a  b\n12.0.0.0/8,b\n13.0.0.0/8,\"a,b\"\n";
    let shared = |text| {
        let lists = read(Format::Csv, text)?.lines.into_iter().map(|line| line.rule.on.expect("names"));
        Ok::<Vec<_>, Findings>(lists.collect())
    };
    let found = shared(text).expect_err("a comma is none of a name").to_string();
    assert!(found.starts_with("line 5, column 12: `a,b` is no interface's name"), "{found}");
    let lists = shared(&text[..text.len() - "13.0.0.0/8,\"a,b\"\n".len()]).expect("rules");
    assert!(Arc::ptr_eq(&lists[0], &lists[1]) && Arc::ptr_eq(&lists[0][1], &lists[2][0]));
}

#[test]
fn a_million_rules_take_little_room() {
    assert_eq!((size_of::<Line>(), size_of::<weir_plane::model::SavRule>()), (64, 40), "as the documentation says");
}

#[test]
fn the_first_errors_are_told_and_the_others_counted() {
    let text = "permit from 1 on a\n".repeat(1000) + "permit from any on a\n";
    let found = read(Format::Rules, &text).expect_err("errors");
    assert_eq!((found.shown().len(), found.more()), (20, 980));
    let last = &found.shown()[19];
    assert_eq!((last.line, last.column, &text[last.range.clone()]), (20, 13, "1"));
    assert!(found.to_string().ends_with("\nand 980 more"));
}

#[test]
fn names_are_found_in_every_format() {
    for (format, rule, expected) in [
        (Format::Rules, "permit from any on on, from,a comment \"a\"", [19, 23, 28]),
        (Format::Csv, "10.0.0.0/8,\"on from a\",a", [12, 15, 20]),
        (Format::Json, "{\"prefix\":\"a\",\"interfaces\":[\"on\",\"from\",\"a\"]}", [29, 34, 41]),
    ] {
        for (name, at) in ["on", "from", "a"].into_iter().zip(expected) {
            assert_eq!(place_of(format, rule, name), Some(at..at + name.len()), "{name} in {rule}");
        }
        assert_eq!(place_of(format, rule, "fro"), None);
    }
}

/// Any rule.
fn rule() -> impl Strategy<Value = Rule> {
    let name = "[a-z0-9][a-z0-9._-]{0,30}".prop_filter("it stands for all", |name| name != ANY);
    let names = prop::collection::btree_set(name, 1..5);
    let on = names.prop_map(|names| names.iter().map(|name| Arc::from(name.as_str())).collect::<Arc<[Arc<str>]>>());
    let v4 =
        (any::<u32>(), 0..=32u8).prop_map(|(bits, length)| Ipv4Net::new_assert(Ipv4Addr::from(bits), length).trunc());
    let v6 =
        (any::<u128>(), 0..=128u8).prop_map(|(bits, length)| Ipv6Net::new_assert(Ipv6Addr::from(bits), length).trunc());
    let from = prop_oneof![v4.prop_map(IpNet::V4), v6.prop_map(IpNet::V6)];
    let comment = "\\PC{0,60}".prop_map(String::into_boxed_str);
    let action = prop_oneof![Just(Action::Permit), Just(Action::Deny)];
    let scope = prop_oneof![Just(Scope::Prefix), Just(Scope::Interface)];
    (scope, action, prop::option::of(from), prop::option::of(on), prop::option::of(comment))
        .prop_map(|(scope, action, from, on, comment)| Rule { scope, action, from, on, comment })
        .prop_filter("comments are bounded", |rule| {
            rule.comment.as_ref().is_none_or(|text| text.len() <= LONGEST_COMMENT)
        })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(rules in prop::collection::vec(rule(), 0..5)) {
        let text: String = rules.iter().map(|rule| format!("{rule}\n")).collect();
        let read = read(Format::Rules, &text).map(|reading| reading.lines).unwrap_or_else(|found| panic!("{found}"));
        prop_assert_eq!(read.into_iter().map(|line| line.rule).collect::<Vec<_>>(), rules);
    }

    #[test]
    fn json_and_csv_say_the_same(rule in rule()) {
        let names = || rule.on.as_ref().map_or(vec![ANY], |names| names.iter().map(|name| &**name).collect());
        let scope = match rule.scope {
            Scope::Prefix => "prefix",
            Scope::Interface => INTERFACE,
        };
        let prefix = rule.from.map_or(ANY.to_owned(), |prefix| prefix.to_string());
        let json = serde_json::json!([{
            "prefix": prefix, "interfaces": names(), "action": rule.action.as_str(), "scope": scope,
            "comment": rule.comment,
        }]);
        let one = |format, text: &str| read(format, text).map(|reading| reading.lines[0].rule.clone());
        prop_assert_eq!(one(Format::Json, &json.to_string()), Ok(rule.clone()));
        // In CSV no comment and an empty one are the same, and so are blanks around it.
        let comment = rule.comment.as_deref().unwrap_or_default().trim_ascii();
        let expected = Rule { comment: Some(comment).filter(|text| !text.is_empty()).map(Box::from), ..rule.clone() };
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        writer.write_record(["prefix", "interfaces", "action", "scope", "comment"]).expect("memory");
        writer.write_record([&prefix, &names().join(" "), rule.action.as_str(), scope, comment]).expect("memory");
        let text = String::from_utf8(writer.into_inner().expect("memory")).expect("text");
        prop_assert_eq!(one(Format::Csv, &text), Ok(expected));
    }

    #[test]
    fn any_text_is_answered(text in "\\PC{0,80}", cut in "[a-z0-9 ,\"#\\\\\n/.:{}\\[\\]]{0,60}") {
        for text in [&text, &cut, &format!("prefix,interfaces\n{cut}"), &format!("[{{\"prefix\":\"{cut}")] {
            for format in [Format::Rules, Format::Csv, Format::Json] {
                let found = match read(format, text) {
                    Ok(reading) => reading.warnings,
                    Err(found) => found,
                };
                for found in found.shown() {
                    prop_assert!(text.get(found.range.clone()).is_some(), "{:?} in {:?}", found, text);
                }
            }
        }
    }
}
