//! The drawing of the screen.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Widget as _};

use super::app::{App, Link};
use super::pair::Pair;
use super::table::{Cell, Sort, Table};
use super::view::View;
use crate::render::number::short;
use crate::render::table::Align;

/// Spaces between columns.
const GAP: usize = 2;

/// Lines of a table beside its rows: title and header.
const FRAME: u16 = 2;

/// The last line.
const HELP: &str = "+ -  q quit  ? keys  1-8 tab views  < > r sort  / filter  space pause";

/// The list of keys.
const KEYS: &str = "\
1 to 8     a view         tab, shift-tab   next, previous view
< >        sort by the column to the left, to the right
r          reverse the order
/          filter rows by a text; enter keeps it, escape ends it
up down    scroll; also page up, page down, home, end
space      pause, and go on
+ -        longer, shorter time between readings
q          quit; also control-C

Sorting and scrolling are for views of one table (2 to 8).
Any key closes this list.";

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame, app: &mut App) {
    let area = frame.area();
    let [top, tabs, body, bottom] =
        Layout::vertical([Constraint::Length(2), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(area);
    let buffer = frame.buffer_mut();
    Paragraph::new(header(app)).render(top, buffer);
    Paragraph::new(tab_line(app, usize::from(tabs.width))).render(tabs, buffer);
    match &app.pair {
        None => Paragraph::new("waiting for the first reading").render(body, buffer),
        Some(_) => draw_tables(buffer, body, app),
    }
    Paragraph::new(last_line(app)).render(bottom, buffer);
    if app.help {
        draw_keys(buffer, body);
    }
}

/// Returns the lines about the process and all its packets, or about the lost connection.
fn header(app: &App) -> Vec<Line<'static>> {
    let mut lines = match &app.pair {
        Some(pair) => lines_of(pair).map(Line::from).to_vec(),
        None => vec![Line::from("weir"), Line::from("")],
    };
    lines[0] = lines[0].clone().style(Style::new().add_modifier(Modifier::BOLD));
    if let Link::Lost { reason, attempts } = &app.link {
        let text = format!("{reason}; attempt {attempts}, next within {}", seconds(app));
        lines[1] = Line::styled(text, coloured(app, Color::Red, Modifier::REVERSED));
    }
    lines
}

/// Returns two lines about the process and its packets.
pub(super) fn lines_of(pair: &Pair) -> [String; 2] {
    let version = &pair.now.version;
    let up = std::time::Duration::from_secs(version.uptime as u64);
    let first = format!(
        "weir {}, process {}, up {}, {}, generation {}",
        version.version,
        version.pid,
        humantime::format_duration(up),
        version.configuration,
        version.generation
    );
    let (now, then) = (&pair.now.errors.conservation, pair.before.as_ref().map(|before| &before.errors.conservation));
    let rate = |of: fn(&crate::render::sum::Sum) -> u64| {
        pair.rate(then.map(of), of(now)).map_or_else(|| "-".to_owned(), short)
    };
    let second = format!(
        "packets/s: {} received, {} transmitted, {} dropped, {} local; {} held",
        rate(|sum| sum.received),
        rate(|sum| sum.transmitted),
        rate(|sum| sum.dropped),
        rate(|sum| sum.local),
        now.held
    );
    [first, second]
}

/// Returns the names of the views. A narrow screen has less space between them, and a narrower one leaves out the first ones, so that
/// the view on the screen is among them.
fn tab_line(app: &App, width: usize) -> Line<'static> {
    let name = |(number, view): (usize, &View)| format!("{number} {}", view.name());
    let names: Vec<String> = (1..).zip(View::ALL.iter()).map(name).collect();
    let current = View::ALL.iter().position(|view| *view == app.view).unwrap_or(0);
    let is_wide = names.iter().map(|name| name.len() + 2).sum::<usize>() <= width;
    let columns = |names: &[String]| names.iter().map(|name| name.len() + 1).sum::<usize>().saturating_sub(1);
    let first = (0..current).find(|&first| is_wide || columns(&names[first..=current]) <= width).unwrap_or(current);
    let mut spans = Vec::new();
    for (place, name) in names.into_iter().enumerate().skip(first) {
        let style = if place == current { Modifier::REVERSED } else { Modifier::empty() };
        if !is_wide && place > first {
            spans.push(Span::from(" "));
        }
        let text = if is_wide { format!(" {name} ") } else { name };
        spans.push(Span::styled(text, Style::new().add_modifier(style)));
    }
    Line::from(spans)
}

fn last_line(app: &App) -> Line<'static> {
    if app.editing {
        return Line::styled(format!("filter: {}_", app.filter), Style::new().add_modifier(Modifier::BOLD));
    }
    let mut state = Vec::new();
    if app.paused {
        state.push("PAUSED".to_owned());
    }
    if !app.filter.is_empty() {
        state.push(format!("filter {:?} (esc ends it)", app.filter));
    }
    state.push(format!("every {}", seconds(app)));
    let state = format!("{}  ", state.join("  "));
    Line::from(vec![Span::styled(state, Style::new().add_modifier(Modifier::BOLD)), Span::from(HELP)])
}

/// Returns the time between readings in words.
fn seconds(app: &App) -> String {
    format!("{} s", app.interval.as_secs_f64())
}

fn draw_keys(buffer: &mut Buffer, body: Rect) {
    let height = KEYS.lines().count() as u16 + 2;
    let area = Rect { x: body.x, y: body.y, width: body.width.min(74), height: height.min(body.height) };
    Clear.render(area, buffer);
    Paragraph::new(KEYS).block(ratatui::widgets::Block::bordered().title(" Keys ")).render(area, buffer);
}

