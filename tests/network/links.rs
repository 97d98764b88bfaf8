//! Links that go down and come up, devices that are deleted and made again: what does not depend on them goes on.

use crate::lab::{Lab, Line, LineOptions, Sender, Sink, StreamSpec, Weir, echo};

/// The line, and a third host `other` (10.3.0.2) whose traffic must not notice anything. `shared` is reached over both.
struct Fork {
    line: Line,
    other: crate::lab::Space,
}

impl Fork {
    fn new(lab: &mut Lab) -> Fork {
        let line = Line::new(lab, LineOptions::default());
        let other = lab.space("other");
        lab.link((&other, "e0"), (&line.gate, "other"), 1500);
        other.ip("address add 10.3.0.2/24 dev e0");
        other.ip("route add default via 10.3.0.1");
        for host in [&line.right, &other] {
            host.ip("address add 10.9.0.1/32 dev lo");
        }
        Fork { line, other }
    }

    fn config(&self) -> String {
        self.line.config()
            + r#"
[[interface]]
name = "other"
port = { af-packet = "other" }
address = "10.3.0.1/24"

[[route]]
prefix = "10.8.0.0/24"
via = { address = "10.2.0.2" }

[[route]]
prefix = "10.9.0.0/24"
via = [{ address = "10.2.0.2" }, { address = "10.3.0.2" }]
"#
    }

    /// Takes the link to the right away and gives it back, while traffic flows elsewhere.
    fn without_right(&self, away: impl Fn(), back: impl Fn()) {
        let Fork { line, other } = self;
        let weir = Weir::start(&line.gate, &self.config());
        for target in ["10.2.0.2", "10.3.0.2", "2001:db8:2::2"] {
            echo(&line.left, target, [56]);
        }
        let routes = weir.show("routes");
        let to = "10.3.0.2:9000".parse().expect("an address");
        let sink = Sink::start(other, to);
        let from = "10.1.0.2".parse().expect("an address");
        let sender = Sender::start(&line.left, StreamSpec { from, to, flows: 16, rate: 5000, size: 200 });

        away();
        weir.wait_for_state("right", "down");
        // The host gets an error, and does not have to wait.
        for target in ["10.2.0.2", "10.8.0.1", "2001:db8:2::2"] {
            let output = line.left.output("ping", &["-n", "-c", "2", "-i", "0.2", "-W", "1", target]);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(!output.status.success() && text.to_lowercase().contains("unreachable"), "{target}: {text}");
        }
        // Flows that could go over both next hops go over the one that is left.
        let over_both = |count| {
            for _ in 0..count {
                let output = line.left.output("traceroute", &["-n", "-q", "8", "-w", "5", "-m", "2", "10.9.0.1"]);
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let answers = text.lines().filter(|line| line.trim_start().starts_with("2 "));
                assert!(answers.clone().count() == 1 && answers.clone().all(|line| !line.contains('*')), "{text}");
            }
        };
        over_both(2);
        back();
        weir.wait_for_state("right", "up");
        for target in ["10.2.0.2", "2001:db8:2::2"] {
            echo(&line.left, target, [56, 1472, 4000]);
        }
        over_both(2);

        let (sent, receipt) = (sender.stop(), sink.stop());
        assert_eq!((receipt.misplaced, receipt.changed), (0, 0));
        assert_eq!(sent.total(), receipt.total(), "the other link lost packets: {:#}", weir.show("interfaces"));
        let now = weir.show("routes");
        assert_eq!(prefixes(&routes), prefixes(&now), "routes are as they were");
        let log = weir.log();
        for event in ["down", "up"] {
            let lines = log.lines().filter(|line| line.contains("right") && line.contains(event)).count();
            assert_eq!(lines, 1, "one line for `{event}`:\n{log}");
        }
        assert_eq!(log.lines().filter(|line| line.contains("other")).count(), 0, "{log}");
        weir.end();
    }
}

/// The prefixes of all routes that do not come from neighbours.
fn prefixes(routes: &serde_json::Value) -> Vec<String> {
    let list = routes["routes"].as_array().expect("a list");
    list.iter().filter(|route| route["kind"] != "neighbor").map(|route| route["prefix"].to_string()).collect()
}

