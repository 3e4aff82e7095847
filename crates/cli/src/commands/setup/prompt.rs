//! Questions to a person at a terminal. Questions go to standard error, so that output can be redirected.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use crate::commands::{
    exit::Exit,
    output::note,
    problem::{Answer, Problem},
};

/// Whether a person can answer.
pub fn is_person_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a line; Enter alone takes the default. Repeats the question until there is an answer.
pub fn ask(question: &str, default: Option<&str>) -> Answer<String> {
    loop {
        show(&match default {
            Some(default) => format!("{question} [{default}]: "),
            None => format!("{question}: "),
        });
        let answer = line()?;
        match (answer.trim(), default) {
            ("", Some(default)) => return Ok(default.to_owned()),
            ("", None) => {}
            (answer, _) => return Ok(answer.to_owned()),
        }
    }
}

/// Asks for one of `options`, by number or name. Returns its index.
pub fn choose(question: &str, options: &[&str], default: usize) -> Answer<usize> {
    for (at, option) in options.iter().enumerate() {
        note(&format!("  {}) {option}", at + 1));
    }
    loop {
        let answer = ask(question, Some(&(default + 1).to_string()))?;
        if let Some(chosen) = chosen(&answer, options) {
            return Ok(chosen);
        }
        note(&format!("enter a number from 1 to {}", options.len()));
    }
}

fn chosen(answer: &str, options: &[&str]) -> Option<usize> {
    let number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    number
        .filter(|at| *at < options.len())
        .or_else(|| options.iter().position(|option| option.eq_ignore_ascii_case(answer)))
}

/// Asks for a yes; Enter alone is one.
pub fn agrees(question: &str) -> Answer<bool> {
    show(&format!("{question} [Y/n]: "));
    Ok(!line()?.trim().to_ascii_lowercase().starts_with('n'))
}

/// Asks for a line that the terminal does not show.
pub fn ask_hidden(question: &str) -> Answer<String> {
    show(&format!("{question}: "));
    let hidden = Hidden::start()?;
    let mut typed = Typed::default();
    let done = loop {
        let mut byte = [0];
        // Not buffered: input that was typed ahead belongs to the next question.
        if rustix::io::read(io::stdin(), &mut byte).map_err(io::Error::from)? == 0 {
            break Ok(());
        }
        match typed.take(byte[0]) {
            Key::More => {}
            Key::End => break Ok(()),
            Key::Interrupt => break Err(Problem::new("interrupted").with_exit(Exit::Interrupted)),
        }
    };
    drop(hidden);
    note("");
    done.and_then(|()| String::from_utf8(typed.0).map_err(|_| Problem::usage("the input is not valid UTF-8")))
}

fn show(text: &str) {
    // Standard error is a terminal; a failure to write to it shows by itself.
    let _ = write!(io::stderr(), "{text}").and_then(|()| io::stderr().flush());
}

fn line() -> Answer<String> {
    let mut line = String::new();
    // At the end of input no further question can be answered.
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(Problem::usage("the input ended"));
    }
    Ok(line)
}

/// The terminal without echo and with single keys, until dropped.
struct Hidden(Termios);

impl Hidden {
    fn start() -> Answer<Self> {
        let before = tcgetattr(io::stdin()).map_err(io::Error::from)?;
        let mut now = before.clone();
        // Ctrl-C arrives as a key: a signal would end the program and leave the terminal without echo.
        now.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        now.special_codes[SpecialCodeIndex::VMIN] = 1;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &now).map_err(io::Error::from)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// The bytes of a hidden line.
#[derive(Default)]
struct Typed(Vec<u8>);

#[derive(Debug, PartialEq, Eq)]
enum Key {
    More,
    End,
    Interrupt,
}

impl Typed {
    fn take(&mut self, byte: u8) -> Key {
        match byte {
            b'\r' | b'\n' | 0x04 => return Key::End,
            0x03 => return Key::Interrupt,
            // Backspace, as terminals send it.
            0x08 | 0x7f => drop(self.0.pop()),
            // Ctrl-U deletes the line.
            0x15 => self.0.clear(),
            byte => self.0.push(byte),
        }
        Key::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_chosen_by_number_or_name() {
        let options = ["Anthropic", "OpenAI"];
        let check = |answer: &str, expected: Option<usize>| assert_eq!(chosen(answer, &options), expected, "{answer}");
        check("1", Some(0));
        check("openai", Some(1));
        check("0", None);
        check("3", None);
        check("x", None);
    }

    #[test]
    fn a_hidden_line_can_be_corrected_and_interrupted() {
        let mut typed = Typed::default();
        for byte in *b"xx\x15sj\x7fk" {
            assert_eq!(typed.take(byte), Key::More);
        }
        assert_eq!((typed.take(b'\r'), typed.take(3)), (Key::End, Key::Interrupt));
        assert_eq!(typed.0, b"sk");
    }
}
