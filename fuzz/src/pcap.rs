//! Captures: whatever the file, an end or an error; what was read survives being written.

use std::path::Path;

use weir_port::pcap::{MAX_RECORD, Reader, Writer};

/// The target.
pub(crate) fn fuzz(file: &[u8]) {
    let path = Path::new("fuzz.pcap");
    let Ok(mut reader) = Reader::new(file, path) else { return };
    let mut written = Vec::new();
    let mut writer = Writer::new(&mut written, path).unwrap();
    let mut times = Vec::new();
    let ended = loop {
        match reader.read() {
            Ok(Some(record)) => {
                assert!(record.frame.len() <= MAX_RECORD.min(file.len()));
                writer.write(record.time, record.frame).unwrap();
                // pcap ends in 2106.
                times.push((record.time.0 >> 32 < 1 << 29).then_some(record.time));
            }
            Ok(None) => break true,
            Err(error) => {
                assert!(error.to_string().starts_with("fuzz.pcap: "));
                break false;
            }
        }
    };
    assert!(matches!(reader.read(), Ok(None)) && reader.current().is_none());
    drop(writer);
    let mut again = Reader::new(&written[..], path).unwrap();
    let mut original = Reader::new(file, path).unwrap();
    for time in &times {
        let (was, is) = (original.read().unwrap().unwrap(), again.read().unwrap().unwrap());
        assert_eq!(was.frame, is.frame);
        assert!(time.is_none_or(|time| time == is.time));
    }
    assert!(again.read().unwrap().is_none());
    assert_eq!(original.read().is_ok(), ended);
}
