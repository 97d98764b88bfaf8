//! Punt devices that are deleted, renamed or set down while the gateway runs.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use serde_json::Value;

use crate::lab::{Lab, Line, LineOptions, Weir, echo, inject, transfer, wait};

const PATIENCE: Duration = Duration::from_secs(30);

/// A line whose left interface has a punt device.
fn with_punt(line: &Line) -> String {
    line.config().replacen("mtu = 1500", "mtu = 1500\npunt = \"punt0\"", 1)
}

/// Returns the punt device of the left interface, as `show interfaces` has it.
fn punt(weir: &Weir) -> Value {
    weir.interface("left")["punt-device"].clone()
}

fn wait_for(weir: &Weir, state: &str) {
    wait(&format!("the punt device is {state}"), PATIENCE, || punt(weir)["state"] == state);
}

/// Returns how many lines of the log have both words.
fn lines(weir: &Weir, device: &str, word: &str) -> usize {
    weir.log().lines().filter(|line| line.contains(device) && line.contains(word)).count()
}

/// The host reaches the left host by the device, and its address and MTU are those of the interface.
fn is_whole(line: &Line, device: &str) {
    let text = line.gate.device(device).expect("the device is there");
    assert!(text.contains("UP") && text.contains("mtu 1500"), "{text}");
    let addresses = line.gate.ip(&format!("-o address show dev {device}"));
    assert!(addresses.contains("10.1.0.1/24") && addresses.contains("2001:db8:1::1/64"), "{addresses}");
    for to in ["10.1.0.2:179", "[2001:db8:1::2]:179"] {
        transfer(&line.gate, &line.left, to.parse().expect("an address"), 100_000);
    }
}

/// Sends datagrams for the host.
fn send_to_host(line: &Line, count: usize) {
    line.left.enter(|| {
        let socket = UdpSocket::bind("10.1.0.2:0").expect("the left has this address");
        let to: SocketAddr = "10.1.0.1:5353".parse().expect("an address");
        for _ in 0..count {
            socket.send_to(b"for the host", to).expect("it can be sent");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn a_deleted_device_is_noticed_and_created_again() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &with_punt(&line));
    assert_eq!(punt(&weir)["state"], "up");
    is_whole(&line, "punt0");
    line.gate.ip("link delete punt0");
    // Within the second before the first attempt.
    send_to_host(&line, 100);
    wait("it is created again", PATIENCE, || lines(&weir, "punt0", "is up") == 1);
    assert!(punt(&weir)["failed"].as_u64().is_some_and(|failed| failed >= 10), "{}", punt(&weir));
    is_whole(&line, "punt0");
    assert_eq!((lines(&weir, "punt0", "is missing"), lines(&weir, "punt0", "is up")), (1, 1), "{}", weir.log());

    // A reload does not wait for the next attempt, whose pause is longer now.
    line.gate.ip("link delete punt0");
    weir.reload(&with_punt(&line));
    assert_eq!(punt(&weir)["state"], "up");
    is_whole(&line, "punt0");
    weir.end();
    assert_eq!(line.gate.device("punt0"), None, "the device goes with the gateway");
}

#[test]
fn a_device_of_another_program_returns_with_it_or_by_a_reload() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    line.gate.ip("tuntap add punt0 mode tap");
    let weir = Weir::start(&line.gate, &with_punt(&line));
    line.gate.ip("link delete punt0");
    wait_for(&weir, "missing");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(line.gate.device("punt0"), None, "its creator decides about it");
    line.gate.ip("tuntap add punt0 mode tap");
    wait_for(&weir, "up");
    is_whole(&line, "punt0");
    line.gate.ip("link delete punt0");
    wait_for(&weir, "missing");
    weir.reload(&with_punt(&line));
    wait_for(&weir, "up");
    is_whole(&line, "punt0");
    weir.end();
}

#[test]
fn a_renamed_device_stays_in_use() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let weir = Weir::start(&line.gate, &with_punt(&line));
    line.gate.ip("link set punt0 down");
    wait_for(&weir, "down");
    line.gate.ip("link set punt0 name other0");
    line.gate.ip("link set other0 up");
    wait_for(&weir, "up");
    wait("its name is shown", PATIENCE, || punt(&weir)["name"] == "other0");
    // Its line comes behind the state.
    wait("the log names it", PATIENCE, || lines(&weir, "other0", "renamed") == 1);
    weir.end();
}

/// Whether the host sees a carrier on a device.
fn has_carrier(line: &Line, device: &str) -> bool {
    line.gate.device(device).is_some_and(|text| !text.contains("NO-CARRIER"))
}

