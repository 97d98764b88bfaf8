//! The privileges: all of root's at the start, two capabilities from then on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;

use crate::kit::{Folder, Gateway, QUIET, Space, is_root, text};

/// A user that the system does not know.
const USER: u32 = 48_123;
const GROUP: u32 = 48_124;

/// CAP_NET_ADMIN and CAP_NET_RAW, as /proc has it.
const KEPT: &str = "0000000000003000";
const NONE: &str = "0000000000000000";

/// Returns the user and the capabilities of every thread of a process.
fn threads(pid: u32) -> Vec<BTreeMap<String, String>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // A thread that has ended since has no status any more.
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok());
    let fields = |status: String| {
        let pairs = status.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(name, value)| (name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" "))).collect()
    };
    statuses.map(fields).collect()
}

/// Checks that every thread is this user only, has the two capabilities, and cannot get more of them in any way.
#[track_caller]
fn holds_two_capabilities(pid: u32, user: u32, group: u32, groups: &str, bounding: &str) {
    let threads = threads(pid);
    assert!(threads.len() >= 3, "main thread, worker, keeper: {}", threads.len());
    for thread in threads {
        let all_four = |number: u32| format!("{number} {number} {number} {number}");
        let want = [
            ("Uid", all_four(user)),
            ("Gid", all_four(group)),
            ("Groups", groups.to_owned()),
            ("CapEff", KEPT.to_owned()),
            ("CapPrm", KEPT.to_owned()),
            ("CapInh", NONE.to_owned()),
            ("CapAmb", NONE.to_owned()),
            ("CapBnd", bounding.to_owned()),
            ("NoNewPrivs", "1".to_owned()),
        ];
        for (name, value) in want {
            assert_eq!(thread[name], value, "{name} of {}", thread["Name"]);
        }
    }
}

/// The command of a shell before it becomes its arguments: it opens /dev/net/tun to every user, as udev does. Mounts
/// end with the mount namespace.
const OPEN_TUN: &str =
    "mount -t tmpfs none /mnt && mknod -m 666 /mnt/tun c 10 200 && mount --bind /mnt/tun /dev/net/tun && exec \"$@\"";

/// A command that runs `weir run` in a namespace by way of `setpriv`.
fn by_setpriv(folder: &Folder, space: &Space, arguments: &[&str]) -> std::process::Command {
    let prefix = space.prefix();
    let mut command = folder.command(prefix[0]);
    command.args(&prefix[1..]).args(["sh", "-c", OPEN_TUN, "sh", "setpriv"]).args(arguments);
    command.arg(folder.program()).args(["run", "weir.toml"]);
    command
}

