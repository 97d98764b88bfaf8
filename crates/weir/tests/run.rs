//! The gateway as a process: what it serves, how it reloads, and how it ends.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const CONFIG: &str = r#"version = 1

[[interface]]
name = "in"
address = "10.0.0.1/24"
port = { generator = { source = "10.0.0.10-10.0.0.20", destination = "192.0.2.1-192.0.2.250", rate = 20000 } }

[[interface]]
name = "out"
address = "10.0.1.1/24"
port = "null"

[[route]]
prefix = "192.0.2.0/25"
via = { address = "10.0.1.2" }

[[route]]
prefix = "192.0.2.128/25"
type = "blackhole"

[[neighbor]]
interface = "out"
address = "10.0.1.2"
mac = "02:00:00:00:00:02"
"#;

/// Everything that `weir show` takes.
const SHOWS: [&str; 14] = [
    "runtime",
    "errors",
    "interfaces",
    "routes",
    "neighbors",
    "sav",
    "acl",
    "allowlists",
    "bindings",
    "ethertypes",
    "trace",
    "buffers",
    "tables",
    "version",
];

/// A folder of the test's own, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("weir-run-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        Folder(folder)
    }

    fn config(&self, text: &str) -> PathBuf {
        let path = self.0.join("weir.toml");
        fs::write(&path, text).unwrap();
        path
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).env("WEIR_SOCKET", self.0.join("control.sock")).env_remove("WEIR_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.weir(arguments).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A gateway that runs; killed when the test fails.
struct Gateway {
    child: Option<Child>,
    folder: Folder,
}

impl Gateway {
    fn start(name: &str, config: &str) -> Gateway {
        let folder = Folder::new(name);
        let path = folder.config(config);
        let child = folder.weir(&["run", path.to_str().unwrap()]).spawn().unwrap();
        let gateway = Gateway { child: Some(child), folder };
        gateway.wait_for(|gateway| gateway.folder.output(&["show", "version"]).status.success());
        gateway
    }

    fn wait_for(&self, what: impl Fn(&Gateway) -> bool) {
        let start = Instant::now();
        while !what(self) {
            assert!(start.elapsed() < Duration::from_secs(120), "nothing came of it");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a count is smaller after a command than before, as nothing else makes it: packets go on coming in.
    fn clears(&self, arguments: &[&str], count: impl Fn(&Gateway) -> u64) {
        self.wait_for(|gateway| {
            let before = count(gateway);
            gateway.ok(arguments);
            count(gateway) < before
        });
    }

    /// Waits until a thousand more are counted: what was under way before is through by then.
    fn wait_for_more(&self, count: impl Fn(&Gateway) -> u64) {
        let before = count(self);
        self.wait_for(|gateway| count(gateway) > before + 1000);
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.folder.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        text(&output.stdout)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    fn generation(&self) -> u64 {
        self.json(&["show", "version", "--json"])["generation"].as_u64().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    fn end(mut self, signal: Signal) -> Output {
        self.signal(signal);
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn serves_every_show_and_ends_cleanly_on_sigterm() {
    let gateway = Gateway::start("serves", CONFIG);
    let socket = gateway.folder.0.join("control.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o7777, 0o600);

    gateway.ok(&["trace", "add", "drop", "2"]);
    gateway.wait_for(|gateway| gateway.json(&["show", "trace", "--json"])["packets"].as_array().unwrap().len() == 2);
    for what in SHOWS {
        let json = gateway.json(&["show", what, "--json"]);
        assert_eq!(json["schema"], format!("weir.show.{what}/1"));
        assert!(!gateway.ok(&["show", what]).is_empty());
    }
    let runtime = gateway.ok(&["show", "runtime"]);
    assert!(runtime.starts_with("Thread 1 weir_wk_0"), "{runtime}");
    assert!(runtime.contains("\nip4-lookup "), "{runtime}");
    assert!(!runtime.contains("\nicmp-error "), "{runtime}");
    assert!(gateway.ok(&["show", "runtime", "--all"]).contains("\nicmp-error "));
    assert!(gateway.ok(&["show", "errors"]).contains(" blackhole "));
    assert!(gateway.ok(&["show", "routes"]).contains("10.0.1.2 on out"));
    assert!(gateway.ok(&["show", "neighbors"]).contains("02:00:00:00:00:02"));

    gateway.ok(&["clear", "trace"]);
    assert_eq!(gateway.ok(&["show", "trace"]), "no packet was traced\n");
    let received = |gateway: &Gateway| {
        gateway.json(&["show", "interfaces", "--json"])["interfaces"][0]["rx-packets"].as_u64().unwrap()
    };
    gateway.clears(&["clear", "all"], received);

    let unknown = gateway.folder.output(&["trace", "add", "ip4-lokup", "1"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("ip4-lookup"), "{}", text(&unknown.stderr));

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let closed = gateway.folder.weir(&["show", "routes"]).stdout(writer).output().unwrap();
    assert_eq!((closed.status.code(), text(&closed.stderr)), (Some(0), String::new()));

    let output = gateway.end(Signal::TERM);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let summary = text(&output.stdout);
    assert!(summary.contains("ended by a signal"), "{summary}");
    assert!(summary.ends_with("every packet is accounted for\n"), "{summary}");
    assert!(!socket.exists());
}

#[test]
fn a_gateway_that_does_not_answer_is_waited_for_within_bounds() {
    let gateway = Gateway::start("stopped", CONFIG);
    let process = gateway.child.as_ref().unwrap().id();
    gateway.signal(Signal::STOP);
    let config = gateway.folder.0.join("weir.toml");
    let rules = gateway.folder.0.join("edge.rules");
    fs::write(&rules, "permit ip from any to any\n").unwrap();
    let rules = rules.to_str().unwrap();
    for (arguments, changes) in [
        (&["show", "version"][..], false),
        (&["show", "acl", "edge", "--rates"], false),
        (&["sav", "dry-run"], false),
        (&["acl", "list", "edge"], false),
        (&["acl", "replace", "edge", rules], true),
        (&["nat", "delete", "edge", "1"], true),
        (&["allow", "list", "ours"], false),
        (&["allow", "delete", "ours", "10.0.0.0/8"], true),
        (&["binding", "delete", "hosts", "1"], true),
        (&["steer", "delete", "edge", "1"], true),
        (&["sav", "import", "edge", rules], true),
        (&["trace", "add", "drop", "1"], true),
        (&["clear", "trace"], true),
        (&["reload"], true),
    ] {
        let output = gateway.folder.output(&[arguments, &["--timeout", "1"]].concat());
        let says = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(4), ""), "{arguments:?}: {says}");
        assert!(says.contains("control.sock did not answer within 1 second"), "{arguments:?}: {says}");
        assert!(says.contains(&format!("process {process} is stopped")), "{arguments:?}: {says}");
        assert!(says.contains("`--timeout SECONDS`"), "{arguments:?}: {says}");
        assert_eq!(says.contains("may still carry out the request"), changes, "{arguments:?}: {says}");
    }
    // It never comes to its socket: the second gateway is refused as ever.
    let second = gateway.folder.output(&["run", config.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1), "{}", text(&second.stderr));
    gateway.signal(Signal::CONT);
    gateway.wait_for(|gateway| gateway.folder.output(&["show", "version"]).status.success());
}

/// Runs a command that reads this from standard input.
fn fed(folder: &Folder, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = folder.weir(arguments).stdin(Stdio::piped()).spawn().unwrap();
    // A command that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

#[test]
fn lists_and_tables_are_replaced_by_whole_texts_only() {
    let tables = "[acl.edge]\nrules = [\"permit ip from any to any\"]\n[sav.table]\nmechanism = \"table\"\n";
    let gateway = Gateway::start("whole", &format!("{CONFIG}\n{tables}"));
    let folder = &gateway.folder;
    let file = |name: &str, text: &[u8]| {
        let path = folder.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let refused = |output: &Output, code: i32, words: &str| {
        let says = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(code), ""), "{says}");
        assert!(says.contains(words), "{says}");
    };
    let (rule, entry) = ("deny ip from any to any\n", "permit from 10.0.0.0/8 on in\n");
    // Standard input; and a change of the default alone.
    let replaced = fed(folder, &["acl", "replace", "edge", "-"], rule.as_bytes());
    let says = text(&replaced.stdout);
    assert!(says.starts_with("edge: inserted 1 (id ") && says.ends_with("), deleted 1; 1 rule now\n"), "{replaced:?}");
    let same = file("same.rules", rule.as_bytes());
    assert_eq!(
        gateway.ok(&["acl", "replace", "edge", &same, "--default", "reject"]),
        "edge: inserted 0, deleted 0, default reject (was next); 1 rule now\n"
    );
    let json = gateway.json(&["acl", "replace", "edge", &same, "--default", "deny", "--json"]);
    assert_eq!((json["default"].as_str(), json["default-before"].as_str()), (Some("deny"), Some("reject")));
    let json = gateway.json(&["acl", "replace", "edge", &same, "--default", "deny", "--json"]);
    assert_eq!(json.get("default"), None);
    let imported = fed(folder, &["sav", "import", "table", "-", "--format", "rules"], entry.as_bytes());
    assert_eq!(text(&imported.stdout), "table: added 1, replaced 0, deleted 0; api has 1 now\n", "{imported:?}");
    // Cut within a line that can still be read.
    let cut = "the last line has no line end; the file may be cut short";
    for (whole, name, command) in
        [(rule, "cut.rules", &["acl", "replace", "edge"][..]), (entry, "cut.rules", &["sav", "import", "table"])]
    {
        let path = file(name, &whole.as_bytes()[..whole.len() - 1]);
        refused(&folder.output(&[command, &[&path]].concat()), 3, &format!("cut.rules: line 1: {cut}"));
    }
    let created = fed(folder, &["acl", "create", "new", "-"], rule.trim_end().as_bytes());
    refused(&created, 3, &format!("standard input: line 1: {cut}"));
    // Other encodings, with the right advice from each reader.
    let wide = file("wide.rules", &entry.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
    for command in [&["acl", "replace", "edge"][..], &["sav", "import", "table"]] {
        let output = folder.output(&[command, &[&wide]].concat());
        refused(&output, 1, "the file is UTF-16, not UTF-8 (convert it: `iconv -f UTF-16BE -t UTF-8`)");
    }
    // What stands in a file that is none of rules is shown to its reader, and not logged.
    let secret = file("secret", b"root:$6$secret:1\ndaemon:$6$secret:1\n");
    refused(&folder.output(&["acl", "replace", "edge", &secret]), 3, "$6$secret");
    let log = text(&gateway.end(Signal::TERM).stderr);
    assert!(log.contains("acl edge: nothing changed: invalid rules, the first: line 1, column 1\n"), "{log}");
    assert!(!log.contains("secret"), "{log}");
    assert!(!log.contains("nothing was changed"), "{log}");
}

#[test]
fn nat_rules_change_while_the_gateway_runs() {
    let outside = "[[interface]]\nname = \"wan\"\nport = \"null\"\naddress = \"198.51.100.80/32\"\nnat = \"edge\"\n";
    let rules = "[nat.edge]\nrules = [\"keep ip4 from 10.0.0.0/8 to 10.0.0.0/8\"]\n";
    let gateway = Gateway::start("nat", &format!("{CONFIG}\n{outside}{rules}"));
    let map = "map ip4 from 10.0.0.80 to any as 198.51.100.80";
    assert_eq!(
        gateway.ok(&["nat", "insert", "edge", map, "--at", "1", "--source", "noc"]),
        "edge: inserted 1 (id 2), deleted 0; 2 rules now\n"
    );
    assert_eq!(gateway.ok(&["nat", "list", "edge"]), format!("{map}\nkeep ip4 from 10.0.0.0/8 to 10.0.0.0/8\n"));
    // Rules are in force where they are shown, and stay after a reload of the same declaration.
    let shown = || gateway.json(&["show", "nat", "--json"])["lists"][0]["rules"].clone();
    assert_eq!((&shown()[0]["id"], &shown()[1]["id"]), (&2.into(), &1.into()));
    assert!(shown()[0]["origin"].as_str().unwrap().starts_with("noc "));
    gateway.ok(&["reload"]);
    assert_eq!(shown()[0]["rule"], map);
    let wrong = gateway.folder.output(&["nat", "insert", "edge", "map ip4 from any to any as 198.51.100.80"]);
    assert_eq!(wrong.status.code(), Some(3), "{}", text(&wrong.stderr));
    assert!(text(&wrong.stderr).contains("a map is from one prefix or address"), "{}", text(&wrong.stderr));
    let file = gateway.folder.0.join("edge.rules");
    fs::write(&file, "keep ip from any to any\n").unwrap();
    assert_eq!(
        gateway.ok(&["nat", "replace", "edge", file.to_str().unwrap()]),
        "edge: inserted 1 (id 3), deleted 2; 1 rule now\n"
    );
    let changes = gateway.json(&["show", "changes", "--json"]);
    assert_eq!((&changes["edits"][0]["edit"], &changes["edits"][1]["edit"]), (&"added".into(), &"removed".into()));
    // Another declaration: the reload reports the edits that do not apply.
    let other = rules.replace("10.0.0.0/8\"", "10.0.0.0/9\"");
    gateway.folder.config(&format!("{CONFIG}\n{outside}{other}"));
    let reloaded = gateway.ok(&["reload"]);
    let lost = "! nat edge: rule 3 is gone: the file no longer has its anchor `keep ip4 from 10.0.0.0/8 to 10.0.0.0/8`: \
                `keep ip from any to any`\n";
    assert!(reloaded.contains(lost), "{reloaded}");
    assert_eq!(gateway.ok(&["show", "changes"]), "no live edits\n");
    assert_eq!(gateway.ok(&["nat", "list", "edge"]), "keep ip4 from 10.0.0.0/8 to 10.0.0.0/9\n");
    assert_eq!(gateway.ok(&["nat", "delete", "edge", "--at", "1"]), "edge: inserted 0, deleted 1; 0 rules now\n");
    assert_eq!(gateway.end(Signal::TERM).status.code(), Some(0));
}

#[test]
fn steer_rules_change_while_the_gateway_runs() {
    let lan = "[[interface]]\nname = \"dmz\"\nport = \"null\"\naddress = \"10.99.0.1/24\"\nsteer = \"edge\"\n";
    let list = "[steer.edge]\nrules = [\"count udp from any to any\"]\n";
    let gateway = Gateway::start("live-steer", &format!("{CONFIG}\n{lan}{list}"));
    let (drop, count) = ("drop ip4 gre from any to any", "count udp from any to any");
    assert_eq!(
        gateway.ok(&["steer", "insert", "edge", drop, "--before", "1", "--source", "noc"]),
        "edge: inserted 1 (id 2), deleted 0; 2 rules now\n"
    );
    assert_eq!(gateway.ok(&["steer", "list", "edge"]), format!("{drop}\n{count}\n"));
    let rule = gateway.json(&["show", "steer", "--json"])["steer"][0]["rules"][0].clone();
    assert_eq!((&rule["id"], &rule["rule"]), (&2.into(), &drop.into()));
    assert!(rule["origin"].as_str().unwrap().starts_with("noc "), "{rule}");
    let wrong = gateway.refused(3, &["steer", "insert", "edge", "redirect queue 7 ip from any to any"]);
    assert!(wrong.contains("there is no worker 7"), "{wrong}");
    assert!(gateway.refused(1, &["steer", "delete", "egde", "1"]).contains("did you mean `edge`?"));
    let changes = gateway.ok(&["show", "changes"]);
    assert!(changes.contains(&format!("steer edge  added  {drop}  before {count}  noc")), "{changes}");
    let diff = gateway.folder.output(&["diff"]);
    assert!(text(&diff.stdout).contains(&format!("+     {drop}    (noc, ")), "{}", text(&diff.stdout));
    // The edit outlives a reload, and is taken back and made again.
    gateway.ok(&["reload"]);
    gateway.ok(&["steer", "delete", "edge", "1"]);
    assert_eq!(gateway.ok(&["steer", "list", "edge"]), format!("{drop}\n"));
    let undone = gateway.ok(&["undo"]);
    assert!(undone.starts_with("taken back: steer edge: inserted 0, deleted 1; 2 rules now\n"), "{undone}");
    assert_eq!(gateway.ok(&["steer", "list", "edge"]), format!("{drop}\n{count}\n"));
    // A file without the anchor would lose a rule that drops.
    let other = format!("{CONFIG}\n{lan}{}", list.replace("count udp", "count tcp"));
    gateway.folder.config(&other);
    let lost = gateway.refused(3, &["reload"]);
    assert!(lost.contains("steer edge: rule 2 is gone: the file no longer has its anchor"), "{lost}");
    gateway.folder.config(&format!("{CONFIG}\n{lan}{list}"));
    gateway.ok(&["save"]);
    let saved = std::fs::read_to_string(gateway.folder.0.join("weir.toml")).unwrap();
    assert!(saved.find(drop).is_some_and(|at| Some(at) < saved.find(count)), "{saved}");
    gateway.ok(&["reload"]);
    assert_eq!(gateway.ok(&["show", "changes"]), "no live edits\n");
    gateway.end(Signal::TERM);
}

#[test]
fn allowlists_and_bindings_change_while_the_gateway_runs() {
    let lan = "[[interface]]\nname = \"dmz\"\nport = \"null\"\naddress = \"10.99.0.1/24\"\nallow = \"ours\"\nmac-ip = \"hosts\"\n";
    let lists = "[allowlist.ours]\nprefixes = [\"192.0.2.0/24\"]\n[mac-ip.hosts]\nrules = [\"permit any from any\"]\n";
    let gateway = Gateway::start("live-lists", &format!("{CONFIG}\n{lan}{lists}"));
    assert_eq!(
        gateway.ok(&["allow", "insert", "ours", "203.0.113.0/24", "2001:db8::/32", "--source", "noc"]),
        "ours: inserted 2, deleted 0; 3 prefixes now\n"
    );
    assert_eq!(gateway.ok(&["allow", "list", "ours"]), "192.0.2.0/24\n203.0.113.0/24\n2001:db8::/32\n");
    let shown = gateway.json(&["show", "allowlists", "--json"]);
    assert_eq!((&shown["lists"][0]["ipv4-prefixes"], &shown["lists"][0]["ipv6-prefixes"]), (&2.into(), &1.into()));
    let deny = "deny 02:00:00:00:00:03 from any";
    assert_eq!(
        gateway.ok(&["binding", "insert", "hosts", deny, "--before", "1"]),
        "hosts: inserted 1 (id 2), deleted 0; 2 rules now\n"
    );
    let rule = gateway.json(&["show", "bindings", "--json"])["bindings"][0]["rules"][0].clone();
    assert_eq!((&rule["id"], &rule["rule"]), (&2.into(), &deny.into()));
    assert!(rule["origin"].as_str().unwrap().starts_with("api "), "{rule}");
    let wrong = gateway.folder.output(&["allow", "insert", "ours", "10.0.0.1"]);
    assert_eq!(wrong.status.code(), Some(3), "{}", text(&wrong.stderr));
    let absent = gateway.folder.output(&["allow", "delete", "ours", "10.0.0.0/8"]);
    assert_eq!(absent.status.code(), Some(1), "{}", text(&absent.stderr));
    // Reloads of the same file and of another one keep the edits.
    gateway.ok(&["reload"]);
    gateway.folder.config(&format!("{CONFIG}\n{lan}{}", lists.replace("192.0.2.0/24", "198.51.100.0/24")));
    gateway.ok(&["reload"]);
    assert_eq!(gateway.ok(&["allow", "list", "ours"]), "198.51.100.0/24\n203.0.113.0/24\n2001:db8::/32\n");
    let changes = gateway.ok(&["show", "changes"]);
    for line in [
        "allowlist ours  added  203.0.113.0/24 ",
        "mac-ip hosts    added  deny 02:00:00:00:00:03 from any  before permit",
    ] {
        assert!(changes.contains(line), "{line}:\n{changes}");
    }
    // The anchor of the `deny` is gone: the reload fails, and nothing changes.
    gateway.folder.config(&format!("{CONFIG}\n{lan}{}", lists.replace("any from any", "any from 192.0.2.0/24")));
    let refused = gateway.folder.output(&["reload"]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
    let lost = "mac-ip hosts: rule 2 is gone: the file no longer has its anchor `permit any from any`: `deny 02:00:00:00:00:03 from any`";
    assert!(text(&refused.stderr).contains(lost), "{}", text(&refused.stderr));
    assert_eq!(gateway.ok(&["binding", "list", "hosts"]), format!("{deny}\npermit any from any\n"));
    assert!(gateway.ok(&["reload", "--drop-changes"]).contains(lost));
    assert_eq!(gateway.ok(&["binding", "list", "hosts"]), "permit any from 192.0.2.0/24\n");
    // The prefixes are still there, until they are taken back.
    assert_eq!(
        gateway.ok(&["allow", "delete", "ours", "203.0.113.0/24"]),
        "ours: inserted 0, deleted 1; 2 prefixes now\n"
    );
    gateway.ok(&["undo"]);
    assert_eq!(gateway.ok(&["allow", "list", "ours"]), "192.0.2.0/24\n203.0.113.0/24\n2001:db8::/32\n");
    assert_eq!(gateway.end(Signal::TERM).status.code(), Some(0));
}

/// Interfaces, and a list of NAT rules at the one that packets leave by, which names a group.
fn translating() -> String {
    let nat = "\n[group.inside]\naddresses = [\"10.0.0.0/24\"]\n[nat.edge]\nrules = [\"source ip4 from @inside to any as interface\"]\n";
    CONFIG.replace("port = \"null\"", "port = \"null\"\nnat = \"edge\"") + nat
}

/// Says in words what a reload of a configuration would do.
fn preview(gateway: &Gateway, config: &str) -> String {
    let file = gateway.folder.0.join("next.toml");
    fs::write(&file, config).unwrap();
    let socket = gateway.folder.0.join("control.sock");
    let output = gateway.folder.output(&["check", "--against", socket.to_str().unwrap(), file.to_str().unwrap()]);
    text(&output.stdout)
}

/// Waits until the gateway has some sessions or translations.
fn wait_for_flows(gateway: &Gateway, show: &[&str], of: &str) {
    gateway.wait_for(|gateway| gateway.json(show)[of].as_array().is_some_and(|rows| rows.len() > 10));
}

#[test]
fn a_preview_counts_the_translations_that_a_reload_concerns() {
    let config = translating();
    let gateway = Gateway::start("preview-nat", &config);
    wait_for_flows(&gateway, &["show", "nat", "translations", "--json"], "translations");
    let counts = |config: &str| preview(&gateway, config).contains(" translations matched again\n");
    assert!(!counts(&config));
    assert!(!counts(&config.replacen("name = \"in\"", "name = \"in\"\nmtu = 1400", 1)), "another interface");
    for (from, to) in [
        ("nat = \"edge\"\n", ""),
        ("10.0.1.1/24", "10.0.1.3/24"),
        ("\"out\"", "\"outside\""),
        ("10.0.0.0/24\"]", "10.0.0.128/25\"]"),
        ("as interface", "as 10.0.1.7"),
    ] {
        assert!(config.contains(from));
        let next = config.replace(from, to);
        assert!(counts(&next), "{from}: {}", preview(&gateway, &next));
    }
    // The group has a live edit that the new file has, too: its members stay.
    gateway.ok(&["acl", "group", "inside", "10.0.0.0/25"]);
    wait_for_flows(&gateway, &["show", "nat", "translations", "--json"], "translations");
    let saved = config.replace("10.0.0.0/24\"]", "10.0.0.0/25\"]");
    assert!(!counts(&saved), "{}", preview(&gateway, &saved));
    gateway.end(Signal::TERM);
}

#[test]
fn a_preview_counts_the_sessions_that_a_reload_concerns() {
    let lists = "\n[flow-table]\non-change = \"keep\"\n[group.inside]\naddresses = [\"10.0.0.0/24\"]\n[acl.leave]\nrules = [\"permit+reflect ip4 from @inside to any\"]\n";
    let config = CONFIG.replace("port = \"null\"", "port = \"null\"\nacl = { out = [\"leave\"] }") + lists;
    let gateway = Gateway::start("preview-sessions", &config);
    wait_for_flows(&gateway, &["show", "flows", "--json"], "sessions");
    assert!(!preview(&gateway, &config).contains("matched again"));
    for (from, to) in [("\"keep\"", "\"recheck\""), ("10.0.0.0/24\"]", "10.0.0.128/25\"]")] {
        let next = config.replace(from, to);
        let shown = preview(&gateway, &next);
        assert!(shown.contains(" sessions of ") && shown.contains(" matched again\n"), "{from}: {shown}");
    }
    gateway.end(Signal::TERM);
}

#[test]
fn a_reload_that_goes_back_logs_the_translations_that_end() {
    let config = translating();
    let gateway = Gateway::start("goes-back", &config);
    wait_for_flows(&gateway, &["show", "nat", "translations", "--json"], "translations");
    gateway.folder.config(&config.replace("as interface", "as 10.0.1.7"));
    // It warns that nobody answers for the address.
    assert!(gateway.folder.output(&["reload", "--confirm", "2s"]).status.success());
    gateway.wait_for(|gateway| gateway.generation() == 3);
    let log = text(&gateway.end(Signal::TERM).stderr);
    let lines: Vec<&str> =
        log.lines().skip_while(|line| !line.contains("was not confirmed and is taken back")).collect();
    assert!(lines.get(1).is_some_and(|line| line.ends_with(" translations ended")), "{log}");
}

#[test]
fn attached_lists_and_groups_are_taken_back_in_words() {
    let group =
        "\n[group.admins]\naddresses = [\"10.0.0.8\"]\n[acl.edge]\nrules = [\"permit ip4 from @admins to any\"]\n";
    let gateway = Gateway::start("words-of-undo", &format!("{CONFIG}{group}"));
    gateway.ok(&["acl", "create", "block"]);
    let denied = "in: attached block; lists now: block; all other packets are denied now\n";
    assert_eq!(gateway.ok(&["acl", "attach", "block", "out", "in"]), format!("interface out, {denied}"));
    let kept = gateway.ok(&["undo", "--list"]);
    assert!(kept.contains("  interface out  in: attached block; lists now: block;"), "{kept}");
    let diff = text(&gateway.folder.output(&["diff"]).stdout);
    assert!(diff.contains("+     acl.in block    (api, "), "{diff}");
    let undone = gateway.ok(&["undo"]);
    let none = "taken back: interface out: in: attached block; lists now: none: all packets pass\n";
    assert!(undone.starts_with(none), "{undone}");
    gateway.ok(&["acl", "attach", "block", "out", "in"]);
    gateway.ok(&["acl", "detach", "block", "out", "in"]);
    let undone = gateway.ok(&["undo"]);
    assert!(undone.starts_with("taken back: interface out: in: detached block; lists now: block\n"), "{undone}");
    // The list decides about all packets.
    gateway.ok(&["undo"]);
    gateway.ok(&["acl", "replace", "block", "--default", "permit", "/dev/null", "--allow-empty"]);
    assert_eq!(
        gateway.ok(&["acl", "attach", "block", "out", "in"]),
        "interface out, in: attached block; lists now: block\n"
    );
    gateway.ok(&["acl", "group", "admins", "10.0.0.8", "10.0.0.9"]);
    let undone = gateway.ok(&["undo"]);
    assert!(undone.starts_with("taken back: group admins: 2 addresses; 1 address now\n"), "{undone}");
    gateway.ok(&["acl", "group", "own", "10.0.0.8", "--kind", "addresses"]);
    let undone = gateway.ok(&["undo"]);
    assert!(undone.starts_with("taken back: group own: 1 address; there is no such group now\n"), "{undone}");
    gateway.end(Signal::TERM);
}

#[test]
fn rules_of_spds_follow_their_groups() {
    let spd = "\n[group.bad]\naddresses = [\"10.9.9.9\"]\n[spd.edge]\nrules = [\"discard ip4 from any to @bad\", \"bypass ip from any to any\"]\n";
    let gateway =
        Gateway::start("spd-groups", &(CONFIG.replacen("name = \"in\"", "name = \"in\"\nspd = \"edge\"", 1) + spd));
    let discarded =
        |gateway: &Gateway| gateway.json(&["show", "spd", "--json"])["spds"][0]["rules"][0]["in"]["packets"].as_u64();
    assert_eq!(discarded(&gateway), Some(0));
    assert_eq!(gateway.ok(&["acl", "group", "bad", "10.0.0.0/24"]), "bad: 1 address; 1 rule names it\n");
    gateway.wait_for(|gateway| discarded(gateway) > Some(0));
    // Another rule of the SPD leaves them.
    gateway.ok(&["spd", "insert", "edge", "bypass ip4 from any to 10.7.0.0/16"]);
    gateway.wait_for_more(|gateway| discarded(gateway).unwrap());
    gateway.end(Signal::TERM);
}

#[test]
fn sessions_and_translations_are_found_by_their_names() {
    let gateway = Gateway::start("names", &translating());
    assert_eq!(gateway.json(&["show", "sessions", "--json"])["schema"], "weir.show.flows/1");
    assert!(gateway.ok(&["clear", "sessions"]).ends_with(" sessions\n"));
    assert!(gateway.ok(&["clear", "translations", "udp"]).ends_with(" translations\n"));
    let refused = gateway.refused(2, &["show", "translations", "udp"]);
    assert!(refused.contains("`weir show nat translations udp`"), "{refused}");
    gateway.end(Signal::TERM);
}

#[test]
fn reloads_all_or_nothing() {
    let gateway = Gateway::start("reloads", CONFIG);
    let first = gateway.generation();

    let more = format!("{CONFIG}\n[[interface]]\nname = \"dmz\"\naddress = \"10.0.2.1/24\"\nport = \"null\"\n");
    gateway.folder.config(&format!("{more}spd = \"edge\"\n[spd.edge]\nrules = [\"discard ip from any to any\"]\n"));
    assert!(gateway.ok(&["reload"]).contains("+ interface dmz\n+ spd edge\n"));
    let unknown = text(&gateway.folder.output(&["show", "spd", "nosuch"]).stderr);
    assert!(unknown.contains("there is no SPD `nosuch`; the SPDs are: edge"), "{unknown}");
    gateway.folder.config(&more);
    let reloaded = gateway.ok(&["reload"]);
    assert!(reloaded.ends_with("\n- spd edge\n~ interface dmz\n"), "{reloaded}");
    let first = first + 1;
    assert_eq!(gateway.generation(), first + 1);

    let path = gateway.folder.config("version = 1\n[[interface]]\nname = \"in\"\nprot = \"null\"\n");
    let check = gateway.folder.output(&["check", path.to_str().unwrap()]);
    let bad = gateway.folder.output(&["reload"]);
    assert_eq!(bad.status.code(), Some(3));
    assert_eq!(text(&bad.stdout), "");
    assert!(text(&bad.stderr).starts_with(&text(&check.stderr)), "{}", text(&bad.stderr));
    let check = gateway.folder.output(&["check", "--json", path.to_str().unwrap()]);
    let bad = gateway.folder.output(&["reload", "--json"]);
    assert_eq!((bad.status.code(), text(&bad.stdout)), (Some(3), text(&check.stdout)));
    assert_eq!(gateway.generation(), first + 1);
    assert!(gateway.ok(&["show", "interfaces"]).contains("dmz"));

    gateway.folder.config(&format!("{CONFIG}\n[buffers]\nsmall = 4096\n"));
    let restart = gateway.folder.output(&["reload"]);
    assert_eq!(restart.status.code(), Some(1));
    assert!(text(&restart.stderr).contains("restart"), "{}", text(&restart.stderr));

    gateway.folder.config(CONFIG);
    gateway.signal(Signal::HUP);
    gateway.wait_for(|gateway| gateway.generation() == first + 2);
    assert!(!gateway.ok(&["show", "interfaces"]).contains("dmz"));
    gateway.folder.config("");
    gateway.signal(Signal::HUP);
    let output = gateway.end(Signal::INT);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_second_gateway_is_refused_and_the_first_not_disturbed() {
    let mut gateway = Gateway::start("second", CONFIG);
    let config = gateway.folder.0.join("weir.toml");
    let second = gateway.folder.output(&["run", config.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    let says = text(&second.stderr);
    assert!(says.contains("another gateway is running on") && says.contains("control.sock"), "{says}");
    assert_eq!(text(&second.stdout), "");
    gateway.ok(&["show", "version"]);
    // Killed without a chance to tidy up: the next one takes its place. Its socket is closed before its lock is.
    let mut killed = gateway.child.take().unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!gateway.folder.output(&["show", "version"]).status.success());
    assert!(gateway.folder.0.join("control.sock").exists());
    let next = gateway.folder.output(&["run", config.to_str().unwrap(), "--duration", "0.2"]);
    assert_eq!(next.status.code(), Some(0), "{}", text(&next.stderr));
}

#[test]
fn ends_when_its_inputs_have_and_every_packet_is_accounted_for() {
    let folder = Folder::new("done");
    let config = folder.config(&CONFIG.replace("rate = 20000", "count = 10000"));
    let output = folder.output(&["run", config.to_str().unwrap(), "--exit-when-done", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((summary["schema"].as_str(), summary["ended"].as_str()), (Some("weir.run/1"), Some("done")));
    let sum = &summary["conservation"];
    assert_eq!((sum["received"].as_u64(), sum["imbalance"].as_i64()), (Some(10_000), Some(0)));
    assert_eq!(sum["transmitted"].as_u64().unwrap() + sum["dropped"].as_u64().unwrap(), 10_000);
}

#[test]
fn the_demonstration_shows_all_that_it_promises() {
    let folder = Folder::new("demo");
    let output = folder.output(&["run", "--demo", "--duration", "1", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["conservation"]["imbalance"], 0);
    let named = |list: &str, key: &str| -> Vec<String> {
        let list = summary[list].as_array().unwrap();
        list.iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
    };
    let nodes = named("nodes", "name");
    for node in
        ["ip4-lookup", "ip6-lookup", "ip4-rewrite", "ip6-rewrite", "ip4-fragment", "icmp-error", "local", "drop"]
    {
        assert!(nodes.iter().any(|name| name == node), "{node} in {nodes:?}");
    }
    let reasons = named("errors", "reason");
    for reason in ["ttl-expired", "blackhole", "unreachable", "no-route", "mtu-exceeded", "no-neighbor"]
        .into_iter()
        .chain(["sav-table", "sav-special", "acl-deny", "acl-reject"])
    {
        assert!(reasons.iter().any(|name| name == reason), "{reason} in {reasons:?}");
    }
    for row in summary["sav"].as_array().unwrap() {
        let packets = |invalid: &Value| invalid["packets"].as_u64().unwrap();
        assert!(row["invalid"].as_array().unwrap().iter().map(packets).sum::<u64>() > 0, "{row}");
    }
    let rules = summary["rules"].as_array().unwrap();
    let actions = [
        ["permit tcp ", "permit udp ", "reject+icmp tcp ", "reject tcp ", "deny udp ", "permit+reflect udp "]
            .as_slice(),
        &["permit", "deny tcp ", "permit icmp ", "permit icmp6 ", "permit tcp ", "deny"],
    ]
    .concat();
    assert_eq!(rules.len(), actions.len(), "{rules:?}");
    for (rule, action) in rules.iter().zip(actions) {
        assert!(rule["rule"].as_str().unwrap().starts_with(action), "{action}: {rule}");
        assert!(rule["packets"].as_u64() > Some(0), "{rule}");
    }
    for default in [&rules[6], &rules[11]] {
        assert!(default["place"].is_null(), "the default comes last: {default}");
    }
    // Queries and their answers count for the rule that opened the sessions. There are as many queries as telnet packets.
    let packets = |rule: &Value| rule["packets"].as_u64().unwrap();
    assert!(packets(&rules[5]) > packets(&rules[3]) + 50, "{rules:?}");
    for error in ["no-buffer", "handover-full", "transmit-full", "transmit-failed", "fragment-failed"] {
        assert!(!reasons.iter().any(|name| name == error), "{error} in {reasons:?}");
    }
}

#[test]
fn an_invalid_configuration_opens_nothing() {
    let folder = Folder::new("invalid");
    let config = folder.config("version = 1\n[[interface]]\n");
    let config = config.to_str().unwrap();
    let output = folder.output(&["run", config]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stderr, folder.output(&["check", config]).stderr);
    let output = folder.output(&["run", "--json", config]);
    assert_eq!((output.status.code(), output.stdout), (Some(3), folder.output(&["check", "--json", config]).stdout));
    assert!(!folder.0.join("control.sock").exists());
}

#[test]
fn a_core_that_cannot_be_used_is_named_with_its_place() {
    let folder = Folder::new("core");
    let lines = CONFIG.lines().count();
    let config = folder.config(&format!("{CONFIG}\n[workers]\ncores = [1023]\n"));
    let output = folder.output(&["run", config.to_str().unwrap()]);
    let says = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}");
    let place = format!("weir.toml:{}: cannot run a worker on core 1023: this process may use cores ", lines + 3);
    assert!(says.contains(&place), "{says}");
    assert!(!folder.0.join("control.sock").exists());
}

#[test]
fn a_named_pipe_that_nobody_reads_or_writes_keeps_nobody_waiting() {
    let folder = Folder::new("pipe");
    let (pipe, rules) = (folder.0.join("pipe.rules"), "[acl.edge]\nfiles = [\"pipe.rules\"]\n");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let path = pipe.to_str().unwrap();
    let output =
        format!("{CONFIG}\n[[interface]]\nname = \"cap\"\nport = {{ pcap = {{ output = \"pipe.rules\" }} }}\n");
    let config = folder.config(&output);
    let start = Instant::now();
    let ran = folder.output(&["run", config.to_str().unwrap()]);
    let says = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{says}");
    assert!(says.contains("pipe.rules: cannot be created: this is a named pipe, and no process reads it"), "{says}");
    let config = folder.config(&format!("{CONFIG}\n{rules}"));
    let config = config.to_str().unwrap();
    let capture = format!("in={path}");
    for (arguments, code) in [
        (&["check", path][..], 3),
        (&["check", config], 3),
        (&["acl", "import", "--format", "vpp", path], 1),
        (&["acl", "replace", "edge", path], 1),
        (&["sav", "import", "edge", path, "--format", "csv"], 1),
        (&["replay", config, "--in", &capture], 3),
    ] {
        let output = folder.output(arguments);
        let says = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {says}");
        assert!(says.contains("this is a named pipe, and no process writes to it"), "{arguments:?}: {says}");
    }
    let config = folder.config(CONFIG);
    let replayed = folder.output(&["replay", config.to_str().unwrap(), "--in", &capture]);
    assert!(text(&replayed.stderr).contains("this is a named pipe, and no process writes to it"));
    assert!(start.elapsed() < Duration::from_secs(120));
}

#[test]
fn a_port_that_cannot_be_opened_is_named_with_its_place() {
    let folder = Folder::new("port");
    let config = folder.config(
        "version = 1\n\n[[interface]]\nname = \"in\"\naddress = \"10.0.0.1/24\"\nport = { pcap = { input = \"absent.pcap\" } }\n",
    );
    let output = folder.output(&["run", config.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let says = text(&output.stderr);
    assert!(says.contains("weir.toml:4: interface in: ") && says.contains("absent.pcap"), "{says}");
    assert!(!folder.0.join("control.sock").exists());
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let folder = Folder::new("man");
    let pages = folder.0.join("man");
    fs::create_dir(&pages).unwrap();
    let output = folder.output(&["man", "--dir", pages.to_str().unwrap()]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    for page in ["weir.1", "weir-run.1", "weir-show.1", "weir-show-runtime.1", "weir-trace-add.1", "weir-check.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    let main = text(&folder.output(&["man"]).stdout);
    assert!(main.contains(".TH weir 1"), "{main}");
    fs::set_permissions(&pages, Permissions::from_mode(0o500)).unwrap();
    let absent = folder.output(&["man", "--dir", Path::new("/nonexistent").to_str().unwrap()]);
    assert_eq!(absent.status.code(), Some(1));
}

/// Hosts 10.0.0.10 to 10.0.0.20 send; the first six are known.
fn validating() -> String {
    let policy = r#"
[sav.edge]
mechanism = "table"
hits = true
rules = ["permit from 10.0.0.0/28 on in"]

[sav.back]
mechanism = "urpf-loose"
"#;
    let named =
        |name: &str, policy: &str| (format!("name = \"{name}\"\n"), format!("name = \"{name}\"\nsav = \"{policy}\"\n"));
    let (in_, of_in) = named("in", "edge");
    let (out, of_out) = named("out", "back");
    CONFIG.replacen(&in_, &of_in, 1).replacen(&out, &of_out, 1) + policy
}

impl Gateway {
    /// Returns the IPv4 counts of `in`: packets that were validated, and invalid packets.
    fn validated(&self) -> (u64, u64) {
        let json = self.json(&["show", "sav", "--json"]);
        let row = &json["interfaces"][0];
        assert_eq!((row["interface"].as_str(), row["family"].as_str()), (Some("in"), Some("ipv4")));
        let invalid = row["invalid"].as_array().unwrap().iter().map(|by| by["packets"].as_u64().unwrap()).sum();
        (row["checked"].as_u64().unwrap(), invalid)
    }

    /// Whether packets that are not valid come in from now on.
    fn finds_invalid(&self) -> bool {
        self.wait_for_more(|gateway| gateway.validated().0);
        self.ok(&["clear", "interfaces"]);
        self.wait_for(|gateway| gateway.validated().0 > 1000);
        self.validated().1 > 0
    }

    /// The entries of `edge`, as text without the times.
    fn entries(&self) -> Vec<String> {
        let json = self.json(&["show", "sav", "edge", "--json"]);
        assert_eq!(json["schema"], "weir.show.sav-entries/1");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let entry = |entry: &Value| {
            let interfaces: Vec<String> = entry["interfaces"].as_array().unwrap().iter().map(text).collect();
            assert_eq!(entry["time"].is_null(), entry["source"] == "file", "{entry}");
            format!("{} {} {}", text(&entry["prefix"]), interfaces.join(","), text(&entry["source"]))
        };
        json["entries"].as_array().unwrap().iter().map(entry).collect()
    }

    /// Returns the message on standard error of a command that ends with this code; standard output stays empty.
    fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.folder.output(arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(code), String::new()), "{arguments:?}");
        text(&output.stderr)
    }
}

#[test]
fn sources_are_validated_and_entries_change_while_packets_flow() {
    let gateway = Gateway::start("sav", &validating());
    assert!(gateway.finds_invalid());
    assert_eq!(gateway.entries(), ["10.0.0.0/28 in file"]);
    assert!(gateway.ok(&["show", "errors"]).contains(" sav-table "));
    let counted = |gateway: &Gateway| gateway.json(&["show", "sav", "edge", "--json"])["entries"][0]["hits"].as_u64();
    assert!(counted(&gateway).unwrap() > 0);

    // The hosts that were not known.
    let added = gateway.ok(&["sav", "add", "edge", "permit from 10.0.0.16/28 on in"]);
    assert_eq!(added, "edge: added 1, replaced 0, deleted 0; api has 1 now\n");
    assert!(!gateway.finds_invalid());
    let again = gateway.refused(1, &["sav", "add", "edge", "permit", "from", "10.0.0.16/28", "on", "in"]);
    assert!(again.contains("change 1: 10.0.0.16/28: there is an entry of this source already"), "{again}");
    let replaced = gateway.json(&["sav", "replace", "edge", "permit from 10.0.0.16/28 on out", "--json"]);
    assert_eq!((replaced["schema"].as_str(), replaced["replaced"].as_u64()), (Some("weir.sav.changed/1"), Some(1)));
    assert!(gateway.finds_invalid());

    // A batch with something wrong in it changes nothing.
    let good = "permit from 10.9.0.0/16 on in";
    let wrong = gateway.refused(3, &["sav", "add", "edge", good, "permit from 10.8.0.0/16 on ind"]);
    assert_eq!(
        wrong,
        "error: change 2, column 28: there is no interface `ind` (did you mean `in`?)\nnothing was changed\n"
    );
    let absent = gateway.refused(1, &["sav", "delete", "edge", "10.0.0.16/28", "10.7.0.0/16"]);
    assert!(absent.contains("change 2: 10.7.0.0/16: there is no entry of this source"), "{absent}");
    assert_eq!(gateway.entries(), ["10.0.0.0/28 in file", "10.0.0.16/28 out api"]);

    // Another source: the entries of a prefix add up, and each source has its own.
    let file = gateway.folder.0.join("customers.csv");
    let import = ["sav", "import", "edge", file.to_str().unwrap()];
    fs::write(&file, "prefix,interfaces\n10.0.0.16/28,in\n2001:db8::/32,in out\n").unwrap();
    assert_eq!(gateway.ok(&import), "edge: added 2, replaced 0, deleted 0; customers.csv has 2 now\n");
    assert!(!gateway.finds_invalid());
    fs::write(&file, "prefix,interfaces\n10.1.0.0/16,in\n10.0.0.300/28,in\n").unwrap();
    let bad = gateway.refused(3, &import);
    assert!(bad.starts_with(&format!("error: {}: line 3, column 1: ", file.display())), "{bad}");
    assert!(bad.ends_with("nothing was changed\n"), "{bad}");
    let others = gateway.refused(1, &["sav", "delete", "edge", "2001:db8::/32"]);
    assert!(others.contains("is an entry of the source `customers.csv`: name that source to delete it"), "{others}");
    let all = [
        "10.0.0.0/28 in file",
        "10.0.0.16/28 out api",
        "10.0.0.16/28 in customers.csv",
        "2001:db8::/32 in,out customers.csv",
    ];
    assert_eq!(gateway.entries(), all);
    let some = gateway.ok(&["show", "sav", "edge", "--prefix", "10.0.0.17", "--limit", "1"]);
    assert!(some.contains("10.0.0.16/28") && some.ends_with("1 of 2 entries\n"), "{some}");

    // They outlive reloads, of other rules, too.
    let first = gateway.generation();
    gateway.folder.config(&validating().replace("10.0.0.0/28 on in", "10.0.0.0/29 on in"));
    gateway.ok(&["reload"]);
    assert_eq!(gateway.generation(), first + 1);
    assert_eq!(gateway.entries()[0], "10.0.0.0/29 in file");
    assert_eq!(gateway.entries()[1..], all[1..]);
    assert!(gateway.finds_invalid(), "10.0.0.10 is no longer known");
    gateway.ok(&["sav", "add", "edge", "permit from 10.0.0.8/29 on in", "--source", "noc"]);
    assert!(!gateway.finds_invalid());

    gateway.ok(&["sav", "delete", "edge", "10.0.0.16/28"]);
    let cleared = gateway.ok(&["sav", "clear", "edge", "--source", "customers.csv"]);
    assert_eq!(cleared, "edge: added 0, replaced 0, deleted 2; customers.csv has 0 now\n");
    let json = gateway.json(&["show", "sav", "--json"]);
    let sources = json["policies"].as_array().unwrap().iter().find(|policy| policy["name"] == "edge").unwrap();
    assert_eq!(sources["sources"], serde_json::json!([{"source":"file","entries":1},{"source":"noc","entries":1}]));
    assert!(gateway.finds_invalid());

    assert!(gateway.refused(1, &["sav", "add", "egde", good]).contains("did you mean `edge`?"));
    assert!(gateway.refused(1, &["sav", "add", "back", good]).contains("its mechanism is `urpf-loose`"));
    assert!(gateway.refused(1, &["show", "sav", "back"]).contains("has no entries"));
    assert!(gateway.refused(2, &["sav", "add", "edge", good, "--source", "file"]).contains("the configuration's own"));
    assert!(gateway.refused(2, &["sav", "import", "edge", "x"]).contains("name it with --format"));

    let output = gateway.end(Signal::TERM);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("every packet is accounted for\n"), "{}", text(&output.stdout));
}

/// Hosts 10.0.0.10 to 10.0.0.20 send to 192.0.2.1 and on, from any port.
fn filtering() -> String {
    let lists = r#"
[acl.edge-in]
default = "permit"
rules = ["deny udp from any to 192.0.2.200-192.0.2.250 comment \"none of these\""]

[acl.spare]
rules = ["deny ip from any to any"]

[group.hosts]
addresses = ["10.0.0.10"]

[group.sources]
addresses = ["@hosts"]
"#;
    let of = "name = \"in\"\n";
    CONFIG.replacen(of, &format!("{of}acl = {{ in = [\"edge-in\"] }}\n"), 1) + lists
}

impl Gateway {
    /// The rules of a list: their ids, and themselves.
    fn rules(&self, list: &str) -> Vec<(String, String)> {
        let json = self.json(&["show", "acl", list, "--json"]);
        assert_eq!(json["schema"], "weir.show.acl-rules/1");
        let rule = |rule: &Value| (rule["id"].to_string(), rule["rule"].as_str().unwrap().to_owned());
        json["rules"].as_array().unwrap().iter().map(rule).collect()
    }

    /// Whether rules with this text match packets from now on.
    fn matches(&self, text: &str) -> bool {
        let counted = |gateway: &Gateway| {
            let json = gateway.json(&["show", "acl", "edge-in", "--json"]);
            let rules = json["rules"].as_array().unwrap();
            let of = |rule: &Value| rule["packets"].as_u64().unwrap();
            let all: u64 = rules.iter().map(of).sum::<u64>() + json["unmatched"]["packets"].as_u64().unwrap();
            let own: u64 = rules.iter().filter(|rule| rule["rule"] == text).map(of).sum();
            (all, own)
        };
        self.wait_for_more(|gateway| counted(gateway).0);
        self.ok(&["clear", "acl"]);
        self.wait_for(|gateway| counted(gateway).0 > 1000);
        counted(self).1 > 0
    }
}

#[test]
fn counters_of_other_lists_are_shown_and_cleared() {
    let named = "name = \"in\"\n";
    let of = "allow = \"hosts\"\nmac-ip = \"stations\"\nethertypes = { in = [\"ipv4\", \"arp\"] }\n";
    let lists = r#"
[allowlist.hosts]
prefixes = ["10.0.0.10/31"]

[mac-ip.stations]
rules = ["permit any from 10.0.0.0/24"]
"#;
    let kept_in = "name = \"out\"\n";
    let keeps_in = "ethertypes = { out = [\"0x86dd\"] }\n";
    let config = CONFIG.replacen(named, &format!("{named}{of}"), 1) + lists;
    let config = config.replacen(kept_in, &format!("{kept_in}{keeps_in}"), 1);
    let gateway = Gateway::start("lists", &config);
    let counts = |gateway: &Gateway| {
        let lists = gateway.json(&["show", "allowlists", "--json"]);
        let bindings = gateway.json(&["show", "bindings", "--json"]);
        let ethertypes = gateway.json(&["show", "ethertypes", "--json"]);
        let rows = ethertypes["lists"].as_array().unwrap();
        let out = rows.iter().find(|row| row["interface"] == "out" && row["direction"] == "out").unwrap();
        assert_eq!(out["ethertypes"][0], "ipv6");
        [&lists["lists"][0]["refused"], &bindings["bindings"][0]["rules"][0]["packets"], &out["refused"]]
            .map(|count| count.as_u64().unwrap())
    };
    let shown = gateway.ok(&["show", "ethertypes"]);
    assert!(shown.contains("weir.toml:") && shown.contains("ipv4,arp"), "{shown}");
    for (place, what) in ["allowlists", "bindings", "ethertypes"].into_iter().enumerate() {
        gateway.clears(&["clear", what], |gateway| counts(gateway)[place]);
    }
    let output = gateway.end(Signal::TERM);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_full_session_table_is_logged() {
    let named = "name = \"in\"\n";
    let list = "[acl.open]\nrules = [\"permit+reflect udp from any to any\"]\n[flow-table]\nsessions = 1\n";
    let config = CONFIG.replacen(named, &format!("{named}acl = {{ in = \"open\" }}\n"), 1) + list;
    let gateway = Gateway::start("full", &config);
    gateway.wait_for(|gateway| gateway.ok(&["show", "errors"]).contains(" session-limit "));
    // The gateway looks once a second.
    std::thread::sleep(Duration::from_secs(3));
    let output = gateway.end(Signal::TERM);
    let log = text(&output.stderr);
    assert_eq!(log.matches("the session table is full: ").count(), 1, "{log}");
    assert!(log.contains("for new sessions dropped (session-limit)"), "{log}");
}

#[test]
fn access_lists_change_while_packets_flow() {
    let gateway = Gateway::start("acl", &filtering());
    let none = "deny udp from any to 192.0.2.200-192.0.2.250 comment \"none of these\"";
    assert!(gateway.matches(none));
    assert!(gateway.ok(&["show", "errors"]).contains(" acl-deny "));
    assert!(gateway.ok(&["show", "interfaces"]).contains("access lists on in: in edge-in\n"));
    assert_eq!(gateway.ok(&["acl", "list", "edge-in"]), format!("{none}\n"));
    let lists = gateway.ok(&["show", "acl"]);
    assert!(lists.contains("edge-in") && lists.contains("spare") && lists.contains("hosts"), "{lists}");

    // Before all others, by its place; then between, by ids; then out again.
    let one = "deny ip from 10.0.0.10 to any";
    let done = gateway.ok(&["acl", "insert", "edge-in", one, "--at", "1"]);
    assert!(done.starts_with("edge-in: inserted 1 (id ") && done.ends_with("), deleted 0; 2 rules now\n"), "{done}");
    assert!(gateway.matches(one));
    let rules = gateway.rules("edge-in");
    let two = "permit ip from @sources to any";
    gateway.ok(&["acl", "insert", "edge-in", "permit", "ip", "from", "@sources", "to", "any", "--before", &rules[0].0]);
    assert!(gateway.matches(two) && !gateway.matches(one));
    // The rule names a group that this one is in.
    assert_eq!(gateway.ok(&["acl", "group", "hosts", "10.0.0.99"]), "hosts: 1 address; 1 rule names it\n");
    assert!(!gateway.matches(two) && gateway.matches(one));
    let texts =
        |gateway: &Gateway| -> Vec<String> { gateway.rules("edge-in").into_iter().map(|rule| rule.1).collect() };
    assert_eq!(texts(&gateway), [two, one, none]);
    // As the file says again, and then one that came goes.
    assert_eq!(
        gateway.ok(&["acl", "group", "hosts", "--remove"]),
        "hosts: 1 address, as configured; 1 rule names it\n"
    );
    assert!(gateway.matches(two) && !gateway.matches(one));
    assert!(gateway.refused(1, &["acl", "group", "hosts", "--remove"]).contains("remove it there"));
    gateway.ok(&["acl", "group", "new", "--kind", "addresses", "10.0.0.12"]);
    gateway.ok(&["acl", "insert", "edge-in", "deny ip from @new to any"]);
    let id = &gateway.rules("edge-in")[3].0;
    let named = gateway.refused(1, &["acl", "group", "new", "--remove"]);
    assert_eq!(named, format!("error: cannot remove group `new`: access list `edge-in` (rule {id}) uses it\n"));
    gateway.ok(&["acl", "delete", "edge-in", id]);
    let json = gateway.json(&["acl", "group", "new", "--remove", "--json"]);
    assert_eq!((&json["schema"], &json["restored"]), (&"weir.acl.regrouped/1".into(), &"removed".into()));
    assert!(gateway.refused(1, &["acl", "group", "new", "--remove"]).contains("there is no group `new`"));
    assert!(!gateway.ok(&["show", "acl"]).contains("new"));
    let changed = "deny ip from 10.0.0.11 to any";
    gateway.ok(&["acl", "change", "edge-in", &rules[0].0, changed]);
    assert_eq!(texts(&gateway), [two, changed, none]);
    gateway.ok(&["acl", "delete", "edge-in", "--at", "1", "2"]);
    assert_eq!(texts(&gateway), [none]);

    // A batch with something wrong in it changes nothing.
    let wrong = gateway.refused(3, &["acl", "insert", "edge-in", one, "deny ip from any to @hsots"]);
    assert!(wrong.starts_with("error: change 1, line 2, column 21: there is no group `hsots`"), "{wrong}");
    assert!(wrong.ends_with("nothing was changed\n"), "{wrong}");
    let absent = gateway.refused(1, &["acl", "delete", "edge-in", "4000000"]);
    assert!(absent.contains("nothing was changed"), "{absent}");
    assert!(gateway.refused(1, &["acl", "insert", "egde-in", one]).contains("did you mean `edge-in`?"));
    assert!(
        gateway.refused(3, &["acl", "insert", "edge-in", "deny ip from any to any log"]).contains("has no sampler")
    );
    assert_eq!(texts(&gateway), [none]);

    // Whole lists.
    let file = gateway.folder.0.join("edge.rules");
    fs::write(&file, format!("# All of it\n{none}\n{one}\n")).unwrap();
    let path = file.to_str().unwrap();
    gateway.ok(&["acl", "replace", "edge-in", path, "--default", "deny"]);
    assert_eq!(texts(&gateway), [none, one]);
    let json = gateway.json(&["show", "acl", "edge-in", "--json"]);
    assert_eq!((&json["default"], &json["rules"][1]["source"]), (&"deny".into(), &"edge.rules".into()));
    fs::write(&file, format!("{none}\ndeny all\n")).unwrap();
    let bad = gateway.refused(3, &["acl", "replace", "edge-in", path]);
    assert!(bad.starts_with(&format!("error: {path}: line 2, column 6: ")), "{bad}");
    // The same in another order.
    fs::write(&file, format!("{one}\n{none}\n")).unwrap();
    let moved = gateway.ok(&["acl", "replace", "edge-in", path]);
    assert_eq!(moved, "edge-in: inserted 0, deleted 0, moved 1; 2 rules now\n");
    assert_eq!(texts(&gateway), [one, none]);
    fs::write(&file, format!("{none}\n{one}\n")).unwrap();
    assert_eq!(gateway.json(&["acl", "replace", "edge-in", path, "--json"])["moved"], 1);
    // Nothing that could be a mistake empties a list: neither a file, nor a request to the control socket.
    fs::write(&file, "# nothing\n").unwrap();
    let lost = "access list `edge-in` would lose all its 2 rules";
    for file in ["/dev/null", path] {
        let empty = gateway.refused(1, &["acl", "replace", "edge-in", file]);
        assert!(empty.contains(lost) && empty.contains("--allow-empty"), "{empty}");
    }
    assert!(gateway.refused(1, &["acl", "replace", "nosuch", "/dev/null"]).contains("there is no access list"));
    let put = |query: &str| {
        let mut socket = UnixStream::connect(gateway.folder.0.join("control.sock")).unwrap();
        let head = "Host: weir\r\nConnection: close\r\nContent-Length: 0";
        write!(socket, "PUT /v1/acl/edge-in{query} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        serde_json::from_str::<Value>(answer.lines().last().unwrap()).expect("JSON")
    };
    let refused = put("?expect=existing");
    assert_eq!((&refused["schema"], &refused["kind"]), (&"weir.error/1".into(), &"conflict".into()));
    assert!(refused["message"].as_str().unwrap().contains(lost), "{refused}");
    assert_eq!(texts(&gateway), [none, one]);
    assert_eq!(
        gateway.ok(&["acl", "replace", "edge-in", "/dev/null", "--allow-empty"]),
        "edge-in: inserted 0, deleted 2; 0 rules now\n"
    );
    fs::write(&file, format!("{none}\n{one}\n")).unwrap();
    gateway.ok(&["acl", "replace", "edge-in", path]);
    fs::write(&file, b"deny ip from any to any\n# caf\xe9\n").unwrap();
    let coded = gateway.refused(1, &["acl", "replace", "edge-in", path]);
    assert!(coded.contains("line 2, column 6: the file is not UTF-8 from here on"), "{coded}");
    fs::write(&file, format!("{one}\n")).unwrap();
    assert!(
        gateway.ok(&["acl", "create", "new", path]).starts_with("new is new, and no interface uses it: inserted 1 ")
    );
    assert!(gateway.refused(1, &["acl", "create", "new"]).contains("there is an access list"));
    assert_eq!(gateway.ok(&["acl", "remove", "new"]), "");
    assert!(gateway.refused(1, &["acl", "remove", "edge-in"]).contains("interface in uses it"));
    assert!(gateway.refused(1, &["acl", "replace", "new", path]).contains("there is no access list"));
    let rates = gateway.json(&["show", "acl", "edge-in", "--rates", "0.2", "--json"]);
    assert!(rates["interval"].as_f64().unwrap() >= 0.2 && rates["rules"][0]["rate"]["packets"].is_number(), "{rates}");

    // Edits stay while the list is declared as it was. Where the anchor of a rule that denies is gone, the reload fails.
    gateway.folder.config(&format!("{}\n# Nothing else\n", filtering()));
    // Unused objects cause a warning.
    let reload = |gateway: &Gateway| text(&gateway.folder.output(&["reload"]).stdout);
    let same = reload(&gateway);
    assert!(same.starts_with("generation ") && !same.contains("! acl"), "{same}");
    assert_eq!(texts(&gateway), [none, one]);
    gateway.folder.config(&filtering().replace("192.0.2.250 comment", "192.0.2.249 comment"));
    let refused = gateway.refused(3, &["reload"]);
    let anchor = none.split(" comment").next().unwrap();
    assert!(refused.contains("is gone: the file no longer has its anchor `"), "{refused}");
    assert!(refused.contains(anchor) && refused.contains(&format!("`: `{one}`\n")), "{refused}");
    assert!(refused.ends_with("or end them with `weir reload --drop-changes`\n"), "{refused}");
    assert_eq!(texts(&gateway), [none, one]);
    let dropped = text(&gateway.folder.output(&["reload", "--drop-changes"]).stdout);
    assert!(dropped.contains("! acl edge-in: rule "), "{dropped}");
    assert_eq!(texts(&gateway), [none.replace("250", "249")]);

    let output = gateway.end(Signal::TERM);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("every packet is accounted for\n"), "{}", text(&output.stdout));
}

/// Returns the words of a trace about the rule that dropped a packet for this reason.
fn traced(gateway: &Gateway, reason: &str) -> String {
    let of = |gateway: &Gateway| {
        let json = gateway.json(&["show", "trace", "--json"]);
        let steps: Vec<Value> = json["packets"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|packet| packet["steps"].as_array().unwrap().clone())
            .collect();
        steps
            .into_iter()
            .find(|step| step["note"] == reason)
            .map(|step| step["by"].as_str().unwrap_or_default().to_owned())
    };
    gateway.ok(&["clear", "trace"]);
    gateway.wait_for(|gateway| {
        let found = of(gateway).is_some();
        if !found {
            gateway.ok(&["clear", "trace"]);
            gateway.ok(&["trace", "add", "drop", "1000"]);
        }
        found
    });
    let text = gateway.ok(&["show", "trace"]);
    let by = of(gateway).unwrap();
    assert!(by.is_empty() || text.contains(&format!("{by}\n")), "{text}");
    by
}

#[test]
fn traces_name_the_rule_that_drops_a_packet() {
    let of = "name = \"in\"\n";
    let lists = "\n[allowlist.few]\nprefixes = [\"10.0.0.8/29\"]\n\n[mac-ip.stations]\nrules = [\"permit any from 10.0.0.0/24\"]\n";
    let with = "name = \"in\"\nallow = \"few\"\nmac-ip = \"stations\"\n";
    let config = filtering().replacen(of, with, 1) + lists;
    let gateway = Gateway::start("traced", &config);
    let line = |text: &str| config.lines().position(|line| line.contains(text)).unwrap() + 1;
    let file = gateway.folder.0.join("weir.toml");
    let place = |text: &str| format!("{}:{}", file.display(), line(text));
    let none = "deny udp from any to 192.0.2.200-192.0.2.250 comment \"none of these\"";
    assert_eq!(traced(&gateway, "acl-deny"), format!("edge-in, {}: {none}", place("none of these")));
    assert_eq!(
        traced(&gateway, "not-allowed"),
        format!("few, {}: it does not contain the source", place("allowlist.few"))
    );
    // A rule that came while the gateway runs has no place; one that is gone is no other.
    gateway.ok(&["acl", "insert", "edge-in", "deny ip from 10.0.0.10-10.0.0.14 to any", "--at", "1"]);
    gateway.ok(&["acl", "delete", "edge-in", "--at", "2"]);
    assert_eq!(traced(&gateway, "acl-deny"), "edge-in, api: deny ip from 10.0.0.10-10.0.0.14 to any");
    gateway.ok(&["acl", "delete", "edge-in", "--at", "1"]);
    assert!(gateway.ok(&["show", "trace"]).contains("the deciding rule, list, table or SA is gone, or changed since"));
    let output = gateway.end(Signal::TERM);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_vrf_that_is_not_there_is_an_error() {
    let gateway = Gateway::start("vrf", CONFIG);
    assert!(gateway.ok(&["show", "routes", "--vrf", "default"]).contains("192.0.2.0/25"));
    let error = gateway.refused(1, &["show", "routes", "--vrf", "nosuch"]);
    assert_eq!(error, "error: there is no VRF with the name `nosuch`; there is default\n");
    assert!(gateway.refused(1, &["show", "routes", "--vrf", "defalt"]).contains("did you mean `default`?"));
    gateway.end(Signal::TERM);
}

#[test]
fn live_edits_apply_to_a_changed_file() {
    let list = |rules: &str| format!("{}\n[acl.more]\nrules = [{rules}]\n", filtering());
    let (a, b) = ("\"permit tcp from any to any port 22\"", "\"permit tcp from any to any port 80\"");
    let gateway = Gateway::start("edits", &list(&format!("{a}, {b}")));
    let texts = |list: &str| -> Vec<String> { gateway.rules(list).into_iter().map(|rule| rule.1).collect() };
    let (deny, a_text, b_text) = ("deny udp from any to any", a.trim_matches('"'), b.trim_matches('"'));
    gateway.ok(&["acl", "insert", "more", deny, "--at", "2", "--source", "noc"]);
    gateway.ok(&["acl", "delete", "more", "--at", "1"]);
    let id = gateway.rules("more")[0].0.clone();
    let changes = gateway.json(&["show", "changes", "--json"]);
    assert_eq!(changes["schema"], "weir.show.changes/1");
    let edit = |index: usize, key: &str| changes["edits"][index][key].clone();
    assert_eq!((edit(0, "edit"), edit(0, "of"), edit(0, "what")), ("added".into(), "acl more".into(), deny.into()));
    assert_eq!((edit(0, "source"), edit(0, "place")), ("noc".into(), format!("before {b_text}").into()));
    assert_eq!((edit(1, "edit"), edit(1, "what")), ("removed".into(), a_text.into()));

    // The file has rules more, and others stand elsewhere: the deny stays in front of its anchor, and the removal is kept.
    let new = "\"permit icmp from any to any\"";
    gateway.folder.config(&list(&format!("{new}, {a}, {new}, {b}")));
    gateway.folder.output(&["reload"]);
    assert_eq!(texts("more"), [new.trim_matches('"'), new.trim_matches('"'), deny, b_text]);
    assert_eq!(gateway.rules("more")[2].0, id, "it is the same rule");
    // A permit in front of the deny would let packets pass: refused.
    gateway.folder.config(&list(&format!("{b}, {a}")));
    gateway.folder.output(&["reload"]);
    assert_eq!(texts("more"), [deny, b_text], "its anchor is before the file's first rule");
    // What runs is written to the file: no edit is left.
    let saved: Vec<String> = texts("more").iter().map(|text| format!("\"{text}\"")).collect();
    gateway.folder.config(&list(&saved.join(", ")));
    gateway.folder.output(&["reload"]);
    assert_eq!((texts("more").len(), gateway.ok(&["show", "changes"])), (2, "no live edits\n".to_owned()));
    assert_eq!(gateway.rules("more")[0].0, id);

    // A live list at an interface.
    gateway.ok(&["acl", "create", "block"]);
    gateway.ok(&["acl", "insert", "block", "deny ip from 10.0.0.0/8 to any"]);
    assert_eq!(
        gateway.ok(&["acl", "attach", "block", "in", "in", "--before", "edge-in"]),
        "interface in, in: attached block; lists now: block, edge-in\n"
    );
    assert!(gateway.ok(&["show", "interfaces"]).contains("access lists on in: in block, edge-in\n"));
    assert!(gateway.refused(1, &["acl", "attach", "block", "in", "in"]).contains("has the list `block` already"));
    assert!(gateway.refused(1, &["acl", "attach", "blcok", "in", "in"]).contains("did you mean `block`?"));
    assert!(gateway.refused(1, &["acl", "remove", "block"]).contains("interface in uses it"));
    gateway.wait_for(|gateway| {
        let rules = gateway.json(&["show", "acl", "block", "--json"]);
        rules["rules"][0]["packets"].as_u64().is_some_and(|packets| packets > 0)
    });
    gateway.folder.output(&["reload"]);
    let changes = gateway.ok(&["show", "changes"]);
    assert!(changes.contains("attached") && changes.contains("before edge-in"), "{changes}");
    // Without the list beside which it stands, the reload fails.
    let bare = list(&saved.join(", ")).replacen("acl = { in = [\"edge-in\"] }", "", 1);
    gateway.folder.config(&bare);
    let refused = gateway.refused(3, &["reload"]);
    assert!(refused.contains("! interface in, in: list `block` is no longer attached"), "{refused}");
    assert!(!gateway.ok(&["acl", "detach", "block", "in", "in"]).contains("block, edge-in"));
    assert_eq!(gateway.ok(&["acl", "remove", "block"]), "");
    assert_eq!(gateway.end(Signal::TERM).status.code(), Some(0));
}

#[test]
fn a_reload_ends_only_the_rules_that_name_what_is_gone() {
    let more = "\n[[interface]]\nname = \"more\"\naddress = \"10.0.2.1/24\"\nport = \"null\"\n";
    let limits = "\n[limits]\nacl-rules = 6\n";
    let gateway = Gateway::start("gone", &(filtering() + more + limits));
    let texts =
        |gateway: &Gateway| -> Vec<String> { gateway.rules("edge-in").into_iter().map(|rule| rule.1).collect() };
    let (stays, narrows, goes) = (
        "deny ip from 10.0.0.10 to any",
        "deny ip from 10.0.0.11 to any received-on in, more",
        "deny ip from 10.0.0.12 to any received-on more",
    );
    gateway.ok(&["acl", "group", "others", "--kind", "interfaces", "in", "more"]);
    gateway.ok(&["acl", "insert", "edge-in", stays, narrows, goes, "--at", "1"]);
    let rules = gateway.rules("edge-in");

    // The interface goes. What names it goes with it, and nothing else.
    gateway.folder.config(&(filtering() + limits));
    let refused = gateway.refused(3, &["reload"]);
    let lines: Vec<&str> = refused.lines().filter(|line| line.starts_with("! acl edge-in: rule ")).collect();
    assert_eq!((lines.len(), gateway.rules("edge-in").len()), (2, 4), "{refused}");
    let printed = text(&gateway.folder.output(&["reload", "--drop-changes"]).stdout);
    let lines: Vec<&str> = printed.lines().filter(|line| line.starts_with('!')).collect();
    let narrowed =
        format!("! acl edge-in: rule {} has lost interface more and goes on with the others: `{narrows}`", rules[1].0);
    let gone = format!("! acl edge-in: rule {} is gone: none of its interfaces exists: `{goes}`", rules[2].0);
    let group = "! group others: has lost interface more and goes on with the others";
    assert_eq!(lines, [group, &narrowed, &gone], "{printed}");
    let now = gateway.rules("edge-in");
    assert_eq!((&now[0], &now[1].0, &now[2]), (&rules[0], &rules[1].0, &rules[3]));
    assert_eq!((texts(&gateway).len(), &*now[1].1), (3, "deny ip from 10.0.0.11 to any received-on in"));
    assert!(gateway.matches(&now[1].1), "it decides as before");
    assert!(!text(&gateway.folder.output(&["reload"]).stdout).contains('!'), "once");

    // Four rules are in force, and the file has three more: the first rule without room is reported with its line.
    let full = filtering().replace("\"deny ip from any to any\"", "\"deny tcp from any to any\",\n\"deny udp from any to any\",\n\"deny icmp from any to any\",\n\"deny ip from any to any\"");
    let full = full + limits;
    let path = gateway.folder.config(&full);
    let line = full.lines().position(|line| line == "\"deny ip from any to any\"]").unwrap() + 1;
    let refused = gateway.refused(1, &["reload"]);
    let place = format!("{}:{line}: acl spare: 7 rules are more than the 6", path.display());
    assert!(refused.contains(&place), "{refused}");
    assert_eq!(gateway.rules("spare").len(), 1, "the old one goes on");
    let output = gateway.end(Signal::TERM);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
