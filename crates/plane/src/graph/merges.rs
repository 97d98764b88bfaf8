//! A worker's merging of packets into super-packets, and where it pauses.

use weir_packet::merge::Merger;

/// Interfaces with a pause of their own; where there are more, some share.
const INTERFACES: usize = 64;

/// Vectors that packets of an interface are not merged for, once a super-packet of it was cut again.
const PAUSE: u8 = u8::MAX;

/// The state of a worker's merging.
pub(crate) struct Merges {
    pub(crate) merger: Merger,
    /// By number of the interface that packets come in by, modulo their number: vectors until they are merged again.
    pauses: [u8; INTERFACES],
    /// Vectors that a pause lasts.
    pause: u8,
}

impl Merges {
    /// Takes the memory that it will need.
    pub(crate) fn new() -> Merges {
        Merges { merger: Merger::new(), pauses: [0; INTERFACES], pause: PAUSE }
    }

    /// Has packets merged whatever was cut before: what is merged depends on nothing but the packets then.
    pub(crate) fn never_pause(&mut self) {
        (self.pauses, self.pause) = ([0; INTERFACES], 0);
    }

    /// A super-packet that came in by an interface was cut into its segments: to merge more of them is of no use now.
    #[cold]
    pub(crate) fn regret(&mut self, interface: u32) {
        self.pauses[interface as usize % INTERFACES] = self.pause;
    }

    /// Begins a vector whose packets came in by these interfaces; gives those of them that pause.
    #[inline]
    pub(crate) fn pause(&mut self, interfaces: impl Iterator<Item = u32>) -> Paused {
        let seen = interfaces.fold(0u64, |seen, interface| seen | 1 << (interface as usize % INTERFACES));
        let mut paused = 0;
        for (number, pause) in self.pauses.iter_mut().enumerate().filter(|(number, _)| seen >> number & 1 != 0) {
            paused |= u64::from(*pause > 0) << number;
            *pause = pause.saturating_sub(1);
        }
        Paused(paused)
    }
}

/// The interfaces whose packets are not merged now.
#[derive(Clone, Copy)]
pub(crate) struct Paused(u64);

impl Paused {
    /// Packets that came in by an interface are not merged.
    #[inline(always)]
    pub(crate) fn has(self, interface: u32) -> bool {
        self.0 >> (interface as usize % INTERFACES) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_pauses_the_merging_of_its_interface_alone() {
        let mut merges = Merges::new();
        let may = |merges: &mut Merges, interface| !merges.pause([4, interface].into_iter()).has(interface);
        assert!(may(&mut merges, 3) && may(&mut merges, 3));
        merges.regret(3);
        assert_eq!((0..1000).filter(|_| may(&mut merges, 3)).count(), 1000 - usize::from(PAUSE));
        merges.regret(3);
        assert!(may(&mut merges, 4) && !may(&mut merges, 3 + INTERFACES as u32));
        merges.never_pause();
        merges.regret(3);
        assert!(may(&mut merges, 3));
    }
}
