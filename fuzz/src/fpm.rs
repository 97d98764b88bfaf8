//! The stream of a forwarding plane manager: however it is cut, the same messages come out, no more than one is held, and
//! each is read to its end.

use weir_port::routes::{FrameError, Frames, LONGEST, Update, updates};

/// Reads a stream in pieces of a length; gives all that it says.
fn read(octets: &[u8], piece: usize) -> (Vec<Option<Update>>, Option<FrameError>) {
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    for piece in octets.chunks(piece) {
        frames.push(piece);
        loop {
            match frames.next_message() {
                Ok(None) => break,
                Ok(Some(message)) => {
                    let before = all.len();
                    all.extend(updates(message).map(Result::ok));
                    assert!(all.len() - before <= message.len() / 16 + 1);
                }
                Err(error) => return (all, Some(error)),
            }
        }
        assert!(frames.held() < LONGEST);
    }
    (all, None)
}

/// The target.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((&piece, octets)) = data.split_first() else { return };
    let (whole, error) = read(octets, usize::MAX);
    assert_eq!(read(octets, usize::from(piece).max(1)), (whole, error));
    // The same messages without frames, as the kernel writes them.
    assert!(updates(octets).count() <= octets.len() / 16 + 1);
}
