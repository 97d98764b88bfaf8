//! The screen without a terminal: readings and keys in, lines out.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::app::{App, Effect};
use super::draw::draw;
use super::reading::{Counted, Reading, Rule};
use super::view::View;
use crate::render::bindings::Bindings;
use crate::render::errors::Errors;
use crate::render::flows::Flows;
use crate::render::interfaces::Interfaces;
use crate::render::runtime::Runtime;
use crate::render::sample;
use crate::render::steer::Steers;
use crate::render::version::Version;

/// A reading of the sample gateway after so many seconds, in each of which the same packets came.
fn reading(start: Instant, seconds: u64) -> Reading {
    let mut snapshot = sample::snapshot();
    snapshot.interfaces[0].rx.packets += 1_000_000 * seconds;
    snapshot.interfaces[0].rx.bytes += 64_000_000 * seconds;
    snapshot.workers[0].nodes[1].packets += 2000 * seconds;
    snapshot.workers[0].nodes[1].calls += 20 * seconds;
    snapshot.workers[0].nodes[1].ticks += 66_000 * seconds;
    snapshot.drops[0].packets += 10 * seconds;
    snapshot.conservation.received += 1_000_000 * seconds;
    snapshot.conservation.dropped += 10 * seconds;
    let mut flows = Flows::new(sample::flows());
    flows.sessions[0].packets += 30 * seconds;
    flows.sessions[0].bytes += 3000 * seconds;
    let rule = |id, packets, rule: &str| Rule {
        list: "acl edge-in".into(),
        id,
        packets,
        bytes: 100 * packets,
        rule: rule.into(),
    };
    let rules =
        vec![rule(7, 500, "permit tcp from any to any"), rule(9, 40 * seconds, "deny udp from any to any port 53")];
    Reading {
        taken: start + Duration::from_secs(seconds),
        version: Version {
            version: "0.1.0".into(),
            pid: 7,
            configuration: "edge.toml".into(),
            generation: 3,
            uptime: 3723.5 + seconds as f64,
        },
        runtime: Runtime::new(&snapshot, false),
        errors: Errors::new(&snapshot, false),
        interfaces: Interfaces::new(&snapshot, vec![]),
        rules: Some(Counted { rules, left_out: 0 }),
        flows: Some(flows),
        invalid: None,
    }
}

/// The screen with two readings, two seconds apart.
fn app(view: View) -> App {
    let start = Instant::now();
    let mut app = App::new(view, Duration::from_secs(2), String::new(), false);
    app.receive(Ok(reading(start, 0)));
    app.receive(Ok(reading(start, 2)));
    app
}

/// Draws on a terminal of this size.
fn drawn(app: &mut App, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    terminal
}

/// Draws, and returns the lines without spaces at their ends.
fn lines(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let terminal = drawn(app, width, height);
    let buffer = terminal.backend().buffer();
    let line = |row: u16| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
    (0..height).map(|row| line(row).trim_end().to_owned()).collect()
}

/// Returns the words of a line with a space between them.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn press(app: &mut App, keys: &str) -> Effect {
    let press = |app: &mut App, key| app.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
    keys.chars().map(|key| press(app, key)).last().expect("there is a key")
}

