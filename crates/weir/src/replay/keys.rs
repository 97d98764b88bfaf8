//! The keys by which SAs seal packets in a replay.
//!
//! Sequence numbers, and with them nonces, begin with 1 in each replay. A gateway in service has used these numbers under its keys.
//! A nonce that comes again under a key gives away the key's secrets to any reader of both packets.

use std::io;

use weir_base::random::Entropy;
use weir_crypto::KeyError;
use weir_plane::model::Gateway;

/// Why there are no random keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoKeys {
    /// The system has no randomness.
    #[error("no randomness for the keys of SAs: {0}")]
    Randomness(#[source] io::Error),
    /// An engine refuses a key.
    #[error("no random key for an SA: {0}")]
    Refused(#[from] KeyError),
}

/// The stream of the randomness for keys.
const STREAM: u64 = 0;

/// Replaces the keys of outbound SAs by random ones. Inbound SAs keep theirs, so that captured packets are decrypted.
///
/// # Errors
/// If the system has no randomness, or an engine refuses a key.
pub(super) fn replace(gateway: &mut Gateway) -> Result<(), NoKeys> {
    let mut keys = gateway.sas.iter_mut().filter_map(|sa| sa.outbound.as_mut()).peekable();
    if keys.peek().is_none() {
        return Ok(());
    }
    // A seed would make keys that everybody can make.
    let mut random = Entropy::from_system().map_err(NoKeys::Randomness)?.stream(STREAM);
    for key in keys {
        *key = key.at_random(&mut random)?;
    }
    Ok(())
}
