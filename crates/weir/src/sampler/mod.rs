//! Samples of packets, out of the workers' rings and into files and messages, by a thread of their own: whatever a disk or
//! a network does, workers never wait for it. What this thread does not read in time is lost, and counted where it was lost.

mod files;
mod ipfix;
mod outlet;
mod sessions;
mod translations;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use rustix::fs::{Access, access};
use weir_base::clock::Time;
use weir_base::wake::Waker;
use weir_plane::engine::SampleReader as Reader;
use weir_plane::model::{Origin, Sampler};
use weir_plane::translation_log::{LogTo, NatEvent};

use crate::render::number::plural;

pub use files::Written;
pub(crate) use files::older;
pub use ipfix::Sent;
pub use outlet::{IpfixStatus, PcapStatus, Status};
use outlet::{Moment, Outlet};

/// Samples that are taken out of each ring before they are written.
const BATCH: usize = 256;

/// How long samples are collected before they are looked at again: under a flood, workers need not wake the thread more
/// often than that.
const PAUSE: Duration = Duration::from_millis(10);

/// A sampler whose file cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("sampler {sampler}: {}: {source}", .path.display())]
pub struct OpenError {
    /// Its name.
    pub sampler: String,
    /// Its file.
    pub path: PathBuf,
    /// Where it was declared.
    pub origin: Origin,
    /// The error of the system.
    pub source: io::Error,
}

/// The files and sockets of samplers, open before there is anything to write.
#[derive(Default)]
pub struct Outlets(Vec<Outlet>);

impl Outlets {
    /// Opens files and sockets.
    ///
    /// # Errors
    /// When a file cannot be created.
    pub fn open(samplers: &[Sampler]) -> Result<Outlets, OpenError> {
        let open = |sampler: &Sampler| {
            Outlet::open(sampler, Time(0)).map_err(|source| OpenError {
                sampler: sampler.name.clone(),
                path: sampler.pcap.as_ref().map(|files| files.path.clone()).unwrap_or_default(),
                origin: sampler.origin,
                source,
            })
        };
        samplers.iter().map(open).collect::<Result<_, _>>().map(Outlets)
    }

    fn follow(&mut self, samplers: &[Sampler], now: Time) {
        self.0.retain(|outlet| samplers.iter().any(|sampler| sampler.name == outlet.name));
        for sampler in samplers {
            let at = self.at(&sampler.name);
            self.0[at].follow(sampler, now);
        }
    }

    /// Where the outlet of a name is, which comes to be if it is not there.
    fn at(&mut self, name: &str) -> usize {
        self.0.iter().position(|outlet| outlet.name == name).unwrap_or_else(|| {
            self.0.push(Outlet::unknown(name));
            self.0.len() - 1
        })
    }

    /// Takes what the workers have; returns how many samples that were.
    fn drain(&mut self, reader: &mut Reader, batch: &mut Vec<weir_plane::sample::Sample>) -> usize {
        let read = reader.read(BATCH, |sample| batch.push(sample));
        let moment = moment(reader);
        // By number of the sampler.
        let mut places: HashMap<u32, usize> = HashMap::new();
        for sample in batch.drain(..) {
            let at = *places.entry(sample.sampler).or_insert_with(|| {
                let name = reader.sampler(sample.sampler);
                self.at(name.as_deref().unwrap_or_default())
            });
            self.0[at].take(&sample, moment, &|number| reader.interface(number));
        }
        for outlet in &mut self.0 {
            outlet.flush(moment);
            outlet.tell();
        }
        read
    }

    /// Takes the events of translations that the workers have; returns how many there were.
    fn drain_log(&mut self, reader: &mut Reader, batch: &mut Vec<NatEvent>) -> usize {
        let read = reader.read_log(BATCH, |event| batch.push(event));
        let moment = moment(reader);
        for event in batch.drain(..) {
            if event.to.is_lines {
                let lists =
                    [Some(event.rule), event.source_rule].map(|rule| rule.and_then(|rule| reader.nat_list(rule)));
                translations::log(&event, reader.nat_vrf(&event), lists);
            }
            if event.to.sampler != LogTo::NOBODY {
                let name = reader.sampler(event.to.sampler);
                let at = self.at(name.as_deref().unwrap_or_default());
                self.0[at].take_event(&event, moment);
            }
        }
        let lost = reader.lost_events();
        if lost > 0 {
            tracing::warn!(lost, "nat: {} of translations found no room in the log", plural(lost, "event"));
        }
        read
    }

    fn status(&self) -> Vec<Status> {
        self.0.iter().map(Outlet::status).collect()
    }
}

/// Why the files of samplers will not be able to make room for others, as who the process is now: a text for each.
pub fn unwritable(samplers: &[Sampler]) -> Vec<String> {
    let folder = |sampler: &Sampler| {
        let files = sampler.pcap.as_ref().filter(|files| files.max_files > 1)?;
        let folder = files.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = folder.map_or_else(|| PathBuf::from("."), PathBuf::from);
        let error = access(&folder, Access::WRITE_OK | Access::EXEC_OK).err()?;
        let (name, path) = (&sampler.name, files.path.display());
        Some(format!("sampler {name} will stop when {path} is full: {}: {error}", folder.display()))
    };
    samplers.iter().filter_map(folder).collect()
}

fn moment(reader: &Reader) -> Moment {
    // A clock that stands before 1970 stamps samples with 1970.
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Moment { now: reader.now(), unix: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX) }
}

