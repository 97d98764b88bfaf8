//! `weir bench crypto`: the engines of IPsec, side by side, without packets around them.
//!
//! Packets lie in the cache, as they do in a gateway that has parsed them. With many keys, each batch uses others than
//! those before it, so that schedules come from where they would come from in a gateway with as many SAs.

use serde::{Deserialize, Serialize};
use weir_base::tsc;
pub use weir_crypto::Algorithm;
use weir_crypto::{AesKey, Engine, Hmac, Icv, Job, Key, Secret, engines};

use crate::report::figure::Figure;
use crate::report::table::Table;
use crate::report::{Page, Report};
use crate::{Error, machine as cpu};

/// Packets in a batch.
const BATCH: usize = 256;
/// Octets of text of the packets.
const SIZES: [usize; 4] = [64, 128, 512, 1400];
/// Keys of the case with many.
const KEYS: usize = 10_000;

/// The measurement of `weir bench crypto`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Crypto {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// The engines, the fastest first, each with its instructions or library.
    pub engines: Vec<(String, String)>,
    /// Batches of each case: figures are over these.
    pub batches: usize,
    /// The cases.
    pub cases: Vec<Case>,
}

/// An algorithm by an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The algorithm.
    pub algorithm: String,
    /// Keys that take turns.
    pub keys: usize,
    /// The engine.
    pub engine: String,
    /// The cost by size of the packets.
    pub sizes: Vec<Size>,
}

/// The cost of packets of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// Octets of text, rounded down to whole blocks of the cipher.
    pub octets: usize,
    /// Ticks to seal a packet.
    pub seal: Figure,
    /// Ticks to open a packet.
    pub open: Figure,
    /// Ticks to seal a packet by `aws-lc`, divided by those of this engine: the median over pairs of batches.
    pub gain: Figure,
}

impl Report for Crypto {
    const SCHEMA: &'static str = "weir.bench.crypto/1";

    fn page(&self) -> Page {
        let mut table = Table::of(&self.cases)
            .words("Algorithm", |case| case.algorithm.clone())
            .number("Keys", 0, |case| case.keys)
            .words("Engine", |case| case.engine.clone());
        for (number, octets) in SIZES.iter().enumerate() {
            table = table.number(&format!("Seal_{octets}"), 0, |case| case.sizes[number].seal.median).number(
                &format!("Open_{octets}"),
                0,
                |case| case.sizes[number].open.median,
            );
        }
        for (number, octets) in SIZES.iter().enumerate() {
            table = table.number(&format!("Gain_{octets}"), 1, |case| case.sizes[number].gain.median);
        }
        let frequency = self.tick_frequency / 1e9;
        Page::default()
            .line(format!("{}, {frequency:.2} GHz time-stamp counter; packets from the cache, no gateway", self.cpu))
            .each(&self.engines, |page, (name, about)| page.line(format!("engine {name}: {about}")))
            .line(format!(
                "ticks are per packet of 64 to 1400 octets of text: medians of {} batches of {BATCH} packets",
                self.batches
            ))
            .line("gain: ticks of aws-lc, divided by those of the engine")
            .table(table)
    }
}

/// The effort of a measurement.
#[derive(Debug, Clone, Copy)]
struct Effort {
    batches: usize,
    keys: usize,
}

impl Crypto {
    /// Measures algorithms by all engines that have them, on a CPU, by default the last one that may be used. Without
    /// algorithms, all ciphers with their longest ICV or with SHA-256. `quick` takes a small part of the effort.
    ///
    /// # Errors
    /// If the CPU cannot be used, or engines disagree.
    pub fn measure(algorithms: &[Algorithm], cpu: Option<usize>, quick: bool) -> Result<Crypto, Error> {
        cpu::pin(cpu)?;
        let effort = if quick { Effort { batches: 5, keys: 300 } } else { Effort { batches: 160, keys: KEYS } };
        let usual = usual();
        let algorithms = if algorithms.is_empty() { &usual } else { algorithms };
        measure(algorithms, effort)
    }
}

