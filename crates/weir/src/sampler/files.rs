//! Files of samples, of which there are never more octets than the configuration allows.
//!
//! `PATH` is written to. When the next batch would make it too long it becomes `PATH.1`, what was `PATH.1` becomes
//! `PATH.2`, and so on; the last makes room. Where only one file is allowed it begins anew.
//!
//! A write that fails, as on a full disk, leaves whole records: the file is cut where the last good one ends. It is tried
//! again after a while, with the same file, so that trouble that lasts does not push the good files out.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};
use weir_base::clock::Time;
use weir_base::file::Entry;
use weir_plane::model::SampleFiles;
use weir_port::pcap;

/// How long nothing is tried after a failure, in nanoseconds.
pub(super) const RETRY: u64 = 10_000_000_000;

/// Octets that are collected before they are written.
const BATCH: usize = 64 << 10;

/// Octets that a file begins with.
const START: u64 = 24;

/// The counts of written and lost records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Samples written.
    pub samples: u64,
    /// Octets written.
    pub bytes: u64,
    /// Samples that could not be written.
    pub lost: u64,
    /// Files that made room for the next.
    pub rotations: u64,
}

/// The files of a sampler.
#[derive(Debug)]
pub(super) struct Files {
    spec: SampleFiles,
    /// `None`: it could not be opened.
    file: Option<File>,
    /// Octets in the file, all of them whole records.
    length: u64,
    batch: Vec<u8>,
    /// Samples in the batch.
    waiting: u64,
    written: Written,
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Failure {
    error: String,
    /// When to try again.
    until: Time,
}

impl Files {
    /// Begins a file, an earlier one of this name becoming an older one.
    ///
    /// # Errors
    /// If the file cannot be created. The owner of the error of [`Files::failed`] tries again later.
    pub(super) fn open(spec: SampleFiles) -> Result<Files, io::Error> {
        let mut files = Files::closed(spec);
        files.begin()?;
        Ok(files)
    }

    /// Files that could not be opened, for this reason.
    pub(super) fn failed(spec: SampleFiles, error: &io::Error, now: Time) -> Files {
        let mut files = Files::closed(spec);
        files.fail(error, now);
        files
    }

    fn closed(spec: SampleFiles) -> Files {
        Files { spec, file: None, length: 0, batch: Vec::new(), waiting: 0, written: Written::default(), failure: None }
    }

    /// Its file.
    pub(super) fn path(&self) -> &Path {
        &self.spec.path
    }

    /// Goes on with other bounds.
    pub(super) fn set_bounds(&mut self, spec: &SampleFiles) {
        (self.spec.max_bytes, self.spec.max_files) = (spec.max_bytes, spec.max_files);
        let _ = self.remove_surplus();
    }

    /// Returns the counts so far.
    pub(super) fn written(&self) -> Written {
        self.written
    }

    /// Goes on counting from what other files have counted.
    pub(super) fn count_from(&mut self, written: Written) {
        self.written = written;
    }

    /// Octets of the file that is being written.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the present error, if there is one.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| failure.error.as_str())
    }

    /// Adds the first octets of a packet, stamped with a time of the Unix epoch. `now` is the gateway's clock.
    pub(super) fn write(&mut self, time: Time, kept: &[u8], length: usize, now: Time) {
        if self.failure.as_ref().is_some_and(|failure| now < failure.until) {
            self.written.lost += 1;
            return;
        }
        let before = self.batch.len();
        pcap::encode_part(&mut self.batch, time, kept, length);
        let length = if self.file.is_some() { self.length } else { START };
        if length + self.batch.len() as u64 > self.spec.max_bytes {
            // What fits belongs to this file, the rest to the next.
            let record = self.batch.split_off(before);
            self.flush(now);
            if self.failure.is_none()
                && let Err(error) = self.rotate()
            {
                self.fail(&error, now);
            }
            if self.failure.is_some() {
                self.written.lost += 1;
                return;
            }
            self.batch.extend(record);
        }
        self.waiting += 1;
        if self.batch.len() >= BATCH {
            self.flush(now);
        }
    }

