//! Opening ports.

use std::path::{Path, PathBuf};

use crate::af_packet::AfPacketPort;
use crate::context::Context;
use crate::error::OpenError;
use crate::generator::Generator;
use crate::null::Null;
use crate::pcap::{CaptureError, CapturePort, is_same};
use crate::port::Port;
use crate::spec::{Middleware, PortSpec, StreamSource, StreamSpec};
use crate::tap::{Mode as TapMode, TapPort};
use crate::{capture, fault};

impl PortSpec {
    fn files(&self) -> Vec<&Path> {
        match self {
            PortSpec::Generator(spec) => spec.streams.iter().filter_map(StreamSpec::file).collect(),
            PortSpec::Pcap(spec) => spec.input.iter().chain(&spec.output).map(PathBuf::as_path).collect(),
            PortSpec::Null | PortSpec::AfPacket(_) | PortSpec::Tap(_) | PortSpec::Tun(_) => Vec::new(),
        }
    }
}

impl StreamSpec {
    fn file(&self) -> Option<&Path> {
        match &self.source {
            StreamSource::Capture(path) => Some(path),
            StreamSource::Template(_) => None,
        }
    }
}

/// Opens a port with `queues` receive queues and wraps it in `middleware`. Some kinds have only one receive queue or
/// none.
///
/// # Errors
/// If the specification is invalid, or a device or file cannot be opened.
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
