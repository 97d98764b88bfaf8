//! The live table on a terminal.

use std::time::{Duration, Instant};

use console::Term;
use weir_plane::stats::Snapshot;

use crate::render::live::live;

/// Time between two pictures.
const REFRESH: Duration = Duration::from_millis(500);

/// A table that is drawn over itself.
pub(super) struct Live {
    terminal: Term,
    last: Option<(Instant, Snapshot)>,
    /// Lines of the picture that stands.
    lines: usize,
}

impl Live {
    /// A live table on standard output, if that is a terminal.
    pub(super) fn new() -> Option<Live> {
        let terminal = Term::buffered_stdout();
        terminal.is_term().then_some(Live { terminal, last: None, lines: 0 })
    }

    /// Whether it is time for the next picture.
    pub(super) fn is_due(&self) -> bool {
        self.last.as_ref().is_none_or(|(drawn, _)| drawn.elapsed() >= REFRESH)
    }

    /// Draws what happened since the last picture.
    pub(super) fn draw(&mut self, snapshot: Snapshot) {
        let now = Instant::now();
        if let Some((drawn, before)) = &self.last {
            let picture = live(before, &snapshot, (now - *drawn).as_secs_f64());
            // A terminal that does not take it shows nothing; the gateway goes on.
            let _ = self.replace(&picture);
        }
        self.last = Some((now, snapshot));
    }

    /// Takes the picture away.
    pub(super) fn clear(&mut self) {
        let _ = self.replace("");
    }

    fn replace(&mut self, picture: &str) -> std::io::Result<()> {
        let (height, width) = self.terminal.size();
        self.terminal.move_cursor_up(self.lines)?;
        self.terminal.clear_to_end_of_screen()?;
        self.lines = 0;
        for line in picture.lines().take(usize::from(height).saturating_sub(1)) {
            self.terminal.write_line(&console::truncate_str(line, usize::from(width), ""))?;
            self.lines += 1;
        }
        self.terminal.flush()
    }
}
