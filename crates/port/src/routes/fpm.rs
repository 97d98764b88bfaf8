//! The stream of a forwarding plane manager: FRR's `dplane_fpm_nl`. In front of each message of rtnetlink stand four
//! octets: version 1, type 1 (netlink), and the length with these four, in network order.

/// Octets in front of a message.
const HEADER: usize = 4;

/// Octets of the longest message, with those in front.
pub const LONGEST: usize = 65_535;

/// Cuts a stream into messages. Holds one message at most beside the octets that came last.
#[derive(Debug, Default)]
pub struct Frames {
    octets: Vec<u8>,
    /// The octets in front are done with.
    at: usize,
}

/// A stream that is none of a forwarding plane manager. Nothing behind the defect can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The version is another one.
    #[error("version {0} of the protocol, where 1 was expected")]
    Version(u8),
    /// The message is none of netlink.
    #[error("messages of type {0}, where 1 (netlink) was expected: load FRR's module `dplane_fpm_nl`")]
    Kind(u8),
    /// The length does not include its own header.
    #[error("a message of {0} octets, of which 4 are its header")]
    Short(u16),
}

impl Frames {
    /// Adds octets of the stream.
    pub fn push(&mut self, octets: &[u8]) {
        self.octets.drain(..self.at);
        self.at = 0;
        self.octets.extend_from_slice(octets);
    }

    /// Returns the next message of rtnetlink; `None`: it has not come as a whole.
    ///
    /// # Errors
    /// If the stream is none of a forwarding plane manager.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let rest = &self.octets[self.at..];
        let Some(&[version, kind, high, low]) = rest.first_chunk::<HEADER>() else { return Ok(None) };
        if version != 1 {
            return Err(FrameError::Version(version));
        }
        if kind != 1 {
            return Err(FrameError::Kind(kind));
        }
        let length = u16::from_be_bytes([high, low]);
        if usize::from(length) < HEADER {
            return Err(FrameError::Short(length));
        }
        let Some(message) = rest.get(HEADER..usize::from(length)) else { return Ok(None) };
        self.at += usize::from(length);
        Ok(Some(message))
    }

    /// Octets that are held.
    pub fn held(&self) -> usize {
        self.octets.len() - self.at
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn stream(messages: &[Vec<u8>]) -> Vec<u8> {
        let frame = |message: &Vec<u8>| {
            let length = (message.len() + HEADER) as u16;
            [&[1, 1][..], &length.to_be_bytes(), message].concat()
        };
        messages.iter().flat_map(frame).collect()
    }

    #[test]
    fn other_streams_are_refused_with_the_reason() {
        for (octets, error) in [
            ([2, 1, 0, 4], FrameError::Version(2)),
            ([1, 2, 0, 4], FrameError::Kind(2)),
            ([1, 1, 0, 3], FrameError::Short(3)),
        ] {
            let mut frames = Frames::default();
            frames.push(&octets[..3]);
            assert_eq!(frames.next_message(), Ok(None));
            frames.push(&octets[3..]);
            assert_eq!(frames.next_message(), Err(error));
        }
    }

    proptest! {
        /// However the stream is cut, the messages are the same, and no more than one is held.
        #[test]
        fn messages_come_whole(messages in vec(vec(any::<u8>(), 0..40), 0..20), cuts in vec(1..30usize, 1..200)) {
            let octets = stream(&messages);
            let (mut frames, mut read, mut at) = (Frames::default(), Vec::new(), 0);
            for cut in cuts.into_iter().chain([octets.len()]) {
                let end = (at + cut).min(octets.len());
                frames.push(&octets[at..end]);
                at = end;
                while let Some(message) = frames.next_message().unwrap() {
                    read.push(message.to_vec());
                }
                prop_assert!(frames.held() < 44);
            }
            prop_assert_eq!(read, messages);
        }
    }
}
