//! A worker's end: packets are offered, some are taken.

use weir_base::clock::Time;
use weir_base::random::Random;
use weir_base::ring::Producer;
use weir_base::wake::Waker;
use weir_packet::packet::Packet;

use super::copy::{Cause, Sample, Treatment};
use crate::root::Root;
use crate::root::sampler::Choice;

/// Samples of a worker that wait to be read at most.
pub(crate) const RING: usize = 1024;

/// The description of an offered packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About {
    /// Why it is offered.
    pub(crate) cause: Cause,
    /// Its treatment.
    pub(crate) treatment: Treatment,
}

/// A worker's end of the ring.
pub(crate) struct Samples {
    worker: usize,
    random: Random,
    /// `None`: samples have no reader, and none are taken.
    ring: Option<Producer<Sample>>,
    /// Wakes who reads, if that is a thread.
    waker: Option<Waker>,
    taken: bool,
}

impl Samples {
    /// Creates the samples of a worker, without a reader yet.
    pub(crate) fn unread(worker: usize, random: Random) -> Samples {
        Samples { worker, random, ring: None, waker: None, taken: false }
    }

    /// Gives samples by this ring from now on, and wakes who reads it.
    pub(crate) fn connect(&mut self, ring: Producer<Sample>, waker: Option<Waker>) {
        (self.ring, self.waker) = (Some(ring), waker);
    }

    /// Takes a sample of the packet, if it is its turn.
    #[inline]
    pub(crate) fn offer(&mut self, root: &Root, now: Time, packet: &Packet, choice: Choice, about: About) {
        if self.ring.is_none() {
            return;
        }
        let Some(sampler) = root.samplers.get(choice.sampler as usize) else { return };
        let Some(counters) = sampler.counters(self.worker) else { return };
        counters.offered.add(1);
        if choice.is_taken(&mut self.random) {
            self.take(root, now, packet, choice, about);
        }
    }

    #[cold]
    fn take(&mut self, root: &Root, now: Time, packet: &Packet, choice: Choice, about: About) {
        let Some(sampler) = root.samplers.get(choice.sampler as usize) else { return };
        let (Some(counters), Some(ring)) = (sampler.counters(self.worker), &mut self.ring) else { return };
        if !sampler.admits(now) {
            counters.over_rate.add(1);
            return;
        }
        let About { cause, treatment } = about;
        let sample = Sample {
            time: packet.time().unwrap_or(now),
            sampler: choice.sampler,
            one_in: choice.one_in,
            interface: packet.interface(),
            cause,
            treatment,
            ..Sample::new(packet.data(), sampler.snap, packet.parsed())
        };
        self.taken = true;
        match ring.push(sample) {
            Ok(()) => counters.taken.add(1),
            Err(_) => counters.ring_full.add(1),
        }
    }

    /// Shows what was taken, and wakes who reads it: not for nodes, as this may be a system call.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if std::mem::take(&mut self.taken)
            && let Some(ring) = &mut self.ring
        {
            ring.flush();
            if let Some(waker) = &self.waker {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_base::reclaim::Domain;
    use weir_base::ring::ring;
    use weir_packet::buffer::{Pool, PoolSize};

    use super::*;
    use crate::compile::{Compiler, Places, Settings};
    use crate::kit::*;
    use crate::model::{self, Origin};
    use crate::root::sav::By;

    const CAUSE: Cause = Cause::Invalid { policy: 3, by: By::Table };
    const ABOUT: About = About { cause: CAUSE, treatment: Treatment::Redirected };

    /// A root with two samplers: `slow` takes a sample a second of 64 octets, `fast` as many as there are of 256.
    fn root() -> (Root, Compiler) {
        let sampler = |name: &str, snap_length, rate| model::Sampler {
            name: name.into(),
            pcap: None,
            ipfix: None,
            snap_length,
            rate,
            origin: Origin::default(),
        };
        let mut build = two_ports();
        build.0.samplers = vec![sampler("slow", 64, 1), sampler("fast", 256, u32::MAX)];
        let settings = Settings { workers: 1, invent_neighbors: false, secret: [1, 2, 3, 4] };
        let mut compiler = Compiler::new(&Domain::new(), settings, build.0.limits);
        let (root, map) = compiler.compile(&build.0, &Places::default()).unwrap();
        assert_eq!(map.samplers, [0, 1]);
        (root, compiler)
    }

    fn packet(length: usize) -> (Packet, Pool) {
        let pool = Pool::new(PoolSize { small: 16, large: 1 }).unwrap();
        let frame: Vec<u8> = (0..length).map(|octet| octet as u8).collect();
        let mut packet = Packet::copy_of(&mut pool.cache(), &frame).unwrap();
        packet.set_interface(1);
        packet.set_time(Time(77));
        (packet, pool)
    }

    fn samples() -> Samples {
        Samples::unread(0, Random::from_seed(1))
    }

    #[test]
    fn a_sample_is_the_beginning_of_a_packet_and_what_is_known_of_it() {
        let (root, _compiler) = root();
        let mut samples = samples();
        let (producer, mut consumer) = ring(RING);
        samples.connect(producer, None);
        for (sampler, length, kept) in [(0, 1000, 64), (1, 1000, 256), (1, 60, 60)] {
            let (packet, _pool) = packet(length);
            samples.offer(&root, Time(5), &packet, Choice::new(sampler, 1), ABOUT);
            assert!(consumer.is_empty(), "nobody sees it yet");
            samples.flush();
            let mut seen = None;
            assert_eq!(consumer.pop(9, |sample: Sample| seen = Some(sample)), 1);
            let sample = seen.unwrap();
            assert_eq!(sample.frame(), &packet.data()[..kept]);
            assert_eq!((sample.time, sample.length, sample.interface), (Time(77), length as u32, 1));
            assert_eq!((sample.sampler, sample.one_in), (sampler, 1));
            assert_eq!((sample.cause, sample.treatment), (CAUSE, Treatment::Redirected));
        }
    }

    #[test]
    fn a_ring_that_nobody_reads_costs_samples_and_nothing_else() {
        let (root, _compiler) = root();
        let (packet, _pool) = packet(100);
        let mut samples = samples();
        let offer = |samples: &mut Samples, sampler, times| {
            for now in 0..times {
                samples.offer(&root, Time(now * 1_000_000), &packet, Choice::new(sampler, 1), ABOUT);
                samples.flush();
            }
            root.samplers[sampler as usize].stats()
        };
        assert_eq!(offer(&mut samples, 1, 10).offered, 0, "nobody is there to take them");
        let (producer, mut consumer) = ring(RING);
        samples.connect(producer, None);
        let full = offer(&mut samples, 1, 5000);
        assert_eq!((full.offered, full.taken, full.over_rate, full.ring_full), (5000, 1024, 0, 5000 - 1024));
        // What finds no room is no reason to take less of another sampler; its rate is.
        assert_eq!(consumer.pop(2000, drop), 1024);
        let slow = offer(&mut samples, 0, 2500);
        assert_eq!((slow.offered, slow.taken, slow.over_rate, slow.ring_full), (2500, 3, 2497, 0));
        // Samplers that are not there.
        samples.offer(&root, Time(0), &packet, Choice::new(2, 1), ABOUT);
        samples.flush();
        assert_eq!(consumer.pop(2000, drop), 3);
    }
}