/// Draws the tables of the view one below the other.
fn draw_tables(buffer: &mut Buffer, body: Rect, app: &mut App) {
    let kinds = app.view.kinds();
    let tables: Vec<_> = kinds.iter().filter_map(|kind| Some((app.table(*kind)?, app.sort(*kind)))).collect();
    let wanted: Vec<u16> = tables
        .iter()
        .map(|(table, _)| u16::try_from(table.rows.len().max(1)).unwrap_or(u16::MAX).saturating_add(FRAME + 1))
        .collect();
    let mut y = body.y;
    for ((table, sort), height) in tables.iter().zip(shares(body.height, &wanted)) {
        let area = Rect { y, height, ..body };
        y += height;
        if kinds.len() == 1 {
            app.page = usize::from(height.saturating_sub(FRAME)).max(1);
            app.first = app.first.min(table.rows.len().saturating_sub(app.page));
        }
        let first = if kinds.len() == 1 { app.first } else { 0 };
        draw_table(buffer, area, table, *sort, first, app);
    }
}

/// Divides lines among tables. Each table gets the lines that it wants; tables without enough lines share the rest evenly.
fn shares(height: u16, wanted: &[u16]) -> Vec<u16> {
    let mut given = vec![0; wanted.len()];
    let mut left = height;
    // A line at a time to each that wants more: as many turns as there are lines, at most.
    while left > 0 && given.iter().zip(wanted).any(|(given, wanted)| given < wanted) {
        for (given, wanted) in given.iter_mut().zip(wanted) {
            if left > 0 && *given < *wanted {
                *given += 1;
                left -= 1;
            }
        }
    }
    given
}

fn draw_table(buffer: &mut Buffer, area: Rect, table: &Table, sort: Option<Sort>, first: usize, app: &App) {
    if area.height == 0 {
        return;
    }
    let title = Style::new().add_modifier(Modifier::BOLD);
    let below = table.rows.len().saturating_sub(first + usize::from(area.height.saturating_sub(FRAME)));
    let shown = if first > 0 || below > 0 { format!("  {first} above, {below} below") } else { String::new() };
    let mut lines = vec![Line::from(vec![
        Span::styled(table.title.clone(), coloured(app, Color::Cyan, Modifier::BOLD)),
        Span::from(shown),
    ])];
    if table.rows.is_empty() {
        lines.push(Line::from(if app.filter.is_empty() { table.empty } else { "no row contains the filter" }));
    } else {
        let names: Vec<_> = table
            .columns
            .iter()
            .enumerate()
            .map(|(column, (name, _))| match sort.filter(|sort| sort.column == column) {
                Some(Sort { descending: true, .. }) => format!("{name}↓"),
                Some(_) => format!("{name}↑"),
                None => (*name).to_owned(),
            })
            .collect();
        let rows = table.rows.get(first..).unwrap_or_default();
        let rows = &rows[..rows.len().min(usize::from(area.height))];
        let widths = widths(&names, rows, usize::from(area.width));
        lines.push(line(&widths, table, |column| &names[column]).style(title));
        for row in rows {
            lines.push(line(&widths, table, |column| row[column].as_str()).style(style_of(row, app)));
        }
    }
    Paragraph::new(lines).render(area, buffer);
}

/// Returns the widths of columns: as wide as their text, as many as fit; the last one that fits takes what is left.
fn widths(names: &[String], rows: &[Vec<Cell>], room: usize) -> Vec<usize> {
    let mut left = room;
    let mut widths = Vec::new();
    for (column, name) in names.iter().enumerate() {
        let text = rows.iter().map(|row| Span::raw(row[column].as_str()).width());
        let width = text.chain([Span::raw(name).width()]).max().unwrap_or(0);
        if left == 0 {
            break;
        }
        widths.push(width.min(left));
        left = left.saturating_sub(width + GAP);
    }
    widths
}

/// Puts cells into their columns.
fn line<'t>(widths: &[usize], table: &Table, cell: impl Fn(usize) -> &'t str) -> Line<'static> {
    let mut text = String::new();
    for (column, width) in widths.iter().enumerate() {
        let cell = cell(column);
        let space = " ".repeat(width.saturating_sub(Span::raw(cell).width()));
        match table.columns[column].1 {
            Align::Left => text.extend([cell, &space]),
            Align::Right => text.extend([space.as_str(), cell]),
        }
        text.push_str(&" ".repeat(GAP));
    }
    Line::from(text)
}

/// Returns the style of a row: red for an interface that is down and for the reasons of a fault.
fn style_of(row: &[Cell], app: &App) -> Style {
    let words = row.iter().filter_map(|cell| if let Cell::Text(text) = cell { Some(text.as_str()) } else { None });
    match words.skip(1).find(|word| ["down", "error"].contains(word)) {
        Some(_) => coloured(app, Color::Red, Modifier::empty()),
        None => Style::new(),
    }
}

/// Returns a style that does without its colour where colours are not wanted.
fn coloured(app: &App, colour: Color, modifier: Modifier) -> Style {
    let style = Style::new().add_modifier(modifier);
    if app.colour { style.fg(colour) } else { style }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_share_the_lines_that_there_are() {
        assert_eq!(shares(30, &[4, 5, 6]), [4, 5, 6], "enough for all");
        assert_eq!(shares(12, &[2, 50, 50]), [2, 5, 5]);
        assert_eq!(shares(11, &[2, 50, 50]), [2, 5, 4]);
        assert_eq!(shares(2, &[5, 5, 5]), [1, 1, 0]);
        assert_eq!(shares(0, &[5]), [0]);
    }
}
