//! The kernel's devices: facts, settings, changes. As root, in network namespaces of their own.

#[path = "common/namespace.rs"]
mod namespace;

use std::io::Read as _;
use std::process::{Command, Stdio};

use namespace::{eventually, in_namespace, ip, without_ipv6};
use weir_port::links::{Change, Device, Layer, LinksError, Monitor, Neighbor, NeighborMonitor, neighbors};

/// A pair of devices with these names.
fn pair(one: &str, other: &str) {
    ip(&format!("link add {one} type veth peer name {other}"));
}

fn device(name: &str) -> Device {
    Device::named(name).unwrap().unwrap()
}

fn told(monitor: &mut Monitor) -> Vec<String> {
    let name = |change| match change {
        Change::Device(name) => name,
        Change::Everything => panic!("nothing overflowed"),
    };
    monitor.changes().into_iter().map(name).collect()
}

#[test]
fn a_device_tells_what_it_is() {
    in_namespace(|| {
        pair("wt0", "wt1");
        ip("link set wt0 address 02:00:00:00:77:01 mtu 1400 up");
        ip("address add 192.0.2.1/24 dev wt0");
        ip("address add 192.0.2.9/32 dev wt1");
        ip("address add 2001:db8::1/64 dev wt0 nodad");
        let wt0 = device("wt0");
        assert_eq!((wt0.name.as_str(), wt0.mac, wt0.mtu), ("wt0", Some([2, 0, 0, 0, 0x77, 1]), 1400));
        assert_eq!((wt0.layer, wt0.kind.as_deref(), wt0.tuntap), (Layer::Ethernet, Some("veth"), None));
        assert!(wt0.up && !wt0.running, "the other end is down");
        assert_eq!((wt0.peer, device("wt1").peer), (Some(device("wt1").index), Some(wt0.index)));
        assert!(wt0.addresses.contains(&"192.0.2.1/24".parse().unwrap()));
        assert!(wt0.addresses.contains(&"2001:db8::1/64".parse().unwrap()));
        assert!(!wt0.addresses.contains(&"192.0.2.9/32".parse().unwrap()), "that is on the other device");
        ip("link set wt1 up");
        assert!(device("wt0").running);
        assert_eq!(device("lo").layer, Layer::Loopback);
        ip("tuntap add wt2 mode tap multi_queue vnet_hdr");
        ip("tuntap add wt3 mode tun");
        let (tap, tun) = (device("wt2"), device("wt3"));
        assert_eq!((tap.layer, tun.layer, tun.mac), (Layer::Ethernet, Layer::None, None));
        let (tap, tun) = (tap.tuntap.unwrap(), tun.tuntap.unwrap());
        assert!(tap.tap && tap.persistent && tap.multi_queue && tap.queues == Some(0));
        assert!(!tun.tap && tun.persistent && !tun.multi_queue);
    });
}

