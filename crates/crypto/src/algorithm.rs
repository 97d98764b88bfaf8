//! The algorithms of ESP: names, lengths of keys, IVs and integrity check values.

use std::fmt;
use std::str::FromStr;

/// The length of an AES key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AesKey {
    /// 128 bits.
    Aes128,
    /// 192 bits.
    Aes192,
    /// 256 bits.
    Aes256,
}

impl AesKey {
    /// All lengths.
    pub const ALL: [AesKey; 3] = [AesKey::Aes128, AesKey::Aes192, AesKey::Aes256];

    /// Returns the length in octets.
    #[must_use]
    pub const fn octets(self) -> usize {
        match self {
            AesKey::Aes128 => 16,
            AesKey::Aes192 => 24,
            AesKey::Aes256 => 32,
        }
    }

    /// Returns the rounds of the cipher (FIPS 197, table 3).
    #[must_use]
    pub const fn rounds(self) -> usize {
        self.octets() / 4 + 6
    }
}

/// The length of the integrity check value of AES-GCM and AES-CCM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Icv {
    /// 8 octets.
    Octets8,
    /// 12 octets.
    Octets12,
    /// 16 octets.
    Octets16,
}

impl Icv {
    /// All lengths.
    pub const ALL: [Icv; 3] = [Icv::Octets8, Icv::Octets12, Icv::Octets16];

    /// Returns the length in octets.
    #[must_use]
    pub const fn octets(self) -> usize {
        match self {
            Icv::Octets8 => 8,
            Icv::Octets12 => 12,
            Icv::Octets16 => 16,
        }
    }
}

/// The integrity algorithm beside a cipher that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hmac {
    /// HMAC-SHA-1-96 (RFC 2404).
    Sha1,
    /// HMAC-SHA-256-128 (RFC 4868).
    Sha256,
    /// HMAC-SHA-384-192 (RFC 4868).
    Sha384,
    /// HMAC-SHA-512-256 (RFC 4868).
    Sha512,
}

impl Hmac {
    /// All algorithms.
    pub const ALL: [Hmac; 4] = [Hmac::Sha1, Hmac::Sha256, Hmac::Sha384, Hmac::Sha512];

    /// Returns the length of the hash, which is the length of the key, in octets.
    #[must_use]
    pub const fn key_octets(self) -> usize {
        match self {
            Hmac::Sha1 => 20,
            Hmac::Sha256 => 32,
            Hmac::Sha384 => 48,
            Hmac::Sha512 => 64,
        }
    }

    /// Returns the length of the truncated hash in octets.
    #[must_use]
    pub const fn icv_octets(self) -> usize {
        match self {
            Hmac::Sha1 => 12,
            _ => self.key_octets() / 2,
        }
    }
}

/// An algorithm of ESP: a cipher with integrity.
///
/// [`Display`](fmt::Display) and [`FromStr`] use strongSwan's names, such as `aes128gcm16` and `aes256-sha512`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// AES-GCM (RFC 4106).
    AesGcm(AesKey, Icv),
    /// AES-CCM (RFC 4309).
    AesCcm(AesKey, Icv),
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha20Poly1305,
    /// AES-GMAC: integrity without encryption (RFC 4543).
    AesGmac(AesKey),
    /// AES-CBC (RFC 3602) with an HMAC.
    AesCbc(AesKey, Hmac),
    /// AES-CTR (RFC 3686) with an HMAC.
    AesCtr(AesKey, Hmac),
    /// No encryption (RFC 2410), with an HMAC.
    Null(Hmac),
    /// No encryption and no integrity: for measurements.
    Unprotected,
}

impl Algorithm {
    /// Returns all algorithms that have integrity.
    #[must_use]
    pub fn all() -> Vec<Algorithm> {
        let mut all = Vec::new();
        for key in AesKey::ALL {
            all.extend(Icv::ALL.map(|icv| Algorithm::AesGcm(key, icv)));
        }
        for key in AesKey::ALL {
            all.extend(Icv::ALL.map(|icv| Algorithm::AesCcm(key, icv)));
        }
        all.push(Algorithm::ChaCha20Poly1305);
        all.extend(AesKey::ALL.map(Algorithm::AesGmac));
        for key in AesKey::ALL {
            all.extend(Hmac::ALL.map(|hmac| Algorithm::AesCbc(key, hmac)));
        }
        for key in AesKey::ALL {
            all.extend(Hmac::ALL.map(|hmac| Algorithm::AesCtr(key, hmac)));
        }
        all.extend(Hmac::ALL.map(Algorithm::Null));
        all
    }

