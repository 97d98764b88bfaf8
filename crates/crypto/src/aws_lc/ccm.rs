//! CCM (RFC 3610) as RFC 4309 uses it: nonces of 11 octets, lengths of 4.
//!
//! The library's own CCM takes other nonces, or allocates memory for each packet. So the mode is composed here of the
//! library's CBC and counter mode.

use zeroize::Zeroize as _;

use super::ffi::{Aes, Direction, equal};

/// A key of CCM, with its salt.
pub(super) struct Key {
    aes: Aes,
    salt: [u8; 3],
    icv: usize,
}

impl Key {
    /// Expands a key with its salt behind it, for an ICV of so many octets. Returns `None` if it has a wrong length.
    pub(super) fn new(key: &[u8], icv: usize) -> Option<Key> {
        let (key, salt) = key.split_last_chunk()?;
        Some(Key { aes: Aes::new(key, Direction::Encrypt)?, salt: *salt, icv })
    }

    pub(super) fn seal(&self, iv: &[u8], aad: &[u8], text: &mut [u8], icv: &mut [u8]) {
        let mac = self.mac(iv, aad, text);
        icv.copy_from_slice(&mac[..self.icv]);
        self.aes.counter_mode(self.block(3, iv, 1), text);
    }

    /// Decrypts text and checks the ICV. Wipes the text if the ICV does not match.
    pub(super) fn open(&self, iv: &[u8], aad: &[u8], text: &mut [u8], icv: &[u8]) -> bool {
        self.aes.counter_mode(self.block(3, iv, 1), text);
        let mac = self.mac(iv, aad, text);
        let matches = equal(&mac[..self.icv], icv);
        if !matches {
            text.zeroize();
        }
        matches
    }

    /// Returns the encrypted CBC-MAC of the text (RFC 3610, sections 2.2 and 2.3).
    fn mac(&self, iv: &[u8], aad: &[u8], text: &[u8]) -> [u8; 16] {
        let flags = (u8::from(!aad.is_empty()) << 6) | (((self.icv as u8 - 2) / 2) << 3) | 3;
        let mut mac = [0; 16];
        self.aes.cbc_mac(&mut mac, &self.block(flags, iv, text.len() as u32));
        if !aad.is_empty() {
            let long = [&[0xff, 0xfe][..], &(aad.len() as u32).to_be_bytes()].concat();
            let short = (aad.len() as u16).to_be_bytes();
            let prefix: &[u8] = if aad.len() < 0xff00 { &short } else { &long };
            let mut first = [0; 16];
            let (taken, rest) = aad.split_at(aad.len().min(16 - prefix.len()));
            first[..prefix.len()].copy_from_slice(prefix);
            first[prefix.len()..][..taken.len()].copy_from_slice(taken);
            self.aes.cbc_mac(&mut mac, &first);
            self.padded(&mut mac, rest);
        }
        self.padded(&mut mac, text);
        self.aes.counter_mode(self.block(3, iv, 0), &mut mac);
        mac
    }

    /// Continues a CBC-MAC with data that zeros fill up to whole blocks.
    fn padded(&self, mac: &mut [u8; 16], data: &[u8]) {
        let (whole, rest) = data.split_at(data.len() / 16 * 16);
        self.aes.cbc_mac(mac, whole);
        if !rest.is_empty() {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            self.aes.cbc_mac(mac, &last);
        }
    }

    /// Returns a block of flags, nonce and number.
    fn block(&self, flags: u8, iv: &[u8], number: u32) -> [u8; 16] {
        let mut block = [0; 16];
        block[0] = flags;
        block[1..4].copy_from_slice(&self.salt);
        block[4..12].copy_from_slice(iv);
        block[12..].copy_from_slice(&number.to_be_bytes());
        block
    }
}
