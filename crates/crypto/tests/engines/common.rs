//! Packets and keys for tests of engines.

use weir_crypto::{Algorithm, Engine, Failure, Job, Key, Secret};

/// Octets that follow from a seed (splitmix64).
pub(crate) struct Octets(pub(crate) u64);

impl Octets {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    pub(crate) fn take(&mut self, octets: usize) -> Vec<u8> {
        (0..octets).map(|_| self.next() as u8).collect()
    }

    pub(crate) fn secret(&mut self, algorithm: Algorithm) -> Secret {
        Secret::new(&self.take(algorithm.cipher_key_octets()), &self.take(algorithm.integrity_key_octets()))
    }

    /// An ESP packet with text of this length, to be sealed, and perhaps with a high half of its sequence number.
    pub(crate) fn packet(&mut self, algorithm: Algorithm, text: usize) -> (Vec<u8>, Option<u32>) {
        let packet = self.take(8 + algorithm.iv_octets() + text + algorithm.icv_octets());
        let high = self.next();
        (packet, (high & 1 == 1).then_some((high >> 32) as u32))
    }
}

pub(crate) fn seal_one(key: &Key, packet: &mut [u8], high: Option<u32>) -> Result<(), Failure> {
    let mut jobs = [Job::esp(key, packet, high)];
    weir_crypto::seal(&mut jobs);
    jobs[0].result()
}

pub(crate) fn open_one(key: &Key, packet: &mut [u8], high: Option<u32>) -> Result<(), Failure> {
    let mut jobs = [Job::esp(key, packet, high)];
    weir_crypto::open(&mut jobs);
    jobs[0].result()
}

/// The engines that have an algorithm.
pub(crate) fn engines(algorithm: Algorithm) -> impl Iterator<Item = &'static dyn Engine> {
    weir_crypto::engines::all().iter().copied().filter(move |engine| engine.supports(algorithm))
}
