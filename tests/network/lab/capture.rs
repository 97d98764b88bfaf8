//! The traffic of a device, as tcpdump sees it.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weir_tests::{Packet, Scratch, packets};

use super::{Space, wait};

/// A running capture.
pub(crate) struct Capture {
    child: Child,
    folder: Scratch,
}

impl Capture {
    /// Starts to capture what matches a filter of pcap-filter(7).
    #[track_caller]
    pub(crate) fn start(space: &Space, device: &str, filter: &str) -> Capture {
        let folder = Scratch::new();
        let log = folder.path().join("tcpdump.log");
        let mut command = space.command("tcpdump");
        command.args(["-i", device, "--immediate-mode", "-U", "-s", "65535", "-B", "65536", "-Z", "root", "-w"]);
        command.arg(folder.path().join("capture.pcap")).arg(filter);
        let stderr = fs::File::create(&log).expect("the folder can be written to");
        let child = command.stdout(Stdio::null()).stderr(stderr).spawn().expect("tcpdump can be started");
        let capture = Capture { child, folder };
        wait("tcpdump listens", Duration::from_secs(60), || {
            fs::read_to_string(&log).is_ok_and(|text| text.contains("listening on"))
        });
        capture
    }

    /// Ends it; returns what it saw.
    pub(crate) fn stop(mut self) -> Vec<Packet> {
        // What was sent just before is to be seen, too: tcpdump is done with it when half a second adds nothing.
        let file = self.folder.path().join("capture.pcap");
        let octets = || fs::metadata(&file).map_or(0, |file| file.len());
        let (mut before, mut quiet) = (octets(), 0);
        while quiet < 5 {
            std::thread::sleep(Duration::from_millis(100));
            let now = octets();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
        }
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it is our child");
        self.child.wait().expect("it is our child");
        packets(&file)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
