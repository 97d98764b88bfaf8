//! Engines against each other, and the promises of the trait.

use crate::common::{Octets, engines, open_one, seal_one};
use weir_crypto::engines::{all, best, by_name, of};
use weir_crypto::{Algorithm, Failure, Job, Key, KeyError, LONGEST, Secret};

/// Lengths of text that an algorithm permits, from 0 to 2000 and some beyond.
fn lengths(algorithm: Algorithm) -> impl Iterator<Item = usize> {
    (0..=2000_usize)
        .chain([4000, 9000, 9008, 65_488])
        .filter(move |length| length.is_multiple_of(algorithm.block_octets()))
}

#[test]
fn engines_agree_at_all_lengths() {
    let mut octets = Octets(1);
    for algorithm in Algorithm::all() {
        for length in lengths(algorithm) {
            let secret = octets.secret(algorithm);
            let (plain, high) = octets.packet(algorithm, length);
            let text = 8 + algorithm.iv_octets()..plain.len() - algorithm.icv_octets();
            let mut sealed: Option<Vec<u8>> = None;
            for engine in engines(algorithm) {
                let key = engine.key(algorithm, &secret).unwrap();
                let mut packet = plain.clone();
                seal_one(&key, &mut packet, high).unwrap();
                assert_eq!(packet[..text.start], plain[..text.start], "{engine:?} {algorithm} {length}: header and IV");
                if algorithm.is_confidential() && length >= 8 {
                    assert_ne!(packet[text.clone()], plain[text.clone()], "{engine:?} {algorithm} {length}");
                }
                assert_ne!(packet[text.end..], plain[text.end..], "{engine:?} {algorithm} {length}: ICV");
                let expected = sealed.get_or_insert_with(|| packet.clone());
                assert!(packet == *expected, "{engine:?} {algorithm} {length}: sealed in another way");
                open_one(&key, &mut packet, high).unwrap();
                assert!(packet[..text.end] == plain[..text.end], "{engine:?} {algorithm} {length}: opened");
                assert_eq!(packet[text.end..], expected[text.end..], "the ICV stays");
            }
        }
    }
}

#[test]
fn headers_of_all_lengths_are_authenticated() {
    let mut octets = Octets(2);
    for algorithm in Algorithm::all() {
        for header in (0..70).chain([255, 256, 257, 511, 512, 513, 3000, 0xfeff, 0xff00, 70_000]) {
            let length = (octets.next() % 40) as usize / algorithm.block_octets() * algorithm.block_octets();
            let secret = octets.secret(algorithm);
            let size = header + algorithm.iv_octets() + length + algorithm.icv_octets();
            let plain = octets.take(size);
            let mut sealed: Option<Vec<u8>> = None;
            for engine in engines(algorithm) {
                let key = engine.key(algorithm, &secret).unwrap();
                let mut packet = plain.clone();
                let mut jobs = [Job::with_header(&key, &mut packet, header as u32)];
                weir_crypto::seal(&mut jobs);
                assert_eq!(jobs[0].result(), Ok(()));
                let expected = sealed.get_or_insert_with(|| packet.clone());
                assert!(packet == *expected, "{engine:?} {algorithm} {header} {length}");
                let mut jobs = [Job::with_header(&key, &mut packet, header as u32)];
                weir_crypto::open(&mut jobs);
                assert_eq!(jobs[0].result(), Ok(()));
                let end = size - algorithm.icv_octets();
                assert!(packet[..end] == plain[..end], "{engine:?} {algorithm} {header} {length}");
            }
        }
    }
}

