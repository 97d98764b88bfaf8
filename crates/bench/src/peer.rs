//! Running a peer: a program of `bench/peers` that does the same work on another library, in turns with ours.
//!
//! A peer that is started with `--paced` says `ready` when its tables are filled. For each line that it gets it runs one
//! repeat and says `done`; at the end of its input it prints a line of JSON per variant. The turns make sure that both
//! sides see the same machine: its clock, its caches, and its neighbours.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Lines, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

/// A peer at work.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Reads what it says on the standard error.
    said: Option<JoinHandle<String>>,
}

/// Measurement of a peer: one line of its output.
#[derive(Clone, Debug, PartialEq)]
pub struct Result {
    /// The line itself, a JSON object.
    pub json: String,
    /// The library, such as `rte_fib`.
    pub peer: String,
    /// Which of the library's functions, such as `avx512`.
    pub variant: String,
    /// TSC ticks per lookup: the median over the repeats.
    pub median: f64,
    /// TSC ticks per lookup: the least of the repeats.
    pub min: f64,
    /// Over all answers, so that they can be compared to ours; see [`checksum`].
    pub checksum: String,
}

impl Peer {
    /// Starts a peer with these arguments and `--paced`, and waits until it is ready.
    ///
    /// # Errors
    /// If the program cannot be started: of the kind [`NotFound`](io::ErrorKind::NotFound) if there is none, of
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if it may not be. If it ends before it is ready: with what it
    /// said last on the standard error.
    pub fn start<A: AsRef<OsStr>>(program: &Path, arguments: impl IntoIterator<Item = A>) -> io::Result<Peer> {
        let mut command = Command::new(program);
        command.args(arguments).arg("--paced").stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut errors = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let said = std::thread::spawn(move || {
            let mut octets = Vec::new();
            // Unreadable output is not reported.
            let _ = errors.read_to_end(&mut octets);
            String::from_utf8_lossy(&octets).into_owned()
        });
        let mut peer = Peer { child, input, output: BufReader::new(output).lines(), said: Some(said) };
        peer.wait_for("ready")?;
        Ok(peer)
    }

    /// Lets it run one repeat of all its variants.
    ///
    /// # Errors
    /// If it has ended.
    pub fn repeat(&mut self) -> io::Result<()> {
        // The output of an ended peer says more than a broken pipe.
        let asked = self.input.write_all(b"\n").and_then(|()| self.input.flush());
        self.wait_for("done").and(asked)
    }

    /// Ends it; gives what it measured.
    ///
    /// # Errors
    /// If it fails, or prints something else than results.
    pub fn finish(mut self) -> io::Result<Vec<Result>> {
        drop(self.input);
        let lines = self.output.collect::<io::Result<Vec<String>>>()?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(ended(&format!("the peer ended with {status}"), self.said.take()));
        }
        lines.iter().map(|line| parse(line).ok_or_else(|| unexpected(line))).collect()
    }

    fn wait_for(&mut self, word: &str) -> io::Result<()> {
        match self.output.next() {
            Some(Ok(line)) if line == word => Ok(()),
            Some(Ok(line)) => Err(unexpected(&line)),
            Some(Err(error)) => Err(error),
            None => match self.child.wait() {
                Ok(status) => Err(ended(&format!("the peer ended with {status}"), self.said.take())),
                Err(error) => Err(error),
            },
        }
    }
}

/// That a peer ended too early, with what it said last.
fn ended(how: &str, said: Option<JoinHandle<String>>) -> io::Error {
    let said = said.and_then(|said| said.join().ok()).unwrap_or_default();
    match said.lines().rfind(|line| !line.trim().is_empty()) {
        Some(last) => io::Error::other(format!("{how}: {}", last.trim())),
        None => io::Error::other(how),
    }
}

/// The sum that peers print over all answers, in the order of keys.
pub fn checksum(answers: impl IntoIterator<Item = u32>) -> String {
    let sum = answers.into_iter().fold(0u64, |sum, answer| sum.wrapping_mul(31).wrapping_add(u64::from(answer)));
    format!("{sum:016x}")
}

fn unexpected(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected from the peer: {line}"))
}

/// Reads a line that a peer printed. Our peers print flat objects without escapes and without spaces.
fn parse(line: &str) -> Option<Result> {
    let after = |name: &str| line.split_once(&format!("\"{name}\":")).map(|(_, rest)| rest);
    let text = |name: &str| Some(after(name)?.strip_prefix('"')?.split_once('"')?.0.to_owned());
    let number = |name: &str| after(name)?.split([',', '}']).next()?.parse().ok();
    Some(Result {
        json: line.to_owned(),
        peer: text("peer")?,
        variant: match after("next_hop_bytes").and_then(|rest| rest.split(',').next()) {
            Some(bytes) => format!("{}, {bytes} B", text("variant")?),
            None => text("variant")?,
        },
        median: number("median")?,
        min: number("min")?,
        checksum: text("checksum")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let line = r#"{"peer":"rte_fib","variant":"avx512","family":4,"ticks_per_lookup":{"median":10.5,"min":9.25},"checksum":"00ff"}"#;
        let result = parse(line).unwrap();
        assert_eq!((result.peer.as_str(), result.variant.as_str()), ("rte_fib", "avx512"));
        assert_eq!((result.median, result.min, result.checksum.as_str()), (10.5, 9.25, "00ff"));
        assert_eq!(parse("ready"), None);
    }

    #[test]
    fn a_program_that_is_no_peer_is_an_error() {
        assert!(Peer::start(Path::new("/bin/true"), ["--family", "4"]).is_err());
        let absent = Peer::start(Path::new("/nonexistent"), [""; 0]).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_a_peer_said_last_is_why_it_ended() {
        let script = |text: &str| ["-c".to_owned(), text.to_owned()];
        let start = |text: &str| Peer::start(Path::new("/bin/sh"), script(text));
        let ended = start("echo first >&2; echo 'no room' >&2; echo >&2; exit 7").unwrap_err();
        assert_eq!(ended.to_string(), "the peer ended with exit status: 7: no room");
        let mut later = start("echo ready; read line; exit 3").unwrap();
        assert_eq!(later.repeat().unwrap_err().to_string(), "the peer ended with exit status: 3");
        let at_last = start("echo ready; cat; echo 'too late' >&2; exit 2").unwrap();
        assert_eq!(at_last.finish().unwrap_err().to_string(), "the peer ended with exit status: 2: too late");
    }

    #[test]
    fn checksums_depend_on_the_order() {
        assert_eq!(checksum([1, 2]), format!("{:016x}", 31 + 2));
        assert_ne!(checksum([1, 2]), checksum([2, 1]));
    }
}
