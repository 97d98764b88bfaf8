//! The native engines against their naive twin. Miri runs these, also for a width that the CPU lacks.

use weir_crypto::{AesKey, Algorithm, Engine, Failure, Icv, Job, Key, Secret, engines};

use crate::naive::Naive;

/// Octets of an IV.
const IV: usize = 8;

fn octets(seed: usize, octets: usize) -> Vec<u8> {
    let mut value = seed as u64 + 1;
    let next = |_| {
        value = value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (value >> 33) as u8
    };
    (0..octets).map(next).collect()
}

fn widths() -> impl Iterator<Item = &'static dyn Engine> {
    engines::native_widths().into_iter()
}

fn job<'a>(key: &'a Key, packet: &'a mut [u8], header: usize, high: Option<u32>) -> Job<'a> {
    match high {
        Some(_) => Job::esp(key, packet, high),
        None => Job::with_header(key, packet, header as u32),
    }
}

/// Seals a packet in both ways, and opens it.
fn compare(native: &'static dyn Engine, size: AesKey, icv: Icv, header: usize, length: usize, high: Option<u32>) {
    let what = format!("{native:?} {size:?} {icv:?}, header {header}, text {length}, high {high:?}");
    let algorithm = Algorithm::AesGcm(size, icv);
    let secret = octets(length + header, algorithm.cipher_key_octets());
    let plain = octets(length * 3 + header, header + IV + length + icv.octets());
    let (begin, end) = (header + IV, header + IV + length);
    let mut aad = plain[..header].to_vec();
    if let Some(high) = high {
        aad.splice(4..4, high.to_be_bytes());
    }
    let naive = Naive::new(size, &secret, icv.octets());
    let expected = naive.seal(&plain[header..begin], &aad, &plain[begin..end]);

    let key = native.key(algorithm, &Secret::new(&secret, &[])).unwrap();
    // The packet fills an allocation of its own, so that Miri sees every access beyond it.
    let mut packet = plain.clone().into_boxed_slice();
    native.seal(&mut [job(&key, &mut packet, header, high)]);
    assert_eq!(packet[..begin], plain[..begin], "{what}: header and IV");
    assert_eq!(packet[begin..], expected, "{what}: sealed");
    let mut jobs = [job(&key, &mut packet, header, high)];
    native.open(&mut jobs);
    assert_eq!(jobs[0].result(), Ok(()), "{what}");
    assert_eq!(packet[..end], plain[..end], "{what}: opened");
    packet[end] ^= 1;
    let mut jobs = [job(&key, &mut packet, header, high)];
    native.open(&mut jobs);
    assert_eq!(jobs[0].result(), Err(Failure::Forged), "{what}");
    assert!(packet[begin..end].iter().all(|octet| *octet == 0), "{what}: wiped");
}

#[test]
fn packets_are_sealed_as_the_standard_says() {
    let lengths: Vec<usize> = match cfg!(miri) {
        false => (0..=1100).chain([1400, 2047, 2049]).collect(),
        true => vec![0, 68],
    };
    for native in widths() {
        for &length in &lengths {
            let (size, icv) = (AesKey::ALL[length % 3], Icv::ALL[length / 3 % 3]);
            compare(native, size, icv, 8, length, (length % 2 == 1).then_some(length as u32 * 77));
        }
    }
}

#[test]
fn headers_of_any_length_are_authenticated() {
    let headers: Vec<usize> = match cfg!(miri) {
        false => (0..=40).chain([63, 64, 65, 250, 256, 511, 512, 530, 1100]).collect(),
        true => vec![0, 7, 16, 17, 300],
    };
    for native in widths() {
        for &header in &headers {
            for length in [1, 15, 20] {
                compare(native, AesKey::Aes128, Icv::Octets16, header, length, None);
            }
        }
    }
}

#[test]
fn gmac_authenticates_header_and_iv_and_text() {
    let lengths: Vec<usize> = if cfg!(miri) { vec![1, 15, 64, 300] } else { (0..=600).collect() };
    for native in widths() {
        for &length in &lengths {
            let size = AesKey::ALL[length % 3];
            let algorithm = Algorithm::AesGmac(size);
            let secret = octets(length, algorithm.cipher_key_octets());
            let plain = octets(length + 1, 8 + IV + length + 16);
            let end = 8 + IV + length;
            let high = (length % 2 == 1).then_some(length as u32 ^ 0x0102_0304);
            let mut aad = plain[..end].to_vec();
            if let Some(high) = high {
                aad.splice(4..4, high.to_be_bytes());
            }
            let expected = Naive::new(size, &secret, 16).seal(&plain[8..16], &aad, &[]);
            let key = native.key(algorithm, &Secret::new(&secret, &[])).unwrap();
            let mut packet = plain.clone().into_boxed_slice();
            native.seal(&mut [Job::esp(&key, &mut packet, high)]);
            assert_eq!((&packet[..end], &packet[end..]), (&plain[..end], &expected[..]), "{native:?} {length}");
            let mut jobs = [Job::esp(&key, &mut packet, high)];
            native.open(&mut jobs);
            assert_eq!(jobs[0].result(), Ok(()), "{native:?} {length}");
        }
    }
}

