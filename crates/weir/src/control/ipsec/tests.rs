use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;
use weir_base::random::Random;
use weir_plane::engine::sa_name;
use weir_plane::model::{Gateway, Origin, Sa, SpdRule};
use weir_plane::stats::SaPhase;

use super::super::acl::{Change, Insert, Replace, Which};
use super::{Live, SaEdit, SpdEdit, model};
use crate::config::{self, Code, Loaded};
use crate::control::lists::Said;
use crate::control::refusal::Kind;
use crate::render::changes;
use crate::rules::spd::Rule;

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

/// The source of changes here.
fn noc() -> Said {
    Said { source: "noc".into(), time: 7 }
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

    /// Puts a change into force, as the running gateway does: a reload with it gives the same.
    fn put(&mut self, live: Live, gateway: Gateway) {
        let loaded = self.load(FILE, &live);
        assert!(loaded.gateway.is_some(), "{}", loaded.text(false));
        assert_eq!(in_words(&gateway), in_words(loaded.gateway.as_ref().unwrap()));
        (self.live, self.gateway) = (live, gateway);
    }

    fn sa(&mut self, name: &str, edit: SaEdit<'_>) {
        let live = self
            .live
            .edit_sa(&self.gateway, name, &noc(), edit)
            .unwrap_or_else(|refusal| panic!("{}", refusal.message));
        let gateway = self.changed(&live, name, edit).unwrap_or_else(|found| panic!("{}", found.text(false)));
        self.put(live, gateway);
    }

    /// The model with a change of a pair.
    fn changed(&self, live: &Live, name: &str, edit: SaEdit<'_>) -> Result<Gateway, Box<Loaded>> {
        let mut gateway = self.gateway.clone();
        model::edit_sa(&mut gateway, self.folder.path(), live, name, &edit).map(|_| gateway)
    }

    /// The model with the rules of `edge`.
    fn ruled(&self, live: &Live) -> Result<Gateway, Box<Loaded>> {
        let mut gateway = self.gateway.clone();
        model::edit_spd(&mut gateway, live, live.spd("edge").unwrap()).map(|_| gateway)
    }

    fn refuses_sa(&self, name: &str, edit: SaEdit<'_>) -> (Kind, String) {
        let refusal = self.live.edit_sa(&self.gateway, name, &noc(), edit).unwrap_err();
        (refusal.kind, refusal.message)
    }

    fn spd(&mut self, changes: &[Change]) -> (usize, usize, usize) {
        let (live, changed) = self
            .live
            .edit_spd(&self.gateway, "edge", &noc(), SpdEdit::Batch(changes))
            .unwrap_or_else(|refusal| panic!("{}", refusal.message));
        let gateway = self.ruled(&live).unwrap_or_else(|found| panic!("{}", found.text(false)));
        self.put(live, gateway);
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

/// Objects with their places.
type Placed<T> = Vec<(T, String)>;

/// The pairs of SAs, and the rules of SPDs with the names of their pairs, each with its place.
fn in_words(gateway: &Gateway) -> (Placed<Sa>, Placed<String>) {
    let place = |origin| gateway.origins.place(origin).unwrap().to_string();
    let pair = |sa: &Sa| (Sa { origin: Origin::default(), ..sa.clone() }, place(sa.origin));
    let mut sas: Vec<(Sa, String)> = gateway.sas.iter().map(pair).collect();
    sas.sort_by(|one, other| one.0.name.cmp(&other.0.name));
    let rules = gateway.spds.iter().flat_map(|spd| spd.rules.iter());
    let rule = |rule: &SpdRule| {
        let rekeys = rule.rekeys.map_or(String::new(), |old| format!(" rekeys {}", sa_name(gateway, old)));
        (Rule::of(rule, |sa| sa_name(gateway, sa)).to_string() + &rekeys, place(rule.origin()))
    };
    (sas, rules.map(rule).collect())
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
    assert_eq!(place(&site.gateway), "socket noc, spd edge:1");
    // A rule keeps the pair.
    let (kind, message) = site.refuses_sa("east", SaEdit::Delete);
    assert_eq!((kind, message.contains(EAST)), (Kind::InUse, true), "{message}");
    assert_eq!(site.spd(&[Change::Delete(Which { id: None, at: Some(1) })]), (0, 1, 3));
    site.sa("east", SaEdit::Delete);
    assert_eq!(site.gateway.sas.len(), 1);
    assert_eq!(site.spd(&[Change::Delete(Which { id: None, at: Some(1) })]), (0, 1, 2));
    let edits = site.live.edits();
    let said: Vec<_> = edits.iter().map(|edit| (edit.edit, edit.source.as_deref(), edit.time)).collect();
    let (added, removed) = (changes::Kind::Added, changes::Kind::Removed);
    assert_eq!(said, [(added, Some("noc"), Some(7)), (removed, Some("noc"), Some(7))], "{edits:?}");
    // The rules of the file again: one comes back, one goes.
    let (live, changed) = site.live.edit_spd(&site.gateway, "edge", &noc(), SpdEdit::Reset).unwrap();
    let gateway = site.load(FILE, &live).gateway.unwrap();
    site.put(live, gateway);
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
    let live = site.live.edit_sa(&site.gateway, "east", &noc(), SaEdit::Add(&keys(1000, "a", "c"))).unwrap();
    let loaded = site.load(FILE, &live);
    assert!(loaded.gateway.is_none() && loaded.diagnostics.iter().any(|found| found.code == Code::KeyReused));
    assert!(!loaded.text(false).contains("01ff01ff"));
    let found = site.changed(&live, "east", SaEdit::Add("")).unwrap_err();
    assert!(found.diagnostics.iter().any(|own| own.code == Code::KeyReused), "{}", found.text(false));
    assert!(found.text(false).contains("the other one is of the pair `west`"), "{}", found.text(false));
    assert!(found.text(false).contains("socket noc, sa east:"), "{}", found.text(false));
    let refused = |site: &Site, changes: &[Change]| {
        site.live.edit_spd(&site.gateway, "edge", &noc(), SpdEdit::Batch(changes)).unwrap_err().message
    };
    assert!(refused(&site, &[insert("protect ip from any to any", None)]).contains("change 1"));
    assert!(refused(&site, &[insert("", None)]).contains("there is no rule in it"));
    assert!(refused(&site, &[insert(ALL, Some(4))]).contains("there is no place 4: the last one is 3"));
    assert!(refused(&site, &[Change::Delete(Which { id: Some(1), at: None })]).contains("places and no ids"));
    let replace = |text| SpdEdit::Replace { text, allow_empty: false };
    assert!(site.live.edit_spd(&site.gateway, "edge", &noc(), replace("# none\n")).is_err());
    assert!(site.live.edit_spd(&site.gateway, "egde", &noc(), replace(ALL)).unwrap_err().message.contains("`edge`"));
    // A rule that names no pair.
    let (live, _) = site.live.edit_spd(&site.gateway, "edge", &noc(), SpdEdit::Batch(&[insert(EAST, None)])).unwrap();
    let loaded = site.load(FILE, &live);
    assert!(loaded.diagnostics.iter().any(|found| found.code == Code::UnknownSa), "{}", loaded.text(false));
    let found = site.ruled(&live).unwrap_err();
    assert!(found.diagnostics.iter().any(|own| own.code == Code::UnknownSa), "{}", found.text(false));
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
    // So has the end of the old pair's life.
    let mut rows = vec![rows[0].clone(), rows[0].clone()];
    (rows[0].name, rows[1].inbound) = ("east".into(), None);
    assert!(site.live.due(|| rows.clone()).is_none());
    rows[0].outbound.as_mut().unwrap().life.as_mut().unwrap().phase = SaPhase::Expired("time");
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

#[test]
fn of_rules_that_share_flows_the_pair_that_sends_has_the_part() {
    let mut site = Site::new();
    site.sa("east", SaEdit::Add(&keys(0x1001, "b", "c")));
    site.spd(&[insert(&format!("{EAST} shared"), Some(1))]);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let shared = |site: &Site| -> Vec<bool> { site.gateway.spds[0].rules.iter().map(|rule| rule.shared).collect() };
    site.sa("east", SaEdit::Rekey(&keys(0x1101, "d", "e")));
    assert_eq!(
        (site.protects(), shared(&site)[..2].to_vec()),
        (names(&["east", "east-next", "west"]), vec![true, false])
    );
    site.sa("east", SaEdit::Switch);
    assert_eq!(
        (site.protects(), shared(&site)[..2].to_vec()),
        (names(&["east-next", "east", "west"]), vec![true, false])
    );
    let mut without = site.gateway.clone();
    model::without_rekeys(&mut without, &["east".to_owned()]);
    assert!(without.spds[0].rules[0].shared, "the old pair has it as before");
    site.sa("east", SaEdit::Finish);
    assert_eq!((site.protects(), shared(&site)[0]), (names(&["east", "west"]), true));
}

#[test]
fn no_rule_and_no_command_names_the_new_pair_of_a_rekey() {
    let mut site = Site::new();
    site.sa("east", SaEdit::Add(&keys(0x1001, "b", "c")));
    site.spd(&[insert(EAST, Some(1))]);
    site.sa("east", SaEdit::Rekey(&keys(0x1101, "d", "e")));
    let rule = EAST.replace("sa east", "sa east-next");
    let text = format!("{EAST}\n{rule}");
    for edit in [SpdEdit::Batch(&[insert(&rule, Some(1))]), SpdEdit::Replace { text: &text, allow_empty: false }] {
        let refusal = site.live.edit_spd(&site.gateway, "edge", &noc(), edit).unwrap_err();
        assert_eq!(refusal.kind, Kind::Conflict);
        assert!(refusal.message.contains("a rekey of `east`: name `east`"), "{}", refusal.message);
    }
    let is_refused = |site: &Site| {
        let (kind, message) = site.refuses_sa("east-next", SaEdit::Add(&keys(0x1201, "b", "c")));
        let says = "a rekey of the pair of SAs `east` names the new pair `east-next`: take another name";
        assert!(kind == Kind::Conflict && message.starts_with(says), "{message}");
    };
    is_refused(&site);
    for edit in [SaEdit::Delete, SaEdit::Update(""), SaEdit::Switch] {
        let (kind, message) = site.refuses_sa("east-next", edit);
        assert!(kind == Kind::Conflict && message.contains("the new pair of a rekey of `east`"), "{message}");
    }
    // Nor does a rule of a file, in a reload.
    site.spd(&[Change::Delete(Which { id: None, at: Some(1) })]);
    let named = FILE.replace("sa west\"", "sa east-next\"");
    let loaded = site.load(&named, &Live { spds: Default::default(), ..site.live.clone() });
    let found = loaded.diagnostics.iter().find(|found| found.code == Code::LiveRules);
    assert!(loaded.gateway.is_none() && found.is_some_and(|own| own.message.contains("`east-next`")));
    // The pair sends once.
    site.sa("east", SaEdit::Switch);
    let (kind, message) = site.refuses_sa("east", SaEdit::Switch);
    assert!(kind == Kind::Conflict && message.contains("sends already"), "{message}");
    site.sa("east", SaEdit::Finish);
    // A later rekey needs the name. Nothing else does once the pair is gone, and pairs of files have no rekeys.
    is_refused(&site);
    site.sa("east", SaEdit::Delete);
    site.sa("east-next", SaEdit::Add(&keys(0x1001, "b", "c")));
    assert_eq!(site.spd(&[insert(&rule, None)]).0, 1, "a pair of its own may have the name");
    site.sa("west-next", SaEdit::Add(&keys(0x1201, "d", "e")));
}

/// A rule that is in force is no news when another one comes.
#[test]
fn rules_that_protect_nothing_come_with_a_warning_once() {
    let other = "[[interface]]\nname = \"other\"\nport = \"null\"\naddress = \"10.2.0.1/16\"\n[sa.west]";
    let file = FILE.replace("[sa.west]", other);
    let mut site = Site::new();
    site.sa("east", SaEdit::Add(&keys(0x1001, "b", "c").replacen("local", "mode = \"transport\"\nlocal", 1)));
    site.gateway = site.load(&file, &site.live).gateway.unwrap();
    let mut codes = |rule: &str| -> Vec<Code> {
        let changes = [insert(rule, Some(1))];
        let (live, _) = site.live.edit_spd(&site.gateway, "edge", &noc(), SpdEdit::Batch(&changes)).unwrap();
        let found = model::edit_spd(&mut site.gateway, &live, live.spd("edge").unwrap()).unwrap();
        site.live = live;
        found.unwrap().diagnostics.iter().map(|own| own.code).collect()
    };
    assert_eq!(codes(EAST), [Code::SaTransport, Code::PastSpd]);
    assert_eq!(codes("protect udp from 198.51.100.1 to 198.51.100.2 sa east"), []);
    assert_eq!(codes("protect udp from any to 10.2.0.0/17 sa west"), [Code::PastSpd]);
    // A pair that rules in force name gets other ends.
    let text = keys(0x1001, "b", "c").replacen("local", "mode = \"transport\"\nlocal", 1);
    let live = site.live.edit_sa(&site.gateway, "east", &noc(), SaEdit::Update(&text)).unwrap();
    let folder = site.folder.path();
    let found = model::edit_sa(&mut site.gateway, folder, &live, "east", &SaEdit::Update(&text)).unwrap().unwrap();
    let found: Vec<_> = found.diagnostics.iter().map(|own| (own.code, own.message.contains(EAST))).collect();
    assert_eq!(found, [(Code::SaTransport, true)]);
}

#[test]
fn a_pair_whose_address_no_interface_has_comes_with_a_warning() {
    let mut site = Site::new();
    site.sa("east", SaEdit::Add(&keys(0x1001, "b", "c")));
    let text = keys(0x1001, "b", "c").replace("local = \"198.51.100.1\"", "local = \"192.0.2.9\"");
    let live = site.live.edit_sa(&site.gateway, "east", &noc(), SaEdit::Update(&text)).unwrap();
    let mut gateway = site.gateway.clone();
    let found = model::edit_sa(&mut gateway, site.folder.path(), &live, "east", &SaEdit::Update(&text)).unwrap();
    let codes: Vec<Code> = found.unwrap().diagnostics.iter().map(|own| own.code).collect();
    assert_eq!(codes, [Code::SaAddress]);
}

#[test]
fn a_rekey_says_which_pair_sends() {
    let mut site = Site::new();
    site.sa("east", SaEdit::Add(&keys(0x1001, "b", "c")));
    assert!(site.live.rekeys().is_empty());
    site.sa("east", SaEdit::Rekey(&keys(0x1101, "d", "e")));
    let sends = |site: &Site| ["east", "east-next"].map(|name| site.live.rekeys()[name].sends);
    assert_eq!(sends(&site), [true, false]);
    site.sa("east", SaEdit::Switch);
    assert_eq!(sends(&site), [false, true]);
    assert!(site.live.rekeys()["east"].seconds_left.is_some_and(|left| left <= 30));
}

#[test]
fn a_change_of_an_object_equals_a_reload_with_it() {
    let mut random = Random::from_seed(7);
    let mut site = Site::new();
    let (mut done, mut refused) = (0, 0);
    for step in 0..500 {
        let pick = |random: &mut Random, of: &[&'static str]| of[random.below(of.len() as u64) as usize];
        let name = pick(&mut random, &["east", "south"]);
        if random.below(3) == 0 {
            let at = Some(1 + random.below(site.rules().len() as u64) as usize);
            let change = match random.below(3) {
                0 => Change::Delete(Which { id: None, at }),
                1 => insert(ALL, at),
                _ => insert(&EAST.replace("east", name), at),
            };
            let Ok((live, _)) = site.live.edit_spd(&site.gateway, "edge", &noc(), SpdEdit::Batch(&[change])) else {
                continue;
            };
            match site.ruled(&live) {
                Ok(gateway) => site.put(live, gateway),
                Err(found) => assert!(site.load(FILE, &live).gateway.is_none(), "{step}: {}", found.text(false)),
            }
            continue;
        }
        let (out, into) = (pick(&mut random, &["a", "b", "c"]), pick(&mut random, &["d", "e", "b"]));
        let text = keys(0x1001 + 0x100 * random.below(4) as u32, out, into);
        let edit = match random.below(7) {
            0 | 1 => SaEdit::Add(&text),
            2 => SaEdit::Update(&text),
            3 => SaEdit::Rekey(&text),
            4 => SaEdit::Switch,
            5 => SaEdit::Finish,
            _ => SaEdit::Delete,
        };
        let Ok(live) = site.live.edit_sa(&site.gateway, name, &noc(), edit) else { continue };
        match site.changed(&live, name, edit) {
            Ok(gateway) => {
                site.put(live, gateway);
                done += 1;
            }
            Err(found) => {
                assert!(site.load(FILE, &live).gateway.is_none(), "{step}: {}", found.text(false));
                refused += 1;
            }
        }
    }
    assert!(done > 20 && refused > 20, "{done} changes, {refused} refused");
}
