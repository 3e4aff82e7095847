//! The result of one check.

use std::fmt::Write as _;

use serde::Serialize;

use crate::commands::{
    problem::Problem,
    screen::{Screen, Tone, line, wrap},
};

/// Severity of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// The check passed.
    Ok,
    /// It works, or may work, but needs attention.
    Warn,
    /// The check failed.
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub health: Health,
    /// What was checked.
    pub subject: String,
    /// The result of the check.
    pub seen: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// A passed check.
    pub fn ok(subject: &str, seen: impl Into<String>) -> Self {
        Self { health: Health::Ok, subject: subject.to_owned(), seen: seen.into(), fix: None }
    }

    /// Turns the result into a warning.
    #[must_use]
    pub fn warn(self, fix: impl Into<String>) -> Self {
        Self { health: Health::Warn, fix: Some(fix.into()), ..self }
    }

    /// Turns the result into a failure.
    #[must_use]
    pub fn fail(self, fix: impl Into<String>) -> Self {
        Self { health: Health::Fail, fix: Some(fix.into()), ..self }
    }

    /// A failed check that prevents all others.
    pub fn problem(subject: &str, problem: &Problem) -> Self {
        Self {
            health: Health::Fail,
            fix: problem.next_step().map(ToOwned::to_owned),
            ..Self::ok(subject, problem.to_string())
        }
    }

    /// A check that could not be made.
    pub fn unknown(subject: &str, problem: &Problem) -> Self {
        Self { health: Health::Warn, ..Self::problem(subject, problem) }
    }

    pub fn is_failure(&self) -> bool {
        self.health == Health::Fail
    }
}

/// One line per result, followed by its fix.
pub fn show(findings: &[Finding], screen: &Screen) -> String {
    let mut page = String::new();
    for finding in findings {
        let (word, tone) = match finding.health {
            Health::Ok => ("ok  ", Tone::Good),
            Health::Warn => ("warn", Tone::Busy),
            Health::Fail => ("fail", Tone::Bad),
        };
        let width = screen.width.map(|width| width.saturating_sub(6).max(20));
        let text = format!("{}: {}", finding.subject, line(&finding.seen));
        for (at, text) in wrap(&text, width).iter().enumerate() {
            let margin = if at == 0 { screen.paint(tone, word) } else { "    ".to_owned() };
            let _ = writeln!(page, "{margin}  {text}");
        }
        let width = width.map(|width| width.saturating_sub(5).max(20));
        for (at, text) in finding.fix.iter().flat_map(|fix| wrap(&line(fix), width)).enumerate() {
            let _ = writeln!(page, "      {}{text}", if at == 0 { "fix: " } else { "     " });
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trouble_comes_with_its_cure() {
        let findings = [
            Finding::ok("cluster", "Kubernetes v1.33.0"),
            Finding::ok("model keys", "1 of 2 are there")
                .fail("create Secret 'b' with key 'k' in namespace team, or correct the reference"),
        ];
        let screen = Screen { width: Some(60), ..Screen::default() };
        insta::assert_snapshot!(show(&findings, &screen), @r"
        ok    cluster: Kubernetes v1.33.0
        fail  model keys: 1 of 2 are there
              fix: create Secret 'b' with key 'k' in namespace team,
                   or correct the reference
        ");
    }
}
