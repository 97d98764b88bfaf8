//! The state of the screen, and what keys do to it.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::pair::Pair;
use super::reading::Reading;
use super::table::{Sort, Table};
use super::view::{Kind, View};

/// Times between readings that `+` and `-` choose from.
const INTERVALS: [Duration; 6] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

/// Effects of a key beyond the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// None: the screen is drawn again.
    Redraw,
    /// The view or the interval is another one: a reading is to be taken.
    Read,
    /// The end.
    Quit,
}

/// The state of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    /// No reading has been taken yet.
    Waiting,
    /// The latest reading succeeded.
    Up,
    /// It failed for this reason, and so many before it.
    Lost { reason: String, attempts: u32 },
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct App {
    pub(super) view: View,
    pub(super) interval: Duration,
    pub(super) link: Link,
    pub(super) pair: Option<Pair>,
    /// Readings are taken and not shown.
    pub(super) paused: bool,
    /// The list of keys is shown.
    pub(super) help: bool,
    /// The filter is being typed.
    pub(super) editing: bool,
    pub(super) filter: String,
    /// The first row that is shown.
    pub(super) first: usize,
    /// Rows that the table has room for, by the latest drawing.
    pub(super) page: usize,
    /// Colours are used.
    pub(super) colour: bool,
    sorts: [Option<Sort>; Kind::COUNT],
}

impl App {
    /// Makes the state at the start.
    pub(super) fn new(view: View, interval: Duration, filter: String, colour: bool) -> App {
        let mut sorts = [None; Kind::COUNT];
        for kind in View::ALL.iter().flat_map(|view| view.kinds()) {
            sorts[*kind as usize] = kind.sort();
        }
        App {
            view,
            interval,
            link: Link::Waiting,
            pair: None,
            paused: false,
            help: false,
            editing: false,
            filter,
            first: 0,
            page: 1,
            colour,
            sorts,
        }
    }

    /// Returns the order of a table.
    pub(super) fn sort(&self, kind: Kind) -> Option<Sort> {
        self.sorts[kind as usize]
    }

    /// Returns a table in its order, filtered; `None` before the first reading.
    pub(super) fn table(&self, kind: Kind) -> Option<Table> {
        Some(kind.table(self.pair.as_ref()?).arranged(self.sort(kind), &self.filter))
    }

    /// Takes the result of an attempt to read.
    pub(super) fn receive(&mut self, reading: Result<Reading, String>) {
        match reading {
            Ok(_) if self.paused => self.link = Link::Up,
            Ok(reading) => {
                self.link = Link::Up;
                self.pair = Some(match self.pair.take() {
                    Some(pair) => pair.then(reading, self.interval / 2),
                    None => Pair::first(reading),
                });
            }
            Err(reason) => {
                let attempts = match &self.link {
                    Link::Lost { attempts, .. } => attempts.saturating_add(1),
                    _ => 1,
                };
                self.link = Link::Lost { reason, attempts };
            }
        }
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Effect {
        if key.kind == KeyEventKind::Release {
            return Effect::Redraw;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Effect::Quit } else { Effect::Redraw };
        }
        if self.editing {
            self.edit(key.code);
            return Effect::Redraw;
        }
        if std::mem::take(&mut self.help) && key.code != KeyCode::Char('q') {
            return Effect::Redraw;
        }
        match key.code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char(digit @ '1'..='8') => return self.show(View::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab => return self.step(1),
            KeyCode::BackTab => return self.step(View::ALL.len() - 1),
            KeyCode::Char('+' | '=') => return self.slower(true),
            KeyCode::Char('-') => return self.slower(false),
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') => self.editing = true,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('>') | KeyCode::Right => self.sort_by(|column, columns| (column + 1) % columns),
            KeyCode::Char('<') | KeyCode::Left => self.sort_by(|column, columns| (column + columns - 1) % columns),
            KeyCode::Char('r') => self.reverse(),
            KeyCode::Esc => self.filter.clear(),
            code => self.scroll(code),
        }
        Effect::Redraw
    }

    fn edit(&mut self, code: KeyCode) {
        self.first = 0;
        match code {
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => (self.editing, self.filter) = (false, String::new()),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(char) => self.filter.push(char),
            _ => {}
        }
    }

    fn show(&mut self, view: View) -> Effect {
        (self.view, self.first) = (view, 0);
        Effect::Read
    }

    fn step(&mut self, by: usize) -> Effect {
        let place = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
        self.show(View::ALL[(place + by) % View::ALL.len()])
    }

    /// Takes the next longer or shorter interval, if there is one.
    fn slower(&mut self, slower: bool) -> Effect {
        let next = match slower {
            true => INTERVALS.iter().find(|interval| **interval > self.interval),
            false => INTERVALS.iter().rev().find(|interval| **interval < self.interval),
        };
        self.interval = next.copied().unwrap_or(self.interval);
        Effect::Read
    }

    /// Sorts the table of the view by another column; a view of several tables keeps their orders.
    fn sort_by(&mut self, next: fn(usize, usize) -> usize) {
        let [kind] = *self.view.kinds() else { return };
        let columns = kind.columns();
        let column = self.sort(kind).map_or(0, |sort| next(sort.column, columns.len()));
        self.sorts[kind as usize] = Some(Sort::by(column, columns[column].1));
    }

    fn reverse(&mut self) {
        let [kind] = *self.view.kinds() else { return };
        if let Some(sort) = &mut self.sorts[kind as usize] {
            sort.descending = !sort.descending;
        }
    }

    /// Moves the first row. The drawing keeps it within the table.
    fn scroll(&mut self, code: KeyCode) {
        self.first = match code {
            KeyCode::Down | KeyCode::Char('j') => self.first + 1,
            KeyCode::Up | KeyCode::Char('k') => self.first.saturating_sub(1),
            KeyCode::PageDown => self.first + self.page,
            KeyCode::PageUp => self.first.saturating_sub(self.page),
            KeyCode::End => usize::MAX / 2,
            KeyCode::Home => 0,
            _ => self.first,
        };
    }
}
