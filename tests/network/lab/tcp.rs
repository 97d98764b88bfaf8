//! Data over TCP, compared at the other end.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::{Space, listening};

/// Sends so many octets from one host to another, which listens on `to`; returns how long that took.
///
/// # Panics
/// When they do not arrive as they are.
#[track_caller]
pub(crate) fn transfer(from: &Space, at: &Space, to: SocketAddr, octets: usize) -> Duration {
    let listener = at.enter(|| listening(to));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("someone connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a stream has a timeout");
        let (mut buffer, mut place) = (vec![0; 1 << 16], 0);
        loop {
            let length = stream.read(&mut buffer).expect("the stream goes on");
            if length == 0 {
                break;
            }
            let wrong = buffer[..length].iter().zip(place..).find(|&(&octet, place)| octet != pattern(place));
            assert!(wrong.is_none(), "octet {:?} is another", wrong.map(|(_, place)| place));
            place += length;
        }
        stream.write_all(&place.to_be_bytes()).expect("the sender waits");
        place
    });
    let time = from.enter(|| {
        let start = std::time::Instant::now();
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap_or_else(|error| panic!("{to}: {error}"));
        stream.set_write_timeout(Some(PATIENCE)).expect("a stream has a timeout");
        stream.set_read_timeout(Some(PATIENCE)).expect("a stream has a timeout");
        let mut place = 0;
        while place < octets {
            let chunk: Vec<u8> = (place..octets.min(place + (1 << 16))).map(pattern).collect();
            stream.write_all(&chunk).unwrap_or_else(|error| panic!("after {place} octets: {error}"));
            place += chunk.len();
        }
        stream.shutdown(std::net::Shutdown::Write).expect("the stream is open");
        let mut count = [0; 8];
        stream.read_exact(&mut count).expect("the receiver answers");
        assert_eq!(usize::from_be_bytes(count), octets);
        start.elapsed()
    });
    assert_eq!(server.join().expect("what arrived is right"), octets);
    time
}

/// How long a stream may stand still.
const PATIENCE: Duration = Duration::from_secs(60);

/// The octet at a place: the period is prime, and no multiple of a segment's length.
fn pattern(place: usize) -> u8 {
    (place % 251) as u8
}
