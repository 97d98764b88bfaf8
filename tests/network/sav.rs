//! Source address validation between real hosts: one customer forges sources, another's traffic comes by another link than
//! the way back leads over. Enforcement goes up and down under traffic.
//!
//! ```text
//! left (a customer who forges)      ─── left ───┐        ┌─ right ─── right (the Internet)
//! other (a customer with two links) ─── first ──┤  weir  ┤
//!                                   ─── second ─┘        └─ scrub ─── scrub (where what is redirected goes)
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::lab::{Capture, Lab, Line, LineOptions, Sender, Sink, Space, StreamSpec, Weir, echo};

/// Sources that the customer on the left may not use: addresses of the other customer.
const FORGED: [&str; 2] = ["198.18.0.66", "2001:db8:18::66"];

/// Sources of the other customer.
const OWN: [&str; 2] = ["198.18.0.1", "2001:db8:18::1"];

/// Where all of them send to.
const TO: [&str; 2] = ["10.2.0.2", "2001:db8:2::2"];

/// Packets that are not valid in a second, of each family.
const RATE: u32 = 2000;

/// As many of them pass in a second under a rate limit, both families together.
const LIMIT: u32 = 400;

/// How long each stage is looked at.
const STAGE: Duration = Duration::from_secs(3);

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn stream(from: &str, to: &str, port: u16, rate: u32) -> StreamSpec {
    StreamSpec { from: address(from), to: SocketAddr::new(address(to), port), flows: 4, rate, size: 64 }
}

/// The action of a stage for invalid packets.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Passes,
    IsLimited,
    IsRedirected,
    IsDropped,
}

struct Hosts {
    line: Line,
    scrub: Space,
    // Its links live as long as it does.
    _other: Space,
}

impl Hosts {
    /// Sends forged packets in both families for a while, and holds what arrives where against what is to become of them.
    ///
    /// Checks the limit of a stage. A process that waits for a CPU for longer than a burst lasts sends or passes less
    /// than the rate, and more afterwards: one of several tries has to be undisturbed.
    fn forge(&self, weir: &Weir, stage: &str, fate: Fate, port: u16) {
        assert!((0..10).any(|_| self.look(weir, stage, fate, port)), "{stage}: others pass than the rate allows");
    }

    /// Whether as many pass as the rate allows; everything else is so in any case.
    fn look(&self, weir: &Weir, stage: &str, fate: Fate, port: u16) -> bool {
        let captures = FORGED.map(|from| Capture::start(&self.scrub, "e0", &format!("src {from}")));
        let sinks = TO.map(|to| Sink::start(&self.line.right, SocketAddr::new(address(to), port)));
        let before = weir.drops();
        let senders: Vec<Sender> = FORGED
            .iter()
            .zip(TO)
            .map(|(from, to)| Sender::start(&self.line.left, stream(from, to, port, RATE)))
            .collect();
        std::thread::sleep(STAGE);
        let sent: Vec<_> = senders.into_iter().map(Sender::stop).collect();
        let arrived: Vec<u64> = sinks.map(|sink| sink.stop().total()).into();
        let redirected: Vec<u64> = captures.map(|capture| capture.stop().len() as u64).into();
        let after = weir.drops();
        let drops = |reason: &str| after.get(reason).unwrap_or(&0) - before.get(reason).unwrap_or(&0);
        let total: u64 = sent.iter().map(|sent| sent.total()).sum();
        let time = sent.iter().map(|sent| sent.time).max().unwrap_or_default();
        println!(
            "{stage}: {total} sent in {time:.2?}, {arrived:?} arrived, {redirected:?} redirected, \
             {} and {} dropped",
            drops("sav-table"),
            drops("sav-rate-limit")
        );
        let all: u64 = arrived.iter().sum();
        match fate {
            Fate::Passes => assert_eq!((all, redirected, drops("sav-table")), (total, vec![0, 0], 0)),
            Fate::IsDropped => assert_eq!((all, redirected, drops("sav-table")), (0, vec![0, 0], total)),
            Fate::IsRedirected => {
                let each: Vec<u64> = sent.iter().map(|sent| sent.total()).collect();
                assert_eq!((all, redirected, drops("sav-table")), (0, each, 0));
            }
            Fate::IsLimited => {
                assert_eq!((all + drops("sav-rate-limit"), redirected, drops("sav-table")), (total, vec![0, 0], 0));
                let wanted = f64::from(LIMIT) * time.as_secs_f64();
                let off = all as f64 / wanted - 1.0;
                // What may come at once is a tenth of a second's worth; the sender's clock is not weir's.
                println!("{all} passed of {wanted:.0} that may");
                return (-0.03..0.08).contains(&off);
            }
        }
        true
    }
}

