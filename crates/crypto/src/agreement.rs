//! The check of an engine against `aws-lc` before it is offered.

use crate::algorithm::Algorithm;
use crate::aws_lc::AwsLc;
use crate::engine::Engine;
use crate::job::Job;
use crate::key::Key;
use crate::secret::{KeyError, Secret};

/// Each length meets one algorithm of so many.
const TURNS: usize = 4;

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
            let (mut one, mut two) = (plain.to_vec(), plain.to_vec());
            engine.seal(&mut [Job::esp(&own, &mut one, high)]);
            AwsLc.seal(&mut [Job::esp(&other, &mut two, high)]);
            let same = one == two;
            let mut job = [Job::esp(&own, &mut one, high)];
            engine.open(&mut job);
            let opened = job[0].result().is_ok();
            same && opened && one[..end] == plain[..end]
        })
    })
}
