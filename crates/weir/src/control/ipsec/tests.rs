use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;
use weir_plane::model::Gateway;

use super::super::acl::{Change, Insert, Replace, Which};
use super::{Live, SaEdit, SpdEdit};
use crate::config::{self, Code, Loaded};
use crate::control::refusal::Kind;

const FILE: &str = r#"
version = 1
[ipsec]
state = "state"
[[interface]]
name = "wan"
port = "null"
address = "198.51.100.1/24"
spd = "edge"
[sa.west]
local = "198.51.100.1"
remote = "198.51.100.3"
algorithm = "aes128gcm16"
out = { spi = 0x3001, key-file = "a.key" }
[spd.edge]
rules = [
  "protect ip4 from 10.1.0.0/16 to 10.3.0.0/16 sa west",
  "bypass icmp from any to any type 3-11 priority 10",
]
"#;

fn load(folder: &TempDir, text: &str, live: &Live) -> Loaded {
    let path = folder.path().join("weir.toml");
    fs::write(&path, text).unwrap();
    config::load_over(&path, &live.overlay())
}

struct Site {
    folder: TempDir,
    live: Live,
    gateway: Gateway,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        for (number, name) in (1..).zip(["a", "b", "c", "d", "e"]) {
            let path = folder.path().join(format!("{name}.key"));
            fs::write(&path, format!("{number:02x}ff").repeat(10)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
        let gateway = load(&folder, FILE, &Live::default()).gateway.unwrap();
        Site { folder, live: Live::default(), gateway }
    }

    fn load(&self, text: &str, live: &Live) -> Loaded {
        load(&self.folder, text, live)
    }

    /// Puts a change into force, as the running gateway does.
    fn put(&mut self, live: Live) {
        let loaded = self.load(FILE, &live);
        assert!(loaded.gateway.is_some(), "{}", loaded.text(false));
        (self.live, self.gateway) = (live, loaded.gateway.unwrap());
    }

    fn sa(&mut self, name: &str, edit: SaEdit<'_>) {
        let live =
            self.live.edit_sa(&self.gateway, name, "noc", edit).unwrap_or_else(|refusal| panic!("{}", refusal.message));
        self.put(live);
    }

    fn refuses_sa(&self, name: &str, edit: SaEdit<'_>) -> (Kind, String) {
        let refusal = self.live.edit_sa(&self.gateway, name, "noc", edit).unwrap_err();
        (refusal.kind, refusal.message)
    }

    fn spd(&mut self, changes: &[Change]) -> (usize, usize, usize) {
        let (live, changed) = self
            .live
            .edit_spd(&self.gateway, "edge", "noc", SpdEdit::Batch(changes))
            .unwrap_or_else(|refusal| panic!("{}", refusal.message));
        self.put(live);
        (changed.inserted, changed.deleted, changed.rules)
    }

    fn rules(&self) -> Vec<String> {
        self.live.rules(&self.gateway, "edge").unwrap().into_iter().map(|rule| rule.text).collect()
    }

    /// The pair of each rule in force that protects, in their order.
    fn protects(&self) -> Vec<String> {
        let name = |sa: &weir_plane::model::SaIndex| self.gateway.sas[sa.0 as usize].name.clone();
        let sas = self.gateway.spds[0].rules.iter().filter_map(|rule| match &rule.action {
            weir_plane::model::SpdAction::Protect(sa) => Some(name(sa)),
            _ => None,
        });
        sas.collect()
    }
}

fn keys(spi: u32, out: &str, into: &str) -> String {
    format!(
        "local = \"198.51.100.1\"\nremote = \"198.51.100.2\"\nalgorithm = \"aes128gcm16\"\n\
         out = {{ spi = {spi}, key-file = \"{out}.key\" }}\nin = {{ spi = {}, key-file = \"{into}.key\" }}\n",
        spi + 1
    )
}

fn insert(rules: &str, at: Option<usize>) -> Change {
    Change::Insert(Insert { rules: rules.into(), at, ..Insert::default() })
}

const EAST: &str = "protect ip4 from 10.1.0.0/16 to 10.2.0.0/16 sa east";
const ALL: &str = "bypass ip from any to any priority -1";

#[test]
fn a_pair_comes_with_its_rules_and_goes_after_them() {
    let mut site = Site::new();
    assert_eq!(
        site.rules(),
        [
            FILE.lines().nth(16).unwrap().trim().trim_matches(['"', ',']),
            FILE.lines().nth(17).unwrap().trim().trim_matches(['"', ','])
        ]
    );
    site.sa("east", SaEdit::Add(&keys(0x1001, "b", "c")));
    assert_eq!(site.spd(&[insert(EAST, Some(1)), insert(&format!("# all\n{ALL}"), None)]), (2, 0, 4));
    assert_eq!(site.protects(), ["east", "west"]);
    assert_eq!((site.rules()[0].as_str(), site.rules()[3].as_str()), (EAST, ALL));
    let place = |gateway: &Gateway| gateway.origins.place(gateway.spds[0].rules[0].origin()).unwrap().to_string();
    assert_eq!(place(&site.gateway), "socket noc:1");
    // A rule keeps the pair.
    let (kind, message) = site.refuses_sa("east", SaEdit::Delete);
    assert_eq!((kind, message.contains(EAST)), (Kind::InUse, true), "{message}");
    assert_eq!(site.spd(&[Change::Delete(Which { id: None, at: Some(1) })]), (0, 1, 3));
    site.sa("east", SaEdit::Delete);
    assert_eq!(site.gateway.sas.len(), 1);
    assert_eq!(site.spd(&[Change::Delete(Which { id: None, at: Some(1) })]), (0, 1, 2));
    // The rules of the file again: one comes back, one goes.
    let (live, changed) = site.live.edit_spd(&site.gateway, "edge", "noc", SpdEdit::Reset).unwrap();
    site.put(live);
    assert_eq!((changed.inserted, changed.deleted, changed.rules, site.rules().len()), (1, 1, 2, 2));
}

#[test]
fn what_does_not_fit_is_refused_and_says_why() {
    let mut site = Site::new();
    assert_eq!(site.refuses_sa("west", SaEdit::Add(&keys(1000, "b", "c"))).0, Kind::Conflict);
    let (kind, message) = site.refuses_sa("west", SaEdit::Update(&keys(1000, "b", "c")));
    assert_eq!((kind, message.contains("is of a file: change it there")), (Kind::InUse, true), "{message}");
    assert_eq!(site.refuses_sa("west", SaEdit::Delete).0, Kind::InUse);
    assert_eq!(site.refuses_sa("east", SaEdit::Switch).0, Kind::NotFound);
    for (name, text) in [
        ("east", "local = \"198.51.100.1\"\n[sa.other]\nlocal = \"198.51.100.1\""),
        ("east", "local = \"198.51.100.1\"\n[[interface]]\nname = \"x\""),
        ("a]\n[sa.b", ""),
        ("", ""),
    ] {
        assert_eq!(site.refuses_sa(name, SaEdit::Add(text)).0, Kind::BadRequest, "{name}: {text}");
    }
    // The checks of the configuration cover the pair: a key that another SA has.
    let live = site.live.edit_sa(&site.gateway, "east", "noc", SaEdit::Add(&keys(1000, "a", "c"))).unwrap();
    let loaded = site.load(FILE, &live);
    assert!(loaded.gateway.is_none() && loaded.diagnostics.iter().any(|found| found.code == Code::KeyReused));
    assert!(!loaded.text(false).contains("01ff01ff"));
    let refused = |site: &Site, changes: &[Change]| {
        site.live.edit_spd(&site.gateway, "edge", "noc", SpdEdit::Batch(changes)).unwrap_err().message
    };
    assert!(refused(&site, &[insert("protect ip from any to any", None)]).contains("change 1"));
    assert!(refused(&site, &[insert("", None)]).contains("there is no rule in it"));
    assert!(refused(&site, &[insert(ALL, Some(4))]).contains("there is no place 4: the last one is 3"));
    assert!(refused(&site, &[Change::Delete(Which { id: Some(1), at: None })]).contains("places and no ids"));
    let replace = |text| SpdEdit::Replace { text, allow_empty: false };
    assert!(site.live.edit_spd(&site.gateway, "edge", "noc", replace("# none\n")).is_err());
    assert!(site.live.edit_spd(&site.gateway, "egde", "noc", replace(ALL)).unwrap_err().message.contains("`edge`"));
    // A rule that names no pair.
    let (live, _) = site.live.edit_spd(&site.gateway, "edge", "noc", SpdEdit::Batch(&[insert(EAST, None)])).unwrap();
    let loaded = site.load(FILE, &live);
    assert!(loaded.diagnostics.iter().any(|found| found.code == Code::UnknownSa), "{}", loaded.text(false));
    let changed = Change::Replace(Replace { rules: ALL.into(), id: None, at: Some(2) });
    assert_eq!(site.spd(&[changed]), (1, 1, 2));
}

#[test]
fn a_reload_keeps_live_changes_or_is_refused() {
    let mut site = Site::new();
    site.sa("east", SaEdit::Add(&keys(0x1001, "b", "c")));
    site.spd(&[insert(EAST, Some(1))]);
    // Elsewhere in the file.
    let loaded = site.load(&format!("# moved\n{FILE}"), &site.live);
    assert_eq!(loaded.gateway.unwrap().spds[0].rules.len(), 3);
    // Other rules of the same SPD, a pair of the same name, no such SPD: the gateway goes on as it is.
    let other = FILE.replace("type 3-11", "type 3-12");
    let loaded = site.load(&other, &site.live);
    assert!(loaded.gateway.is_none() && loaded.diagnostics[0].code == Code::LiveRules, "{}", loaded.text(false));
    let twice = FILE.replace("[sa.west]", "[sa.east]").replace("sa west", "sa east");
    assert!(site.load(&twice, &site.live).diagnostics.iter().any(|found| found.code == Code::DuplicateName));
    let none = FILE.replace("spd = \"edge\"\n", "").split("[spd.edge]").next().unwrap().to_owned();
    let loaded = site.load(&none, &site.live);
    assert!(loaded.gateway.is_none(), "{}", loaded.text(false));
    // The operator has written the rules into the file.
    let same = FILE.replace("rules = [\n", &format!("rules = [\n  \"{EAST}\",\n"));
    let loaded = site.load(&same, &site.live);
    assert_eq!(loaded.gateway.map(|gateway| gateway.spds[0].rules.len()), Some(3));
}

#[test]
fn a_rekey_makes_before_it_breaks() {
    let mut site = Site::new();
    site.sa("east", SaEdit::Add(&keys(0x1001, "b", "c")));
    site.spd(&[insert(EAST, Some(1))]);
    assert_eq!(site.refuses_sa("east", SaEdit::Switch).0, Kind::Conflict, "no rekey is under way");
    site.sa("east", SaEdit::Rekey(&keys(0x1101, "d", "e")));
    assert!(site.live.is_rekeying());
    assert_eq!(site.protects(), ["east", "east-next", "west"], "the old pair sends, both receive");
    assert_eq!(site.rules().len(), 3, "the rules of the operator");
    assert_eq!(site.refuses_sa("east", SaEdit::Update(&keys(0x1101, "d", "e"))).0, Kind::Conflict);
    assert_eq!(site.refuses_sa("east", SaEdit::Finish).0, Kind::Conflict, "the new pair does not send yet");
    // The peer's first packet for the new pair has the gateway switch by itself.
    let mut rows = crate::render::sample::sas();
    rows[0].name = "east-next".into();
    rows[0].inbound.as_mut().unwrap().packets = 0;
    assert!(site.live.due(|| rows.clone()).is_none());
    rows[0].inbound.as_mut().unwrap().packets = 1;
    assert_eq!(site.live.due(|| rows.clone()), Some(("east".into(), SaEdit::Switch)));
    site.sa("east", SaEdit::Switch);
    assert_eq!(site.protects(), ["east-next", "east", "west"], "the new pair sends, both receive");
    assert!(site.live.due(|| rows).is_none(), "the old pair receives for a while");
    let fingerprint = |site: &Site, name: &str| {
        let pair = site.gateway.sas.iter().find(|sa| sa.name == name).unwrap();
        pair.outbound.as_ref().map(|key| (key.spi, key.fingerprint()))
    };
    let new = fingerprint(&site, "east-next");
    site.sa("east", SaEdit::Finish);
    assert_eq!(site.protects(), ["east", "west"]);
    assert_eq!(fingerprint(&site, "east"), new);
    assert!(!site.live.is_rekeying());
}
