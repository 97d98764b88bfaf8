//! Opening ports.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::Port;
use crate::af_packet::{AfPacketError, AfPacketPort};
use crate::generator::{Generator, StreamError};
use crate::null::Null;
use crate::pcap::{CaptureError, CapturePort, is_same};
use crate::spec::{Middleware, PortSpec, StreamSource, StreamSpec};
use crate::tap::{Mode as TapMode, TapError, TapPort};
use crate::{capture, fault};

/// What a port is told of the interface it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The interface's name: generators make their own MAC addresses from it.
    pub name: String,
    /// The interface's MAC address: where generators send when their template names no other.
    pub mac: [u8; 6],
    /// The longest frame of the interface, in octets, with link-layer header and tags: generators refuse to make longer
    /// ones.
    pub max_frame: usize,
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing to generate.
    #[error("a generator needs at least one stream")]
    NoStreams,
    /// A stream of the generator cannot be made.
    #[error("stream {number}: {error}")]
    Stream {
        /// Which, from 1 on.
        number: usize,
        /// Why.
        error: StreamError,
    },
    /// A capture file cannot be read or written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// An interface of the kernel cannot be attached to.
    #[error(transparent)]
    AfPacket(#[from] AfPacketError),
    /// A tap or tun device cannot be had.
    #[error(transparent)]
    Tap(#[from] TapError),
}

impl OpenError {
    /// Whether another process holds what is to be opened. One that was killed a moment ago may still do so.
    pub fn is_held(&self) -> bool {
        match self {
            OpenError::AfPacket(AfPacketError::Claimed { .. }) | OpenError::Tap(TapError::Busy { .. }) => true,
            OpenError::Capture(CaptureError::Create { source, .. }) => source.kind() == ErrorKind::ResourceBusy,
            _ => false,
        }
    }
}

impl PortSpec {
    /// The files that it reads and writes.
    fn files(&self) -> Vec<&Path> {
        match self {
            PortSpec::Generator(spec) => spec.streams.iter().filter_map(StreamSpec::file).collect(),
            PortSpec::Pcap(spec) => spec.input.iter().chain(&spec.output).map(PathBuf::as_path).collect(),
            PortSpec::Null | PortSpec::AfPacket(_) | PortSpec::Tap(_) | PortSpec::Tun(_) => Vec::new(),
        }
    }
}

impl StreamSpec {
    /// The file that it reads.
    fn file(&self) -> Option<&Path> {
        match &self.source {
            StreamSource::Capture(path) => Some(path),
            StreamSource::Template(_) => None,
        }
    }
}

/// Opens a port with `queues` receive queues and wraps it in `middleware`. Kinds that have but one receive queue, or none,
/// give fewer.
///
/// # Errors
/// When the specification makes no sense, or a file cannot be read or written.
pub fn open(
    spec: &PortSpec,
    middleware: &Middleware,
    queues: u16,
    context: &Context,
) -> Result<Box<dyn Port>, OpenError> {
    if let Some(path) = &middleware.capture
        && spec.files().iter().any(|file| is_same(file, path))
    {
        return Err(CaptureError::SameFile { path: path.clone() }.into());
    }
    let mut port: Box<dyn Port> = match spec {
        PortSpec::Generator(spec) => Box::new(Generator::open(spec, queues, context)?),
        PortSpec::Pcap(spec) => Box::new(CapturePort::open(spec)?),
        PortSpec::Null => Box::new(Null::default()),
        PortSpec::AfPacket(spec) => Box::new(AfPacketPort::open(spec, queues, context)?),
        PortSpec::Tap(spec) => Box::new(TapPort::open(TapMode::Tap, spec, queues, context)?),
        PortSpec::Tun(spec) => Box::new(TapPort::open(TapMode::Tun, spec, queues, context)?),
    };
    if let Some(spec) = &middleware.fault {
        port = Box::new(fault::faulty(port, *spec));
    }
    if let Some(path) = &middleware.capture {
        port = Box::new(capture::captured(port, path)?);
    }
    Ok(port)
}
