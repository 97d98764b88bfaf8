//! `weir doctor` names what is in the way of a gateway, and its commands mend it.

use std::time::Duration;

use serde_json::Value;

use weir_tests::{Scratch, program};

use crate::lab::{Lab, Weir, inject, wait};

const CONFIG: &str = r#"
version = 1

[[interface]]
name = "lan"
port = { af-packet = { interface = "g0", offload = false } }
address = "10.1.0.1/24"

[[interface]]
name = "wan"
port = { af-packet = { interface = "g1", offload = false } }
address = "10.2.0.1/24"
"#;

#[test]
fn two_ends_of_a_pair_in_one_bridge_are_a_loop() {
    let Some(mut lab) = Lab::open() else { return };
    let (gate, host) = (lab.space("gate"), lab.space("host"));
    lab.link((&host, "s0"), (&gate, "h0"), 1500);
    gate.ip("link add e0 type veth peer name e1");
    gate.ip("link set e0 up");
    gate.ip("link set e1 up");
    let port = |device: &str| {
        format!(
            "[[interface]]\nname = \"{device}\"\nport = {{ af-packet = {{ interface = \"{device}\", offload = false }} }}\n"
        )
    };
    let config = ["e0", "e1", "h0"].map(port).concat();
    let config = format!("version = 1\n[bridge.b]\ninterfaces = [\"e0\", \"e1\", \"h0\"]\n{config}");
    let folder = Scratch::new();
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, &config).expect("the file is written");
    let words = "frames circle: e0 and e1, the devices of `e0` and `e1`, are the two ends of one veth pair";
    let weir = program();
    let path = file.to_str().expect("a path of ASCII");
    let output = gate.output(weir.to_str().expect("a path of ASCII"), &["doctor", path]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && said.contains(&format!("problem  bridge b: {words}")), "{said}");
    let apart = config.replace("[\"e0\", \"e1\", \"h0\"]", "[\"e0\", \"h0\"]");
    let weir = Weir::start(&gate, &apart);
    assert!(!weir.log().contains("frames circle"), "{}", weir.log());
    weir.write(&config);
    let output = weir.weir(&["reload"]);
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && answer.contains(&format!("\n! bridge b: {words}")), "{answer}");
    assert!(weir.log().contains(&format!("WARN bridge b: {words}")), "{}", weir.log());

    // One frame circles in both directions, and its station is behind either end in turn.
    let station = [2, 0, 0, 0, 0, 7];
    let frame = [&[0xff; 6][..], &station, &[0x88, 0xb5], &[0; 46]].concat();
    inject(&host, "s0", 100, [frame].into_iter());
    wait("a burst of moves", Duration::from_secs(20), || {
        weir.log().contains("came from stations that another port had")
    });
    // The host's own frames circle, too.
    assert!(weir.log().contains(", the last by e") && weir.log().contains(": look for a loop"), "{}", weir.log());
    weir.end();
    let weir = Weir::start(&gate, &config);
    assert!(weir.log().contains(&format!("WARN bridge b: {words}")), "{}", weir.log());
    weir.end();
}

#[test]
fn its_commands_mend_what_it_finds() {
    let Some(mut lab) = Lab::open() else { return };
    let (gate, left) = (lab.space("gate"), lab.space("left"));
    lab.link((&gate, "g0"), (&left, "e0"), 1500);
    lab.link((&gate, "g1"), (&left, "e1"), 1500);
    gate.ip("link set g0 down");
    gate.ip("link set g1 mtu 1400");
    gate.ip("address add 192.0.2.1/24 dev g0");
    gate.run("ethtool", &["-K", "g1", "gro", "on"]);
    gate.sysctl(&["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]);
    let folder = Scratch::new();
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, CONFIG).expect("the file is written");
    let (path, weir) = (file.to_str().expect("a path of ASCII"), program());
    let weir = weir.to_str().expect("a path of ASCII");
    let examine = || {
        let output = gate.output(weir, &["doctor", "--json", path]);
        let diagnosis: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = diagnosis["findings"].as_array().expect("a list").clone();
        let problems: Vec<Value> = findings.into_iter().filter(|own| own["level"] == "problem").collect();
        assert_eq!(output.status.code(), Some(i32::from(!problems.is_empty())), "{problems:?}");
        problems
    };

    let problems = examine();
    let commands: Vec<&str> = problems.iter().filter_map(|own| own["command"].as_str()).collect();
    for wanted in [
        "sysctl -w net.ipv4.ip_forward=0",
        "sysctl -w net.ipv6.conf.all.forwarding=0",
        "ip address flush dev g0 scope global",
        "ip link set dev g0 up",
        "ip link set dev g1 mtu 1500",
        "ethtool -K g1 gro off",
    ] {
        assert!(commands.contains(&wanted), "no `{wanted}` in {problems:#?}");
    }
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        gate.run(words[0], &words[1..]);
    }
    assert_eq!(examine(), Vec::<Value>::new());

    let running = Weir::start(&gate, CONFIG);
    let output = gate.output(weir, &["doctor", path]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("a gateway uses g0 already (process "), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
    running.end();
}
