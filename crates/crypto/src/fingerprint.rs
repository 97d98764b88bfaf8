//! Digests of secrets.

use crate::aws_lc;
use crate::secret::Secret;

impl Secret {
    /// Returns a digest of the secret, by which equal secrets are recognised. It does not reveal the secret.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 16] {
        aws_lc::digest(&self.cipher, &self.integrity)
    }

    /// Returns a digest of the cipher's key and salt, or of the integrity key where there is no cipher. SAs with equal ones make the
    /// same key stream of the same number, whatever their algorithms and integrity keys.
    #[must_use]
    pub fn stream_fingerprint(&self) -> [u8; 16] {
        match self.cipher.is_empty() {
            true => self.fingerprint(),
            false => aws_lc::digest(&self.cipher, &[]),
        }
    }
}