/// All ciphers, with their longest ICV or with SHA-256, and all hashes alone.
fn usual() -> Vec<Algorithm> {
    let mut usual = Vec::new();
    usual.extend(AesKey::ALL.map(|key| Algorithm::AesGcm(key, Icv::Octets16)));
    usual.extend(AesKey::ALL.map(|key| Algorithm::AesCcm(key, Icv::Octets16)));
    usual.push(Algorithm::ChaCha20Poly1305);
    usual.extend(AesKey::ALL.map(Algorithm::AesGmac));
    usual.extend(AesKey::ALL.map(|key| Algorithm::AesCbc(key, Hmac::Sha256)));
    usual.extend(AesKey::ALL.map(|key| Algorithm::AesCtr(key, Hmac::Sha256)));
    usual.extend(Hmac::ALL.map(Algorithm::Null));
    usual
}

fn measure(algorithms: &[Algorithm], effort: Effort) -> Result<Crypto, Error> {
    let mut cases = Vec::new();
    for &algorithm in algorithms {
        for keys in [1, effort.keys] {
            cases.extend(by_engine(algorithm, keys, effort.batches)?);
        }
    }
    let named = |engine: &&dyn Engine| (engine.name().to_owned(), engine.about().to_owned());
    Ok(Crypto {
        tick_frequency: tsc::frequency(),
        cpu: cpu::cpu_name(),
        engines: engines::all().iter().map(named).collect(),
        batches: effort.batches,
        cases,
    })
}

/// Measures all engines that have an algorithm, batch by batch in turns.
fn by_engine(algorithm: Algorithm, keys: usize, batches: usize) -> Result<Vec<Case>, Error> {
    let able = engines::all().iter().filter(|engine| engine.supports(algorithm));
    let mut runs = able.map(|&engine| Run::new(engine, algorithm, keys)).collect::<Result<Vec<_>, _>>()?;
    for octets in SIZES {
        let octets = octets / algorithm.block_octets() * algorithm.block_octets();
        let samples = sizes(&mut runs, algorithm, octets, batches)?;
        // `aws-lc` has all algorithms, and comes last.
        let reference = samples.last().map(|(seal, _)| seal.clone()).unwrap_or_default();
        for (run, (seal, open)) in runs.iter_mut().zip(samples) {
            let gain = Figure::of(reference.iter().zip(&seal).map(|(theirs, own)| theirs / own));
            run.sizes.push(Size { octets, seal: Figure::of(seal), open: Figure::of(open), gain });
        }
    }
    let case = |run: Run| Case {
        algorithm: algorithm.to_string(),
        keys,
        engine: run.engine.name().to_owned(),
        sizes: run.sizes,
    };
    Ok(runs.into_iter().map(case).collect())
}

/// Measures the engine that SAs of an algorithm use: ticks to seal and to open a packet with so many octets of text.
pub(crate) fn alone(
    algorithm: Algorithm,
    keys: usize,
    octets: usize,
    batches: usize,
) -> Result<(Figure, Figure), Error> {
    let mut runs = [Run::new(engines::best(algorithm), algorithm, keys)?];
    let (seal, open) = sizes(&mut runs, algorithm, octets, batches)?.pop().unwrap_or_default();
    Ok((Figure::of(seal), Figure::of(open)))
}

/// An engine with its keys, and the figures so far.
struct Run {
    engine: &'static dyn Engine,
    keys: Vec<Key>,
    sizes: Vec<Size>,
}

impl Run {
    fn new(engine: &'static dyn Engine, algorithm: Algorithm, keys: usize) -> Result<Run, Error> {
        let secret = |number: usize| {
            let octets = |count: usize| -> Vec<u8> {
                (0..count).map(|at| (number.wrapping_mul(0x9e37_79b9) >> (at % 4 * 8)) as u8 ^ at as u8).collect()
            };
            Secret::new(&octets(algorithm.cipher_key_octets()), &octets(algorithm.integrity_key_octets()))
        };
        let key = |number| {
            engine.key(algorithm, &secret(number)).map_err(|error| Error::Running(format!("has no key: {error}")))
        };
        Ok(Run { engine, keys: (0..keys).map(key).collect::<Result<_, _>>()?, sizes: Vec::new() })
    }