/// Both widths give the same packets. The twin takes too long for many lengths under Miri.
#[test]
fn widths_agree() {
    let lengths: Vec<usize> = match cfg!(miri) {
        false => (0..=2100).collect(),
        true => (0..=70)
            .chain([127, 129, 200, 255, 256, 257, 300, 450, 511, 512, 513, 600, 1024, 1030, 1100, 1600])
            .collect(),
    };
    let widths: Vec<_> = widths().collect();
    let [one, others @ ..] = &widths[..] else { return };
    for length in lengths {
        let (size, icv) = (AesKey::ALL[length % 3], Icv::ALL[length / 3 % 3]);
        let algorithm = Algorithm::AesGcm(size, icv);
        let secret = Secret::new(&octets(length, algorithm.cipher_key_octets()), &[]);
        let plain = octets(length + 1, 8 + IV + length + icv.octets());
        let sealed = |native: &'static dyn Engine| {
            let key = native.key(algorithm, &secret).unwrap();
            let mut packet = plain.clone().into_boxed_slice();
            native.seal(&mut [job(&key, &mut packet, 8, None)]);
            let sealed = packet.clone();
            let mut jobs = [job(&key, &mut packet, 8, None)];
            native.open(&mut jobs);
            assert_eq!(jobs[0].result(), Ok(()), "{native:?} {length}");
            assert_eq!(packet[..8 + IV + length], plain[..8 + IV + length], "{native:?} {length}");
            sealed
        };
        let expected = sealed(*one);
        for other in others {
            assert!(sealed(*other) == expected, "{one:?} {other:?} {length}");
        }
    }
}

/// Packets that are alike, which the wider engine works on together, are what they are alone; a forged one among them is refused.
#[test]
fn packets_that_are_alike_are_what_they_are_alone() {
    let lengths: Vec<usize> = match cfg!(miri) {
        false => (0..=1700).step_by(3).chain(4050..=4080).collect(),
        // Groups of packets; chains of them with one vector and with eight behind whole chunks; the longest, and one that is longer.
        true => vec![3, 68, 200, 545, 1008, 1009, 1404, 4064, 4065],
    };
    for native in widths() {
        for &length in &lengths {
            let (size, icv) = (AesKey::ALL[length % 3], Icv::ALL[length / 3 % 3]);
            let algorithm = Algorithm::AesGcm(size, icv);
            let key = native.key(algorithm, &Secret::new(&octets(length, algorithm.cipher_key_octets()), &[])).unwrap();
            let (count, end) = (if length < 100 { 5 } else { 3 }, 8 + IV + length);
            // Each packet fills an allocation of its own, so that Miri sees every access beyond it.
            let plain: Vec<Box<[u8]>> =
                (0..count).map(|number| octets(length + number, end + icv.octets()).into_boxed_slice()).collect();
            let mut alone = plain.clone();
            alone.iter_mut().for_each(|packet| native.seal(&mut [job(&key, packet, 8, None)]));
            let mut all = plain.clone();
            native.seal(&mut all.iter_mut().map(|packet| job(&key, packet, 8, None)).collect::<Vec<_>>());
            assert!(alone == all, "{native:?} {length}");
            all[1][end] ^= 1;
            let mut jobs: Vec<_> = all.iter_mut().map(|packet| job(&key, packet, 8, None)).collect();
            native.open(&mut jobs);
            let results: Vec<_> = jobs.iter().map(Job::result).collect();
            let expected: Vec<_> =
                (0..count).map(|number| if number == 1 { Err(Failure::Forged) } else { Ok(()) }).collect();
            assert_eq!(results, expected, "{native:?} {length}");
            for (number, (packet, plain)) in all.iter().zip(&plain).enumerate() {
                let text = &packet[8 + IV..end];
                let is_right =
                    if number == 1 { text.iter().all(|octet| *octet == 0) } else { packet[..end] == plain[..end] };
                assert!(is_right, "{native:?} {length} {number}");
            }
        }
    }
}

/// A width whose instructions are there is offered: its check against `aws-lc` succeeds.
#[test]
#[cfg_attr(miri, ignore = "Miri cannot call AWS-LC")]
fn widths_with_instructions_are_offered() {
    let offered = engines::all().iter().map(|engine| engine.name()).filter(|name| name.starts_with("native-"));
    assert!(offered.eq(widths().map(Engine::name)));
}
