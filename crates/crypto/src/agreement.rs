//! The check of an engine against `aws-lc` before it is offered.

use crate::algorithm::Algorithm;
use crate::aws_lc::AwsLc;
use crate::engine::Engine;
use crate::job::Job;
use crate::key::Key;
use crate::secret::{KeyError, Secret};

/// Each length meets one algorithm of so many.
const TURNS: usize = 4;

/// Packets that are alike in a batch.
const ALIKE: usize = 5;

fn jobs<'a>(key: &'a Key, packets: &'a mut [Vec<u8>], high: Option<u32>) -> Vec<Job<'a>> {
    packets.iter_mut().map(|packet| Job::esp(key, packet, high)).collect()
}

/// Seals packets, compares them with those of `aws-lc`, and opens them. False if anything differs: then the CPU, a
/// hypervisor, the compiler or a library does not do what the engine needs, and the engine is not offered.
///
/// `key` expands secrets as the engine does.
pub(crate) fn agrees(engine: &dyn Engine, key: impl Fn(Algorithm, &Secret) -> Result<Key, KeyError>) -> bool {
    let algorithms: Vec<Algorithm> = Algorithm::all().into_iter().filter(|own| engine.supports(*own)).collect();
    let lengths = (0..=68).chain((84..1536).step_by(97)).chain([9000]);
    lengths.enumerate().all(|(number, length)| {
        algorithms.iter().skip(number % TURNS).step_by(TURNS).all(|&algorithm| {
            let length = length / algorithm.block_octets() * algorithm.block_octets();
            let octets: Vec<u8> = (0..length + 128).map(|at| (at * 167 + number * 59) as u8).collect();
            let (cipher, integrity) = (algorithm.cipher_key_octets(), algorithm.integrity_key_octets());
            let secret = Secret::new(&octets[..cipher], &octets[1..][..integrity]);
            let (Ok(own), Ok(other)) = (key(algorithm, &secret), AwsLc.key(algorithm, &secret)) else {
                return false;
            };
            let high = (number % 2 == 1).then_some(number as u32);
            let end = 8 + algorithm.iv_octets() + length;
            let plain = &octets[..end + algorithm.icv_octets()];
            // Engines may work on packets together that are alike.
            let count = if number % TURNS == 0 || length > 68 { ALIKE } else { 1 };
            let plain: Vec<Vec<u8>> =
                (0..count).map(|at| plain.iter().map(|octet| octet ^ at as u8).collect()).collect();
            let (mut one, mut two) = (plain.clone(), plain.clone());
            engine.seal(&mut jobs(&own, &mut one, high));
            AwsLc.seal(&mut jobs(&other, &mut two, high));
            let same = one == two;
            let mut opened = jobs(&own, &mut one, high);
            engine.open(&mut opened);
            let opened = opened.iter().all(|job| job.result().is_ok());
            same && opened && one.iter().zip(&plain).all(|(one, plain)| one[..end] == plain[..end])
        })
    })
}