    /// Returns the key of each packet of a batch. Neighbours in a batch are no neighbours in memory.
    fn batch(&self, number: usize) -> Vec<&Key> {
        (0..BATCH).map(|at| &self.keys[(number * BATCH + at) * 7919 % self.keys.len()]).collect()
    }
}

/// Ticks per packet of each batch, to seal and to open.
type Samples = (Vec<f64>, Vec<f64>);

/// Seals and opens batches. Engines take turns, each with a lap: as many batches as go through all keys once. A lap that is
/// not measured comes first, so that caches hold what they would hold if the engine worked alone.
fn sizes(runs: &mut [Run], algorithm: Algorithm, octets: usize, batches: usize) -> Result<Vec<Samples>, Error> {
    let length = 8 + algorithm.iv_octets() + octets + algorithm.icv_octets();
    let mut packets: Vec<Vec<u8>> = (0..BATCH).map(|number| vec![number as u8; length]).collect();
    let mut samples = vec![Samples::default(); runs.len()];
    let keys = runs.first().map_or(1, |run| run.keys.len());
    let lap = keys.div_ceil(BATCH).clamp(1, batches);
    for begin in (0..batches).step_by(lap) {
        let lap = begin..batches.min(begin + lap);
        let mut sealed: Vec<Vec<Vec<u8>>> = Vec::new();
        for (run, samples) in runs.iter().zip(&mut samples) {
            let mut seal = |number: usize| {
                for (at, packet) in packets.iter_mut().enumerate() {
                    packet.fill((number + at) as u8);
                }
                let ticks = timed(&mut packets, &run.batch(number), weir_crypto::seal)?;
                match sealed.get(number - begin) {
                    None => sealed.push(packets.clone()),
                    Some(others) if *others != packets => {
                        let what = format!("packets of {octets} octets under {algorithm}");
                        return Err(Error::Disagree { peer: run.engine.name().to_owned(), what });
                    }
                    Some(_) => {}
                }
                Ok(ticks)
            };
            for number in lap.clone() {
                seal(number)?;
            }
            for number in lap.clone() {
                samples.0.push(seal(number)?);
            }
            for (number, sealed) in lap.clone().zip(&sealed) {
                packets.clone_from(sealed);
                samples.1.push(timed(&mut packets, &run.batch(number), weir_crypto::open)?);
            }
        }
    }
    Ok(samples)
}

/// Returns the ticks per packet of a batch.
fn timed(packets: &mut [Vec<u8>], keys: &[&Key], work: fn(&mut [Job<'_>])) -> Result<f64, Error> {
    let mut jobs: Vec<Job<'_>> =
        packets.iter_mut().zip(keys).map(|(packet, key)| Job::esp(key, packet, None)).collect();
    let start = tsc::ticks();
    work(&mut jobs);
    let ticks = tsc::ticks() - start;
    let failed = jobs.iter().find_map(|job| job.result().err());
    match failed {
        Some(failure) => Err(Error::Running(format!("refuses a packet of its own: {failure}"))),
        None => Ok(ticks as f64 / BATCH as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_measured_and_read_back() {
        let report = measure(&usual(), Effort { batches: 3, keys: 300 }).unwrap();
        let engines = |name: &str| {
            let algorithm: Algorithm = name.parse().unwrap();
            engines::all().iter().filter(|engine| engine.supports(algorithm)).count()
        };
        for name in ["aes128gcm16", "aes256ccm16", "null-sha512"] {
            let cases: Vec<&Case> = report.cases.iter().filter(|case| case.algorithm == name).collect();
            assert_eq!(cases.len(), 2 * engines(name), "1 key and 300 by each engine");
            assert!(cases.iter().all(|case| case.sizes.len() == SIZES.len()));
            let positive = |size: &Size| size.seal.median > 0.0 && size.open.median > 0.0 && size.gain.median > 0.0;
            assert!(cases.iter().all(|case| case.sizes.iter().all(positive)));
        }
        assert_eq!(report.cases.iter().filter(|case| case.engine == "aws-lc").count(), 2 * 20);
        assert_eq!(serde_json::from_str::<Crypto>(&report.json()).unwrap(), report);
        assert!(report.text().contains("engine aws-lc: AWS-LC"), "{}", report.text());
    }
}
