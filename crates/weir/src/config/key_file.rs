//! Files with the keys of SAs: hexadecimal digits, readable by their owner alone. No message has anything of their contents.

use std::io::Read as _;
use std::path::Path;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use weir_crypto::{Algorithm, Secret};
use zeroize::Zeroizing;

/// The greatest length of a key file in octets: keys are shorter, with all usual white space.
const LARGEST: u64 = 4096;

/// Why there is no key: the end of a sentence about the file or its key.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyFileError {
    /// The system says why.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// There are no files here.
    #[error("a configuration that is not a file names no files")]
    NoFiles,
    /// It is a folder, a pipe or a device.
    #[error("is not a regular file")]
    NotRegular,
    /// Its mode lets others than its owner in.
    #[error("can be used by others than its owner (mode {0:04o})")]
    Open(u32),
    /// It is longer than any key.
    #[error("is larger than {LARGEST} octets")]
    TooLarge,
    /// It has something else than digits.
    #[error("has something in line {0} that is not a hexadecimal digit")]
    NotHex(usize),
    /// It has half an octet.
    #[error("has an odd number of hexadecimal digits")]
    Odd,
    /// A part of it is one octet again and again: nobody draws such a key at random.
    #[error("is one octet again and again: {0}")]
    Repeated(&'static str),
    /// It has a key for another algorithm.
    #[error("has {octets} octets; {algorithm} needs {wanted}{parts}")]
    Length {
        /// The algorithm.
        algorithm: Algorithm,
        /// Octets that are there.
        octets: usize,
        /// Octets that are needed.
        wanted: usize,
        /// Of which parts.
        parts: String,
    },
}

impl KeyFileError {
    /// Returns whether the file could not be read.
    pub(super) fn is_unreadable(&self) -> bool {
        matches!(self, KeyFileError::Io(_) | KeyFileError::NoFiles)
    }

    /// The sentence about the file at this path.
    pub(super) fn message(&self, path: &Path) -> String {
        let path = path.display();
        match self {
            KeyFileError::Io(_) | KeyFileError::NoFiles => format!("cannot read `{path}`: {self}"),
            KeyFileError::Odd | KeyFileError::Repeated(_) | KeyFileError::Length { .. } => {
                format!("the key in `{path}` {self}")
            }
            _ => format!("`{path}` {self}"),
        }
    }

    /// The remedy, if there is a simple one.
    pub(super) fn help(&self, path: &Path) -> Option<String> {
        match self {
            KeyFileError::Io(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                let user = rustix::process::geteuid().as_raw();
                Some(format!("weir runs as user {user}: run `chown {user} {}`", path.display()))
            }
            KeyFileError::Open(_) => Some(format!("run `chmod 600 {}`", path.display())),
            KeyFileError::NotHex(_) | KeyFileError::Odd => {
                Some("the file has hexadecimal digits and white space, and nothing else".to_owned())
            }
            KeyFileError::Repeated(_) => {
                Some("draw a key at random: `head -c OCTETS /dev/urandom | od -An -v -tx1`".to_owned())
            }
            _ => None,
        }
    }
}

/// Reads a secret for an algorithm: the key of the cipher with its salt, then the key of the integrity algorithm. From the first
/// one on, the process leaves no core dump.
///
/// # Errors
/// See [`KeyFileError`].
pub(super) fn read(path: &Path, algorithm: Algorithm) -> Result<Secret, KeyFileError> {
    use std::os::unix::fs::MetadataExt as _;
    let file = weir_base::file::open(path)?;
    // Of the file that is open, whatever becomes of its name.
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(KeyFileError::NotRegular);
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(KeyFileError::Open(metadata.mode() & 0o7777));
    }
    // Expanded keys, registers and stacks would be in a core dump, too. Another user's process cannot read the memory either.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(std::io::Error::from)?;
    // With room for all of it, so that no copy is left behind.
    let mut text = Zeroizing::new(Vec::with_capacity(LARGEST as usize + 64));
    file.take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(KeyFileError::TooLarge);
    }
    parse(&text, algorithm)
}

