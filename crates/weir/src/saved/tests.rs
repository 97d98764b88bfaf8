//! Configurations with live edits, written and compared.

use std::path::Path;

use super::{Edits, GroupEdit, Listed, Pair, compare, objects, save, whole};
use crate::config::{self, Overlay, Texts};
use crate::render::diff::Sign;

const MAIN: &str = r#"# The gateway.
version = 1
include = ["more.toml"]

[[interface]]
name = "wan" # to the provider
port = "null"
address = "198.51.100.1/24"
acl = { in = "edge" }
nat = "out"

[acl.edge]
rules = [
    # Management.
    "permit tcp from @admins to any port 22", # ssh
    "deny udp from any to any port 53",
]
files = ["edge.rules"]
default = "deny"

[group.admins]
addresses = ["192.0.2.1", "192.0.2.2"]
"#;

const MORE: &str = r#"[nat.out]
rules = ["source ip4 from 10.0.0.0/8 to any as interface"]
[mac-ip.hosts]
rules = ["permit any from 192.0.2.7", "deny any from any"]
[allowlist.ours]
prefixes = ["192.0.2.0/24", "198.51.100.0/24"]
files = ["ours.txt"]
"#;

const OURS: &str = "# Ours.\n203.0.113.0/25\n203.0.113.128/25 # the rest\n";

const RULES: &str = "# Services.\npermit tcp from any to any port 443\npermit ip4 from 10.0.0.0/8 to any # inside\n\n# Old.\npermit tcp from any to any port 80 # web\n";

