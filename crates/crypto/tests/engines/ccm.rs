//! AES-CCM against RustCrypto's implementation: no published vectors have nonces of 88 bits and short ICVs.

use aes::{Aes128, Aes192, Aes256};
use ccm::aead::consts::{U8, U11, U12, U16};
use ccm::aead::{AeadInOut, KeyInit};
use ccm::{Ccm, NonceSize, TagSize};
use weir_crypto::{AesKey, Algorithm, Icv, Job, Secret};

use crate::common::{Octets, engines};

fn seal<C: AeadInOut + KeyInit>(key: &[u8], nonce: &[u8], aad: &[u8], text: &[u8]) -> Vec<u8> {
    let cipher = C::new_from_slice(key).unwrap();
    let mut sealed = text.to_vec();
    let nonce = nonce.try_into().unwrap();
    let tag = cipher.encrypt_inout_detached(nonce, aad, (&mut sealed[..]).into()).unwrap();
    sealed.extend_from_slice(&tag);
    sealed
}

fn seal_with<M>(size: AesKey, key: &[u8], nonce: &[u8], aad: &[u8], text: &[u8]) -> Vec<u8>
where
    M: ccm::aead::array::ArraySize + TagSize,
    U11: NonceSize,
{
    match size {
        AesKey::Aes128 => seal::<Ccm<Aes128, M, U11>>(key, nonce, aad, text),
        AesKey::Aes192 => seal::<Ccm<Aes192, M, U11>>(key, nonce, aad, text),
        AesKey::Aes256 => seal::<Ccm<Aes256, M, U11>>(key, nonce, aad, text),
    }
}

#[test]
fn packets_are_sealed_as_by_another_implementation() {
    let mut octets = Octets(11);
    for size in AesKey::ALL {
        for icv in Icv::ALL {
            let algorithm = Algorithm::AesCcm(size, icv);
            for length in (0..200).chain([511, 512, 513, 1400, 2000]) {
                let header = [0, 8, 12, 14, 15, 30][length % 6];
                let secret = octets.take(algorithm.cipher_key_octets());
                let plain = octets.take(header + 8 + length + icv.octets());
                let (aad, rest) = plain.split_at(header);
                let (key, salt) = secret.split_at(size.octets());
                let nonce = [salt, &rest[..8]].concat();
                let text = &rest[8..8 + length];
                let expected = match icv {
                    Icv::Octets8 => seal_with::<U8>(size, key, &nonce, aad, text),
                    Icv::Octets12 => seal_with::<U12>(size, key, &nonce, aad, text),
                    Icv::Octets16 => seal_with::<U16>(size, key, &nonce, aad, text),
                };
                for engine in engines(algorithm) {
                    let key = engine.key(algorithm, &Secret::new(&secret, &[])).unwrap();
                    let mut packet = plain.clone();
                    weir_crypto::seal(&mut [Job::with_header(&key, &mut packet, header as u32)]);
                    assert!(packet[header + 8..] == expected, "{engine:?} {algorithm} {header} {length}");
                }
            }
        }
    }
}