/// The thread that writes samples, as the control side holds it. Dropping it ends it, once all that was taken is written.
pub struct Thread {
    shared: Arc<Shared>,
    models: mpsc::Sender<Vec<Sampler>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Models were sent that have not been read.
    news: AtomicBool,
    status: Mutex<Vec<Status>>,
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, Vec<Status>> {
        // A list of values is whole at all times.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Thread {
    /// Starts it.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(outlets: Outlets, reader: Reader) -> io::Result<Thread> {
        let shared = Arc::<Shared>::default();
        *shared.status() = outlets.status();
        let (models, mailbox) = mpsc::channel();
        let (told, waker) = (Arc::clone(&shared), reader.waker());
        let thread = thread::Builder::new()
            .name("weir_sampler".into())
            .spawn(move || write(outlets, reader, &mailbox, &told))?;
        Ok(Thread { shared, models, waker, thread: Some(thread) })
    }

    /// Goes on as samplers are now.
    pub fn follow(&self, samplers: &[Sampler]) {
        // A thread that panicked reads nothing any more.
        let _ = self.models.send(samplers.to_vec());
        self.shared.news.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Returns the status of all samplers.
    pub fn status(&self) -> Vec<Status> {
        self.shared.status().clone()
    }

    /// Returns whether the thread ended without a command to end.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // If it panicked it has said why on stderr.
            let _ = thread.join();
        }
    }
}

fn write(mut outlets: Outlets, mut reader: Reader, models: &mpsc::Receiver<Vec<Sampler>>, shared: &Shared) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut events_of_nat = Vec::with_capacity(BATCH);
    let mut watched = Vec::with_capacity(BATCH);
    loop {
        // Before the rings: what was taken before is in them.
        let stop = shared.stop.load(Ordering::Acquire);
        if shared.news.swap(false, Ordering::AcqRel) {
            while let Ok(samplers) = models.try_recv() {
                outlets.follow(&samplers, reader.now());
            }
        }
        // Before the samples: these let go of what was collected.
        let events = outlets.drain_log(&mut reader, &mut events_of_nat);
        let events = sessions::drain(&mut reader, BATCH, &mut watched).max(events);
        let read = outlets.drain(&mut reader, &mut batch).max(events);
        *shared.status() = outlets.status();
        if read > 0 {
            // More may be there already.
            if read < BATCH && !stop {
                thread::sleep(PAUSE);
            }
        } else if stop {
            return;
        } else {
            reader.wait(None, || shared.stop.load(Ordering::Acquire) || shared.news.load(Ordering::Acquire));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(name: &str, path: Option<PathBuf>, max_files: u16) -> Sampler {
        let pcap = path.map(|path| weir_plane::model::SampleFiles { path, max_bytes: 10_000, max_files });
        let origin = Origin::default();
        Sampler { name: name.into(), pcap, ipfix: None, snap_length: 128, rate: 1, origin }
    }

    #[test]
    fn a_file_that_cannot_be_created_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/x.pcap");
        let error = Outlets::open(&[sampler("a", Some(path.clone()), 2)]).err().unwrap();
        assert_eq!(error.to_string(), format!("sampler a: {}: No such file or directory (os error 2)", path.display()));
    }

    #[test]
    fn a_reload_opens_what_changed_and_goes_on_with_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(folder.path().join(name));
        let mut outlets = Outlets::open(&[sampler("a", path("a"), 2), sampler("b", path("b"), 2)]).unwrap();
        let sample = weir_plane::sample::Sample::new(&[7; 100], 64, Default::default());
        let moment = Moment { now: Time(5), unix: 1_800_000_000_000_000_000 };
        for outlet in &mut outlets.0 {
            outlet.take(&sample, moment, &|_| None);
            outlet.flush(moment);
        }
        let missing = Some(folder.path().join("missing/c"));
        outlets
            .follow(&[sampler("a", path("a"), 3), sampler("b", path("other"), 2), sampler("c", missing, 1)], Time(6));
        for outlet in &mut outlets.0 {
            outlet.take(&sample, moment, &|_| None);
            outlet.flush(moment);
            outlet.tell();
        }
        let status = outlets.status();
        let files: Vec<_> = status.iter().map(|status| status.pcap.clone().unwrap()).collect();
        let written = |at: usize| (files[at].written.samples, files[at].written.lost, files[at].failure.is_some());
        // The first goes on, the second begins another file and goes on counting, the third is tried again.
        assert_eq!([written(0), written(1), written(2)], [(2, 0, false), (2, 0, false), (0, 1, true)]);
        assert_eq!(files[1].length, 24 + 16 + 64);
        assert_eq!(status.iter().map(|status| &*status.name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(folder.path().join("other").exists() && !folder.path().join("a.1").exists());
        outlets.follow(&[sampler("c", None, 1)], Time(7));
        assert_eq!(outlets.status().len(), 1);
        // There is nowhere to put it now.
        outlets.0[0].take(&sample, moment, &|_| None);
        assert_eq!(outlets.status()[0].astray, 1);
    }

    #[test]
    fn whoever_cannot_make_room_is_warned() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing/x");
        let texts = unwritable(&[
            sampler("a", Some(folder.path().join("x")), 4),
            sampler("b", Some(missing.clone()), 4),
            sampler("c", Some(missing), 1),
            sampler("d", None, 4),
        ]);
        assert_eq!(texts.len(), 1);
        assert!(texts[0].starts_with("sampler b will stop when "), "{texts:?}");
    }
}