/// A folder with the files, and their texts.
fn files() -> (tempfile::TempDir, Texts) {
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join("weir.toml");
    for (name, text) in [("weir.toml", MAIN), ("more.toml", MORE), ("edge.rules", RULES), ("ours.txt", OURS)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let loaded = config::load(&main);
    assert!(loaded.gateway.is_some(), "{}", loaded.text(false));
    let texts = Texts::of(&main, &loaded);
    (folder, texts)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn edits() -> Edits {
    Edits {
        acls: vec![
            Listed {
                name: "edge".into(),
                rules: words(&[
                    "permit tcp from @admins to any port 22",
                    "deny tcp from any to any port 25",
                    "permit tcp from any to any port 443",
                    "permit ip from 10.0.0.0/8 to any",
                    "permit udp from any to any port 443",
                ]),
                default: Some("reject".into()),
            },
            Listed { name: "guests".into(), rules: words(&["deny ip from any to 10.0.0.0/8"]), default: None },
        ],
        nats: vec![Listed {
            name: "out".into(),
            rules: words(&["keep ip4 from 10.9.0.0/16 to any", "source ip4 from 10.0.0.0/8 to any as interface"]),
            default: None,
        }],
        bindings: vec![Listed {
            name: "hosts".into(),
            rules: words(&["permit any from 192.0.2.7/32", "permit any from 192.0.2.8/32", "deny any from any"]),
            default: None,
        }],
        allowlists: vec![Listed {
            name: "ours".into(),
            rules: words(&["198.51.100.0/24", "203.0.113.0/25", "2001:db8::/32"]),
            default: None,
        }],
        groups: vec![GroupEdit {
            name: "admins".into(),
            kind: "addresses".into(),
            members: words(&["192.0.2.2", "192.0.2.3"]),
        }],
        attached: vec![("wan".into(), "in", words(&["guests", "edge"]))],
        ..Edits::default()
    }
}

#[test]
fn edits_change_the_lines_that_they_are_about_and_no_others() {
    let (folder, texts) = files();
    assert_eq!(save(&texts, &Edits::default()).unwrap(), []);
    let saved = save(&texts, &edits()).unwrap();
    let text = |name: &str| {
        let path = folder.path().join(name);
        saved.iter().find(|file| file.path == path).map(|file| file.text.clone()).unwrap()
    };
    let main = MAIN
        .replace("    \"deny udp from any to any port 53\",\n", "    \"deny tcp from any to any port 25\",\n")
        .replace("default = \"deny\"", "default = \"reject\"")
        .replace("[\"192.0.2.1\", \"192.0.2.2\"]", "[\"192.0.2.2\", \"192.0.2.3\"]")
        .replace("in = \"edge\"", "in = [\"guests\", \"edge\"]")
        .replace("[group.", "[acl.guests]\nrules = [\n    \"deny ip from any to 10.0.0.0/8\",\n]\n\n[group.");
    assert_eq!(text("weir.toml"), main);
    let rules = "# Services.\npermit tcp from any to any port 443\npermit ip4 from 10.0.0.0/8 to any # inside\n\n# Old.\npermit udp from any to any port 443\n";
    assert_eq!(text("edge.rules"), rules);
    assert!(text("more.toml").starts_with("[nat.out]\nrules = [\"keep ip4"), "{}", text("more.toml"));
    let lists = "rules = [\"permit any from 192.0.2.7\", \"permit any from 192.0.2.8\", \"deny any from any\"]\n\
                 [allowlist.ours]\nprefixes = [\"198.51.100.0/24\"]\n";
    assert!(text("more.toml").contains(lists), "{}", text("more.toml"));
    assert_eq!(text("ours.txt"), "# Ours.\n203.0.113.0/25\n2001:db8::/32\n");

    // They load, and there is nothing left to save.
    let now = texts.with(saved.into_iter().map(|file| (file.path, file.text)));
    let loaded = config::load_texts(&now, &Overlay::default());
    assert!(loaded.gateway.is_some(), "{}", loaded.text(false));
    assert_eq!(save(&now, &edits()).unwrap(), []);
}

#[test]
fn a_configuration_is_one_file_elsewhere() {
    let (folder, texts) = files();
    let elsewhere = tempfile::tempdir().unwrap();
    for (edits, files) in [(Edits::default(), true), (edits(), false)] {
        let text = whole(&texts, &edits, elsewhere.path()).unwrap();
        let path = elsewhere.path().join("all.toml");
        std::fs::write(&path, &text).unwrap();
        let loaded = config::load(&path);
        assert!(loaded.gateway.is_some(), "{}\n{text}", loaded.text(false));
        assert_eq!(text.contains(folder.path().join("edge.rules").to_str().unwrap()), files, "{text}");
        assert!(!text.contains("include") && text.contains("# ssh"), "{text}");
        // Rules are the same, in one file or in several.
        let saved = save(&texts, &edits).unwrap();
        let several = texts.with(saved.into_iter().map(|file| (file.path, file.text)));
        let differences = compare(&objects(&several).unwrap(), &objects(&Texts::of(&path, &loaded)).unwrap());
        assert_eq!(differences, []);
    }
    let odd = texts.with([(folder.path().join("more.toml"), format!("sampler = {{}}\n{MORE}"))]);
    let error = whole(&odd, &Edits::default(), Path::new("/")).unwrap_err();
    assert!(error.contains("more.toml: `sampler` stands before all tables"), "{error}");
}

#[test]
fn pairs_of_sas_are_saved_with_the_paths_of_their_keys() {
    let (_folder, texts) = files();
    let keys = "local = \"198.51.100.1\"\nremote = \"198.51.100.2\"\nalgorithm = \"aes128gcm16\"\n\
                out = { spi = 0x1001, key-file = \"out.key\" }\n";
    let pair = Pair { name: "east".into(), keys: keys.into() };
    let saved = save(&texts, &Edits { sas: vec![pair], ..Edits::default() }).unwrap();
    assert_eq!(saved.len(), 1);
    assert!(saved[0].text.ends_with(&format!("\n[sa.east]\n{keys}")), "{}", saved[0].text);
    let now = texts.with([(saved[0].path.clone(), saved[0].text.clone())]);
    let own = super::keys_of("east", keys).unwrap();
    assert!(objects(&now).unwrap().contains(&own), "{own:?}");
}

#[test]
fn objects_and_lines_differ_by_their_signs() {
    let (folder, texts) = files();
    let main = MAIN
        .replace("address = \"198.51.100.1/24\"\nacl", "acl")
        .replace("acl = { in = \"edge\" }", "mtu = 9000\nacl.in = [\"edge\"]\naddress = \"198.51.100.1/24\"")
        .replace("deny udp from any to any port 53", "deny udp from any to any port 54")
        .replace("[group.admins]", "[group.others]\nports = [80]\n[group.admins]");
    let other = texts.with([
        (folder.path().join("weir.toml"), main),
        (folder.path().join("more.toml"), String::new()),
        (folder.path().join("edge.rules"), RULES.replace("# Old.", "# New.").replace("port 80", "port 81")),
    ]);
    let found = compare(&objects(&texts).unwrap(), &objects(&other).unwrap());
    let lines: Vec<String> = found
        .iter()
        .flat_map(|own| {
            let alone = own.alone.map(|sign| format!("{} {}", sign.sign(), own.object));
            alone
                .into_iter()
                .chain(own.lines.iter().map(|(sign, line)| format!("{}: {} {line}", own.object, sign.sign())))
        })
        .collect();
    assert_eq!(
        lines,
        [
            "interface wan: + mtu 9000",
            "acl edge: - deny udp from any to any port 53",
            "acl edge: + deny udp from any to any port 54",
            "acl edge: - permit tcp from any to any port 80",
            "acl edge: + permit tcp from any to any port 81",
            "+ group others",
            "group others: + ports 80",
            "- nat out",
            "nat out: - source ip4 from 10.0.0.0/8 to any as interface",
            "- mac-ip hosts",
            "mac-ip hosts: - permit any from 192.0.2.7",
            "mac-ip hosts: - deny any from any",
            "- allowlist ours",
            "allowlist ours: - 192.0.2.0/24",
            "allowlist ours: - 198.51.100.0/24",
            "allowlist ours: - 203.0.113.0/25",
            "allowlist ours: - 203.0.113.128/25",
        ]
    );
    assert_eq!(found[0].lines[0].0, Sign::Added);
    let broken = texts.with([(folder.path().join("more.toml"), "[".to_owned())]);
    assert!(objects(&broken).unwrap_err().contains("more.toml"));
}

/// Sessions are matched by their values, so their order means nothing, nor does that of their words.
#[test]
fn sessions_are_compared_as_the_gateway_prints_them() {
    let of = |sessions: &str| {
        let text = format!("[classify.own]\nmask = \"l3 ip4 src/24 proto\"\nsize = 9\nsessions = [{sessions}]\n");
        objects(&Texts::alone(&text.into())).unwrap()
    };
    let one = of(r#""src 10.1.0.0 proto udp deny", "src 10.2.0.0 proto udp permit via 10.0.0.9 mark 7""#);
    let same = of(r#""proto 17 src 10.2.0.0 permit mark 7 via 10.0.0.9 weight 1", "src 10.1.0.0 proto udp deny""#);
    assert_eq!(compare(&one, &same), []);
    let other = of(r#""src 10.1.0.0 proto udp deny", "src 10.2.0.0 proto udp permit via 10.0.0.8 mark 7""#);
    assert_eq!(compare(&one, &other)[0].lines.len(), 2);
}

#[test]
fn comments_behind_rules_are_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join("weir.toml");
    let text = "\
version = 1
[[interface]]
name = \"wan\"
port = \"null\"
sav = \"ours\"
[sav.ours]
mechanism = \"table\"
rules = [\"permit from 192.0.2.0/25 on wan # half\"]
files = [\"sav.rules\"]
[[route-file]]
path = \"routes.txt\"
type = \"blackhole\"
[acl.edge]
rules = [\"deny ip from any to any # all\"]
files = [\"edge.rules\"]
";
    let files = [
        ("sav.rules", "permit from 203.0.113.0/24 on wan comment \"no. #7\" # customer\n"),
        ("routes.txt", "10.1.0.0/16 # lab\n"),
        ("edge.rules", "permit tcp from any to any port 22 comment \"\\\"#1\" # ssh\n"),
    ];
    std::fs::write(&main, text).unwrap();
    files.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
    let loaded = config::load(&main);
    assert!(loaded.gateway.is_some(), "{}", loaded.text(false));
    let texts = Texts::of(&main, &loaded);
    let bare = |text: &str| text.replace(" # half", "").replace(" # all", "");
    let cut =
        files.map(|(name, text)| (folder.path().join(name), text.rsplit_once(" # ").unwrap().0.to_owned() + "\n"));
    let other = texts.with(cut.into_iter().chain([(main.clone(), bare(text))]));
    assert_eq!(compare(&objects(&texts).unwrap(), &objects(&other).unwrap()), []);
    // The text in quotes is no comment.
    let seven = (folder.path().join("sav.rules"), files[0].1.replace("#7", "#8"));
    assert_eq!(compare(&objects(&texts).unwrap(), &objects(&texts.with([seven])).unwrap()).len(), 1);
}
