//! Exact match changed under readers on other threads, in a table that is small enough for Miri:
//!
//!     cargo +nightly miri test -p weir-table --test masked_races

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use weir_base::random::Random;
use weir_base::reclaim::Domain;
use weir_table::flow::Secret;
use weir_table::masked::{Key, Mask, NO_ENTRY, Writer};

const CHANGES: usize = if cfg!(miri) { 300 } else { 200_000 };
const KEYS: usize = if cfg!(miri) { 24 } else { 90 };

/// A key never has the number of another key; keys that stay are always found, whatever comes and goes beside them.
#[test]
fn readers_see_whole_entries_while_others_come_and_go() {
    for granules in [1, 2] {
        let mask = Mask::new(&vec![0xff; 16 * granules]).unwrap();
        let packet = |number: usize| -> Vec<u8> { vec![number as u8; 16 * granules] };
        let key = |number: usize| -> Key { mask.key(&packet(number)).unwrap() };
        let domain = Domain::new();
        let mut writer = Writer::new(
            &domain,
            mask.clone(),
            48,
            Secret::new([0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93]),
        );
        // Keys of even numbers stay; a slot that is used again would show another key's number.
        let stays = |number: usize| number.is_multiple_of(8);
        for number in (0..KEYS).filter(|&number| stays(number)) {
            writer.insert(&key(number), number as u32).unwrap();
        }
        let table = writer.table();
        let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut reader = domain.reader().unwrap();
                let packets: Vec<Vec<u8>> = (0..KEYS).map(packet).collect();
                let mut found = vec![0; KEYS];
                while !stop.load(Ordering::Relaxed) {
                    table.look_up(&reader.pin(), |index| &packets[index], &mut found);
                    for (number, &found) in found.iter().enumerate() {
                        let right = found as usize % 256 == number || !stays(number) && found == NO_ENTRY;
                        assert!(right, "key {number} has the number {found}");
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut random = Random::from_seed(9);
            let mut there = [false; 256];
            for change in 0..CHANGES {
                let number = random.below(KEYS as u64) as usize;
                if stays(number) {
                    // Another number for the same key.
                    writer.insert(&key(number), (number + 256 * (change % 5)) as u32).unwrap();
                } else if there[number] {
                    assert!(writer.remove(&key(number)).is_some());
                    there[number] = false;
                } else if writer.insert(&key(number), number as u32).is_ok() {
                    there[number] = true;
                }
                while change == CHANGES / 2 && rounds.load(Ordering::Relaxed) == 0 && !reading.is_finished() {
                    thread::yield_now();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(rounds.into_inner() > 0, "nothing was looked up meanwhile");
    }
}