/// Packets of one key and one length, which an engine may work on together, give what they give one by one; a forged packet among
/// them is refused alone.
#[test]
fn packets_that_are_alike_give_what_they_give_alone() {
    let mut octets = Octets(7);
    for algorithm in Algorithm::all() {
        for engine in engines(algorithm).filter(|engine| engine.name().starts_with("native")) {
            let key = engine.key(algorithm, &octets.secret(algorithm)).unwrap();
            let step = 1 + usize::from(algorithm.icv_octets() < 16) * 6;
            let long = (581..=1700).step_by(13).chain(4040..4100).step_by(step);
            for length in (0..=580).step_by(step).chain(long) {
                let count = 1 + length % 13;
                let size = 16 + length + algorithm.icv_octets();
                let plain: Vec<Vec<u8>> = (0..count).map(|_| octets.take(size)).collect();
                let high = |number: usize| (length % 2 == 1).then_some(number as u32);
                let jobs = |packets: &mut Vec<Vec<u8>>, work: fn(&mut [Job<'_>])| -> Vec<Result<(), Failure>> {
                    let jobs = packets.iter_mut().enumerate();
                    let mut jobs: Vec<Job<'_>> =
                        jobs.map(|(number, packet)| Job::esp(&key, packet, high(number))).collect();
                    work(&mut jobs);
                    jobs.iter().map(Job::result).collect()
                };
                let (mut one, mut all) = (plain.clone(), plain.clone());
                for (number, packet) in one.iter_mut().enumerate() {
                    seal_one(&key, packet, high(number)).unwrap();
                }
                assert!(jobs(&mut all, weir_crypto::seal).iter().all(Result::is_ok));
                assert!(one == all, "{engine:?} {algorithm} {length}: sealed in another way");
                let forged = octets.next() as usize % count;
                let at = octets.next() as usize % size;
                all[forged][at] ^= 0x40;
                let results = jobs(&mut all, weir_crypto::open);
                for (number, result) in results.into_iter().enumerate() {
                    let expected = if number == forged { Err(Failure::Forged) } else { Ok(()) };
                    assert_eq!(result, expected, "{engine:?} {algorithm} {length} {number}");
                    let text = 16..16 + length;
                    let is_right = match number == forged {
                        true => !algorithm.is_confidential() || all[number][text].iter().all(|octet| *octet == 0),
                        false => all[number][text.clone()] == plain[number][text],
                    };
                    assert!(is_right, "{engine:?} {algorithm} {length} {number}");
                }
            }
        }
    }
}

/// Every changed octet and every truncation is refused, and leaves no plaintext.
#[test]
fn changed_packets_are_refused_and_wiped() {
    let mut octets = Octets(3);
    for algorithm in Algorithm::all() {
        for length in [0, 16, 48, 80, 112, 320, 592] {
            let secret = octets.secret(algorithm);
            let (plain, high) = octets.packet(algorithm, length);
            let text = 8 + algorithm.iv_octets()..plain.len() - algorithm.icv_octets();
            for engine in engines(algorithm) {
                let key = engine.key(algorithm, &secret).unwrap();
                let mut sealed = plain.clone();
                seal_one(&key, &mut sealed, high).unwrap();
                let refused = |mut packet: Vec<u8>, high: Option<u32>, what: &str| {
                    let before = packet.clone();
                    assert_eq!(
                        open_one(&key, &mut packet, high),
                        Err(Failure::Forged),
                        "{engine:?} {algorithm} {what}"
                    );
                    if algorithm.is_confidential() {
                        let left = &packet[text.clone()];
                        let wiped = left.iter().all(|octet| *octet == 0);
                        assert!(
                            wiped || *left == before[text.clone()],
                            "{engine:?} {algorithm} {length} {what}: plaintext"
                        );
                    }
                };
                for at in 0..sealed.len() {
                    let mut packet = sealed.clone();
                    packet[at] ^= 1 << (at % 8);
                    refused(packet, high, "changed");
                }
                refused(sealed.clone(), high.map_or(Some(0), |high| Some(high ^ 1)), "another high half");
                for shorter in 0..sealed.len() {
                    let mut packet = sealed[..shorter].to_vec();
                    let result = open_one(&key, &mut packet, high);
                    let expected = match shorter < plain.len() - length {
                        true => Failure::Short,
                        false if (plain.len() - shorter).is_multiple_of(algorithm.block_octets()) => Failure::Forged,
                        false => Failure::TextLength,
                    };
                    assert_eq!(result, Err(expected), "{engine:?} {algorithm} {length} cut to {shorter}");
                }
            }
        }
    }
}

/// A batch of packets with keys of all algorithms and engines gives what they give one by one.
#[test]
fn a_batch_gives_the_same_as_one_by_one() {
    let mut octets = Octets(4);
    let mut keys = Vec::new();
    for algorithm in Algorithm::all() {
        for engine in engines(algorithm) {
            keys.push(engine.key(algorithm, &octets.secret(algorithm)).unwrap());
        }
    }
    for _ in 0..50 {
        let count = 1 + octets.next() as usize % 256;
        let picked: Vec<&Key> = (0..count).map(|_| &keys[octets.next() as usize % keys.len()]).collect();
        let lengths: Vec<usize> = (0..count).map(|_| octets.next() as usize % 100 * 16).collect();
        let plain: Vec<_> =
            picked.iter().zip(lengths).map(|(key, text)| octets.packet(key.algorithm(), text)).collect();
        let mut alone: Vec<Vec<u8>> = plain.iter().map(|(packet, _)| packet.clone()).collect();
        for ((key, packet), (_, high)) in picked.iter().zip(&mut alone).zip(&plain) {
            seal_one(key, packet, *high).unwrap();
        }
        let mut together: Vec<Vec<u8>> = plain.iter().map(|(packet, _)| packet.clone()).collect();
        let mut jobs: Vec<Job<'_>> = picked
            .iter()
            .zip(&mut together)
            .zip(&plain)
            .map(|((key, packet), (_, high))| Job::esp(key, packet, *high))
            .collect();
        weir_crypto::seal(&mut jobs);
        assert!(jobs.iter().all(|job| job.result().is_ok()));
        assert!(alone == together);
        // Some are changed: their neighbours in the batch open all the same.
        let forged: Vec<bool> = (0..count).map(|_| octets.next().is_multiple_of(4)).collect();
        for (packet, _) in together.iter_mut().zip(&forged).filter(|(_, forged)| **forged) {
            let at = octets.next() as usize % packet.len();
            packet[at] ^= 0x80;
        }
        let mut jobs: Vec<Job<'_>> = picked
            .iter()
            .zip(&mut together)
            .zip(&plain)
            .map(|((key, packet), (_, high))| Job::esp(key, packet, *high))
            .collect();
        weir_crypto::open(&mut jobs);
        for (job, forged) in jobs.iter().zip(&forged) {
            assert_eq!(job.result(), if *forged { Err(Failure::Forged) } else { Ok(()) });
        }
        for (((packet, key), (plain, _)), forged) in together.iter().zip(&picked).zip(&plain).zip(forged) {
            let end = plain.len() - key.algorithm().icv_octets();
            assert!(forged || packet[..end] == plain[..end]);
        }
    }
}

#[test]
fn text_of_forbidden_length_is_refused() {
    let mut octets = Octets(5);
    for algorithm in Algorithm::all() {
        for engine in engines(algorithm) {
            let key = engine.key(algorithm, &octets.secret(algorithm)).unwrap();
            let beyond = LONGEST + algorithm.block_octets();
            let mut long = vec![0; 8 + algorithm.iv_octets() + beyond + algorithm.icv_octets()];
            assert_eq!(seal_one(&key, &mut long, None), Err(Failure::TextLength));
            assert_eq!(open_one(&key, &mut long, None), Err(Failure::TextLength));
            assert!(long.iter().all(|octet| *octet == 0), "an untouched packet");
            let mut packet = vec![0; 200];
            let mut jobs = [Job::with_header(&key, &mut packet, 300)];
            weir_crypto::seal(&mut jobs);
            assert_eq!(jobs[0].result(), Err(Failure::Short));
        }
    }
}

#[test]
fn a_key_works_with_its_engine_alone() {
    let algorithm: Algorithm = "aes128gcm16".parse().unwrap();
    let secret = Octets(6).secret(algorithm);
    for (number, owner) in engines(algorithm).enumerate() {
        let key = owner.key(algorithm, &secret).unwrap();
        assert_eq!((key.engine_name(), of(&key).name()), (owner.name(), owner.name()));
        for (other, engine) in all().iter().enumerate() {
            let mut packet = vec![7; 100];
            let mut jobs = [Job::esp(&key, &mut packet, None)];
            assert_eq!(jobs[0].result(), Err(Failure::NotDone));
            engine.seal(&mut jobs);
            assert_eq!(jobs[0].result().is_ok(), other == number);
        }
    }
}

#[test]
fn engines_are_found_by_name() {
    for engine in all() {
        assert_eq!(by_name(engine.name()).unwrap().name(), engine.name());
    }
    assert!(by_name("openssl").is_none());
    assert_eq!(all().last().unwrap().name(), "aws-lc");
    let native = all().iter().find(|engine| engine.name().starts_with("native-"));
    assert_eq!(by_name("native").map(|engine| engine.name()), native.map(|engine| engine.name()));
    assert_eq!(best("aes128gcm16".parse().unwrap()).name(), all()[0].name());
    let many = by_name("ipsec-mb").map_or("aws-lc", |engine| engine.name());
    assert_eq!(best("aes128ccm8".parse().unwrap()).name(), many);
    assert_eq!(best("aes192ccm8".parse().unwrap()).name(), "aws-lc");
}

#[test]
fn secrets_have_the_length_of_the_algorithm() {
    for algorithm in Algorithm::all() {
        let (cipher, integrity) = (algorithm.cipher_key_octets(), algorithm.integrity_key_octets());
        for engine in all() {
            let key = |cipher, integrity| engine.key(algorithm, &Secret::new(&vec![1; cipher], &vec![1; integrity]));
            if !engine.supports(algorithm) {
                let error = key(cipher, integrity).unwrap_err();
                assert_eq!(error, KeyError::Unsupported { engine: engine.name(), algorithm });
                continue;
            }
            key(cipher, integrity).unwrap();
            let error = key(cipher + 1, integrity).unwrap_err().to_string();
            let expected = format!("{algorithm} needs {cipher} octets of cipher key with salt, not {}", cipher + 1);
            assert_eq!(error, expected);
            assert!(matches!(key(cipher, integrity + 1), Err(KeyError::Length { what: "integrity", .. })));
        }
    }
}

#[test]
fn keys_are_not_printed() {
    let secret = Secret::new(&[0xab; 20], &[]);
    assert_eq!(format!("{secret:?}"), "Secret(redacted)");
    for engine in engines("aes128gcm16".parse().unwrap()) {
        let key = engine.key("aes128gcm16".parse().unwrap(), &secret).unwrap();
        assert_eq!(format!("{key:?}"), format!("Key(aes128gcm16, {}, redacted)", engine.name()));
        let mut packet = [0; 64];
        assert!(!format!("{:?}", Job::esp(&key, &mut packet, None)).contains("171"));
    }
}
