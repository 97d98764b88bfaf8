//! A gateway in a folder of its own, perhaps as another user, in a namespace, with other files at well-known places.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A gateway without devices. It stays the user that it is: there may be a user `weir` here.
pub(crate) const QUIET: &str = "version = 1

[service]
user = 'root'

[[interface]]
name = 'in'
address = '10.0.0.1/24'
port = 'null'
";

/// Whether a test that needs root is to go on.
///
/// # Panics
/// When it is to run and cannot.
pub(crate) fn is_root() -> bool {
    if geteuid().is_root() {
        return true;
    }
    let waived = std::env::var_os("WEIR_TEST_UNPRIVILEGED").is_some_and(|value| value == "1");
    assert!(waived, "needs root, or WEIR_TEST_UNPRIVILEGED=1 to be left out");
    eprintln!("not run: needs root (WEIR_TEST_UNPRIVILEGED=1)");
    false
}

/// The folder where every user may have files: the usual one, unless it is private.
fn temporary() -> PathBuf {
    let is_open = |folder: &Path| fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & 0o001 != 0);
    let own = std::env::temp_dir();
    let all = own.canonicalize().is_ok_and(|folder| folder.ancestors().all(is_open));
    if all { own } else { PathBuf::from("/tmp") }
}

/// A folder of the test's own that every user may enter, gone afterwards.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = temporary().join(format!("weir-service-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        Folder(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn config(&self, text: &str) {
        let path = self.path("weir.toml");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    }

    /// The program, at a place where any user may run it.
    ///
    /// A process of its own writes the copy. A file that this process had open for writing could still be open in a
    /// child that another test forks at that moment. Until that child has become its program, the copy could not run
    /// (`ETXTBSY`).
    pub(crate) fn program(&self) -> PathBuf {
        let program = self.path("weir");
        if !program.exists() {
            let mut copy = Command::new("install");
            copy.args(["-m", "755", env!("CARGO_BIN_EXE_weir")]).arg(&program);
            assert!(copy.status().unwrap().success(), "{copy:?}");
        }
        program
    }

    /// A command here, whose environment says nothing to weir but where its socket is.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(&self.0).env("WEIR_SOCKET", self.path("control.sock")).stdin(Stdio::null());
        for name in ["WEIR_LOG", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM"] {
            command.env_remove(name);
        }
        command
    }

    /// A command that talks to the gateway.
    pub(crate) fn weir(&self, arguments: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that runs `weir run`; killed when the test fails.
pub(crate) struct Gateway {
    pub(crate) folder: Folder,
    child: Option<Child>,
}

impl Gateway {
    /// Runs `weir run weir.toml` here and waits until it answers.
    pub(crate) fn start(folder: Folder, config: &str) -> Gateway {
        folder.config(config);
        let mut command = folder.command(env!("CARGO_BIN_EXE_weir"));
        command.args(["run", "weir.toml"]);
        Gateway::start_by(folder, command)
    }

    /// Runs a command that becomes `weir run`, and waits until that answers.
    pub(crate) fn start_by(folder: Folder, mut command: Command) -> Gateway {
        let file = |name| File::options().create(true).append(true).open(folder.path(name)).unwrap();
        let child = command.stdout(file("summary")).stderr(file("log")).spawn().unwrap();
        let mut gateway = Gateway { folder, child: Some(child) };
        let start = Instant::now();
        while !gateway.folder.weir(&["show", "version"]).status.success() {
            let ended = gateway.child.as_mut().and_then(|child| child.try_wait().unwrap());
            assert!(ended.is_none(), "it ended at once, {ended:?}: {}", gateway.log());
            assert!(start.elapsed() < PATIENCE, "it does not answer: {}", gateway.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        gateway
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Returns its standard error.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path("log")).unwrap()
    }

    /// Returns the output of a client command.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.folder.weir(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    /// Kills it by a signal and returns how it ended.
    pub(crate) fn kill(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.child.take().unwrap().wait().unwrap()
    }

    /// Ends it by SIGTERM and returns how it ended.
    pub(crate) fn end(mut self) -> (ExitStatus, Folder) {
        self.signal(Signal::TERM);
        let status = self.child.take().unwrap().wait().unwrap();
        let log = self.log();
        assert!(status.success(), "{status}: {log}");
        // The folder outlives what is left of this.
        let folder = std::mem::replace(&mut self.folder, Folder(PathBuf::new()));
        (status, folder)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            eprintln!("it logged:\n{}", self.log());
        }
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A network namespace, deleted with its devices when dropped.
pub(crate) struct Space(String);

impl Space {
    pub(crate) fn new() -> Space {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ws-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        ip(&format!("netns add {name}"));
        let space = Space(name);
        space.ip("link set lo up");
        space
    }

    pub(crate) fn ip(&self, words: &str) {
        ip(&format!("-n {} {words}", self.0));
    }

    /// A veth device here, and its other end in another namespace, both up.
    pub(crate) fn link(&self, device: &str, other: &Space, end: &str) {
        ip(&format!("link add {device} netns {} type veth peer name {end} netns {}", self.0, other.0));
        self.ip(&format!("link set {device} up"));
        other.ip(&format!("link set {end} up"));
    }

    /// Returns the command that runs another one here, in a mount namespace of its own, too.
    pub(crate) fn prefix(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.0]
    }

    /// Whether an address answers echo requests within a while.
    #[track_caller]
    pub(crate) fn ping(&self, address: &str) {
        wait(&format!("ping {address}"), || {
            let mut ping = Command::new("ip");
            ping.args(&self.prefix()[1..]).args(["ping", "-c1", "-W1", address]);
            ping.stdout(Stdio::null()).status().unwrap().success()
        });
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

#[track_caller]
fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output().expect("there is `ip` (Debian: iproute2)");
    assert!(output.status.success(), "ip {words}: {}", text(&output.stderr));
}