#[test]
fn root_becomes_another_user_and_opens_ports_still() {
    if !is_root() {
        return;
    }
    let (gate, peer, folder) = (Space::new(), Space::new(), Folder::new());
    gate.link("one", &peer, "e1");
    gate.link("two", &peer, "e2");
    for (device, address) in [("e1", "10.91.0.2/24"), ("e2", "10.92.0.2/24")] {
        peer.ip(&format!("address add {address} dev {device}"));
    }
    let before = format!(
        "version = 1
[service]
user = '{USER}'
group = '{GROUP}'
[workers]
count = 2
[[interface]]
name = 'one'
address = '10.91.0.1/24'
port = {{ af-packet = 'one' }}
punt = 'host'
"
    );
    folder.config(&before);
    chown(folder.path(""), Some(USER), Some(GROUP)).unwrap();
    // There are groups to leave, and capabilities that would outlive the change of user.
    let given = ["--groups", "7,8", "--inh-caps", "+net_raw,+sys_admin", "--ambient-caps", "+net_raw,+sys_admin"];
    let command = by_setpriv(&folder, &gate, &given);
    let gateway = Gateway::start_by(folder, command);
    assert!(gateway.log().contains(&format!("running as the user {USER}")), "{}", gateway.log());
    // The kernel of the namespace takes packets beside the gateway; nothing else is wrong.
    let log = gateway.log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN")).collect();
    assert!(matches!(warnings[..], [one] if one.contains("the kernel takes packets")), "{log}");
    holds_two_capabilities(gateway.pid(), USER, GROUP, "", KEPT);
    let socket = fs::metadata(gateway.folder.path("control.sock")).unwrap();
    assert_eq!((socket.uid(), socket.gid(), socket.mode() & 0o7777), (USER, GROUP, 0o600));
    peer.ping("10.91.0.1");

    // A reload as any other, requested by the user that the process is now.
    gateway.folder.config(&format!(
        "{before}
[[interface]]
name = 'two'
address = '10.92.0.1/24'
port = {{ af-packet = 'two' }}
[[interface]]
name = 'tap'
address = '10.93.0.1/24'
port = {{ tap = {{ name = 'wtap', address = '10.93.0.2/24' }} }}
"
    ));
    let mut reload = gateway.folder.command(gateway.folder.program());
    let reload = reload.arg("reload").uid(USER).gid(GROUP).output().unwrap();
    assert!(reload.status.success(), "{}", text(&reload.stderr));
    assert!(text(&reload.stdout).contains("+ interface two\n+ interface tap"), "{}", text(&reload.stdout));
    peer.ping("10.92.0.1");
    gate.ping("10.93.0.1");
    peer.ping("10.91.0.1");
    holds_two_capabilities(gateway.pid(), USER, GROUP, "", KEPT);

    let (_, folder) = gateway.end();
    for left in ["control.sock", "control.sock.lock"] {
        assert!(!folder.path(left).exists(), "{left}");
    }
    // What it made is gone, what it found is there.
    gate.ip("link show one");
    let tap = std::process::Command::new("ip").args(&gate.prefix()[1..]).args(["ip", "link", "show", "wtap"]).output();
    assert!(!tap.unwrap().status.success());
}

#[test]
fn root_that_stays_root_has_no_more_power() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    folder.config(QUIET);
    let mut command = folder.command("setpriv");
    command.args(["--groups", "7,8"]).arg(folder.program()).args(["run", "weir.toml"]);
    let gateway = Gateway::start_by(folder, command);
    holds_two_capabilities(gateway.pid(), 0, 0, "7 8", KEPT);
    // The process keeps the user of its start until the end.
    let other = QUIET.replace("'root'", &format!("'{USER}'\ngroup = '{GROUP}'"));
    gateway.folder.config(&other);
    let reload = gateway.folder.weir(&["reload"]);
    assert_eq!(reload.status.code(), Some(1));
    assert!(
        text(&reload.stderr).contains("the user or group of `[service]` cannot change"),
        "{}",
        text(&reload.stderr)
    );
    gateway.end();
}

#[test]
fn a_socket_that_cannot_be_removed_does_no_harm() {
    if !is_root() {
        return;
    }
    let config = QUIET.replace("'root'", &format!("'{USER}'\ngroup = '{GROUP}'"));
    let gateway = Gateway::start(Folder::new(), &config);
    let (_, folder) = gateway.end();
    // The folder is root's.
    assert!(folder.path("control.sock").exists());
    let gateway = Gateway::start(folder, &config);
    gateway.ok(&["show", "version"]);
    gateway.end();
}

