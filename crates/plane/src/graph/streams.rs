//! The streams of randomness that a gateway opens from its entropy. Each consumer has one of its own: the output of
//! one, such as the identification of a fragment, reveals nothing about another, such as the keys of a hash.

use weir_base::random::{Entropy, SecureRandom};

/// A consumer of randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Keys of the flow hash, which all workers share.
    FlowHash,
    /// Keys of the tables of spoofed sources, which all workers share.
    SpoofedSources,
    /// Keys of the tables of unknown sources, which all workers share.
    UnknownSources,
    /// Jitter of messages and lifetimes of neighbours.
    Neighbors,
    /// The random numbers of a worker's nodes: identifications on the wire, one of several targets.
    Worker(usize),
    /// Keys of a worker's table of held packets.
    Hold(usize),
    /// Keys of a worker's tables of datagrams under reassembly.
    Reassembly(usize),
    /// Keys of a worker's table of first fragments.
    Fragments(usize),
    /// The seed of a worker's choice of samples.
    Samples(usize),
    /// Keys of a worker's tables of sessions.
    Sessions(usize),
    /// Keys of a worker's tables of learned decisions.
    Flows(usize),
    /// Keys of a worker's caches of policies.
    Policies(usize),
    /// Keys of MAC tables and classifier tables, which all workers share.
    Tables,
}

impl Stream {
    /// Opens the stream from its start.
    pub(crate) fn open(self, entropy: &Entropy) -> SecureRandom {
        let (purpose, worker) = match self {
            Stream::FlowHash => (0, 0),
            Stream::SpoofedSources => (1, 0),
            Stream::Neighbors => (2, 0),
            Stream::Worker(worker) => (3, worker),
            Stream::Hold(worker) => (4, worker),
            Stream::Reassembly(worker) => (5, worker),
            Stream::Fragments(worker) => (6, worker),
            Stream::Samples(worker) => (7, worker),
            Stream::UnknownSources => (8, 0),
            Stream::Sessions(worker) => (9, worker),
            Stream::Flows(worker) => (10, worker),
            Stream::Policies(worker) => (11, worker),
            Stream::Tables => (12, 0),
        };
        entropy.stream(purpose << 32 | worker as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_consumers_share_a_stream() {
        let entropy = Entropy::from_seed(1);
        let of_worker = [
            Stream::Worker,
            Stream::Hold,
            Stream::Reassembly,
            Stream::Fragments,
            Stream::Samples,
            Stream::Sessions,
            Stream::Flows,
            Stream::Policies,
        ];
        let of_all =
            [Stream::FlowHash, Stream::SpoofedSources, Stream::UnknownSources, Stream::Neighbors, Stream::Tables];
        let all = of_all.into_iter().chain(of_worker.into_iter().flat_map(|stream| (0..64).map(stream)));
        let first: Vec<u64> = all.map(|stream| stream.open(&entropy).next()).collect();
        let distinct: std::collections::HashSet<u64> = first.iter().copied().collect();
        assert_eq!((first.len(), distinct.len()), (5 + 8 * 64, 5 + 8 * 64));
        assert_eq!(Stream::Worker(3).open(&entropy).next(), Stream::Worker(3).open(&entropy).next());
    }
}