#[test]
fn the_host_sees_by_the_device_whether_the_link_is_up() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let vlan = "\n[[interface]]\nname = \"tagged\"\nparent = \"left\"\nvlan = 7\naddress = \"10.7.0.1/24\"\npunt = \"punt7\"\n";
    let config = with_punt(&line) + vlan;
    let weir = Weir::start(&line.gate, &config);
    let both = |punt0: bool, punt7: bool| {
        let state = || [has_carrier(&line, "punt0"), has_carrier(&line, "punt7")];
        wait(&format!("carriers {punt0} and {punt7}"), PATIENCE, || state() == [punt0, punt7]);
        // The devices stay set up.
        assert_eq!(punt(&weir)["state"], "up");
    };
    both(true, true);
    line.left.ip("link set e0 down");
    both(false, false);
    // A new device is as the one before.
    line.gate.ip("link delete punt0");
    wait_for(&weir, "missing");
    wait_for(&weir, "up");
    both(false, false);
    line.left.ip("link set e0 up");
    both(true, true);
    weir.reload(&config.replace("punt = \"punt0\"", "punt = { name = \"punt0\", carrier = false }"));
    line.left.ip("link set e0 down");
    both(true, false);
    // A reload changes what the host sees at once.
    weir.reload(&config);
    both(false, false);
    weir.end();
}

/// Addresses and the MTU that the host gives the device are the interface's, until the host takes them away.
#[test]
fn the_interface_follows_the_host() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let follow = "punt = { name = \"punt0\", follow = [\"mtu\", \"addresses\"] }";
    let config = with_punt(&line).replace("punt = \"punt0\"", follow);
    let weir = Weir::start(&line.gate, &config);
    let of_host = || weir.interface("left")["from-host"].clone();
    let wait_for = |expected: Value| wait(&format!("{expected}"), PATIENCE, || of_host() == expected);
    assert_eq!(of_host(), Value::Null);
    line.left.ip("address add 10.77.0.2/24 dev e0");
    line.left.ip("address add 2001:db8:77::2/64 dev e0 nodad");
    for address in ["10.77.0.1/24", "2001:db8:77::1/64"] {
        line.gate.ip(&format!("address add {address} dev punt0"));
    }
    wait_for(serde_json::json!({ "addresses": ["10.77.0.1/24", "2001:db8:77::1/64"] }));
    for target in ["10.77.0.1", "2001:db8:77::1", "10.1.0.1"] {
        echo(&line.left, target, [56]);
    }
    let routes = weir.show("routes");
    let list = routes["routes"].as_array().expect("a list");
    let route = list.iter().find(|route| route["prefix"] == "10.77.0.0/24").unwrap_or_else(|| panic!("{routes:#}"));
    assert_eq!((&route["kind"], &route["origin"]), (&"connected".into(), &"host punt0".into()), "{route}");
    assert_eq!(route["source"], "host");
    line.gate.ip("link set punt0 mtu 1400");
    wait("the MTU", PATIENCE, || weir.interface("left")["mtu"] == 1400);
    // A reload keeps it all, and the device has it still.
    weir.reload(&config);
    let all = serde_json::json!({ "mtu": 1400, "addresses": ["10.77.0.1/24", "2001:db8:77::1/64"] });
    wait_for(all);
    assert!(line.gate.device("punt0").is_some_and(|text| text.contains("mtu 1400")));
    line.gate.ip("address del 10.77.0.1/24 dev punt0");
    wait_for(serde_json::json!({ "mtu": 1400, "addresses": ["2001:db8:77::1/64"] }));
    line.gate.ip("link set punt0 mtu 1500");
    wait_for(serde_json::json!({ "addresses": ["2001:db8:77::1/64"] }));
    assert_eq!(weir.interface("left")["mtu"], 1500);
    // A change that is taken back does not bring back what the host has taken away since.
    line.gate.ip("address add 10.78.0.1/24 dev punt0");
    wait_for(serde_json::json!({ "addresses": ["10.78.0.1/24", "2001:db8:77::1/64"] }));
    weir.reload(&config.replacen("mtu = 1500", "mtu = 1501", 2).replacen("mtu = 1501", "mtu = 1500", 1));
    line.gate.ip("address del 10.78.0.1/24 dev punt0");
    wait_for(serde_json::json!({ "addresses": ["2001:db8:77::1/64"] }));
    assert!(weir.weir(&["undo"]).status.success());
    wait("the address is gone again", PATIENCE, || {
        !weir.interface("left")["addresses"].to_string().contains("10.78.0.1")
    });
    assert_eq!(of_host(), serde_json::json!({ "addresses": ["2001:db8:77::1/64"] }));
    // Without the key it goes.
    weir.reload(&with_punt(&line));
    wait_for(Value::Null);
    assert!(!weir.interface("left")["addresses"].to_string().contains("db8:77"));
    weir.end();
}

