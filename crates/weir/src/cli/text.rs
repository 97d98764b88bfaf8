//! Texts that commands read: rules and entries of files, or of standard input.

use std::io::{self, Read as _};
use std::path::Path;

use super::error::Error;
use crate::control::{LONGEST_TEXT, source};
use crate::encoding;

/// The path that stands for standard input.
const STANDARD: &str = "-";

/// A file that a command is given, or standard input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a>(&'a Path);

impl<'a> Input<'a> {
    /// The file of a path; `-` is standard input.
    pub(super) fn of(path: &'a Path) -> Input<'a> {
        Input(path)
    }

    fn is_standard(self) -> bool {
        self.0.as_os_str() == STANDARD
    }

    /// Returns the name for messages.
    pub(super) fn name(self) -> String {
        if self.is_standard() { "standard input".to_owned() } else { self.0.display().to_string() }
    }

    /// Returns the name of the source that the text belongs to, unless the user names one: the file's name.
    ///
    /// # Errors
    /// When a source cannot have that name.
    pub(super) fn source(self) -> Result<String, Error> {
        if self.is_standard() {
            return Ok(source::usual());
        }
        let name = self.0.file_name().unwrap_or_default().to_string_lossy().into_owned();
        source::check(&name).map_err(|wrong| Error::Usage(format!("{wrong}; name one with --source")))?;
        Ok(name)
    }

    /// Reads the text.
    ///
    /// # Errors
    /// When it cannot be read, or is not UTF-8.
    pub(super) fn read(self) -> Result<String, Error> {
        let name = self.name();
        let octets = if self.is_standard() {
            let mut octets = Vec::new();
            io::stdin().lock().read_to_end(&mut octets).map(|_| octets)
        } else {
            weir_base::file::read(self.0)
        };
        let octets = octets.map_err(|error| Error::Failed(format!("cannot read {name}: {error}")))?;
        let text = encoding::decode(&octets).map_err(|wrong| Error::Failed(format!("{name}: {wrong}")))?;
        Ok(text.to_owned())
    }

    /// Reads a text of which nothing may be missing, as it takes the place of what runs.
    ///
    /// # Errors
    /// As for [`Input::read`]; when the text is longer than a request may be; or when it consists of lines and its last line
    /// does not end.
    pub(super) fn read_whole(self, of_lines: bool) -> Result<String, Error> {
        let (text, name) = (self.read()?, self.name());
        if text.len() > LONGEST_TEXT {
            return Err(Error::Failed(format!("{name}: a command sends {LONGEST_TEXT} octets at most")));
        }
        if of_lines && is_cut(&text) {
            let line = text.lines().count();
            return Err(Error::InvalidFile(format!(
                "{name}: line {line}: the last line has no line end; the file may be cut short: add the line end if it is \
                 whole; nothing was changed"
            )));
        }
        Ok(text)
    }
}

/// Whether the last line of a text does not end.
fn is_cut(text: &str) -> bool {
    !text.is_empty() && !text.ends_with('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_whose_last_line_does_not_end_may_be_cut_short() {
        for (text, cut) in [
            ("permit from 10.0.0.0/8 on cust1, cu", true),
            ("permit from 10.0.0.0/8 on cust1\n", false),
            ("prefix,interfaces\n10.0.0.0/8,cust1", true),
            ("prefix,interfaces\r\n10.0.0.0/8,cust1\r\n", false),
            ("\u{feff}", true),
            ("", false),
        ] {
            assert_eq!(is_cut(text), cut, "{text:?}");
        }
    }

    #[test]
    fn standard_input_has_a_name_and_the_usual_source() {
        let standard = Input::of(Path::new("-"));
        assert_eq!((standard.name().as_str(), standard.source().unwrap()), ("standard input", source::usual()));
        assert_eq!(Input::of(Path::new("a/edge.rules")).source().unwrap(), "edge.rules");
        assert!(Input::of(Path::new("a b")).source().is_err());
    }
}
