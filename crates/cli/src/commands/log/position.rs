//! The position in a log, to resume at after a connection broke.
//!
//! The API server resumes at a whole second, so lines repeat after an interruption; they are distinguished by their
//! times, and lines of the same time by their number.

use jiff::Timestamp;

/// The last line that was shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    last: Option<Timestamp>,
    /// Number of lines with that time that were shown.
    shown: usize,
    /// While lines repeat: the number of lines with that time still to skip.
    again: Option<usize>,
}

impl Position {
    /// The time of the last line.
    pub fn last(&self) -> Option<Timestamp> {
        self.last
    }

    /// Called when the connection is opened again.
    pub fn resume(&mut self) {
        self.again = self.last.map(|_| self.shown);
    }

    /// Whether the line with this time was not shown yet. Records it as shown.
    pub fn is_new(&mut self, stamp: Timestamp) -> bool {
        if let (Some(again), Some(last)) = (&mut self.again, self.last) {
            if stamp < last {
                return false;
            }
            if stamp == last && *again > 0 {
                *again -= 1;
                return false;
            }
            self.again = None;
        }
        match self.last {
            Some(last) if stamp < last => {}
            Some(last) if stamp == last => self.shown += 1,
            _ => (self.last, self.shown) = (Some(stamp), 1),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn after_an_interruption_every_line_is_shown_once() {
        let log = [1, 2, 2, 3, 3, 3, 4, 4, 5];
        for broken_at in 1..log.len() {
            for comes_again in 0..=broken_at {
                let mut position = Position::default();
                let before = log[..broken_at].iter().filter(|second| position.is_new(at(**second))).count();
                position.resume();
                // The API server starts at a second, not in the middle of one.
                let whole = log.iter().position(|second| *second == log[comes_again.min(broken_at - 1)]).unwrap();
                let after = log[whole..].iter().filter(|second| position.is_new(at(**second))).count();
                assert_eq!(before + after, log.len(), "{broken_at} {comes_again}");
            }
        }
    }

    #[test]
    fn lines_out_of_order_are_shown_while_nothing_broke() {
        let mut position = Position::default();
        assert!(position.is_new(at(5)) && position.is_new(at(4)) && position.is_new(at(5)));
        assert_eq!(position.last(), Some(at(5)));
    }
}