    /// Returns the length of the cipher's keying material in octets. It contains the salt, which follows the key.
    #[must_use]
    pub const fn cipher_key_octets(self) -> usize {
        let key = match self {
            Algorithm::Null(_) | Algorithm::Unprotected => 0,
            Algorithm::AesCbc(key, _)
            | Algorithm::AesCcm(key, _)
            | Algorithm::AesGcm(key, _)
            | Algorithm::AesGmac(key)
            | Algorithm::AesCtr(key, _) => key.octets(),
            Algorithm::ChaCha20Poly1305 => 32,
        };
        key + self.salt_octets()
    }

    /// Returns the octets of the salt, or of the nonce of CTR, at the end of the cipher's key.
    #[must_use]
    pub const fn salt_octets(self) -> usize {
        match self {
            Algorithm::AesCbc(..) | Algorithm::Null(_) | Algorithm::Unprotected => 0,
            Algorithm::AesCcm(..) => 3,
            Algorithm::AesGcm(..) | Algorithm::AesGmac(_) | Algorithm::AesCtr(..) | Algorithm::ChaCha20Poly1305 => 4,
        }
    }

    /// Returns the length of the integrity algorithm's key in octets; 0 if the cipher has integrity of its own.
    #[must_use]
    pub const fn integrity_key_octets(self) -> usize {
        match self.hmac() {
            Some(hmac) => hmac.key_octets(),
            None => 0,
        }
    }

    /// Returns the integrity algorithm; `None` if the cipher has integrity of its own.
    #[must_use]
    pub const fn hmac(self) -> Option<Hmac> {
        match self {
            Algorithm::AesCbc(_, hmac) | Algorithm::AesCtr(_, hmac) | Algorithm::Null(hmac) => Some(hmac),
            _ => None,
        }
    }

    /// Returns the length of the IV that a packet carries, in octets.
    #[must_use]
    pub const fn iv_octets(self) -> usize {
        match self {
            Algorithm::Null(_) | Algorithm::Unprotected => 0,
            Algorithm::AesCbc(..) => 16,
            _ => 8,
        }
    }

    /// Returns the length of the integrity check value in octets.
    #[must_use]
    pub const fn icv_octets(self) -> usize {
        match self {
            Algorithm::AesGcm(_, icv) | Algorithm::AesCcm(_, icv) => icv.octets(),
            Algorithm::ChaCha20Poly1305 | Algorithm::AesGmac(_) => 16,
            Algorithm::AesCbc(_, hmac) | Algorithm::AesCtr(_, hmac) | Algorithm::Null(hmac) => hmac.icv_octets(),
            Algorithm::Unprotected => 0,
        }
    }

    /// Returns true if forged packets are recognised.
    #[must_use]
    pub const fn has_integrity(self) -> bool {
        !matches!(self, Algorithm::Unprotected)
    }

    /// Returns the number of octets that the length of the text is a multiple of, as the cipher demands.
    ///
    /// RFC 4303, section 2.4, aligns text to 4 octets beside that.
    #[must_use]
    pub const fn block_octets(self) -> usize {
        match self {
            Algorithm::AesCbc(..) => 16,
            _ => 1,
        }
    }

    /// Returns true if the IV must be unpredictable. Other ciphers need an IV that never repeats under one key.
    #[must_use]
    pub const fn needs_unpredictable_iv(self) -> bool {
        matches!(self, Algorithm::AesCbc(..))
    }

    /// Returns true if the text is encrypted.
    #[must_use]
    pub const fn is_confidential(self) -> bool {
        !matches!(self, Algorithm::AesGmac(_) | Algorithm::Null(_) | Algorithm::Unprotected)
    }
}

impl fmt::Display for AesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "aes{}", 8 * self.octets())
    }
}

impl fmt::Display for Hmac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hmac::Sha1 => "sha1",
            Hmac::Sha256 => "sha256",
            Hmac::Sha384 => "sha384",
            Hmac::Sha512 => "sha512",
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::AesGcm(key, icv) => write!(f, "{key}gcm{}", icv.octets()),
            Algorithm::AesCcm(key, icv) => write!(f, "{key}ccm{}", icv.octets()),
            Algorithm::ChaCha20Poly1305 => f.write_str("chacha20poly1305"),
            Algorithm::AesGmac(key) => write!(f, "{key}gmac"),
            Algorithm::AesCbc(key, hmac) => write!(f, "{key}-{hmac}"),
            Algorithm::AesCtr(key, hmac) => write!(f, "{key}ctr-{hmac}"),
            Algorithm::Null(hmac) => write!(f, "null-{hmac}"),
            Algorithm::Unprotected => f.write_str("null"),
        }
    }
}

/// A name that no algorithm has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown algorithm {0:?}: names are such as aes128gcm16, aes256ccm8, chacha20poly1305, aes128gmac, aes256-sha256, aes128ctr-sha1, null-sha256"
)]
pub struct UnknownAlgorithm(pub String);

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Algorithm, UnknownAlgorithm> {
        let known = Algorithm::all()
            .into_iter()
            .chain([Algorithm::Unprotected])
            .find(|algorithm| algorithm.to_string() == name);
        known.ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}
