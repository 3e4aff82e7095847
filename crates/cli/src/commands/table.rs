//! Tables that fit the terminal.

use super::screen::{Screen, Tone, columns, cut, line};

/// Spaces between two columns.
const GAP: usize = 3;
/// Columns are not shrunk below this width.
const NARROWEST: usize = 8;

/// One cell: a text and its tone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with one line of text; an empty text is shown as `-`.
    pub fn new(text: &str, tone: Tone) -> Self {
        let text = line(text);
        Self { text: if text.is_empty() { "-".to_owned() } else { text }, tone }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text.as_ref(), Tone::Plain)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new<T: Into<String>>(headings: impl IntoIterator<Item = T>) -> Self {
        Self { headings: headings.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table, one line per row, within the width of the screen if possible.
    pub fn show(&self, screen: &Screen) -> String {
        let widths = self.widths(screen.width);
        let heading: Vec<_> = self.headings.iter().map(|heading| Cell::new(heading, Tone::Strong)).collect();
        let lines = std::iter::once(&heading).chain(&self.rows).map(|row| show_row(row, &widths, screen));
        lines.map(|line| line + "\n").collect()
    }

    /// Renders the last row with the widths of the whole table, for rows that are added later.
    pub fn show_last(&self, screen: &Screen) -> String {
        let widths = self.widths(screen.width);
        self.rows.last().map(|row| show_row(row, &widths, screen) + "\n").unwrap_or_default()
    }

    fn widths(&self, most: Option<usize>) -> Vec<usize> {
        let widest = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(&cell.text));
            cells.chain([columns(&self.headings[at])]).max().unwrap_or(0)
        };
        let mut widths: Vec<_> = (0..self.headings.len()).map(widest).collect();
        let Some(most) = most else { return widths };
        let mut total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        // Shrink the widest column first: it contains sentences.
        while total > most {
            let narrowest = |at: usize| columns(&self.headings[at]).max(NARROWEST);
            let candidates = (0..widths.len()).filter(|at| widths[*at] > narrowest(*at));
            let Some(at) = candidates.max_by_key(|at| widths[*at]) else { break };
            widths[at] -= 1;
            total -= 1;
        }
        widths
    }
}

fn show_row(row: &[Cell], widths: &[usize], screen: &Screen) -> String {
    let mut shown = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        let text = cut(&cell.text, *width);
        let padding = if at + 1 == widths.len() { 0 } else { width + GAP - columns(&text) };
        shown.push_str(&screen.paint(cell.tone, &text));
        shown.push_str(&" ".repeat(padding));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(["NAME", "PHASE", "MESSAGE"]);
        table.push(vec!["fix-the-bug".into(), Cell::new("Running", Tone::Busy), "".into()]);
        table.push(vec!["b".into(), Cell::new("Failed", Tone::Bad), "the model\nanswered with an error".into()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        insta::assert_snapshot!(sample().show(&Screen::default()), @r"
        NAME          PHASE     MESSAGE
        fix-the-bug   Running   -
        b             Failed    the model answered with an error
        ");
    }

    #[test]
    fn a_narrow_screen_cuts_the_widest_column_first() {
        let screen = Screen { width: Some(40), ..Screen::default() };
        insta::assert_snapshot!(sample().show(&screen), @r"
        NAME          PHASE     MESSAGE
        fix-the-bug   Running   -
        b             Failed    the model answe…
        ");
    }

    #[test]
    fn nothing_is_squeezed_beyond_reading() {
        let screen = Screen { width: Some(10), ..Screen::default() };
        let narrowest = sample().show(&screen);
        assert!(narrowest.contains("fix-the…") && narrowest.contains("the mod…"), "{narrowest}");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let screen = Screen { colour: true, ..Screen::default() };
        let plain: String = sample()
            .show(&screen)
            .split('\x1b')
            .map(|piece| {
                piece.split_once('m').filter(|(code, _)| code.starts_with('[')).map_or(piece, |(_, rest)| rest)
            })
            .collect();
        assert_eq!(plain, sample().show(&Screen::default()));
    }
}
