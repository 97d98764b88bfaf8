//! `weir watch`: events that the log does not have.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{Lab, Line, LineOptions, Weir, echo};

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for an event whose message begins and ends so. `again` brings another one about.
fn wait(events: &Receiver<Value>, (begin, end): (&str, &str), mut again: impl FnMut()) -> Value {
    let start = Instant::now();
    let mut seen = Vec::new();
    loop {
        assert!(start.elapsed() < PATIENCE, "no `{begin} … {end}` in {seen:#?}");
        again();
        while let Ok(event) = events.recv_timeout(Duration::from_millis(500)) {
            let message = event["message"].as_str().expect("a text");
            if message.starts_with(begin) && message.ends_with(end) {
                return event;
            }
            seen.push(event);
        }
    }
}

#[test]
fn neighbours_and_routes_are_events() {
    let Some(mut lab) = Lab::open() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let port = "port = { af-packet = \"right\" }\n";
    let config = line.config().replace(port, &format!("{port}punt = \"right-host\"\n")) + "\n[routes]\nkernel = true\n";
    let weir = Weir::start(&line.gate, &config);
    let mut watching = weir.command(&["watch", "--json", "neighbor", "route"]);
    let mut watching = watching.stdout(Stdio::piped()).spawn().expect("weir can be started");
    let lines = BufReader::new(watching.stdout.take().expect("it is piped")).lines();
    let (sender, events) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let event = serde_json::from_str::<Value>(&line).expect("JSON");
            if sender.send(event).is_err() {
                return;
            }
        }
    });

    // Neighbours are noted from the moment on at which somebody watches.
    let resolved = wait(&events, ("interface left: neighbour 10.1.0.2 at ", " is reachable"), || {
        assert!(weir.weir(&["clear", "neighbors"]).status.success());
        echo(&line.left, "10.2.0.2", [56]);
    });
    assert_eq!((&resolved["kind"], &resolved["level"]), (&"neighbor".into(), &"info".into()));
    assert_eq!(resolved["fields"], serde_json::json!({ "interface": "left", "address": "10.1.0.2" }));
    wait(&events, ("interface right: neighbour 10.2.0.2", " is gone"), || {
        assert!(weir.weir(&["clear", "neighbors"]).status.success());
    });

    line.gate.ip("route add 10.9.0.0/24 via 10.2.0.2 dev right-host onlink");
    let came = wait(&events, ("kernel: 10.9.0.0/24 of default", "came"), || {});
    assert_eq!((&came["kind"], &came["fields"]["source"]), (&"route".into(), &"kernel".into()));
    line.gate.ip("route del 10.9.0.0/24");
    wait(&events, ("kernel: 10.9.0.0/24 of default", "went"), || {});
    assert!(!weir.log().contains("10.9.0.0"), "{}", weir.log());
    weir.end();
    assert!(watching.wait().expect("it ends").success());
}
