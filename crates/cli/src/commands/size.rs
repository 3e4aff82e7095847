//! Sizes for people, and the progress of long transfers.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
/// Time between two reports of progress.
const PAUSE: Duration = Duration::from_millis(200);

/// A size in the largest unit that it fills, such as `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    let mut unit = 0;
    let mut tenths = u128::from(bytes) * 10;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    if unit == 0 || tenths >= 1000 {
        return format!("{} {}", tenths / 10, UNITS[unit]);
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A line on the terminal that counts up; nothing elsewhere.
pub struct Progress {
    what: String,
    total: Option<u64>,
    done: u64,
    shown: Option<Instant>,
    terminal: bool,
}

impl Progress {
    /// Reports on standard error, if it is a terminal.
    pub fn new(what: impl Into<String>, total: Option<u64>) -> Self {
        Self { what: what.into(), total, done: 0, shown: None, terminal: io::stderr().is_terminal() }
    }

    pub fn add(&mut self, bytes: u64) {
        self.done += bytes;
        if self.terminal && self.shown.is_none_or(|shown| shown.elapsed() >= PAUSE) {
            self.shown = Some(Instant::now());
            // Standard error may be closed; nothing else can be done.
            let _ = write!(io::stderr(), "\r\x1b[K{}", self.line());
        }
    }

    fn line(&self) -> String {
        match self.total {
            Some(total) => {
                let percent = u128::from(self.done) * 100 / u128::from(total.max(1));
                format!("{}: {} of {} ({}%)", self.what, size(self.done), size(total), percent.min(100))
            }
            None => format!("{}: {}", self.what, size(self.done)),
        }
    }
}

impl Drop for Progress {
    /// What follows starts on an empty line.
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (150 << 10, "150 KiB"),
            (10 << 20, "10.0 MiB"),
            (3 << 30, "3.0 GiB"),
            (u64::MAX, "16777215 TiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn progress_counts_to_the_end() {
        let mut progress = Progress::new("dist", Some(4 << 20));
        progress.terminal = false;
        progress.add(1 << 20);
        assert_eq!(progress.line(), "dist: 1.0 MiB of 4.0 MiB (25%)");
        progress.add(9 << 20);
        assert_eq!(progress.line(), "dist: 10.0 MiB of 4.0 MiB (100%)");
        assert_eq!(Progress::new("x", None).line(), "x: 0 B");
    }
}
