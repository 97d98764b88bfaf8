//! What passes a device, as tcpdump sees it.

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
        wait("tcpdump listens", Duration::from_secs(10), || {
            fs::read_to_string(&log).is_ok_and(|text| text.contains("listening on"))
        });
        capture
    }

    /// Ends it; returns what it saw.
    pub(crate) fn stop(mut self) -> Vec<Packet> {
        // What was sent just before is to be seen, too.
        std::thread::sleep(Duration::from_millis(100));
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it is our child");
        self.child.wait().expect("it is our child");
        packets(&self.folder.path().join("capture.pcap"))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