/// Indices of another namespace name other devices.
#[test]
fn an_end_of_a_pair_knows_the_other_end_in_its_namespace_alone() {
    in_namespace(|| {
        pair("wt0", "wt1");
        ip("link add wt2 type veth peer name wt3");
        let mut other = Command::new("unshare");
        other.args(["--net", "sh", "-c", "echo; read end"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut other = other.spawn().unwrap();
        // The shell runs in its namespace.
        other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        ip(&format!("link set wt3 netns {}", other.id()));
        assert_eq!((device("wt0").peer, device("wt2").peer), (Some(device("wt1").index), None));
        drop(other.stdin.take());
        other.wait().unwrap();
    });
}

#[test]
fn what_does_not_exist_is_no_error() {
    in_namespace(|| {
        for name in ["wt9", "", "a-name-that-is-too-long"] {
            assert_eq!(Device::named(name).unwrap(), None, "{name}");
        }
    });
}

#[test]
fn a_device_found_by_an_alternative_name_tells_its_own() {
    in_namespace(|| {
        pair("wt0", "wt1");
        ip("link property add dev wt0 altname wt-alias");
        assert_eq!(device("wt-alias").name, "wt0");
    });
}

#[test]
fn settings_are_made_and_may_be_made_again() {
    in_namespace(|| {
        pair("wt0", "wt1");
        let addresses = ["192.0.2.1/24".parse().unwrap(), "2001:db8::1/64".parse().unwrap()];
        let stale = device("wt0");
        for mut wt0 in [stale.clone(), stale, device("wt0")] {
            wt0.set_mtu(1300).unwrap();
            wt0.set_mac([2, 0, 0, 0, 0, 9]).unwrap();
            wt0.add_addresses(&addresses).unwrap();
            wt0.set_up(true).unwrap();
        }
        let mut wt0 = device("wt0");
        assert_eq!((wt0.mtu, wt0.mac, wt0.up), (1300, Some([2, 0, 0, 0, 0, 9]), true));
        assert!(addresses.iter().all(|address| wt0.addresses.contains(address)), "{:?}", wt0.addresses);
        assert!(!ip("address show dev wt0").contains("tentative"), "usable at once");
        wt0.set_up(false).unwrap();
        assert!(!device("wt0").up);
    });
}

#[test]
fn what_the_kernel_refuses_says_what_was_asked() {
    in_namespace(|| {
        pair("wt0", "wt1");
        let mut wt0 = device("wt0");
        let error = wt0.set_mtu(20).unwrap_err();
        assert!(matches!(error, LinksError::Refused { .. }), "{error:?}");
        assert_eq!(error.to_string(), "setting the MTU of wt0 to 20: Invalid argument (os error 22)");
        assert_ne!(wt0.mtu, 20);
        ip("link delete wt0");
        assert!(wt0.set_up(true).unwrap_err().to_string().starts_with("setting wt0 up: No such device"));
    });
}

#[test]
fn a_missing_privilege_is_named() {
    in_namespace(|| {
        pair("wt0", "wt1");
        let mut wt0 = device("wt0");
        let effective = rustix::thread::capabilities(None).unwrap();
        let less = rustix::thread::CapabilitySets {
            effective: effective.effective - rustix::thread::CapabilitySet::NET_ADMIN,
            ..effective
        };
        rustix::thread::set_capabilities(None, less).unwrap();
        let error = wt0.set_up(true).unwrap_err();
        assert!(matches!(error, LinksError::NoPrivilege { .. }), "{error:?}");
        assert_eq!(error.to_string(), "setting wt0 up: it needs CAP_NET_ADMIN over this network namespace");
    });
}

#[test]
fn changes_are_told_by_name() {
    in_namespace(|| {
        // IPv6 addresses appear, and pass duplicate address detection, seconds after a device came up.
        without_ipv6();
        pair("wt0", "wt1");
        let mut monitor = Monitor::open().unwrap();
        assert!(told(&mut monitor).is_empty(), "what was there before is no change");
        let mut seen: Vec<&str> = Vec::new();
        for (change, devices) in [
            ("link set wt0 up", &["wt0"][..]),
            ("link set wt1 up", &["wt1", "wt0"]),
            ("link set wt1 mtu 1300", &["wt1"]),
            ("address add 192.0.2.1/24 dev wt0", &["wt0"]),
            ("address delete 192.0.2.1/24 dev wt0", &["wt0"]),
            ("link set wt1 down", &["wt1", "wt0"]),
            ("link set wt1 name wt7", &["wt1", "wt7"]),
            ("link add wt2 type veth peer name wt3", &["wt2", "wt3"]),
            ("link delete wt0", &["wt0", "wt7"]),
        ] {
            ip(change);
            // A carrier is noticed a little later.
            let mut all: Vec<String> = Vec::new();
            eventually(change, || {
                all.extend(told(&mut monitor));
                devices.iter().all(|device| all.iter().any(|name| name == device))
            });
            // The kernel may report a carrier up to a second after the change.
            seen.extend(devices);
            let strangers = all.iter().filter(|name| !seen.contains(&name.as_str()));
            assert_eq!(strangers.count(), 0, "{change}: {all:?}");
        }
    });
}

#[test]
fn changes_are_told_by_every_name() {
    in_namespace(|| {
        // Up: the kernel reports no properties of other devices.
        pair("wt0", "wt1");
        for device in ["wt0", "wt1"] {
            ip(&format!("link set {device} addrgenmode none up"));
        }
        ip("link property add dev wt0 altname wt-alias");
        // The last report that the kernel sends on its own.
        eventually("the carriers", || device("wt0").running && device("wt1").running);
        let mut monitor = Monitor::open().unwrap();
        for (change, devices) in [
            ("link set wt0 mtu 1300", &["wt0", "wt-alias"][..]),
            ("address add 192.0.2.1/24 dev wt0", &["wt0", "wt-alias"]),
            (
                "link property add dev wt0 altname wt-other-and-longer-one",
                &["wt0", "wt-alias", "wt-other-and-longer-one"],
            ),
            (
                "link property del dev wt0 altname wt-other-and-longer-one",
                &["wt0", "wt-alias", "wt-other-and-longer-one"],
            ),
            ("link set wt0 name wt5", &["wt0", "wt-alias", "wt5"]),
            ("link property del dev wt5 altname wt-alias", &["wt5", "wt-alias"]),
            ("link property add dev wt1 altname wt-alias", &["wt1", "wt-alias"]),
            ("link delete wt5", &["wt5", "wt1", "wt-alias"]),
        ] {
            ip(change);
            let mut all = told(&mut monitor);
            all.sort();
            let mut devices = devices.to_vec();
            devices.sort();
            assert_eq!(all, devices, "{change}");
        }
    });
}

#[test]
fn a_waiting_thread_is_woken_by_a_change() {
    in_namespace(|| {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let mut monitor = Monitor::open().unwrap();
        let wait = |monitor: &Monitor, nanoseconds| {
            let descriptor = monitor.descriptor();
            poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: nanoseconds }))
                .unwrap()
        };
        assert_eq!(wait(&monitor, 1_000_000), 0);
        pair("wt0", "wt1");
        assert_eq!(wait(&monitor, 999_000_000), 1);
        assert_eq!(told(&mut monitor).len(), 2);
        assert_eq!(wait(&monitor, 1_000_000), 0);
    });
}