fn press_code(app: &mut App, code: KeyCode) -> Effect {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn the_overview_has_interfaces_nodes_and_drops() {
    assert_eq!(
        lines(&mut app(View::Overview), 96, 24).join("\n"),
        "\
weir 0.1.0, process 7, up 1h 2m 5s, edge.toml, generation 3
packets/s: 1.00 M received, 0 transmitted, 10 dropped, 0 local; 0 held
 1 overview  2 interfaces  3 nodes  4 drops  5 rules  6 sources  7 flows  8 invalid
Interfaces (2)
Interface  State  RX packet/s  RX bit/s  TX packet/s  TX bit/s  Drops/s  Lost/s
wan        up          1.00 M     512 M            0         0        0       0
lan        down             0         0            0         0        0       0

Nodes (2), 1 worker
Node            Packet/s  Vector/s  Packets/vector  Ticks/packet  Ticks %
rx                     0         0               -             -      0.0
ethernet-input    2.00 k        20           100.0          33.0    100.0

Drops (2)
Drop reason  Node       Packet/s↓  Packets  Severity  Meaning
no-route     ip-lookup         10       60  warning   No route covers the destination.
blackhole    ip-lookup          0       60  info      A blackhole route covers the destination.






every 2 s  + -  q quit  ? keys  1-8 tab views  < > r sort  / filter  space pause"
    );
}

#[test]
fn rates_need_two_readings() {
    let mut app = App::new(View::Drops, Duration::from_secs(1), String::new(), false);
    assert_eq!(lines(&mut app, 60, 8)[3], "waiting for the first reading");
    app.receive(Ok(reading(Instant::now(), 0)));
    let screen = lines(&mut app, 96, 10);
    assert_eq!(screen[1], "packets/s: - received, - transmitted, - dropped, - local; 0 held");
    assert!(words(&screen[5]).starts_with("blackhole ip-lookup - 60 info"), "{screen:#?}");
}

#[test]
fn a_reading_that_follows_at_once_replaces_the_latest() {
    let start = Instant::now();
    let mut app = App::new(View::Drops, Duration::from_secs(10), String::new(), false);
    for seconds in [0, 10, 11] {
        app.receive(Ok(reading(start, seconds)));
    }
    assert_eq!(app.pair.as_ref().unwrap().seconds(), Some(11.0));
    app.receive(Ok(reading(start, 20)));
    assert_eq!(app.pair.as_ref().unwrap().seconds(), Some(9.0));
}

#[test]
fn another_process_and_cleared_counters_give_no_false_rates() {
    let start = Instant::now();
    let mut app = App::new(View::Interfaces, Duration::from_secs(1), String::new(), false);
    app.receive(Ok(reading(start, 5)));
    app.receive(Ok(reading(start, 6)));
    app.receive(Ok(Reading { taken: start + Duration::from_secs(7), ..reading(start, 1) }));
    assert!(lines(&mut app, 96, 10)[5].starts_with("wan        up          1.00 M"), "cleared a second ago");
    let mut other = reading(start, 8);
    other.version.pid = 8;
    app.receive(Ok(other));
    assert!(lines(&mut app, 96, 10)[5].starts_with("wan        up               -"));
}

#[test]
fn a_lost_gateway_is_named_and_the_last_reading_stays() {
    let mut app = app(View::Drops);
    let before = lines(&mut app, 96, 10);
    app.receive(Err("no gateway to talk to".to_owned()));
    app.receive(Err("no gateway to talk to".to_owned()));
    let lost = lines(&mut app, 96, 10);
    assert_eq!(lost[1], "no gateway to talk to; attempt 2, next within 2 s");
    assert_eq!(lost[3..], before[3..]);
    app.receive(Ok(reading(Instant::now() + Duration::from_secs(60), 4)));
    assert!(lines(&mut app, 96, 10)[1].starts_with("packets/s: "));
}

#[test]
fn keys_sort_and_reverse_the_table() {
    let mut app = app(View::Rules);
    let first = |app: &mut App| lines(app, 96, 10)[5].clone();
    assert_eq!(words(&first(&mut app)), "acl edge-in 9 40 32.0 k 80 deny udp from any to any port 53");
    press(&mut app, ">>");
    assert_eq!(words(&first(&mut app)), "acl edge-in 7 0 0 500 permit tcp from any to any");
    press(&mut app, "r");
    assert!(first(&mut app).starts_with("acl edge-in   9"));
    press(&mut app, "<<<<");
    let header = lines(&mut app, 96, 10)[4].clone();
    assert!(header.starts_with("List↑ "), "{header}");
    press(&mut app, "<");
    assert!(lines(&mut app, 96, 10)[4].ends_with("Rule↑"), "around the edge");
}

#[test]
fn steer_rules_and_bindings_are_rules() {
    let start = Instant::now();
    let with = |seconds: u64| {
        let (mut steer, mut bindings) = (Steers::new(sample::steer()), Bindings::new(sample::bindings()));
        steer.steer[0].rules[0].packets += 20 * seconds;
        bindings.bindings[0].rules[0].hits.packets += 30 * seconds;
        let mut counted = Counted::default();
        counted.add_steering(steer);
        counted.add_bindings(bindings);
        Reading { rules: Some(counted), ..reading(start, seconds) }
    };
    let mut app = App::new(View::Rules, Duration::from_secs(2), String::new(), false);
    app.receive(Ok(with(0)));
    app.receive(Ok(with(2)));
    let screen = lines(&mut app, 96, 16);
    let rate = |of: &str, rate: &str| {
        let of = |line: &&String| line.starts_with(of) && words(line).split(' ').nth(3) == Some(rate);
        assert_eq!(screen.iter().filter(of).count(), 1, "{screen:#?}");
    };
    rate("steer ", "20");
    rate("mac-ip ", "30");
}

#[test]
fn a_filter_is_typed_and_ended() {
    let mut app = app(View::Rules);
    press(&mut app, "/UDPq");
    let screen = lines(&mut app, 96, 10);
    assert_eq!((screen[4].as_str(), screen[9].as_str()), ("no row contains the filter", "filter: UDPq_"));
    press_code(&mut app, KeyCode::Backspace);
    press_code(&mut app, KeyCode::Enter);
    let screen = lines(&mut app, 96, 10);
    assert!(screen[5].ends_with("deny udp from any to any port 53") && screen[6].is_empty(), "{screen:#?}");
    assert!(screen[9].starts_with("filter \"UDP\" (esc ends it)"));
    press_code(&mut app, KeyCode::Esc);
    assert!(!lines(&mut app, 96, 10)[6].is_empty());
}

#[test]
fn keys_change_views_intervals_and_end() {
    let mut app = app(View::Overview);
    assert_eq!((press(&mut app, "5"), app.view), (Effect::Read, View::Rules));
    assert!(app.view.parts().rules && !app.view.parts().flows);
    press_code(&mut app, KeyCode::Tab);
    assert!(app.view == View::Sources && app.view.parts().flows);
    press_code(&mut app, KeyCode::BackTab);
    assert_eq!(app.view, View::Rules);
    assert_eq!((press(&mut app, "+"), app.interval), (Effect::Read, Duration::from_secs(5)));
    press(&mut app, "----------");
    assert_eq!(app.interval, Duration::from_millis(500));
    press(&mut app, "?");
    assert!(lines(&mut app, 96, 24)[3].contains(" Keys "));
    assert_eq!(press(&mut app, "5"), Effect::Redraw, "the key closes the list, and does nothing else");
    assert_eq!(press(&mut app, "q"), Effect::Quit);
    assert_eq!(app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Effect::Quit);
}

#[test]
fn a_pause_keeps_the_reading() {
    let mut app = app(View::Drops);
    press(&mut app, " ");
    let before = lines(&mut app, 96, 10);
    app.receive(Ok(reading(Instant::now() + Duration::from_secs(60), 50)));
    assert_eq!(lines(&mut app, 96, 10), before);
    assert!(before[9].starts_with("PAUSED  "));
}

#[test]
fn long_tables_scroll_to_their_end_and_not_beyond() {
    let mut app = app(View::Rules);
    let start = Instant::now() + Duration::from_secs(60);
    let mut long = reading(start, 4);
    let rule = |id: u64| Rule { list: "acl a".into(), id, packets: 1000 - id, bytes: 0, rule: format!("rule {id}") };
    long.rules = Some(Counted { rules: (0..100).map(rule).collect(), left_out: 3 });
    app.receive(Ok(long));
    press(&mut app, ">>");
    assert_eq!(lines(&mut app, 96, 16)[3], "Rules (the first 10000 of 103)  0 above, 90 below");
    press_code(&mut app, KeyCode::PageDown);
    press_code(&mut app, KeyCode::Down);
    let screen = lines(&mut app, 96, 16);
    assert_eq!(screen[3], "Rules (the first 10000 of 103)  11 above, 79 below");
    assert!(screen[5].ends_with("rule 11"), "{screen:#?}");
    press_code(&mut app, KeyCode::End);
    press_code(&mut app, KeyCode::Down);
    let screen = lines(&mut app, 96, 16);
    assert!(screen[3].ends_with("  90 above, 0 below") && screen[14].ends_with("rule 99"), "{screen:#?}");
    press_code(&mut app, KeyCode::Home);
    assert!(lines(&mut app, 96, 16)[5].ends_with("rule 0"));
}

#[test]
fn sources_add_up_the_rates_of_their_sessions() {
    let screen = lines(&mut app(View::Sources), 96, 10);
    assert_eq!(screen[3], "Sources (1), sessions (1)");
    assert_eq!(screen[5], "192.0.2.5         1         30      24.0 k               0      259");
    let screen = lines(&mut app(View::Flows), 110, 10);
    assert_eq!(screen[5], "tcp       192.0.2.5:1000  203.0.113.1:443         30  24.0 k      259   3600  established");
}

#[test]
fn every_size_of_a_terminal_is_drawn() {
    for view in View::ALL {
        let mut app = app(view);
        for width in [1, 2, 7, 20, 80, 300] {
            for height in [1, 2, 3, 4, 5, 9, 60] {
                drawn(&mut app, width, height);
                press(&mut app, "?");
                drawn(&mut app, width, height);
                press(&mut app, "x");
            }
        }
    }
}

#[test]
fn the_tab_of_the_view_is_whole_at_each_width() {
    for view in View::ALL {
        let mut app = app(view);
        let wide = lines(&mut app, 84, 10)[2].clone();
        assert_eq!(wide, " 1 overview  2 interfaces  3 nodes  4 drops  5 rules  6 sources  7 flows  8 invalid");
        let usual = lines(&mut app, 80, 10)[2].clone();
        assert_eq!(usual, "1 overview 2 interfaces 3 nodes 4 drops 5 rules 6 sources 7 flows 8 invalid");
        for width in [12, 30, 40, 74] {
            let line = lines(&mut app, width, 10)[2].clone();
            assert!(line.contains(view.name()), "{line}");
        }
    }
    assert_eq!(lines(&mut app(View::Invalid), 40, 10)[2], "5 rules 6 sources 7 flows 8 invalid");
}

#[test]
fn no_colour_is_used_unless_wanted() {
    let colours = |colour: bool| {
        let mut app = app(View::Overview);
        app.colour = colour;
        let terminal = drawn(&mut app, 96, 24);
        terminal.backend().buffer().content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(colours(true));
    assert!(!colours(false));
}