/// A line whose left host sends no solicitations for the gateway's addresses.
fn quiet(lab: &mut Lab) -> Line {
    let line = Line::new(lab, LineOptions::default());
    for address in ["10.1.0.1", "2001:db8:1::1"] {
        line.left.ip(&format!("neighbor replace {address} lladdr 02:00:00:00:01:02 dev e0 nud permanent"));
    }
    line
}

fn neighbor(weir: &Weir, address: &str) -> Value {
    let shown = weir.show("neighbors");
    let rows = shown["neighbors"].as_array().expect("a list");
    rows.iter().find(|row| row["address"] == address).cloned().unwrap_or_default()
}

/// Neighbours that the host sets on the device, or resolves there, are the interface's.
#[test]
fn the_interface_follows_the_neighbours_of_the_host() {
    let Some(mut lab) = Lab::open() else { return };
    let line = quiet(&mut lab);
    let follow = "punt = { name = \"punt0\", follow = \"neighbors\" }";
    let config = with_punt(&line).replace("punt = \"punt0\"", follow);
    let weir = Weir::start(&line.gate, &config);
    let has = |address: &str, source: &str, state: &str| {
        wait(&format!("{address} {source} {state}"), PATIENCE, || {
            let row = neighbor(&weir, address);
            row["source"] == source && row["state"] == state
        });
        neighbor(&weir, address)
    };
    for address in ["10.1.0.77", "2001:db8:1::77"] {
        line.gate.ip(&format!("neighbor add {address} lladdr 02:00:00:00:00:77 dev punt0"));
        let row = has(address, "host", "static");
        assert_eq!((&row["mac"], &row["origin"]), (&"02:00:00:00:00:77".into(), &"host punt0".into()), "{row}");
    }
    // It moves, and a reload keeps it.
    line.gate.ip("neighbor replace 10.1.0.77 lladdr 02:00:00:00:00:78 dev punt0");
    wait("the other hardware address", PATIENCE, || neighbor(&weir, "10.1.0.77")["mac"] == "02:00:00:00:00:78");
    weir.reload(&config);
    assert_eq!(neighbor(&weir, "10.1.0.77")["mac"], "02:00:00:00:00:78");
    line.gate.ip("neighbor delete 10.1.0.77 dev punt0");
    wait("it is gone", PATIENCE, || neighbor(&weir, "10.1.0.77").is_null());
    assert_eq!(neighbor(&weir, "2001:db8:1::77")["source"], "host");
    // What the host resolves, weir knows before it sends anything there.
    for address in ["10.1.0.2", "2001:db8:1::2"] {
        assert!(neighbor(&weir, address).is_null());
        echo(&line.gate, address, [56]);
        let row = has(address, "dynamic", "stale");
        assert_eq!((&row["mac"], &row["age"]), (&"02:00:00:00:01:01".into(), &Value::Null), "{row}");
    }
    echo(&line.right, "10.1.0.2", [56]);
    has("10.1.0.2", "dynamic", "reachable");
    // Without the key they go. Learned neighbours stay.
    weir.reload(&with_punt(&line));
    wait("they are gone", PATIENCE, || neighbor(&weir, "2001:db8:1::77").is_null());
    assert!(!neighbor(&weir, "10.1.0.2").is_null());
    line.gate.ip("neighbor add 10.1.0.79 lladdr 02:00:00:00:00:79 dev punt0");
    echo(&line.right, "10.1.0.2", [56]);
    assert!(neighbor(&weir, "10.1.0.79").is_null());
    weir.end();
}

/// The host resolves neighbours by copies of their answers, and follows neighbours that move by copies of announcements: weir
/// writes nothing into its table.
#[test]
fn the_host_follows_a_neighbour_that_moves() {
    let Some(mut lab) = Lab::open() else { return };
    let line = quiet(&mut lab);
    let weir = Weir::start(&line.gate, &with_punt(&line));
    let knows = |address: &str, mac: &str| {
        wait(&format!("{address} at {mac}"), PATIENCE, || {
            let shown = line.gate.ip(&format!("neighbor show {address} dev punt0"));
            shown.contains(&format!("lladdr {mac}"))
        });
    };
    for address in ["10.1.0.2", "2001:db8:1::2"] {
        echo(&line.gate, address, [56]);
        knows(address, "02:00:00:00:01:01");
    }
    let station = [2, 0, 0, 0, 1, 9];
    // A gratuitous request of ARP, as keepalived sends it.
    let mut arp = vec![0xff; 6];
    arp.extend(station);
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend(station);
    arp.extend([10, 1, 0, 2, 0, 0, 0, 0, 0, 0, 10, 1, 0, 2]);
    inject(&line.left, "e0", 100, [arp].into_iter());
    knows("10.1.0.2", "02:00:00:00:01:09");
    weir.end();
}
