//! How far a long run has come: a bar on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::render::number::short;
use crate::replay::Input;
use crate::sav_preview::Progress;

/// Times in a second that the bar is drawn, at most.
const RATE: u8 = 10;
/// Packets after which their number is written anew.
const STEP: u64 = 100_000;

/// A bar over the captures' octets; without a length where one of them has none, as a pipe. It is gone when it is dropped.
pub(super) struct Bar {
    bar: ProgressBar,
    told: u64,
}

impl Bar {
    pub(super) fn new(inputs: &[Input]) -> Bar {
        let length =
            |input: &Input| std::fs::metadata(&input.path).ok().filter(|data| data.is_file()).map(|data| data.len());
        let length: Option<u64> = inputs.iter().map(length).sum();
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(RATE));
        let template = match length {
            Some(_) => "{wide_bar} {percent:>3} %  {msg}  {eta} left",
            None => "{spinner} {bytes}  {msg}",
        };
        let style = ProgressStyle::with_template(template).expect("a template that reads");
        Bar { bar: bar.with_style(style), told: 0 }
    }

    pub(super) fn tell(&mut self, progress: Progress) {
        if progress.packets >= self.told + STEP {
            self.told = progress.packets;
            self.bar.set_message(format!("{} packets", short(progress.packets as f64)));
        }
        self.bar.set_position(progress.octets);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
