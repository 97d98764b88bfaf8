//! A large file by HTTP, compared by its hash.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weir_tests::Scratch;

use crate::lab::{Lab, Line, LineOptions, Weir, wait};

/// Writes so many octets that no compression and no repetition helps with.
fn fill(file: &mut File, octets: u64) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut block = vec![0; 1 << 20];
    let mut left = octets;
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let length = left.min(block.len() as u64) as usize;
        file.write_all(&block[..length]).expect("there is room for the file");
        left -= length as u64;
    }
}

#[test]
fn a_large_file_arrives_as_it_is() {
    let Some(mut lab) = Lab::alone() else { return };
    let line = Line::new(&mut lab, LineOptions::default());
    let megabytes = std::env::var("WEIR_TEST_DOWNLOAD").map_or(1000, |text| text.parse().expect("megabytes"));
    let folder = Scratch::new();
    let path = folder.path().join("file");
    fill(&mut File::create(&path).expect("the folder can be written to"), megabytes * 1_000_000);
    let hashed = Command::new("sha256sum").arg(&path).output().expect("sha256sum can be started");
    let hash = String::from_utf8_lossy(&hashed.stdout).split_whitespace().next().expect("a hash").to_owned();

    let weir = Weir::start(&line.gate, &line.config());
    let mut server = line.right.command("timeout");
    server.args(["600", "python3", "-m", "http.server", "--bind", "10.2.0.2", "--directory"]).arg(folder.path());
    let mut server = server.arg("8080").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("python3 starts");
    let listens = || line.right.run("ss", &["-Hltn", "sport = :8080"]).contains(":8080");
    wait("the server listens", Duration::from_secs(60), listens);
    let start = Instant::now();
    let got = line.left.run("sh", &["-c", "curl -sS --fail http://10.2.0.2:8080/file | sha256sum"]);
    let time = start.elapsed();
    let _ = server.kill();
    let _ = server.wait();
    println!("{megabytes} MB in {time:.1?}: {:.0} MB/s", megabytes as f64 / time.as_secs_f64());
    assert_eq!(got.split_whitespace().next(), Some(hash.as_str()));
    let summary = weir.end();
    let octets: u64 = summary["interfaces"][1]["rx-bytes"].as_u64().expect("octets");
    assert!(octets > megabytes * 1_000_000, "it went another way: {summary:#}");
}
