//! The effects of other users of the machine: links in folders of the service's user, folders with write access for
//! all, sockets of other users, and other gateways on the same devices.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::kit::{Folder, Gateway, QUIET, Space, is_root, text};

/// A user that the system does not know.
const USER: u32 = 48_133;
const GROUP: u32 = 48_134;
const OTHER: u32 = 48_135;

/// Returns the error of a gateway that cannot start with this configuration.
#[track_caller]
fn fails(folder: &Folder, config: &str) -> String {
    folder.config(config);
    let output = folder.weir(&["run", "weir.toml"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    text(&output.stderr)
}

/// A configuration whose gateway becomes [`USER`], with more of an interface, and more behind it.
fn as_user(interface: &str, more: &str) -> String {
    QUIET.replace("'root'", &format!("'{USER}'\ngroup = '{GROUP}'")).replace("port = 'null'\n", interface) + more
}

const SAMPLER: &str = "
[sampler.spoofed]
pcap = 'theirs/PATH'

[sav.edge]
mechanism = 'urpf-strict'
sample = { one-in = 1, to = 'spoofed' }
";

#[test]
fn root_follows_no_link_of_its_service_user() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let (theirs, roots) = (folder.path("theirs"), folder.path("roots"));
    for (path, owner, mode) in [(&theirs, USER, 0o755), (&roots, 0, 0o700)] {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        chown(path, Some(owner), Some(owner)).unwrap();
    }
    let precious = roots.join("precious");
    fs::write(&precious, "precious").unwrap();
    fs::set_permissions(&precious, Permissions::from_mode(0o600)).unwrap();
    symlink(&precious, theirs.join("link.pcap")).unwrap();
    symlink(roots.join("absent"), theirs.join("nowhere.pcap")).unwrap();
    symlink(&roots, theirs.join("way")).unwrap();
    for path in ["link.pcap", "nowhere.pcap", "way/precious", "way/absent"] {
        for config in [
            as_user(&format!("port = {{ pcap = {{ output = 'theirs/{path}' }} }}\n"), ""),
            as_user(&format!("port = 'null'\ncapture = 'theirs/{path}'\n"), ""),
            as_user("port = 'null'\nsav = 'edge'\n", &SAMPLER.replace("PATH", path)),
        ] {
            let says = fails(&folder, &config);
            assert!(says.contains("symbolic link") || says.contains("this is no regular file"), "{path}: {says}");
        }
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    let left = fs::metadata(&precious).unwrap();
    assert_eq!((left.uid(), left.mode() & 0o7777, left.nlink()), (0, 0o600, 1));
    assert!(!roots.join("absent").exists());

    // Files of its own belong to the user from the start, and a file of before makes room for them.
    fs::write(theirs.join("sent.pcap"), "before").unwrap();
    let config = as_user(
        "port = { pcap = { output = 'theirs/sent.pcap' } }\ncapture = 'theirs/seen.pcap'\nsav = 'edge'\n",
        &SAMPLER.replace("PATH", "spoofed.pcap"),
    );
    let gateway = Gateway::start(folder, &config);
    for name in ["sent.pcap", "seen.pcap", "spoofed.pcap"] {
        let file = fs::metadata(theirs.join(name)).unwrap();
        assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (USER, GROUP, 0o640), "{name}");
        assert_eq!(file.len(), 24, "{name}");
    }
    gateway.end();
}

#[test]
fn a_file_is_written_by_one_gateway() {
    let folder = Folder::new();
    let config = QUIET.replace("port = 'null'", "port = { pcap = { output = 'sent.pcap' } }");
    folder.config(&config);
    let command = |folder: &Folder| {
        let mut command = folder.command(env!("CARGO_BIN_EXE_weir"));
        command.args(["run", "weir.toml"]);
        command
    };
    let first = command(&folder);
    let gateway = Gateway::start_by(folder, first);
    let second = command(&gateway.folder).env("WEIR_SOCKET", gateway.folder.path("second.sock")).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another process writes to this file"), "{}", text(&second.stderr));
    gateway.end();
}

#[test]
fn a_socket_lies_where_nobody_else_may_write() {
    let folder = Folder::new();
    folder.config(QUIET);
    let open = folder.path("open");
    fs::create_dir(&open).unwrap();
    for mode in [0o777, 0o1777, 0o775] {
        fs::set_permissions(&open, Permissions::from_mode(mode)).unwrap();
        let mut run = folder.command(env!("CARGO_BIN_EXE_weir"));
        let output = run.args(["run", "weir.toml", "--socket", "open/control.sock"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let says = text(&output.stderr);
        assert!(says.contains("open belongs to another user or others may write to it"), "{says}");
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0, "nothing is left there");
    }
}

#[test]
fn a_client_looks_at_who_listens() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    folder.config(QUIET);
    chown(folder.path(""), Some(USER), Some(GROUP)).unwrap();
    let mut command = folder.command(folder.program());
    command.args(["run", "weir.toml"]).uid(USER).gid(GROUP);
    let gateway = Gateway::start_by(folder, command);
    // To the eye the socket is the client's own.
    let socket = gateway.folder.path("control.sock");
    chown(&socket, Some(OTHER), Some(OTHER)).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let show = |user: u32| -> Output {
        let mut show = gateway.folder.command(gateway.folder.program());
        show.args(["show", "version"]).uid(user).gid(user).output().unwrap()
    };
    let other = show(OTHER);
    assert_eq!(other.status.code(), Some(4));
    let says = text(&other.stderr);
    assert!(says.contains("no gateway to talk to: a process of another user listens on"), "{says}");
    assert!(show(USER).status.success());
}

/// A gateway on devices of a namespace, with a socket of its own.
fn on(devices: &[&str]) -> String {
    let interface = |(number, device): (usize, &&str)| {
        format!(
            "[[interface]]\nname = '{device}'\naddress = '10.9{number}.0.1/24'\nport = {{ af-packet = '{device}' }}\n"
        )
    };
    let interfaces: String = devices.iter().enumerate().map(interface).collect();
    format!("version = 1\n[service]\nuser = '{USER}'\ngroup = '{GROUP}'\n{interfaces}")
}

fn run_in(space: &Space, folder: &Folder) -> Command {
    let mut command = folder.command("ip");
    command.args(&space.prefix()[1..]).arg(env!("CARGO_BIN_EXE_weir")).args(["run", "weir.toml"]);
    command
}

#[test]
fn a_device_has_one_gateway() {
    if !is_root() {
        return;
    }
    let (gate, peer) = (Space::new(), Space::new());
    gate.link("one", &peer, "e1");
    gate.link("two", &peer, "e2");
    let folder = Folder::new();
    folder.config(&on(&["one", "two"]));
    chown(folder.path(""), Some(USER), Some(GROUP)).unwrap();
    let command = run_in(&gate, &folder);
    let first = Gateway::start_by(folder, command);

    // Another socket, the same device: refused, with who has it and where it is wanted.
    let second = Folder::new();
    second.config(&on(&["two"]));
    chown(second.path(""), Some(USER), Some(GROUP)).unwrap();
    let output = run_in(&gate, &second).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let says = text(&output.stderr);
    let holder = format!("two: another gateway receives and sends on this device (process {}, weir)", first.pid());
    assert!(says.contains("weir.toml:6") && says.contains(&holder), "{says}");

    // Devices of the same name elsewhere are other devices.
    let elsewhere = Space::new();
    elsewhere.link("two", &peer, "e3");
    let command = run_in(&elsewhere, &second);
    let (_, second) = Gateway::start_by(second, command).end();

    // A reload that leaves the device leaves the claim, and one that wants it meets it.
    first.folder.config(&on(&["one"]));
    first.ok(&["reload"]);
    let command = run_in(&gate, &second);
    let second = Gateway::start_by(second, command);
    first.folder.config(&on(&["one", "two"]));
    let reload = first.folder.weir(&["reload"]);
    assert_eq!(reload.status.code(), Some(1));
    let holder = format!("(process {}, weir)", second.pid());
    assert!(text(&reload.stderr).contains(&holder), "{}", text(&reload.stderr));

    // What is killed leaves its devices to the next.
    second.signal(Signal::KILL);
    drop(second);
    let third = Folder::new();
    third.config(&on(&["two"]));
    chown(third.path(""), Some(USER), Some(GROUP)).unwrap();
    let command = run_in(&gate, &third);
    Gateway::start_by(third, command).end();
    first.end();
}

#[test]
fn a_gateway_waits_for_one_that_is_about_to_end() {
    let folder = Folder::new();
    let config = QUIET.replace("port = 'null'", "port = { pcap = { output = 'sent.pcap' } }");
    folder.config(&config);
    // What the kernel has not taken back yet of a gateway that was killed: first the socket's lock, then that of a file.
    let run = |lock: &str| {
        let held = fs::File::create(folder.path(lock)).unwrap();
        held.lock().unwrap();
        let mut run = folder.command(env!("CARGO_BIN_EXE_weir"));
        let run = run.args(["run", "weir.toml", "--duration", "0.05"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let run = run.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        drop(held);
        run.wait_with_output().unwrap()
    };
    for lock in ["control.sock.lock", "sent.pcap"] {
        // Where this thread is held up for longer than a gateway waits, it is right to give up.
        let output = (0..5).map(|_| run(lock)).find(|output| output.status.success());
        assert!(output.is_some(), "{lock}: {}", text(&run(lock).stderr));
    }
}
