//! Where the packets go that a replay sends: to files, to memory, or nowhere.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::parse;
use weir_packet::vector::{Indices, Vector};
use weir_plane::harness::Harness;
use weir_plane::model::{Gateway, InterfaceKind};
use weir_port::Transmitter;
use weir_port::pcap::{CaptureError, Writer};

use super::Input;

/// Takes what leaves by an interface.
pub trait Sink: Clone + Send + 'static {
    /// Takes a frame that leaves by an interface (the model's index) and stems from a packet that came in at `time`.
    /// False when it cannot.
    fn put(&self, interface: u32, time: Time, frame: &[u8]) -> bool;

    /// Pushes out what is buffered.
    fn flush(&self) {}
}

/// Takes everything and keeps nothing.
#[derive(Debug, Clone, Copy)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn put(&self, _: u32, _: Time, _: &[u8]) -> bool {
        true
    }
}

/// A frame that left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The interface, as the model's index.
    pub interface: u32,
    /// The frame.
    pub frame: Vec<u8>,
}

/// Keeps everything in memory.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<Vec<Sent>>>);

impl Memory {
    /// Takes out what was kept.
    pub fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut lock(&self.0))
    }
}

impl Sink for Memory {
    fn put(&self, interface: u32, _: Time, frame: &[u8]) -> bool {
        lock(&self.0).push(Sent { interface, frame: frame.to_owned() });
        true
    }
}

/// A capture for each interface, `NAME.pcap`, with the timestamps of the packets that came in.
#[derive(Debug, Clone)]
pub struct Files(Arc<Mutex<Captures>>);

#[derive(Debug)]
struct Captures {
    writers: Vec<Writer<File>>,
    failure: Option<CaptureError>,
    failed: bool,
}

impl Files {
    /// Makes a capture for every interface of the model.
    pub(super) fn create(folder: &Path, gateway: &Gateway, inputs: &[Input]) -> Result<Files, CaptureError> {
        // Identifies a file by any of its names. A file that cannot be examined causes an error when it is opened.
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
        let read: Vec<_> = inputs.iter().filter_map(|input| identity(&input.path)).collect();
        let paths = gateway.interfaces.iter().map(|interface| folder.join(format!("{}.pcap", interface.name)));
        let paths: Vec<_> = paths.collect();
        for path in &paths {
            if identity(path).is_some_and(|file| read.contains(&file)) {
                return Err(CaptureError::SameFile { path: path.clone() });
            }
        }
        let writers = paths.iter().map(|path| Writer::create(path)).collect::<Result<_, _>>()?;
        Ok(Files(Arc::new(Mutex::new(Captures { writers, failure: None, failed: false }))))
    }

    /// Why a file could not be written, once.
    pub(super) fn failure(&self) -> Option<CaptureError> {
        lock(&self.0).failure.take()
    }
}

impl Captures {
    fn settle(&mut self, result: Result<(), CaptureError>) -> bool {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
            self.failed = true;
        }
        !self.failed
    }
}

impl Sink for Files {
    fn put(&self, interface: u32, time: Time, frame: &[u8]) -> bool {
        let mut captures = lock(&self.0);
        if captures.failed {
            return false;
        }
        let Some(writer) = captures.writers.get_mut(interface as usize) else { return false };
        let result = writer.write(time, frame);
        captures.settle(result)
    }

    fn flush(&self) {
        let mut captures = lock(&self.0);
        if !captures.failed {
            let result = captures.writers.iter_mut().try_for_each(Writer::flush);
            captures.settle(result);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds the lock leaves a value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends what leaves by any interface to a sink, and what is for the host nowhere.
pub fn connect(harness: &mut Harness, sink: &impl Sink) {
    for index in 0..harness.model().interfaces.len() as u32 {
        if harness.port_of(index) == index {
            let port = Port { untagged: index, tagged: tagged(harness, index), sink: sink.clone() };
            harness.connect(index, Box::new(port));
        }
        if harness.model().interfaces[index as usize].punt.is_some() {
            harness.connect(harness.punt_port(index), Box::new(Host));
        }
    }
}

/// The host: takes what punt devices are given, and keeps nothing.
struct Host;

impl Transmitter for Host {
    fn transmit(&mut self, _: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        frame.len()
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The VLANs of a port, by (outer TPID, outer VLAN id, inner VLAN id or 0).
fn tagged(harness: &Harness, port: u32) -> HashMap<(u16, u16, u16), u32> {
    let vlans = harness.model().interfaces.iter().enumerate();
    let vlans = vlans.filter_map(|(index, interface)| match interface.kind {
        InterfaceKind::Vlan { parent, outer, inner } if parent.0 == port => {
            Some(((outer.tpid, outer.vid, inner.unwrap_or(0)), index as u32))
        }
        _ => None,
    });
    vlans.collect()
}

/// A port that distinguishes its interfaces by the tags of their frames.
struct Port<S> {
    untagged: u32,
    tagged: HashMap<(u16, u16, u16), u32>,
    sink: S,
}

impl<S> Port<S> {
    fn interface(&self, frame: &[u8]) -> u32 {
        let tags = parse::ethernet(frame).ok().map(|link| link.tags);
        let outer = tags.and_then(|tags| tags.outer);
        let inner = tags.and_then(|tags| tags.inner).map_or(0, |inner| inner.vid());
        let found = outer.and_then(|outer| self.tagged.get(&(outer.tpid, outer.vid(), inner)));
        found.copied().unwrap_or(self.untagged)
    }
}

impl<S: Sink> Transmitter for Port<S> {
    fn transmit(
        &mut self,
        vector: &mut Vector,
        frame: &Indices,
        refused: &mut Indices,
        _: &mut Cache,
        now: Time,
    ) -> usize {
        for &place in frame.places() {
            let packet = &vector[place];
            if !self.sink.put(self.interface(packet.data()), packet.time().unwrap_or(now), packet.data()) {
                refused.push(place);
            }
        }
        frame.len()
    }

    fn flush(&mut self) -> std::io::Result<()> {
        // Failures are kept by the sink.
        self.sink.flush();
        Ok(())
    }
}
