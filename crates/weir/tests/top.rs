//! `weir top` on a terminal that tmux provides: its screen, its keys, its size, a gateway that goes and comes back, and the
//! terminal afterwards.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CONFIG: &str = r#"version = 1

[[interface]]
name = "in"
address = "10.0.0.1/24"
port = { generator = { source = "10.0.0.10-10.0.0.20", destination = "192.0.2.1-192.0.2.250", rate = 20000 } }
acl = { in = "edge" }

[[interface]]
name = "out"
address = "10.0.1.1/24"
port = "null"

[acl.edge]
rules = ["deny udp from any to 192.0.2.250", "permit ip from any to any"]
default = "deny"

[[route]]
prefix = "192.0.2.0/24"
via = { address = "10.0.1.2" }

[[neighbor]]
interface = "out"
address = "10.0.1.2"
mac = "02:00:00:00:00:02"
"#;

/// A folder of the test's own with a configuration, a gateway and a terminal.
struct Place {
    folder: PathBuf,
    gateway: Option<Child>,
}

impl Place {
    fn new(name: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("weir-top-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("edge.toml"), CONFIG).unwrap();
        let mut place = Place { folder, gateway: None };
        place.start();
        place
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(&self.folder).env("WEIR_SOCKET", self.folder.join("control.sock"));
        command.env_remove("WEIR_LOG").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&mut self) {
        self.gateway = Some(self.weir(&["run", "edge.toml"]).stderr(Stdio::null()).spawn().unwrap());
        wait("the gateway", || self.weir(&["show", "version"]).output().unwrap().status.success());
    }

    fn kill(&mut self) {
        let mut gateway = self.gateway.take().unwrap();
        gateway.kill().unwrap();
        gateway.wait().unwrap();
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.folder.join("tmux")).args(["-f", "/dev/null"]).args(arguments);
        let output = tmux.env("LC_ALL", "C.UTF-8").env("TERM", "screen").output().expect("tmux is installed");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the screen in a terminal of 96 columns and 24 lines. A shell prints the exit code and the terminal's modes after it.
    fn open(&self) {
        let weir = env!("CARGO_BIN_EXE_weir");
        let socket = self.folder.join("control.sock");
        let script = format!(
            "cd {}; '{weir}' top --interval 0.2 --socket '{}'; echo \"ended $?\"; stty -a | grep -o -- '-*icanon'; sleep 100",
            self.folder.display(),
            socket.display()
        );
        self.tmux(&["new-session", "-d", "-x", "96", "-y", "24", &script]);
    }

    fn screen(&self) -> Vec<String> {
        self.tmux(&["capture-pane", "-p"]).lines().map(str::to_owned).collect()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Waits until a line of the screen begins so, and returns the screen.
    fn wait_for(&self, beginning: &str) -> Vec<String> {
        let mut screen = Vec::new();
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(60) {
            screen = self.screen();
            if screen.iter().any(|line| line.starts_with(beginning)) {
                return screen;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no line begins with {beginning:?}: {screen:#?}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            let _ = gateway.kill();
            let _ = gateway.wait();
        }
        let _ = Command::new("tmux").arg("-S").arg(self.folder.join("tmux")).arg("kill-server").output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn wait(what: &str, ready: impl Fn() -> bool) {
    let since = Instant::now();
    while !ready() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what} takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Puts `#` in the place of numbers with their units, and one space in the place of several.
fn without_numbers(line: &str) -> String {
    let word = |word: &str| if word.parse::<f64>().is_ok() { "#".to_owned() } else { word.to_owned() };
    let words: Vec<_> = line.split_whitespace().map(word).collect();
    words.join(" ").replace("# k", "#").replace("# M", "#")
}

#[test]
fn a_terminal_shows_the_gateway_and_is_restored() {
    let mut place = Place::new("screen");
    place.open();
    // A rate of the generator stands in the row of its interface once two readings are there.
    let rated = || place.screen().iter().any(|line| line.starts_with("in ") && line.contains(" k "));
    wait("a rate", rated);
    let screen: Vec<_> = place.screen().iter().map(|line| without_numbers(line)).collect();
    let head = screen[0].split(", up ").next().unwrap();
    assert!(head.starts_with("weir 0.1.0, process "), "{screen:#?}");
    assert!(screen[0].ends_with(", edge.toml, generation #"), "{screen:#?}");
    assert_eq!(screen[1], "packets/s: # received, # transmitted, # dropped, # local; # held");
    assert_eq!(screen[2], "# overview # interfaces # nodes # drops # rules # sources # flows # invalid");
    assert_eq!(
        screen[3..5],
        ["Interfaces (2)", "Interface State RX packet/s RX bit/s TX packet/s TX bit/s Drops/s Lost/s"]
    );
    assert_eq!(screen[5..7], ["in up # # # # # #", "out up # # # # # #"]);
    assert!(screen.contains(&"Node Packet/s Vector/s Packets/vector Ticks/packet Ticks %".to_owned()), "{screen:#?}");
    assert!(screen.iter().any(|line| line.starts_with("acl-deny ip-acl # # info")), "{screen:#?}");

    place.press("5");
    let screen = place.wait_for("acl edge");
    assert_eq!(without_numbers(&screen[4]), "List Id Packet/s↓ Bit/s Packets Rule");
    assert!(screen[5].contains("permit ip from any to any"), "the rule with most packets is the first: {screen:#?}");
    for key in ["/", "2", "5", "0", "Enter"] {
        place.press(key);
    }
    wait("the filter", || place.screen()[5].contains("deny udp from any to 192.0.2.250"));
    assert_eq!(place.screen()[6], "");

    // The screen fills a terminal of each size, and has nothing of the size before.
    for (columns, lines) in [(40, 12), (200, 50), (80, 24), (96, 24)] {
        place.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
        let is_whole = |screen: &[String]| {
            screen.len() == lines
                && screen[lines - 1].starts_with("filter \"250\"")
                && screen.iter().all(|line| line.chars().count() <= columns)
                && screen[2].contains("5 rules")
                && (columns < 80 || screen[2].trim_end().ends_with("8 invalid"))
                && (columns < 80
                    || without_numbers(&screen[4]) == "List Id Packet/s↓ Bit/s Packets Rule"
                        && screen[5].ends_with("deny udp from any to 192.0.2.250")
                        && screen[6..lines - 1].iter().all(String::is_empty))
        };
        wait(&format!("the screen of {columns} columns and {lines} lines"), || is_whole(&place.screen()));
    }

    place.kill();
    place.wait_for("no gateway to talk to on ");
    assert!(place.screen()[5].contains("deny udp from any to 192.0.2.250"), "the last reading stays");
    place.start();
    place.wait_for("packets/s: ");

    place.press("q");
    place.wait_for("ended 0");
    // The next command writes its line a little later.
    let screen = place.wait_for("icanon");
    assert_eq!(screen[1], "icanon", "{screen:#?}");
    assert!(!screen.iter().any(|line| line.starts_with("packets/s")), "the screen before is back: {screen:#?}");
}

#[test]
fn a_signal_restores_the_terminal() {
    let place = Place::new("signal");
    place.open();
    place.wait_for("packets/s: ");
    let top = place.tmux(&["list-panes", "-F", "#{pane_pid}"]);
    let children = format!("/proc/{0}/task/{0}/children", top.trim());
    let top = fs::read_to_string(children).unwrap();
    let pid = rustix::process::Pid::from_raw(top.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    place.wait_for("ended 0");
    // The next command writes its line a little later.
    let screen = place.wait_for("icanon");
    assert_eq!(screen[1], "icanon", "{screen:#?}");
}

#[test]
fn one_reading_is_printed_without_a_terminal() {
    let place = Place::new("once");
    let output = place.weir(&["top", "--once", "--interval", "0.3"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for beginning in ["weir 0.1.0, process ", "packets/s: ", "Interfaces (2)", "in         up ", "Nodes (", "Drops ("] {
        assert!(text.lines().any(|line| line.starts_with(beginning)), "{beginning}: {text}");
    }
    let rules =
        place.weir(&["top", "--once", "--interval", "0.3", "--view", "rules", "--filter", "250"]).output().unwrap();
    let rules = String::from_utf8(rules.stdout).unwrap();
    assert!(rules.contains("deny udp from any to 192.0.2.250") && !rules.contains("permit"), "{rules}");
    for view in ["sources", "flows", "invalid"] {
        let output = place.weir(&["top", "--once", "--interval", "0.1", "--view", view]).output().unwrap();
        assert!(output.status.success(), "{view}: {}", String::from_utf8_lossy(&output.stderr));
    }

    let refused = place.weir(&["top"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "error: `weir top` needs a terminal; `weir top --once` prints text\n"
    );
    let absent = place.weir(&["top", "--once", "--socket", "absent"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(4));
}