fn parse(text: &[u8], algorithm: Algorithm) -> Result<Secret, KeyFileError> {
    let mut octets = Zeroizing::new(Vec::with_capacity(text.len() / 2 + 1));
    let (mut upper, mut line) = (None, 1);
    for &byte in text {
        line += usize::from(byte == b'\n');
        if byte.is_ascii_whitespace() {
            continue;
        }
        let digit = char::from(byte).to_digit(16).ok_or(KeyFileError::NotHex(line))? as u8;
        match upper.take() {
            None => upper = Some(digit),
            Some(high) => octets.push(high << 4 | digit),
        }
    }
    if upper.is_some() {
        return Err(KeyFileError::Odd);
    }
    let (cipher, integrity) = (algorithm.cipher_key_octets(), algorithm.integrity_key_octets());
    if octets.len() != cipher + integrity {
        let parts = match integrity {
            0 => String::new(),
            _ => format!(": {cipher} for the cipher, then {integrity} for integrity"),
        };
        return Err(KeyFileError::Length { algorithm, octets: octets.len(), wanted: cipher + integrity, parts });
    }
    let (cipher, integrity) = octets.split_at(cipher);
    // The salt is no secret.
    let key = &cipher[..cipher.len() - algorithm.salt_octets()];
    for (part, of) in [(key, "the key of the cipher"), (integrity, "the key of integrity")] {
        if part.len() > 1 && part.iter().all(|octet| *octet == part[0]) {
            return Err(KeyFileError::Repeated(of));
        }
    }
    Ok(Secret::new(cipher, integrity))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn message(text: &str, algorithm: &str) -> String {
        parse(text.as_bytes(), algorithm.parse().unwrap()).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn digits_make_a_secret_whatever_stands_between() {
        let (plain, spaced) =
            ("00112233445566778899aabbccddeeff01020304", "0011 2233\n44556677\t8899AABBCCDDEEFF\r\n 01020304\n");
        let algorithm = "aes128gcm16".parse().unwrap();
        let of = |text: &str| parse(text.as_bytes(), algorithm).unwrap().fingerprint();
        assert_eq!(of(plain), of(spaced));
        assert_ne!(of(plain), of(&plain.replace("0304", "0305")));
    }

    #[test]
    fn messages_name_what_is_wrong_and_nothing_of_the_key() {
        assert_eq!(message("00\n0x1", "aes128gcm16"), "has something in line 2 that is not a hexadecimal digit");
        assert_eq!(message("001", "aes128gcm16"), "has an odd number of hexadecimal digits");
        assert_eq!(message("ab", "aes128gcm16"), "has 1 octets; aes128gcm16 needs 20");
        assert_eq!(message(&"00".repeat(20), "aes128gcm16"), "is one octet again and again: the key of the cipher");
        let salted = "00".repeat(16) + "01020304";
        assert_eq!(message(&salted, "aes128gcm16"), "is one octet again and again: the key of the cipher");
        let zero = format!("{}{}", "01".repeat(8) + &"02".repeat(8), "77".repeat(32));
        assert_eq!(message(&zero, "aes128-sha256"), "is one octet again and again: the key of integrity");
        let parts = "has 1 octets; aes128-sha256 needs 48: 16 for the cipher, then 32 for integrity";
        assert_eq!(message("ab", "aes128-sha256"), parts);
    }

    #[test]
    fn files_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "0011".repeat(10)).unwrap();
        let algorithm = "aes128gcm16".parse().unwrap();
        for (mode, is_read) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o610, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&path, algorithm).is_ok(), is_read, "{mode:o}");
            if is_read {
                let dumps = rustix::process::dumpable_behavior().unwrap();
                assert_eq!(dumps, DumpableBehavior::NotDumpable, "a key is in memory");
            }
        }
        assert!(matches!(read(folder.path(), algorithm), Err(KeyFileError::NotRegular | KeyFileError::Io(_))));
    }
}