#[test]
fn changes_that_were_lost_make_everything_suspect() {
    in_namespace(|| {
        pair("wt0", "wt1");
        let mut monitor = Monitor::open().unwrap();
        let batch: String = (0..300)
            .map(|round| format!("link set wt0 mtu {}\nlink set wt1 mtu {}\n", 1300 + round, 1300 + round))
            .collect();
        let script = std::env::temp_dir().join(format!("weir-links-{}", std::process::id()));
        std::fs::write(&script, batch + "link set wt1 name wt5\n").unwrap();
        ip(&format!("-batch {}", script.display()));
        std::fs::remove_file(&script).unwrap();
        assert_eq!(monitor.changes(), [Change::Everything]);
        assert_eq!(monitor.changes(), []);
        // The monitor works on and knows the lost name.
        ip("link set wt5 name wt6");
        assert_eq!(told(&mut monitor), ["wt5", "wt6"]);
    });
}

#[test]
fn neighbours_of_a_device_are_listed_and_their_changes_told() {
    in_namespace(|| {
        pair("wt0", "wt1");
        for device in ["wt0", "wt1"] {
            ip(&format!("link set {device} addrgenmode none up"));
        }
        eventually("the carriers", || device("wt0").running && device("wt1").running);
        let (wt0, wt1) = (device("wt0").index, device("wt1").index);
        let mut monitor = NeighborMonitor::open().unwrap();
        assert!(!monitor.has_changed(|_| true), "what was there before is no change");
        let neighbor = |address: &str, last, is_static| Neighbor {
            address: address.parse().unwrap(),
            mac: [2, 0, 0, 0, 0, last],
            is_static,
        };
        let all = |index| {
            let mut all = neighbors(index).unwrap();
            all.sort_unstable_by_key(|own| own.address);
            all
        };
        for (address, last, state) in [
            ("192.0.2.7", 7, "permanent"),
            ("192.0.2.8", 8, "stale"),
            ("192.0.2.9", 9, "noarp"),
            ("224.0.0.9", 9, "noarp"),
            ("2001:db8::7", 7, "permanent"),
        ] {
            ip(&format!("neighbor add {address} lladdr 02:00:00:00:00:0{last} dev wt0 nud {state}"));
        }
        ip("neighbor add proxy 192.0.2.10 dev wt0");
        ip("neighbor add 192.0.2.11 dev wt0 nud failed");
        let expected = [
            neighbor("192.0.2.7", 7, true),
            neighbor("192.0.2.8", 8, false),
            neighbor("192.0.2.9", 9, true),
            neighbor("2001:db8::7", 7, true),
        ];
        assert_eq!((all(wt0), all(wt1)), (expected.to_vec(), vec![]));
        assert!(monitor.has_changed(|index| index == wt0) && !monitor.has_changed(|_| true));
        ip("neighbor delete 192.0.2.7 dev wt0");
        assert!(monitor.has_changed(|index| index == wt0));
        ip("neighbor add 192.0.2.7 lladdr 02:00:00:00:00:07 dev wt1");
        assert!(!monitor.has_changed(|index| index == wt0));
        assert_eq!((all(wt0), all(wt1)), (expected[1..].to_vec(), vec![neighbor("192.0.2.7", 7, true)]));
        // Changes that were lost may have been of any device.
        let batch: String = (0..4000)
            .map(|host| format!("neighbor add 10.0.{}.{} lladdr 02:00:00:00:00:01 dev wt1\n", host / 250, host % 250))
            .collect();
        let script = std::env::temp_dir().join(format!("weir-neighbors-{}", std::process::id()));
        std::fs::write(&script, batch).unwrap();
        ip(&format!("-batch {}", script.display()));
        std::fs::remove_file(&script).unwrap();
        assert!(monitor.has_changed(|index| index == wt0));
        while monitor.has_changed(|index| index == wt0) {}
        assert_eq!(all(wt1).len(), 4001);
    });
}