/// The configuration: the table knows by which links each customer's prefixes may come in, whatever the routes are.
fn config(line: &Line) -> String {
    let config = line.config().replace("address = [\"10.1.0.1", "sav = \"customers\"\naddress = [\"10.1.0.1");
    config
        + r#"
[[interface]]
name = "first"
port = { af-packet = "first" }
address = ["10.3.0.1/24", "2001:db8:3::1/64"]
sav = "customers"

[[interface]]
name = "second"
port = { af-packet = "second" }
address = ["10.4.0.1/24", "2001:db8:4::1/64"]
sav = "customers"

[[interface]]
name = "scrub"
port = { af-packet = "scrub" }
address = ["10.5.0.1/24", "2001:db8:5::1/64"]

[[route]]
prefix = "198.18.0.0/24"
via = { address = "10.3.0.2" }

[[route]]
prefix = "2001:db8:18::/48"
via = { address = "2001:db8:3::2" }

[sav.customers]
mechanism = "table"
action = "permit"
rate-limit = { packets = 400, burst = 40, per = "interface" }
redirect = [{ address = "10.5.0.2" }, { address = "2001:db8:5::2" }]
rules = [
  "permit from 10.1.0.0/24 on left",
  "permit from 2001:db8:1::/64 on left",
  "permit from 10.3.0.0/24 on first",
  "permit from 2001:db8:3::/64 on first",
  "permit from 10.4.0.0/24 on second",
  "permit from 2001:db8:4::/64 on second",
  "permit from 198.18.0.0/24 on first, second",
  "permit from 2001:db8:18::/48 on first, second",
]
"#
}

#[test]
fn forged_sources_meet_each_stage_and_an_asymmetric_customer_none() {
    let Some(mut lab) = Lab::alone() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let (other, scrub) = (lab.space("other"), lab.space("scrub"));
    for (host, near, far) in [(&other, "e0", "first"), (&other, "e1", "second"), (&scrub, "e0", "scrub")] {
        lab.link((host, near), (&line.gate, far), 1500);
    }
    for (host, device, side) in [(&other, "e0", 3), (&other, "e1", 4), (&scrub, "e0", 5)] {
        host.ip(&format!("address add 10.{side}.0.2/24 dev {device}"));
        host.ip(&format!("address add 2001:db8:{side}::2/64 dev {device} nodad"));
    }
    // He sends by the second link, and is reached by the first.
    other.ip("route add default via 10.4.0.1");
    other.ip("route add default via 2001:db8:4::1");
    let own = [(&other, OWN), (&line.left, FORGED)];
    for (host, [v4, v6]) in own {
        host.ip(&format!("address add {v4}/32 dev lo"));
        host.ip(&format!("address add {v6}/128 dev lo nodad"));
    }
    let weir = Weir::start(&line.gate, &config(&line));
    for target in TO {
        echo(&line.left, target, [56]);
        echo(&other, target, [56]);
    }
    // The scrubber's hardware addresses are resolved before it counts.
    for target in ["10.5.0.1", "2001:db8:5::1"] {
        echo(&scrub, target, [56]);
    }

    let sinks = TO.map(|to| Sink::start(&line.right, SocketAddr::new(address(to), 7000)));
    let senders: Vec<Sender> =
        OWN.iter().zip(TO).map(|(from, to)| Sender::start(&other, stream(from, to, 7000, 1000))).collect();
    let hosts = Hosts { line, scrub, _other: other };
    let stages = [
        ("configured", Fate::Passes),
        ("rate-limit", Fate::IsLimited),
        ("discard", Fate::IsDropped),
        ("redirect", Fate::IsRedirected),
        ("discard", Fate::IsDropped),
        ("rate-limit", Fate::IsLimited),
        ("monitor", Fate::Passes),
    ];
    for (port, (stage, fate)) in (7001..).zip(stages) {
        let output = weir.weir(&["sav", "stage", "customers", stage]);
        assert!(output.status.success(), "{stage}: {}", String::from_utf8_lossy(&output.stderr));
        hosts.forge(&weir, stage, fate, port);
    }
    let sent: Vec<_> = senders.into_iter().map(Sender::stop).collect();
    let arrived = sinks.map(Sink::stop);
    for ((sent, arrived), from) in sent.iter().zip(&arrived).zip(OWN) {
        println!("{from}: {} of {} arrived, longest gap {:.1?}", arrived.total(), sent.total(), arrived.gap);
        assert_eq!((arrived.total(), arrived.misplaced, arrived.changed), (sent.total(), 0, 0), "{:?}", weir.drops());
    }
    weir.end();
}