    /// Writes what is waiting.
    pub(super) fn flush(&mut self, now: Time) {
        if self.waiting == 0 {
            return;
        }
        match self.append() {
            Ok(()) => {
                self.written.samples += self.waiting;
                self.written.bytes += self.batch.len() as u64;
                self.failure = None;
            }
            Err(error) => {
                self.written.lost += self.waiting;
                self.fail(&error, now);
            }
        }
        self.waiting = 0;
        self.batch.clear();
    }

    fn append(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.begin()?;
        }
        let Some(file) = &mut self.file else { return Err(ErrorKind::NotFound.into()) };
        if let Err(error) = file.write_all(&self.batch) {
            // Half a record would spoil all that follow. If not even this works, the next file is a new one.
            if cut(file, self.length).is_err() {
                self.file = None;
            }
            return Err(error);
        }
        self.length += self.batch.len() as u64;
        Ok(())
    }

    fn fail(&mut self, error: &io::Error, now: Time) {
        let error = format!("{}: {error}", self.spec.path.display());
        self.failure = Some(Failure { error, until: Time(now.0.saturating_add(RETRY)) });
    }

    /// Makes the file an older one and begins another.
    fn rotate(&mut self) -> io::Result<()> {
        self.written.rotations += 1;
        match &mut self.file {
            // Needs no right to the folder.
            Some(file) if self.spec.max_files <= 1 => {
                let start = pcap::start();
                cut(file, 0)?;
                file.write_all(&start)?;
                self.length = start.len() as u64;
                Ok(())
            }
            _ => self.begin(),
        }
    }

    /// Begins a file. One of this name that holds more than the beginning of a capture becomes an older one.
    fn begin(&mut self) -> io::Result<()> {
        let (entry, start) = (Entry::at(&self.spec.path)?, pcap::start());
        match entry.stat()? {
            None => {}
            // Renaming a device or a pipe would be a surprise, and following a link an invitation.
            Some(found) if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => {
                return Err(io::Error::other("this is no regular file"));
            }
            // A file of our own is open; one that is not belongs to another gateway, or to another sampler.
            Some(_) if self.file.is_none() && entry.is_locked() => {
                return Err(io::Error::new(ErrorKind::ResourceBusy, "another process writes to this file"));
            }
            Some(found) if found.st_size > 0 && !is_capture(&entry, &start)? => {
                return Err(io::Error::other("this is no capture, and is left alone"));
            }
            Some(found) if found.st_size.cast_unsigned() > START && self.spec.max_files > 1 => {
                let name = |number| older(Path::new(entry.name()), number).into_os_string();
                for number in (1..self.spec.max_files - 1).rev() {
                    rename(&entry.sibling(&name(number))?, &name(number + 1))?;
                }
                rename(&entry, &name(1))?;
            }
            Some(_) => entry.remove()?,
        }
        self.file = None;
        // The file is created new or not at all, so that another user cannot put a link in its place.
        let mut file = entry.create()?;
        file.write_all(&start)?;
        (self.file, self.length) = (Some(file), start.len() as u64);
        self.remove_surplus()
    }

    /// Removes older files that there were room for once.
    fn remove_surplus(&self) -> io::Result<()> {
        let entry = Entry::at(&self.spec.path)?;
        for number in self.spec.max_files.max(1).. {
            match entry.sibling(older(Path::new(entry.name()), number).as_os_str())?.remove() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// `PATH.NUMBER`: what a file becomes that makes room.
pub(crate) fn older(path: &Path, number: u16) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

/// Checks that a file begins as the files of samplers do. A file that cannot be read was most likely made by weir
/// itself before it dropped its privileges.
fn is_capture(entry: &Entry, start: &[u8]) -> io::Result<bool> {
    const MAGIC: usize = 4;
    let mut found = Vec::new();
    match entry.open(OFlags::RDONLY).and_then(|file| file.take(MAGIC as u64).read_to_end(&mut found)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(true),
        Err(error) => Err(error),
        Ok(_) => Ok(found[..] == start[..MAGIC]),
    }
}

/// Renames a file, if there is one.
fn rename(from: &Entry, to: &OsStr) -> io::Result<()> {
    match from.rename(to) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Makes a file this long, and goes on at its end.
fn cut(file: &mut File, length: u64) -> io::Result<()> {
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn spec(folder: &Path, max_bytes: u64, max_files: u16) -> SampleFiles {
        SampleFiles { path: folder.join("samples.pcap"), max_bytes, max_files }
    }

    /// Reads the files, the newest first: the whole records as numbers in their frames.
    fn read(spec: &SampleFiles) -> Vec<Vec<u32>> {
        let paths = std::iter::once(spec.path.clone()).chain((1..).map(|number| older(&spec.path, number)));
        let records = |path: PathBuf| {
            let mut reader = pcap::Reader::open(&path).ok()?;
            let mut numbers = Vec::new();
            while let Some(record) = reader.read().unwrap() {
                assert_eq!(record.frame.len(), 100);
                numbers.push(u32::from_be_bytes(*record.frame.first_chunk().unwrap()));
            }
            Some(numbers)
        };
        paths.map_while(records).collect()
    }

    fn write(files: &mut Files, numbers: std::ops::Range<u32>, now: Time) {
        for number in numbers {
            let mut frame = [0; 100];
            frame[..4].copy_from_slice(&number.to_be_bytes());
            files.write(Time(1_000_000_000), &frame, 1500, now);
        }
        files.flush(now);
    }

    #[test]
    fn files_begin_alike() {
        assert_eq!(pcap::start().len() as u64, START);
    }

    fn octets(folder: &Path) -> u64 {
        folder.read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn no_flood_fills_more_than_was_allowed() {
        for (max_files, whole) in [(1, 1), (2, 2), (4, 4)] {
            let folder = tempfile::tempdir().unwrap();
            // Room for the beginning and 8 records of 116 octets.
            let spec = spec(folder.path(), 24 + 8 * 116 + 5, max_files);
            let mut files = Files::open(spec.clone()).unwrap();
            for batch in 0..1000 {
                write(&mut files, batch * 7..batch * 7 + 7, Time(0));
                assert!(octets(folder.path()) <= spec.max_bytes * u64::from(max_files));
            }
            let found = read(&spec);
            assert_eq!(found.len(), whole);
            // The latest, in order, none missing and none twice.
            let numbers: Vec<u32> = found.iter().rev().flatten().copied().collect();
            assert_eq!(numbers, (7000 - numbers.len() as u32..7000).collect::<Vec<_>>());
            assert!(found[1..].iter().all(|file| file.len() == 8));
            let written = files.written();
            assert_eq!((written.samples, written.lost, written.bytes), (7000, 0, 7000 * 116));
            assert_eq!(written.rotations, 7000 / 8 - u64::from(7000 % 8 == 0));
        }
    }

    #[test]
    fn what_an_earlier_gateway_wrote_stays_within_the_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path(), 10_000, 3);
        for start in [0, 10, 20, 30] {
            let mut files = Files::open(spec.clone()).unwrap();
            write(&mut files, start..start + 10, Time(0));
        }
        assert_eq!(read(&spec), [Vec::from_iter(30..40), Vec::from_iter(20..30), Vec::from_iter(10..20)]);
        // One that has no samples is none to keep.
        drop(Files::open(spec.clone()).unwrap());
        drop(Files::open(spec.clone()).unwrap());
        assert_eq!(read(&spec), [vec![], Vec::from_iter(30..40), Vec::from_iter(20..30)]);
        let mut fewer = Files::open(SampleFiles { max_files: 2, ..spec.clone() }).unwrap();
        assert_eq!(read(&spec), [vec![], Vec::from_iter(30..40)]);
        write(&mut fewer, 0..1, Time(0));
        fewer.set_bounds(&SampleFiles { max_files: 1, ..spec.clone() });
        assert_eq!(read(&spec), [[0]]);
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_another_gateway_writes_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for max_files in [1, 3] {
            let spec = spec(folder.path(), 24 + 8 * 116, max_files);
            let mut first = Files::open(spec.clone()).unwrap();
            write(&mut first, 0..3, Time(0));
            let error = Files::open(spec.clone()).unwrap_err();
            assert_eq!(error.to_string(), "another process writes to this file");
            assert_eq!(read(&spec), [[0, 1, 2]]);
            // It makes room for its own next file, and for another gateway once it has ended.
            write(&mut first, 3..12, Time(0));
            assert_eq!((first.written().lost, first.failure()), (0, None));
            drop(first);
            assert!(Files::open(spec.clone()).is_ok());
            for number in 0..max_files {
                let _ = fs::remove_file(if number == 0 { spec.path.clone() } else { older(&spec.path, number) });
            }
        }
    }

    #[test]
    fn what_is_no_regular_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path(), 10_000, 3);
        let other = folder.path().join("other");
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, &spec.path).unwrap();
        let error = Files::open(spec.clone()).unwrap_err();
        assert_eq!(error.to_string(), "this is no regular file");
        assert_eq!(fs::read(&other).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&spec.path).unwrap().is_symlink());
    }

    #[test]
    fn what_is_no_capture_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for max_files in [1, 3] {
            let spec = spec(folder.path(), 10_000, max_files);
            for precious in ["version = 1\n", "abc"] {
                fs::write(&spec.path, precious).unwrap();
                let error = Files::open(spec.clone()).unwrap_err();
                assert_eq!(error.to_string(), "this is no capture, and is left alone");
                assert_eq!(fs::read_to_string(&spec.path).unwrap(), precious);
            }
            fs::write(&spec.path, "").unwrap();
            assert!(Files::open(spec.clone()).is_ok());
            assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        }
    }

    #[test]
    fn trouble_costs_samples_and_is_over_when_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let spec = spec(&inner, 10_000, 3);
        let error = Files::open(spec.clone()).unwrap_err();
        let mut files = Files::failed(spec.clone(), &error, Time(0));
        write(&mut files, 0..5, Time(1));
        assert!(files.failure().unwrap().contains("samples.pcap: No such file"));
        fs::create_dir(&inner).unwrap();
        write(&mut files, 5..10, Time(RETRY - 1));
        assert_eq!((files.written().samples, files.written().lost), (0, 10));
        write(&mut files, 10..15, Time(RETRY));
        assert_eq!((files.written().samples, files.written().lost, files.failure()), (5, 10, None));
        assert_eq!(read(&spec), [Vec::from_iter(10..15)]);
    }

    #[test]
    fn a_full_disk_leaves_whole_records() {
        // Like one: the kernel refuses to make a file longer.
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path(), 1_000_000, 3);
        let mut files = Files::open(spec.clone()).unwrap();
        write(&mut files, 0..5, Time(0));
        // What cannot be written to is as full as it gets.
        let good = files.file.replace(File::open("/dev/full").unwrap());
        write(&mut files, 5..8, Time(0));
        assert!(files.failure().is_some());
        assert_eq!((files.written().samples, files.written().lost), (5, 3));
        // A file that cannot be cut is given up for a new one.
        assert!(files.file.is_none());
        drop(good);
        write(&mut files, 8..9, Time(RETRY - 1));
        write(&mut files, 9..10, Time(RETRY));
        assert_eq!(read(&spec), [Vec::from_iter(9..10), Vec::from_iter(0..5)]);
        drop(files);

        let mut half = Files::open(self::spec(folder.path(), 1_000_000, 1)).unwrap();
        write(&mut half, 0..2, Time(0));
        half.file.as_mut().unwrap().write_all(&[1; 50]).unwrap();
        cut(half.file.as_mut().unwrap(), half.length).unwrap();
        write(&mut half, 2..3, Time(0));
        assert_eq!(read(&spec), [[0, 1, 2]]);
    }
}