#[test]
fn a_peer_goes_down_and_comes_up() {
    let Some(mut lab) = Lab::open() else { return };
    let fork = Fork::new(&mut lab);
    fork.without_right(
        || drop(fork.line.right.ip("link set e0 down")),
        || {
            fork.line.right.ip("link set e0 up");
            // The kernel forgets routes and IPv6 addresses of a device that goes down.
            fork.line.dress_right();
        },
    );
}

#[test]
fn a_device_is_deleted_and_made_again() {
    let Some(mut lab) = Lab::open() else { return };
    let fork = Fork::new(&mut lab);
    fork.without_right(
        || drop(fork.line.gate.ip("link delete right")),
        || {
            fork.line.make_right();
            fork.line.dress_right();
        },
    );
}

/// A device that is made again may be another one: with a hardware address of its own, which everybody learns.
#[test]
fn a_device_comes_back_with_another_address() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let usual = "port = { af-packet = \"right\" }";
    let config = line
        .config()
        .replace(usual, "port = { af-packet = { interface = \"right\", promiscuous = false } }\npunt = \"host\"");
    assert_ne!(config, line.config());
    let weir = Weir::start(&line.gate, &config);
    for target in ["10.2.0.2", "2001:db8:2::2"] {
        echo(&line.left, target, [56]);
    }
    let new = "02:00:00:00:02:77";
    line.gate.ip("link delete right");
    weir.wait_for_state("right", "down");
    line.make_right();
    line.dress_right();
    // Other hosts keep their entries for the gateway, but get an announcement.
    for address in ["10.2.0.1", "2001:db8:2::1"] {
        line.right.ip(&format!("neighbor replace {address} lladdr 02:00:00:00:02:02 dev e0 nud reachable"));
    }
    line.gate.ip(&format!("link set right address {new}"));
    let right = || weir.interface("right");
    crate::lab::wait("the new address", std::time::Duration::from_secs(60), || {
        right()["mac"] == new && right()["tentative"].as_array().is_some_and(Vec::is_empty)
    });
    assert!(right()["automatic"].to_string().contains("fe80::ff:fe00:277"), "{:#}", right());
    assert!(line.gate.ip("link show host").contains(new), "the host's device follows");
    for target in ["10.2.0.2", "2001:db8:2::2"] {
        echo(&line.left, target, [56]);
    }
    for target in ["10.1.0.2", "2001:db8:1::2"] {
        echo(&line.right, target, [56]);
    }
    // One of the configuration stays.
    let fixed = config.replace("promiscuous = false } }", "promiscuous = true } }\nmac = \"02:00:00:00:00:66\"");
    weir.reload(&fixed);
    line.gate.ip("link set right address 02:00:00:00:02:78");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(right()["mac"], "02:00:00:00:00:66");
    weir.end();
}

/// A device whose MTU is lowered under way takes no longer frames from us, and that is said.
#[test]
fn a_device_gets_a_smaller_mtu() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &line.config());
    echo(&line.left, "10.2.0.2", [1472]);
    line.gate.ip("link set right mtu 1400");
    let said = "interface right: its device carries packets of up to 1400 octets now, its MTU is 1500";
    crate::lab::wait("a word of it", std::time::Duration::from_secs(60), || weir.log().contains(said));
    echo(&line.left, "10.2.0.2", [56, 1372]);
    let output =
        line.left.output("ping", &["-n", "-c", "2", "-i", "0.2", "-W", "1", "-s", "1373", "-M", "do", "10.2.0.2"]);
    assert!(!output.status.success());
    assert_eq!(weir.interface("right")["transmit-errors"], 2, "{:#}", weir.interface("right"));
    assert_eq!(weir.drops()["transmit-failed"], 2, "{:?}", weir.drops());
    line.gate.ip("link set right mtu 1500");
    echo(&line.left, "10.2.0.2", [1472]);
    assert_eq!(weir.log().matches(said).count(), 1, "{}", weir.log());
    weir.end();
}
