//! The example of the README: weir between two hosts, by one script.

use std::path::Path;
use std::process::{Command, Stdio};

use weir_tests::program;

use crate::lab::Lab;

#[test]
fn two_hosts_talk() {
    let Some(_lab) = Lab::open() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let run = || {
        let mut command = Command::new(root.join("examples/two-hosts.sh"));
        command.env("WEIR", program()).env_remove("WEIR_LOG").stdin(Stdio::null());
        let output = command.output().expect("the script can be started");
        let complained = String::from_utf8_lossy(&output.stderr);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}:\n{said}\n{complained}", output.status);
        said
    };
    // What ping takes for lost may come late on a busy machine.
    let mut said = run();
    for _ in 0..5 {
        if said.matches(" 0% packet loss").count() < 2 {
            said = run();
        }
    }
    for expected in [
        "3 packets transmitted, 3 received, 0% packet loss",
        " 1  192.0.2.1  ",
        " 1  2001:db8:1::1  ",
        "left       192.0.2.7 ",
        "right      2001:db8:2::7 ",
        "every packet is accounted for",
    ] {
        assert!(said.contains(expected), "no `{expected}` in:\n{said}");
    }
    assert_eq!(said.matches("0% packet loss").count(), 2, "{said}");
    let left = Command::new("ip").args(["netns", "list"]).output().expect("ip can be started");
    assert!(!String::from_utf8_lossy(&left.stdout).contains("weir-"), "it leaves something behind");
}
