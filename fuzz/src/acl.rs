//! Rules on the fields of packets: whatever the text, an answer within it; what is read prints back, and so does what a gateway
//! makes of it.

use std::sync::LazyLock;

use weir::config::parse_str;
use weir::rules::acl::{self, Rule, Vocabulary};
use weir::rules::{Findings, Names};
use weir_plane::model::{Gateway, Origin};

/// Interfaces, and a group of each kind, whose names are short.
static GATEWAY: LazyLock<Gateway> = LazyLock::new(|| {
    let text = r#"
        version = 1
        interface = [{ name = "a", port = "null" }, { name = "b", port = "null" }]
        [group]
        n = { addresses = ["10.0.0.0/8", "2001:db8::1-2001:db8::9"] }
        o = { addresses = ["192.0.2.1"] }
        p = { ports = [80, "8000-8999"] }
        i = { interfaces = ["a"] }
    "#;
    parse_str("names.toml", text).gateway.expect("a configuration without errors")
});

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::of(&GATEWAY));

/// The target.
pub(crate) fn fuzz(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match acl::parse(text, &mut Names::default()) {
        Ok((rule, warnings)) => {
            within(text, &warnings);
            let printed = rule.to_string();
            let (again, odd) =
                acl::parse(&printed, &mut Names::default()).unwrap_or_else(|found| panic!("{printed}\n{found}"));
            assert!(again == rule && odd.is_empty(), "{printed}");
            of_gateway(text);
        }
        Err(errors) => {
            assert!(!errors.is_empty() && !errors.to_string().is_empty());
            within(text, &errors);
        }
    }
    match acl::read(text) {
        Ok(reading) => {
            within(text, &reading.warnings);
            for line in reading.lines {
                let rule = &text[line.start as usize..line.end as usize];
                assert_eq!(acl::parse(rule, &mut Names::default()).map(|(rule, _)| rule), Ok(line.rule));
            }
        }
        Err(errors) => within(text, &errors),
    }
}

fn of_gateway(text: &str) {
    let understand = |text: &str| acl::understand(text, &VOCABULARY, Origin(0));
    match understand(text) {
        Ok((rule, _)) => {
            let name =
                |index: weir_plane::model::InterfaceIndex| GATEWAY.interfaces[index.0 as usize].name.as_str().into();
            let printed = Rule::of(&rule, name).to_string();
            let (again, _) = understand(&printed).unwrap_or_else(|found| panic!("{printed}\n{found}"));
            assert!(again == rule, "{printed}");
        }
        Err(errors) => within(text, &errors),
    }
}

fn within(text: &str, found: &Findings) {
    for finding in found.shown() {
        assert!(text.get(finding.range.clone()).is_some(), "{finding:?}");
    }
}
