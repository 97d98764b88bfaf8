//! The end of a rekey while packets are on their way between workers: they name a pair that is gone.

use crate::kit::esp::{bare, sa, west};
use crate::kit::*;
use weir_plane::harness::{Harness, Options};
use weir_plane::model::{Sa, SaIndex, SaKey};
use weir_plane::reason::Reason;

const V4: (&str, &str) = ("198.51.100.1", "198.51.100.2");

/// A pair with keys of its own, and SPIs that differ from those of the first one.
fn another(name: &str, algorithm: &str, offset: u32) -> Sa {
    let own = sa(algorithm, V4.0, V4.1);
    let spi = |key: Option<SaKey>| key.map(|mut key| (key.spi += offset, key).1);
    Sa { name: name.into(), outbound: spi(own.outbound.clone()), inbound: spi(own.inbound.clone()), ..own }
}

fn spi(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[l3(frame) + 20..][..4].try_into().unwrap())
}

#[test]
fn packets_that_name_a_pair_that_is_gone_leave_by_the_pair_that_has_its_sa() {
    let old = sa("aes128gcm16", V4.0, V4.1);
    let rekeyed = |new: &Sa| [old.clone(), Sa { name: "peer-next".into(), ..new.clone() }];
    // So many SPIs that each worker owns some.
    for (workers, offset) in (1..=4).flat_map(|workers| (1..9).map(move |offset| (workers, 0x100 * offset))) {
        let new = another("peer", "aes256gcm16", offset);
        let mut harness =
            Harness::with_workers(west(&rekeyed(&new)).0, Options { seed: 5, invent_neighbors: false }, workers)
                .unwrap();
        let sent = Sent::default();
        for port in 0..2 {
            harness.connect_each(port, || Box::new(Capturing::new(port, &sent)));
        }
        let packet = bare("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 ttl 9 length 80");
        let inject = |harness: &mut Harness, sa: u32| {
            (0..20).for_each(|number| assert!(harness.inject_protected(0, SaIndex(sa), &packet, number)));
        };
        let left = |harness: &mut Harness| {
            harness.run();
            let frames = std::mem::take(&mut *sent.lock().unwrap());
            assert_eq!((frames.len(), harness.drops(Reason::EspNoOutbound)), (20, 0), "{workers} workers, {offset:#x}");
            spi(&frames[0].1)
        };
        // The rekey ends while packets name its new pair, and while others name the old one.
        inject(&mut harness, 1);
        harness.change_ipsec(west(std::slice::from_ref(&new)).0).unwrap();
        assert_eq!(left(&mut harness), 0x1001 + offset);
        inject(&mut harness, 0);
        assert_eq!(left(&mut harness), 0x1001 + offset);
        // Each pair that is gone is one row no more.
        assert_eq!(harness.sas().len(), 1);
        assert_eq!(harness.conservation().imbalance(), 0);
    }
}

#[test]
fn packets_of_a_pair_that_is_gone_with_its_keys_are_dropped() {
    let both = [sa("aes128gcm16", V4.0, V4.1), another("second", "aes256gcm16", 0x100)];
    let mut harness = Harness::new(west(&both).0, Options { seed: 5, invent_neighbors: false }).unwrap();
    let packet = bare("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 ttl 9 length 80");
    assert!(harness.inject_protected(0, SaIndex(1), &packet, 0));
    harness.change_ipsec(west(&both[..1]).0).unwrap();
    harness.run();
    assert_eq!(harness.drops(Reason::EspNoOutbound), 1);
}
