//! Digests of secrets.

use crate::aws_lc;
use crate::secret::Secret;

impl Secret {
    /// Returns a digest of the secret, by which equal secrets are recognised. It does not reveal the secret.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 16] {
        let (cipher, integrity) = self.parts();
        aws_lc::digest(cipher, integrity)
    }
}
