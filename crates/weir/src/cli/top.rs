//! `weir top`: a live screen of a running gateway.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;

use super::connection::Place;
use super::error::Error;
use super::output::{colour, print};
use crate::control::client::Client;
use crate::top::screen::{self, Settings};
use crate::top::view::View;

/// Shows interfaces, nodes, drops, rules, sources and flows of a running gateway, live
#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    place: Place,
    /// The view at the start
    #[arg(long, value_enum, default_value = "overview", hide_possible_values = false)]
    view: View,
    /// The time between readings
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Only rows that contain this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Print one view as text after one interval, without a terminal
    #[arg(long)]
    once: bool,
}

impl Top {
    pub(super) fn run(self) -> Result<(), Error> {
        let client = Client::new(&self.place.path().path).with_timeout(Some(screen::ANSWER));
        let terminal = io::stdout().is_terminal();
        let (view, interval, filter) = (self.view, self.interval, self.filter);
        let settings = Settings { view, interval, filter, colour: colour(terminal) };
        if self.once {
            return print(&screen::once(&client, settings)?);
        }
        if !terminal || !io::stdin().is_terminal() {
            let message = "`weir top` needs a terminal; `weir top --once` prints text";
            return Err(Error::Usage(message.to_owned()));
        }
        screen::run(client, settings).map_err(|error| Error::Failed(format!("the screen failed: {error}")))
    }
}

/// A time between readings.
fn seconds(text: &str) -> Result<Duration, String> {
    const RANGE: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
    match text.parse::<f64>() {
        Ok(seconds) if RANGE.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("a number of seconds from {} to {} is expected", RANGE.start(), RANGE.end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_between_readings_is_bounded() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "3601", "NaN", "soon", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
