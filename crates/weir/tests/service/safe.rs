//! Changes of a running gateway that are compared, saved, taken back and confirmed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::kit::{Folder, Gateway, QUIET, text};

const CONFIG: &str = r#"# The gateway.
version = 1
include = ["conf.d/*.toml"]

[ipsec]
state = "state"

[[interface]]
name = "wan"
port = "null"
address = "198.51.100.1/24"
acl = { in = "edge-in" }
spd = "edge"
sav = "valid"
classify = { in = "customers" }
steer = "pre"

[steer.pre]
rules = ["count udp from any to any"]

[allowlist.ours]
prefixes = ["10.0.0.0/24"]

[mac-ip.hosts]
rules = ["permit any from 10.0.0.0/24"]

[acl.edge-in]
rules = [
    # Management.
    "permit tcp from @admins to any port 22", # ssh
]
files = ["edge.rules"]

[group.admins]
addresses = ["192.0.2.1"]

[classify.customers]
mask = "l3 ip4 src/24"
sessions = [
    "src 10.5.0.0 permit mark 1", # the first
    "src 10.6.0.0 deny",
]

[sav.valid]
mechanism = "table"
rules = ["permit from 192.0.2.0/24 on wan"]

[spd.edge]
rules = ["bypass icmp from any to any type 3-11"]
"#;

const LAN: &str = "[[interface]]\nname = \"lan\"\nport = \"null\"\naddress = \"10.0.0.1/24\"\nallow = \"ours\"\nmac-ip = \"hosts\"\n\
                   [nat.out]\nrules = [\"source ip4 from 10.0.0.0/8 to any as interface\"]\n";

const RULES: &str = "# Services.\npermit tcp from any to any port 443\ndeny ip from any to any\n";

const PAIR: &str = "local = \"198.51.100.1\"\nremote = \"198.51.100.2\"\nalgorithm = \"aes128gcm16\"\n\
                    out = { spi = 0x1001, key-file = \"out.key\" }\nin = { spi = 0x1002, key-file = \"in.key\" }\n";

/// A gateway with a list.
const FULL: &str =
    "version = 1\n[[interface]]\nname = 'in'\nport = 'null'\nacl = { in = 'edge' }\n[acl.edge]\nrules = []\n";

