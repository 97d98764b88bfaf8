//! The SAs that a worker shares with others, and for which it has taken sequence numbers that it has not sent.

use weir_packet::vector::VECTOR;

use crate::root::Root;

/// Numbers of pairs of SAs. Of more than these, none gets a number until the worker has sent.
pub(crate) struct Shares {
    numbers: [u32; VECTOR],
    count: usize,
}

impl Shares {
    pub(crate) fn new() -> Shares {
        Shares { numbers: [0; VECTOR], count: 0 }
    }

    /// Notes that numbers of a pair's outbound SA are to be taken; false if there is no room.
    pub(crate) fn note(&mut self, sa: u32) -> bool {
        if self.numbers[..self.count].contains(&sa) {
            return true;
        }
        let Some(place) = self.numbers.get_mut(self.count) else { return false };
        *place = sa;
        self.count += 1;
        true
    }

    /// All packets with numbers have left for their ports.
    #[inline]
    pub(crate) fn sent(&mut self, root: &Root, worker: usize) {
        for &sa in &self.numbers[..self.count] {
            if let Some(sharing) = root.ipsec.sa(sa).and_then(|own| own.sharing.as_ref()) {
                sharing.sent(worker);
            }
        }
        self.count = 0;
    }
}
