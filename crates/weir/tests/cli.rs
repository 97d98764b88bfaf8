//! The command line as its users see it: each `.trycmd` file shows commands and all that they print.
//! `TRYCMD=overwrite cargo test -p weir --test cli` writes what is printed now; read the difference.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::process::Command;

#[test]
fn what_commands_print() {
    trycmd::TestCases::new().env("WEIR_SOCKET", "/nonexistent/control.sock").case("tests/cli/*.trycmd");
}

/// Whatever part of its answer a gateway sent before it ended, commands say that it ended, and what to do.
#[test]
fn an_answer_that_ends_early() {
    let path = std::env::temp_dir().join(format!("weir-early-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a socket");
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{\"schema\":\"weir.show.flows/1\",\"sess";
    // The first connection ends before its request is read.
    let parts = [None, Some(""), Some("HTTP/1.1 200 OK\r\nContent-Le"), Some(half)];
    let gateway = std::thread::spawn(move || {
        for part in parts.into_iter().chain([Some("")]) {
            let (mut stream, _) = listener.accept().expect("a connection");
            if let Some(part) = part {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(part.as_bytes());
            }
        }
    });
    let said = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = command.args(words).arg("--socket").arg(&path).output().expect("the program");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let advice = "see whether it still runs (`weir show version`), and read its log\n";
    for part in parts {
        let expected = format!("error: the gateway on {} ended its answer early; {advice}", path.display());
        assert_eq!(said(&["show", "flows"]), (Some(1), expected), "{part:?}");
    }
    let (code, text) = said(&["clear", "flows"]);
    let expected = format!("ended its answer early, and may have carried out the request; {advice}");
    assert!(code == Some(1) && text.ends_with(&expected), "{code:?} {text}");
    gateway.join().expect("it ends");
    let _ = std::fs::remove_file(&path);
}
