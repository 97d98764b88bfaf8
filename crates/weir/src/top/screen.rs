//! The terminal: its input, signals and readings end in one queue, and one thread draws.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event};
use tokio::signal::unix::{SignalKind, signal};

use super::app::{App, Effect};
use super::draw;
use super::pair::Pair;
use super::reading::{Parts, Reading};
use super::view::View;
use crate::control::client::{Client, ClientError};

/// The time that the gateway has for an answer. It is shorter than the client's patience, which writes a line.
pub const ANSWER: Duration = Duration::from_secs(5);

/// The settings of a screen at its start.
#[derive(Debug)]
pub struct Settings {
    /// The view.
    pub view: View,
    /// The time between readings.
    pub interval: Duration,
    /// The text that rows contain.
    pub filter: String,
    /// Whether colours are used.
    pub colour: bool,
}

/// Messages to the thread that draws.
enum Message {
    /// A key was pressed, or the terminal has another size.
    Input(Event),
    /// An attempt to read has ended.
    Reading(Box<Result<Reading, String>>),
    /// A signal came, or the terminal is gone.
    End,
    /// A thread failed.
    Failed(String),
}

/// Restores the terminal at the end, however the end comes. A panic restores it before its message.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the screen until a key or a signal ends it.
///
/// # Errors
/// When the terminal refuses, or a thread failed.
pub fn run(client: Client, settings: Settings) -> io::Result<()> {
    let (sender, messages) = mpsc::channel();
    let mut app = App::new(settings.view, settings.interval, settings.filter, settings.colour);
    let signals = sender.clone();
    apart("signals", sender.clone(), move || wait_for_signal(&signals))?;
    let (requests, wanted) = mpsc::channel();
    let readings = sender.clone();
    let start = (app.view.parts(), app.interval);
    apart("readings", sender.clone(), move || read(&client, start, &wanted, &readings))?;
    let mut terminal = ratatui::try_init()?;
    let _restore = Restore;
    apart("input", sender.clone(), move || forward(&sender))?;
    loop {
        terminal.draw(|frame| draw::draw(frame, &mut app))?;
        let Ok(message) = messages.recv() else { return Ok(()) };
        // Keys that came meanwhile are drawn once.
        for message in std::iter::once(message).chain(messages.try_iter()) {
            match message {
                Message::Reading(reading) => app.receive(*reading),
                Message::Input(Event::Key(key)) => match app.key(key) {
                    Effect::Redraw => {}
                    // Without the other thread, its failure is the next message.
                    Effect::Read => drop(requests.send((app.view.parts(), app.interval))),
                    Effect::Quit => return Ok(()),
                },
                Message::Input(_) => {}
                Message::End => return Ok(()),
                Message::Failed(reason) => return Err(io::Error::other(reason)),
            }
        }
    }
}

/// Reads twice, and returns the tables of a view as text.
///
/// # Errors
/// When there is no gateway, or no answer.
pub fn once(client: &Client, settings: Settings) -> Result<String, ClientError> {
    let mut app = App::new(settings.view, settings.interval, settings.filter, false);
    let first = Reading::take(client, app.view.parts())?;
    thread::sleep(settings.interval);
    let second = Reading::take(client, app.view.parts())?;
    let pair = Pair::first(first).then(second, Duration::ZERO);
    let mut text = draw::lines_of(&pair).join("\n") + "\n";
    app.pair = Some(pair);
    for table in app.view.kinds().iter().filter_map(|kind| app.table(*kind)) {
        text += "\n";
        text += &table.as_text();
    }
    Ok(text)
}

/// Runs a thread whose panic ends the screen.
fn apart(name: &str, failed: Sender<Message>, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let what = name.to_owned();
    let body = move || {
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            let _ = failed.send(Message::Failed(format!("the thread of {what} failed")));
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

/// Sends keys and sizes until the terminal is gone.
fn forward(messages: &Sender<Message>) {
    while let Ok(event) = event::read() {
        if messages.send(Message::Input(event)).is_err() {
            return;
        }
    }
    let _ = messages.send(Message::End);
}

/// Sends the end when SIGINT, SIGTERM or SIGHUP comes.
fn wait_for_signal(messages: &Sender<Message>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime without further threads needs one descriptor");
    runtime.block_on(async {
        let of = |kind| signal(kind).expect("this signal may be handled");
        let (mut interrupt, mut terminate, mut hang_up) =
            (of(SignalKind::interrupt()), of(SignalKind::terminate()), of(SignalKind::hangup()));
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    });
    let _ = messages.send(Message::End);
}

/// Reads in every interval, and at once when other parts are wanted.
fn read(client: &Client, start: (Parts, Duration), wanted: &Receiver<(Parts, Duration)>, messages: &Sender<Message>) {
    let (mut parts, mut interval) = start;
    loop {
        let begun = Instant::now();
        let reading = Reading::take(client, parts).map_err(|error| error.to_string());
        if messages.send(Message::Reading(Box::new(reading))).is_err() {
            return;
        }
        match wanted.recv_timeout(interval.saturating_sub(begun.elapsed())) {
            Ok(latest) => (parts, interval) = wanted.try_iter().last().unwrap_or(latest),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
