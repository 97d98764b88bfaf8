//! `weir explain`: the verdict on a packet, and the line of the configuration that decides.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Renderer, Snippet};
use clap::Args;
use weir_packet::text::{PacketText, TextError};

use super::configuration;
use super::error::Error;
use super::output::{colour, print};
use crate::replay::Options;
use crate::replay::explanation::{Incoming, explain};

/// Reports the verdict on a packet, and the line of the configuration that decides
#[derive(Debug, Args)]
pub struct Explain {
    /// The configuration, a TOML file
    config: PathBuf,
    /// The interface that the packet comes in by
    #[arg(long = "in", value_name = "IF")]
    input: String,
    /// The packet: `udp from 10.0.0.1 port 1000 to 192.0.2.9 port 53`, or a frame in hexadecimal: `0x…`
    #[arg(required = true, num_args = 1..)]
    packet: Vec<String>,
    /// A pair of SAs whose peer protects the packet: it comes in as ESP. May be given several times, the innermost first
    #[arg(long, value_name = "SA")]
    sa: Vec<String>,
    /// A packet that comes before, as `IF [sa SA]… PACKET`: it may open a session. May be given several times
    #[arg(long, value_name = "IF PACKET")]
    after: Vec<String>,
    /// Write the explanation as JSON
    #[arg(long)]
    json: bool,
    /// Drop the packet if the configuration does not name its next hop's hardware address; else one is made up
    #[arg(long)]
    strict_neighbors: bool,
}

impl Explain {
    pub(super) fn run(&self) -> Result<(), Error> {
        let text = self.packet.join(" ");
        let packet: PacketText = text.parse().map_err(|error| misread(&text, &error))?;
        let before = self.after.iter().map(|text| earlier(text)).collect::<Result<Vec<_>, Error>>()?;
        let incoming = Incoming { input: &self.input, sas: self.sa.iter().map(String::as_str).collect(), packet };
        let gateway = configuration::load(&self.config, self.json)?;
        let options = Options { strict_neighbors: self.strict_neighbors, ..Options::default() };
        let explanation = explain(gateway, &before, &incoming, options)?;
        print(&if self.json {
            // Strings, numbers and lists: none of these can fail.
            serde_json::to_string(&explanation).expect("an explanation serialises") + "\n"
        } else {
            explanation.to_string()
        })
    }
}

/// Reads a packet that comes before: `IF [sa SA]… PACKET`.
fn earlier(text: &str) -> Result<Incoming<'_>, Error> {
    let (input, mut packet) = text.split_once(char::is_whitespace).ok_or_else(|| missing(text))?;
    let mut sas = Vec::new();
    // No protocol has the name `sa`.
    while let Some((SA, rest)) = packet.trim_start().split_once(char::is_whitespace) {
        let (sa, rest) = rest.trim_start().split_once(char::is_whitespace).ok_or_else(|| missing(text))?;
        sas.push(sa);
        packet = rest;
    }
    Ok(Incoming { input, sas, packet: packet.parse().map_err(|error| misread(packet, &error))? })
}

/// The word in front of a pair of SAs.
const SA: &str = "sa";

/// An interface without a packet.
fn missing(text: &str) -> Error {
    let expected = "a packet behind the interface, as `lan udp from 10.0.0.1 port 7 to 10.0.1.1 port 7`".to_owned();
    misread(text, &TextError { span: text.len()..text.len(), found: String::new(), expected, suggestion: None })
}

/// Reports an error in a packet's text, with a caret at the place.
fn misread(text: &str, error: &TextError) -> Error {
    let found = if error.found.is_empty() { "the end".to_owned() } else { format!("`{}`", error.found) };
    let message = format!("expected {}, found {found}", error.expected);
    // Something missing at the end has a place of its own.
    let source = if error.span.start >= text.len() { format!("{text} ") } else { text.to_owned() };
    let span = error.span.start.min(text.len())..error.span.end.clamp(error.span.start + 1, source.len());
    let snippet = Snippet::source(source.as_str()).line_start(1).annotation(AnnotationKind::Primary.span(span));
    let mut elements: Vec<Element<'_>> = vec![snippet.into()];
    let help = error.suggestion.as_ref().map(|suggestion| format!("did you mean `{suggestion}`?"));
    if let Some(help) = &help {
        elements.push(Level::HELP.message(help.as_str()).into());
    }
    let group = Group::with_title(Level::ERROR.primary_title(message.as_str()).id("packet")).elements(elements);
    let renderer = if colour(std::io::stderr().is_terminal()) { Renderer::styled() } else { Renderer::plain() };
    Error::Misread(renderer.render(&[group]))
}