#[test]
fn what_a_reload_will_miss_is_said_at_the_start() {
    if !is_root() {
        return;
    }
    let (space, folder) = (Space::new(), Folder::new());
    let pair = "[sa.peer]\nlocal = '198.51.100.1'\nremote = '198.51.100.2'\nalgorithm = 'aes128gcm16'\n\
        in = { spi = 300, key-file = 'in.key' }\n";
    folder.config(&(QUIET.replace("'root'", &format!("'{USER}'\ngroup = '{GROUP}'")) + pair));
    fs::write(folder.path("in.key"), "1011".repeat(10)).unwrap();
    for name in ["weir.toml", "in.key"] {
        fs::set_permissions(folder.path(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let prefix = space.prefix();
    let closed = OPEN_TUN.replace("666", "600");
    let mut command = folder.command(prefix[0]);
    command.args(&prefix[1..]).args(["sh", "-c", &closed, "sh"]).arg(folder.program()).args(["run", "weir.toml"]);
    let gateway = Gateway::start_by(folder, command);
    let log = gateway.log();
    let denied = "Permission denied (os error 13)";
    assert!(log.contains(&format!("a reload cannot read weir.toml: {denied}")), "{log}");
    assert!(log.contains("a reload cannot read in.key: "), "{log}");
    let devices = "a reload cannot add taps, tuns or punt devices: /dev/net/tun:";
    assert!(log.contains(&format!("{devices} {denied}")), "{log}");
    gateway.end();
}

#[test]
fn two_ambient_capabilities_are_enough() {
    if !is_root() {
        return;
    }
    let (gate, peer, folder) = (Space::new(), Space::new(), Folder::new());
    gate.link("one", &peer, "e1");
    peer.ip("address add 10.91.0.2/24 dev e1");
    folder.config(
        "version = 1
[[interface]]
name = 'one'
address = '10.91.0.1/24'
port = { af-packet = 'one' }
punt = 'host'
[[interface]]
name = 'tap'
address = '10.93.0.1/24'
port = { tap = { name = 'wtap', address = '10.93.0.2/24' } }
",
    );
    chown(folder.path(""), Some(USER), Some(GROUP)).unwrap();
    let (user, group) = (USER.to_string(), GROUP.to_string());
    let both = "+net_raw,+net_admin";
    let command = by_setpriv(
        &folder,
        &gate,
        &["--reuid", &user, "--regid", &group, "--clear-groups", "--inh-caps", both, "--ambient-caps", both],
    );
    let gateway = Gateway::start_by(folder, command);
    // Who has no CAP_SETPCAP cannot narrow the bounding set, and no new privileges are to be had by it.
    let bounding = fs::read_to_string("/proc/self/status").unwrap();
    let bounding = bounding.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap().trim();
    holds_two_capabilities(gateway.pid(), USER, GROUP, "", bounding);
    peer.ping("10.91.0.1");
    gate.ping("10.93.0.1");

    // Learned neighbours are shown, forgotten by a command, and learned again.
    let shown = gateway.ok(&["show", "neighbors"]);
    assert!(shown.contains("10.91.0.2") && shown.contains("learned 2 of "), "{shown}");
    gateway.ok(&["clear", "neighbors"]);
    assert!(!gateway.ok(&["show", "neighbors"]).contains("10.91.0.2"));
    peer.ping("10.91.0.1");
    assert!(gateway.ok(&["show", "neighbors"]).contains("10.91.0.2"));

    let (_, folder) = gateway.end();
    assert!(!folder.path("control.sock").exists());
}

#[test]
fn a_missing_privilege_is_named() {
    let folder = Folder::new();
    let interface =
        |port: &str| format!("version = 1\n\n[[interface]]\nname = 'edge'\naddress = '10.0.0.1/24'\n{port}\n");
    for (port, what, capability) in [
        ("port = { af-packet = 'eth0' }", "an af-packet port", "CAP_NET_RAW"),
        ("port = { tap = 'tap0' }", "a tap port", "CAP_NET_ADMIN"),
        ("port = { tun = 'tun0' }", "a tun port", "CAP_NET_ADMIN"),
        ("port = 'null'\npunt = 'host'", "a punt device", "CAP_NET_ADMIN"),
    ] {
        folder.config(&interface(port));
        let mut command = folder.command(folder.program());
        command.args(["run", "weir.toml"]);
        if rustix::process::geteuid().is_root() {
            command.uid(USER).gid(GROUP);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{port}");
        assert_eq!(text(&output.stdout), "", "{port}");
        let says = text(&output.stderr);
        let first = format!(
            "error: weir.toml:4: interface edge: {what} needs {capability}, which this process does not have\n"
        );
        assert!(says.starts_with(&first), "{says}");
        assert!(
            says.contains(&format!("setcap cap_net_raw,cap_net_admin+ep {}", folder.program().display())),
            "{says}"
        );
        assert!(!folder.path("control.sock").exists());
    }
}
