//! Names and lengths of algorithms.

use weir_crypto::{AesKey, Algorithm};

#[test]
fn names_are_distinct_and_read_back() {
    let all = Algorithm::all();
    assert_eq!(all.len(), 50);
    for algorithm in all.iter().chain([&Algorithm::Unprotected]) {
        assert_eq!(algorithm.to_string().parse(), Ok(*algorithm));
    }
    let error = "aes128gcm10".parse::<Algorithm>().unwrap_err();
    assert!(error.to_string().starts_with("unknown algorithm \"aes128gcm10\""), "{error}");
}

#[test]
fn lengths_are_those_of_the_rfcs() {
    let lengths = |name: &str| {
        let algorithm: Algorithm = name.parse().unwrap();
        let keys = (algorithm.cipher_key_octets(), algorithm.integrity_key_octets());
        (keys, algorithm.iv_octets(), algorithm.icv_octets())
    };
    assert_eq!(lengths("aes256gcm16"), ((36, 0), 8, 16));
    assert_eq!(lengths("aes192gcm8"), ((28, 0), 8, 8));
    assert_eq!(lengths("aes128ccm12"), ((19, 0), 8, 12));
    assert_eq!(lengths("chacha20poly1305"), ((36, 0), 8, 16));
    assert_eq!(lengths("aes128gmac"), ((20, 0), 8, 16));
    assert_eq!(lengths("aes128-sha1"), ((16, 20), 16, 12));
    assert_eq!(lengths("aes256ctr-sha384"), ((36, 48), 8, 24));
    assert_eq!(lengths("null-sha512"), ((0, 64), 0, 32));
    assert_eq!((AesKey::Aes128.rounds(), AesKey::Aes192.rounds(), AesKey::Aes256.rounds()), (10, 12, 14));
}