fn gateway() -> Gateway {
    let folder = Folder::new();
    for (name, digits) in [("out.key", "10a1"), ("in.key", "10b1")] {
        let path = folder.path(name);
        fs::write(&path, digits.repeat(10)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    for name in ["state", "conf.d"] {
        fs::create_dir(folder.path(name)).unwrap();
        fs::set_permissions(folder.path(name), Permissions::from_mode(0o700)).unwrap();
    }
    fs::write(folder.path("conf.d/lan.toml"), LAN).unwrap();
    fs::write(folder.path("edge.rules"), RULES).unwrap();
    fs::write(folder.path("pair"), PAIR).unwrap();
    Gateway::start(folder, &CONFIG.replace("spd = \"edge\"\n", "spd = \"edge\"\nnat = \"out\"\n"))
}

/// Returns the exit code of a command, its output and its messages.
fn run(gateway: &Gateway, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = gateway.folder.weir(arguments);
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Edits of every kind of object.
const EDITS: &[&[&str]] = &[
    &["acl", "insert", "edge-in", "deny tcp from any to any port 23", "--at", "2", "--source", "noc"],
    &["acl", "insert", "edge-in", "permit udp from any to any port 53", "--at", "4"],
    &["acl", "create", "guests", "guests.rules"],
    &["acl", "attach", "guests", "lan", "in"],
    &["acl", "group", "admins", "192.0.2.1", "192.0.2.7"],
    &["nat", "insert", "out", "keep ip4 from 10.9.0.0/16 to any", "--at", "1"],
    &["sa", "add", "east", "pair"],
    &["spd", "insert", "edge", "protect ip4 from 10.1.0.0/16 to 10.2.0.0/16 sa east", "--at", "1"],
    &["sav", "stage", "valid", "monitor"],
    &["classify", "add", "customers", "src 10.5.0.0 permit mark 2", "--source", "noc"],
    &["classify", "add", "customers", "src 10.7.0.0 permit via 198.51.100.9"],
    &["classify", "delete", "customers", "src 10.6.0.0"],
    &["steer", "insert", "pre", "mark 7 tcp from any to any port 443", "--at", "1"],
    &["allow", "insert", "ours", "10.0.1.0/24"],
    &["binding", "insert", "hosts", "deny 02:00:00:00:00:03 from any", "--at", "1"],
];

fn edit(gateway: &Gateway) {
    fs::write(gateway.folder.path("guests.rules"), "deny ip from any to 10.0.0.0/8\n").unwrap();
    for edit in EDITS {
        gateway.ok(edit);
    }
}

#[test]
fn a_full_disk_leaves_the_files_as_they_are() {
    // Its log is full, too.
    let folder = Folder::new();
    let shell = |words: &str, program: &Path, arguments: &[&str]| {
        let mut command = folder.command("sh");
        command.args(["-c", words, "sh"]).arg(program).args(arguments);
        command
    };
    let weir = Path::new(env!("CARGO_BIN_EXE_weir"));
    folder.config(FULL);
    let run = shell("exec \"$@\" 2>/dev/full", weir, &["run", "weir.toml"]);
    // A write beyond the largest file fails as one to a full disk does.
    let mut save = shell("trap '' XFSZ; ulimit -f 0; exec \"$@\"", weir, &["save"]);
    let mut save_out = shell("trap '' XFSZ; ulimit -f 0; exec \"$@\"", weir, &["save", "--out", "other.toml"]);
    let gateway = Gateway::start_by(folder, run);
    gateway.ok(&["acl", "insert", "edge", "deny tcp from any to any port 23", "--at", "1"]);
    for (save, file) in [(&mut save, "weir.toml"), (&mut save_out, "other.toml")] {
        let output = save.output().unwrap();
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains("cannot write ") && error.contains(file), "{error}");
    }
    assert_eq!(fs::read_to_string(gateway.folder.path("weir.toml")).unwrap(), FULL);
    let left: Vec<_> = fs::read_dir(gateway.folder.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with('.') || name == "other.toml"), "{left:?}");
    gateway.ok(&["save"]);
    assert!(fs::read_to_string(gateway.folder.path("weir.toml")).unwrap().contains("port 23"));
    gateway.end();
}

#[test]
fn edits_differ_from_the_file_until_they_are_saved() {
    let gateway = gateway();
    let (code, said, _) = run(&gateway, &["diff"]);
    assert_eq!((code, said.as_str()), (Some(0), "no difference to weir.toml\n"));
    assert!(gateway.ok(&["save"]).contains("weir.toml: nothing to save"));
    edit(&gateway);
    gateway.ok(&["sav", "add", "valid", "permit from 198.51.100.0/24 on wan", "--source", "noc"]);

    let (code, said, _) = run(&gateway, &["diff"]);
    assert_eq!(code, Some(1), "{said}");
    for line in [
        "  interface lan\n+     acl.in guests",
        "  acl edge-in\n+     deny tcp from any to any port 23    (noc, 20",
        "+     permit udp from any to any port 53    (api, 20",
        "  group admins\n+     addresses 192.0.2.7    (api, 20",
        "+     mark 7 tcp from any to any port 443    (api, 20",
        "+     10.0.1.0/24    (api, 20",
        "+     deny 02:00:00:00:00:03 from any    (api, 20",
        "  sav valid\n+     action permit",
        "  classify customers\n-     sessions src 10.5.0.0 permit mark 1\n",
        "-     sessions src 10.6.0.0 deny    (api, 20",
        "+     sessions src 10.5.0.0 permit mark 2    (noc, 20",
        "+     sessions src 10.7.0.0 permit via 198.51.100.9    (api, 20",
        "+ acl guests\n",
        "+ sa east\n",
        "+     out.key-file out.key",
        "  spd edge\n+     protect ip4 from 10.1.0.0/16",
        "! sav valid: 1 entry of the source noc belong",
    ] {
        assert!(said.contains(line), "{line}:\n{said}");
    }
    assert_eq!(run(&gateway, &["diff", "--loaded"]).1, said);
    let (code, json, _) = run(&gateway, &["diff", "--json"]);
    assert!(code == Some(1) && json.starts_with("{\"schema\":\"weir.diff/1\",\"file\":\"weir.toml\""), "{json}");

    // One file, elsewhere.
    let other = gateway.folder.path("other");
    fs::create_dir(&other).unwrap();
    gateway.ok(&["save", "--out", "other/all.toml"]);
    gateway.ok(&["check", "other/all.toml"]);
    let all = fs::read_to_string(other.join("all.toml")).unwrap();
    assert!(all.contains("# ssh") && all.contains("/out.key") && !all.contains("10a1"), "{all}");
    assert!(gateway.ok(&["save", "--out", "-"]).contains("[sa.east]"));

    // Into the files: one that somebody changed is left alone.
    let lan = gateway.folder.path("conf.d/lan.toml");
    fs::write(&lan, format!("{LAN}# mine\n")).unwrap();
    let (code, _, error) = run(&gateway, &["save"]);
    assert!(code == Some(1) && error.contains("has changed since it was loaded"), "{error}");
    let (_, said, _) = run(&gateway, &["diff"]);
    assert!(said.contains("! conf.d/lan.toml has changed since it was loaded"), "{said}");
    fs::write(&lan, LAN).unwrap();
    fs::set_permissions(gateway.folder.path("edge.rules"), Permissions::from_mode(0o640)).unwrap();
    // No room for a file: none is replaced, not even one that was written before.
    let whole = |name| fs::read_to_string(gateway.folder.path(name)).unwrap();
    let before = [whole("weir.toml"), whole("edge.rules"), whole("conf.d/lan.toml")];
    let program = env!("CARGO_BIN_EXE_weir");
    let full = format!("trap '' XFSZ; ulimit -f 0; exec '{program}' save");
    let output = gateway.folder.command("sh").args(["-c", &full]).output().unwrap();
    let error = crate::kit::text(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("cannot write"), "{error}");
    assert_eq!([whole("weir.toml"), whole("edge.rules"), whole("conf.d/lan.toml")], before);
    let left = fs::read_dir(gateway.folder.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with(".weir")).collect();
    assert!(left.is_empty(), "{left:?}");
    let said = gateway.ok(&["save"]);
    assert!(said.contains("/edge.rules: saved, 1 line changed"), "{said}");
    let rules = fs::read_to_string(gateway.folder.path("edge.rules")).unwrap();
    let inserted = "443\npermit udp from any to any port 53\ndeny";
    assert_eq!(rules, RULES.replace("443\ndeny", inserted));
    let mode = fs::metadata(gateway.folder.path("edge.rules")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let main = fs::read_to_string(gateway.folder.path("weir.toml")).unwrap();
    assert!(main.contains("    # Management.\n") && main.contains("# ssh\n"), "{main}");
    let sessions = "\"src 10.5.0.0 permit mark 2\",";
    assert!(main.contains(sessions) && !main.contains("10.6.0.0"), "{main}");

    // The file says what runs, and is in force: no edit is left, and a reload changes nothing.
    assert!(said.contains("\nloaded: generation "), "{said}");
    assert_eq!(run(&gateway, &["diff"]).0, Some(0), "{}", run(&gateway, &["diff"]).1);
    assert_eq!(gateway.ok(&["show", "changes"]), "no live edits\n");
    let reloaded = gateway.ok(&["reload"]);
    assert!(!reloaded.contains('!') && !reloaded.contains('~'), "{reloaded}");
    assert_eq!(run(&gateway, &["diff"]).0, Some(0));

    // A saved rule that is deleted then stays deleted, and one that is added stays where it was put.
    let permit = "permit tcp from any to any port 8080";
    gateway.ok(&["acl", "insert", "edge-in", permit, "--at", "1"]);
    gateway.ok(&["save"]);
    gateway.ok(&["acl", "insert", "edge-in", "deny tcp from 10.0.0.7 to any port 8080", "--at", "1"]);
    gateway.ok(&["acl", "delete", "edge-in", "--at", "2"]);
    let list = gateway.ok(&["acl", "list", "edge-in"]);
    assert!(!list.contains(permit) && list.starts_with("deny tcp from 10.0.0.7"), "{list}");
    for command in ["reload", "save", "reload"] {
        gateway.ok(&[command]);
        assert_eq!(gateway.ok(&["acl", "list", "edge-in"]), list, "{command}");
    }
    gateway.end();
}

/// Everything that edits can change, as commands show it.
fn state(gateway: &Gateway) -> String {
    let mut all = String::new();
    for what in [
        &["diff", "--loaded"][..],
        &["acl", "list", "edge-in"],
        &["nat", "list", "out"],
        &["spd", "list", "edge"],
        &["sav", "learn"],
        &["classify", "list", "customers"],
        &["steer", "list", "pre"],
        &["allow", "list", "ours"],
        &["binding", "list", "hosts"],
        &["show", "acl"],
    ] {
        all += &run(gateway, what).1;
    }
    let entries = gateway.ok(&["show", "sav", "valid", "--json"]);
    all += &entries.replace(|c: char| c.is_ascii_digit(), "");
    all
}

#[test]
fn every_edit_can_be_taken_back() {
    let gateway = gateway();
    let before = state(&gateway);
    let (code, _, error) = run(&gateway, &["undo"]);
    assert!(code == Some(1) && error.contains("there is no change to take back"), "{error}");
    // One by one, from the first state.
    let mut states = vec![before.clone()];
    fs::write(gateway.folder.path("guests.rules"), "deny ip from any to 10.0.0.0/8\n").unwrap();
    let more: &[&[&str]] = &[
        &["sav", "add", "valid", "permit from 198.51.100.0/24 on wan", "--source", "noc"],
        &["acl", "delete", "edge-in", "permit udp from any to any port 53"],
        &["acl", "delete", "edge-in", "--at", "1"],
        &["acl", "group", "admins", "--remove"],
        &["acl", "detach", "edge-in", "wan", "in"],
        &["acl", "replace", "edge-in", "guests.rules", "--default", "deny"],
        &["sav", "clear", "valid", "--source", "noc"],
        &["reload", "--drop-changes"],
    ];
    for edit in EDITS.iter().chain(more) {
        if edit[0] == "reload" {
            // Live edits end with it, and the list `guests` is another one.
            gateway.folder.config(
                &CONFIG
                    .replace("spd = \"edge\"\n", "spd = \"edge\"\nnat = \"out\"\nmtu = 9000\n")
                    .replace("[acl.edge-in]", "[acl.guests]\nrules = [\"permit ip from any to any\"]\n[acl.edge-in]")
                    .replace("# Management.", "\"permit tcp from any to any port 179\","),
            );
        }
        gateway.ok(edit);
        states.push(state(&gateway));
        assert_ne!(states[states.len() - 1], states[states.len() - 2], "{edit:?} changes something");
    }
    let list = gateway.ok(&["undo", "--list"]);
    assert_eq!(list.lines().count(), states.len(), "{list}");
    assert!(list.lines().nth(1).unwrap().starts_with("1     reload"), "{list}");
    states.pop();
    // What was live keeps its rules; their source is the undo.
    while states.len() > 3 {
        let expected = states.pop().unwrap();
        let said = gateway.ok(&["undo"]);
        assert!(said.starts_with("taken back: "), "{said}");
        let (now, expected) = (strip(&state(&gateway)), strip(&expected));
        assert_eq!(shown(&now), shown(&expected), "{said}");
    }
    let (code, _, error) = run(&gateway, &["undo", "9"]);
    assert!(code == Some(1) && error.contains("only 3 changes can be taken back, not 9"), "{error}");
    let said = gateway.ok(&["undo", "3"]);
    assert!(said.contains("0 left to take back"), "{said}");
    assert_eq!(shown(&strip(&state(&gateway))), shown(&strip(&before)));
    gateway.end();
}

/// Log lines and metrics name rules by their ids: a rule that was taken back leaves its id to no other one.
#[test]
fn no_rule_gets_the_id_of_one_that_was_taken_back() {
    let gateway = gateway();
    for (kind, list, rule) in
        [("nat", "out", "keep ip4 from 10.9.0.0/16 to any"), ("acl", "edge-in", "permit udp from any to any port 53")]
    {
        let mut ids: Vec<u32> = Vec::new();
        for undoes in [true, false, true, true, false] {
            let said = gateway.ok(&[kind, "insert", list, rule, "--at", "1"]);
            let id = said.split_once("(id ").and_then(|(_, rest)| rest.split_once(')')?.0.parse::<u32>().ok());
            ids.extend(id);
            if undoes {
                gateway.ok(&["undo"]);
            }
        }
        let mut distinct = ids.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!((ids.len(), distinct.len()), (5, 5), "{kind}: {ids:?}");
    }
    gateway.end();
}

/// A state without the sources of what is live and the sizes of chains.
fn shown(state: &str) -> Vec<String> {
    let bare = |line: &str| {
        let words = line.replace("\"undo\"", "\"noc\"").replace(" undo ", " api ");
        words.split_whitespace().map(|word| word.trim_start_matches('-')).collect::<Vec<_>>().join(" ")
    };
    state.lines().filter(|line| !line.contains("ticks")).map(bare).collect()
}

#[test]
fn a_reload_goes_back_unless_it_is_confirmed() {
    let gateway = gateway();
    gateway.ok(&["acl", "insert", "edge-in", "permit udp from any to any port 53", "--at", "2"]);
    let before = state(&gateway);
    let config = fs::read_to_string(gateway.folder.path("weir.toml")).unwrap();
    let other = config
        .replace("192.0.2.1", "192.0.2.9")
        .replace("address = \"198.51.100.1/24\"", "address = \"198.51.100.1/24\"\nmtu = 9000")
        .replace("permit tcp from @admins to any port 22", "permit tcp from any to any port 2222");
    // The keys change, too: the old ones come back from memory.
    gateway.folder.config(&other);
    fs::write(gateway.folder.path("edge.rules"), "permit tcp from any to any port 8443\n").unwrap();
    let (code, _, error) = run(&gateway, &["reload", "--confirm", "soon"]);
    assert!(code == Some(2) && error.contains("write a time such as `5m`"), "{error}");
    let (code, _, error) = run(&gateway, &["confirm"]);
    assert!(code == Some(1) && error.contains("no reload waits"), "{error}");

    let said = gateway.ok(&["reload", "--confirm", "5s", "--drop-changes"]);
    assert!(said.contains("! the reload goes back at 20") && said.contains("! acl edge-in: rule"), "{said}");
    assert!(gateway.ok(&["show", "changes"]).contains("unless `weir confirm` comes before"));
    assert!(gateway.ok(&["show", "interfaces"]).contains("9000"));
    // Nothing else changes meanwhile, whatever it is.
    for edit in [
        &["acl", "insert", "edge-in", "deny tcp from any to any port 23"][..],
        &["acl", "group", "admins", "192.0.2.5"],
        &["nat", "insert", "out", "keep ip4 from 10.9.0.0/16 to any"],
        &["sa", "add", "east", "pair"],
        &["spd", "delete", "edge", "1"],
        &["sav", "stage", "valid", "monitor"],
        &["sav", "clear", "valid", "--source", "noc"],
        &["acl", "create", "guests"],
        &["acl", "remove", "guests"],
        &["acl", "replace", "edge-in", "edge.rules"],
        &["acl", "detach", "edge-in", "wan", "in"],
        &["acl", "group", "admins", "--remove"],
        &["nat", "delete", "out", "1"],
        &["sa", "delete", "east"],
        &["classify", "add", "customers", "src 10.8.0.0 deny"],
        &["classify", "delete", "customers", "src 10.5.0.0"],
        &["sav", "add", "valid", "permit from 198.51.100.0/24 on wan"],
        &["reload"],
    ] {
        let (code, _, error) = run(&gateway, edit);
        assert!(code == Some(1) && error.contains("a reload waits for `weir confirm` until 20"), "{edit:?}: {error}");
    }
    crate::kit::wait("it goes back", || gateway.log().contains("was not confirmed and is taken back: generation"));
    assert_eq!(shown(&strip(&state(&gateway))), shown(&strip(&before)));
    assert!(!gateway.ok(&["show", "interfaces"]).contains("9000"));
    // An edit is made on what is in force, not on the files.
    gateway.ok(&["spd", "insert", "edge", "discard ip from any to 203.0.113.0/24"]);
    assert!(!gateway.ok(&["show", "interfaces"]).contains("9000"));

    gateway.ok(&["reload", "--confirm", "1m", "--drop-changes"]);
    assert!(gateway.ok(&["confirm"]).contains("is confirmed"));
    assert!(gateway.ok(&["show", "interfaces"]).contains("9000"));
    gateway.ok(&["acl", "insert", "edge-in", "deny tcp from any to any port 23"]);
    // A second one is taken back by hand.
    gateway.folder.config(&other.replace("mtu = 9000", "mtu = 8000"));
    gateway.ok(&["reload", "--confirm", "1m"]);
    let file = fs::read_to_string(gateway.folder.path("weir.toml")).unwrap();
    let (code, _, error) = run(&gateway, &["save"]);
    assert!(code == Some(1) && error.contains("confirm it first") && error.contains("nothing was saved"), "{error}");
    assert_eq!(fs::read_to_string(gateway.folder.path("weir.toml")).unwrap(), file);
    assert!(gateway.ok(&["undo"]).starts_with("taken back: reload: generation"));
    assert!(gateway.ok(&["show", "interfaces"]).contains("9000"));
    assert!(!gateway.ok(&["show", "changes"]).contains("weir confirm"));
    gateway.end();
}

/// A state without the sources and times of edits, and without notes.
fn strip(state: &str) -> String {
    let bare = |line: &str| line.split("    (").next().unwrap().to_owned() + "\n";
    state.lines().filter(|line| !line.starts_with("! ")).map(bare).collect()
}

/// The gateway was started by `weir.toml`, and the command names the file by its whole path.
#[test]
fn a_file_is_no_change_by_another_name_of_its_folder() {
    let sampler = "[sampler.lab]\npcap = \"lab.pcap\"\n";
    let gateway = Gateway::start(Folder::new(), &format!("{QUIET}{sampler}"));
    let own = gateway.folder.path("weir.toml");
    let check = |file: &str| run(&gateway, &["check", "--against", "control.sock", file]);
    let whole = own.to_str().expect("a path of text");
    for file in ["weir.toml", whole] {
        let (code, said, error) = check(file);
        assert!(code == Some(0) && said.lines().count() == 1, "{said}{error}");
    }
    // The same text in another folder has its samples there.
    fs::create_dir(gateway.folder.path("other")).unwrap();
    fs::copy(&own, gateway.folder.path("other/weir.toml")).unwrap();
    let (_, said, error) = check("other/weir.toml");
    assert!(said.contains("~ sampler lab\n"), "{said}{error}");
    gateway.end();
}

#[test]
fn a_reload_is_looked_at_before_it_happens() {
    let gateway = gateway();
    gateway.ok(&["acl", "insert", "edge-in", "deny tcp from any to any port 23", "--at", "1"]);
    let config = fs::read_to_string(gateway.folder.path("weir.toml")).unwrap();
    let check = |arguments: &[&str]| run(&gateway, &[&["check", "--against", "control.sock"][..], arguments].concat());
    let (code, said, error) = check(&["weir.toml"]);
    // Own addresses, connected prefixes and their ends count, as in `weir reload`.
    assert!(code == Some(0) && said.ends_with("/weir.toml against generation 1, routes 8 (now: 8)\n"), "{said}{error}");
    assert_eq!(said.lines().count(), 1, "{said}");

    let other = config
        .replace("address = \"198.51.100.1/24\"", "address = \"198.51.100.1/24\"\nqueues = 2")
        .replace("permit tcp from @admins to any port 22", "permit tcp from any to any port 2222")
        .replace("[group.admins]", "[[route]]\nprefix = \"0.0.0.0/0\"\ntype = \"blackhole\"\n[group.admins]")
        + "[limits]\nneighbors = 9\n";
    fs::write(gateway.folder.path("other.toml"), &other).unwrap();
    let (code, said, error) = check(&["other.toml"]);
    assert!(code == Some(1) && error.contains("a reload would be refused: the limits of tables"), "{error}{said}");
    for line in [
        "other.toml against generation 1, routes 9 (now: 8)",
        "~ interface wan",
        "! interface wan: its port is closed and opened again",
        "! acl edge-in: rule ",
        "! a reload reads weir.toml, not this file",
        "+     queues 2",
        "-     permit tcp from @admins to any port 22",
        "+ route 0.0.0.0/0",
        "refused: live edits that protect would end",
    ] {
        assert!(said.contains(line), "{line}:\n{said}");
    }
    let (_, json, _) = check(&["other.toml", "--json"]);
    assert!(json.starts_with("{\"schema\":\"weir.preview/1\""), "{json}");
    fs::write(gateway.folder.path("other.toml"), "version = 2\n").unwrap();
    assert_eq!(check(&["other.toml"]).0, Some(3));
    // Nothing has changed.
    assert!(gateway.ok(&["show", "changes"]).contains("deny tcp from any to any port 23"));
    let (code, _, _) = run(&gateway, &["check", "--against", "nowhere.sock", "weir.toml"]);
    assert_eq!(code, Some(4));
    // The reload says the same numbers.
    let route = "[[route]]\nprefix = \"0.0.0.0/0\"\ntype = \"blackhole\"\n[group.admins]";
    gateway.folder.config(&config.replace("[group.admins]", route));
    let (_, said, _) = check(&["weir.toml"]);
    assert!(said.contains("against generation 1, routes 9 (now: 8)\n"), "{said}");
    let said = gateway.ok(&["reload"]);
    assert!(said.contains("generation 2, routes 9 (before: 8)\n"), "{said}");
    gateway.end();
}

#[test]
fn events_are_watched_until_the_gateway_ends() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    use std::sync::atomic::{AtomicBool, Ordering};
    let gateway = gateway();
    let watch = |arguments: &[&str]| {
        let mut command = gateway.folder.command(env!("CARGO_BIN_EXE_weir"));
        command.arg("watch").args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let (mut all, mut lines) = watch(&["--json"]);
    let (mut refused, mut refusals) = watch(&["refused", "reload"]);
    // Both watch once an event has come to each.
    let stop = AtomicBool::new(false);
    let (first, refusal) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = gateway.folder.weir(&["acl", "delete", "edge-in", "999"]);
            }
        });
        let both = (lines.next().unwrap().unwrap(), refusals.next().unwrap().unwrap());
        stop.store(true, Ordering::Relaxed);
        both
    });
    assert!(first.starts_with("{\"schema\":\"weir.event/1\",\"time\":1"), "{first}");
    assert!(first.contains("\"kind\":\"refused\",\"message\":\"acl edge-in: nothing changed"), "{first}");
    assert!(refusal.contains("Z warning refused  acl edge-in: nothing changed"), "{refusal}");
    gateway.ok(&["acl", "insert", "edge-in", "deny tcp from any to any port 23"]);
    gateway.ok(&["reload"]);
    let (status, _folder) = gateway.end();
    assert!(status.success());
    let lines: Vec<String> = lines.map(Result::unwrap).collect();
    for words in
        ["\"kind\":\"edit\"", "\"kind\":\"reload\",\"message\":\"reloaded: generation", "\"message\":\"ending\""]
    {
        assert!(lines.iter().any(|line| line.contains(words)), "{words}: {lines:?}");
    }
    let fields = |message: &str| {
        let line = lines.iter().find(|line| line.contains(message)).unwrap_or_else(|| panic!("{message}: {lines:?}"));
        serde_json::from_str::<serde_json::Value>(line).expect("JSON")["fields"].clone()
    };
    assert_eq!(fields("edge-in: api inserted 1"), serde_json::json!({ "object": "acl edge-in", "source": "api" }));
    let generation = fields("reloaded: generation")["generation"].as_u64().expect("a number");
    assert!(lines.iter().any(|line| line.contains(&format!("reloaded: generation {generation}"))), "{lines:?}");
    let refusals: Vec<String> = refusals.map(Result::unwrap).collect();
    assert!(refusals.iter().any(|line| line.contains(" reload   reloaded: generation")), "{refusals:?}");
    assert!(!refusals.iter().any(|line| line.contains("inserted")), "{refusals:?}");
    assert!(all.wait().unwrap().success() && refused.wait().unwrap().success());
}
