//! An outbound SA that several workers share: a worker holds its packets if their numbers would be too far above the
//! unsent numbers of another, and loses and reorders none.

use std::sync::Arc;

use crate::kit::esp::{mirrored, sa};
use crate::kit::*;
use weir_plane::model::{Sa, SaIndex};
use weir_plane::reason::Reason;

const V4: (&str, &str) = ("198.51.100.1", "198.51.100.2");

fn shared(window: u32) -> Sa {
    Sa { is_shared: true, window, ..sa("aes128gcm16", V4.0, V4.1) }
}

fn inner(port: usize) -> Vec<u8> {
    crate::kit::esp::bare(&format!("udp from 10.1.0.2 port {port} to 10.2.0.2 port 9 ttl 9 length 80"))
}

fn frames(out: Vec<(String, Vec<u8>)>) -> Vec<Vec<u8>> {
    out.into_iter().map(|(_, frame)| frame).collect()
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[l3(frame) + 24..][..4].try_into().unwrap())
}

#[test]
fn a_worker_alone_gets_all_numbers_that_it_wants() {
    let own = shared(32);
    let (mut west, mut east) =
        (crate::kit::esp::west(std::slice::from_ref(&own)).rig(), crate::kit::esp::east(&[own]).rig());
    let packets: Vec<_> = (0..200).map(|_| inner(7)).collect();
    let out = frames(west.protect(0, &packets).1);
    assert_eq!(out.iter().map(|frame| number(frame)).collect::<Vec<_>>(), (1..=200).collect::<Vec<_>>());
    assert_eq!(east.put_all("wan", &out).1.len(), 200);
}

#[test]
fn with_a_window_of_32_nothing_is_lost_while_another_worker_sends_too() {
    let own = shared(32);
    let mut west = crate::kit::esp::west(std::slice::from_ref(&own)).rig();
    let mut east = crate::kit::esp::east(std::slice::from_ref(&own)).rig();
    let sharing = west.harness.sharing(SaIndex(0)).unwrap();
    let sequence = Arc::clone(&west.harness.sequences()[0].1);
    let (mut sent, mut seen): (Vec<Vec<u8>>, Vec<u32>) = (Vec::new(), Vec::new());
    let mut others: Vec<u32> = Vec::new();
    for round in 0..20 {
        // Another worker takes some numbers, and is slow to send.
        let taken = sharing.take((&sequence, u64::MAX), 1, 3, |_| false);
        assert_eq!(taken.count, 3);
        let packets: Vec<_> = (0..40).map(|at| inner(1000 + 40 * round + at)).collect();
        let mut out = frames(west.protect(0, &packets).1);
        assert_eq!(out.len(), 5, "up to 8 from the first of the other worker on");
        assert_eq!(west.harness.drops(Reason::NoBuffer), 0);
        // A round that brings nothing else changes nothing.
        assert!(west.idle().1.is_empty());
        seen.extend(out.iter().map(|frame| number(frame)));
        let least = u64::from(*seen.last().unwrap()) - taken.first;
        assert!(least < 32 / 4);
        others.extend((taken.first..taken.first + 3).map(|number| number as u32));
        sharing.sent(1);
        // What was put aside goes before what is new.
        let more = frames(west.protect(0, &[inner(9)]).1);
        assert_eq!(more.len(), 36);
        seen.extend(more.iter().map(|frame| number(frame)));
        out.extend(more);
        sent.extend(out);
    }
    assert!(seen.is_sorted(), "{seen:?}");
    let mut all: Vec<u32> = seen.iter().chain(&others).copied().collect();
    all.sort_unstable();
    assert_eq!(all, (1..=all.len() as u32).collect::<Vec<_>>(), "no number twice, and none left out");
    // The peer accepts each packet, and the inner ports are in the order in which they came.
    let (_, out) = east.put_all("wan", &sent[..200]);
    assert_eq!(out.len(), 200);
    let (_, rest) = east.put_all("wan", &sent[200..400]);
    let ports: Vec<u16> = out
        .iter()
        .chain(&rest)
        .map(|(_, frame)| {
            let at = l3(frame) + 20;
            u16::from_be_bytes([frame[at], frame[at + 1]])
        })
        .filter(|&port| port >= 1000)
        .collect();
    assert!(ports.is_sorted() && ports.len() > 300, "{ports:?}");
    assert_eq!(mirrored(&mirrored(&own)), own);
}

#[test]
fn packets_that_are_put_aside_for_too_long_are_dropped_and_counted() {
    let own = shared(64);
    let mut west = crate::kit::esp::west(std::slice::from_ref(&own)).buffers(8192, 0).rig();
    let sharing = west.harness.sharing(SaIndex(0)).unwrap();
    let sequence = Arc::clone(&west.harness.sequences()[0].1);
    assert_eq!(sharing.take((&sequence, u64::MAX), 1, 16, |_| false).count, 16);
    let packets: Vec<_> = (0..256).map(|_| inner(7)).collect();
    for _ in 0..8 {
        assert!(west.protect(0, &packets).1.is_empty());
    }
    assert_eq!((west.harness.drops(Reason::NoBuffer), west.conservation().held), (0, 2048));
    west.protect(0, &packets[..10]);
    assert_eq!(west.harness.drops(Reason::NoBuffer), 10);
    sharing.sent(1);
    assert_eq!(west.idle().1.len(), 2048);
    assert_eq!(west.conservation().held, 0);
}

#[test]
fn an_sa_of_one_worker_has_no_numbers_to_show() {
    let west = crate::kit::esp::west(&[sa("aes128gcm16", V4.0, V4.1)]).rig();
    assert!(west.harness.sharing(SaIndex(0)).is_none());
}
