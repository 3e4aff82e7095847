//! Budgets: limits, usage, and the message when a limit is reached.
//!
//! Tokens are input, output and reasoning tokens. Tokens from the provider's cache are not counted: they cost a
//! fraction, which the cost includes.

use std::fmt;

use api::{kinds::task::Usage, run::Budget};

/// Units of a [`Cost`] in one: prices of answers have six decimals.
const PARTS: u64 = 1_000_000;

/// An amount of money in millionths, so that sums are exact. Operations saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(u64);

impl Cost {
    /// Parses a decimal number such as `2.50`. Decimals after the sixth are cut.
    pub fn read(text: &str) -> Option<Self> {
        let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        if whole.is_empty() || !whole.chars().chain(part.chars()).all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let part: String = part.chars().chain("000000".chars()).take(6).collect();
        // Only digits: a number that does not parse is too large.
        let whole = whole.parse().unwrap_or(u64::MAX);
        Some(Self(u64::saturating_mul(whole, PARTS).saturating_add(part.parse().unwrap_or_default())))
    }

    /// The amount nearest to a floating-point number of OpenCode.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "such a cast saturates")]
    pub fn of(amount: f64) -> Self {
        Self((amount.max(0.0) * 1e6).round() as u64)
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, at least zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Two decimals, or as many as the amount has: `2.50`, `0.0024`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = format!("{:06}", self.0 % PARTS);
        let (cents, rest) = part.split_at(2);
        write!(f, "{}.{cents}{}", self.0 / PARTS, rest.trim_end_matches('0'))
    }
}

/// Tokens and cost that were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub tokens: u64,
    pub cost: Cost,
}

impl Spent {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), cost: self.cost.plus(other.cost) }
    }

    /// Saturates at zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(other.tokens), cost: self.cost.minus(other.cost) }
    }
}

impl From<&Usage> for Spent {
    fn from(usage: &Usage) -> Self {
        let count = |tokens: i64| u64::try_from(tokens).unwrap_or_default();
        let tokens =
            usage.tokens.map(|of| count(of.input).saturating_add(count(of.output)).saturating_add(count(of.reasoning)));
        let cost = usage.cost.as_deref().and_then(Cost::read);
        Self { tokens: tokens.unwrap_or_default(), cost: cost.unwrap_or_default() }
    }
}

/// Limits of a run; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    pub tokens: Option<u64>,
    pub cost: Option<Cost>,
}

impl From<&Budget> for Allowance {
    fn from(budget: &Budget) -> Self {
        let Budget { max_tokens, max_cost, window: _ } = budget;
        // The schema admits only decimal numbers.
        let cost = max_cost.as_deref().and_then(Cost::read);
        Self { tokens: max_tokens.map(|most| u64::try_from(most).unwrap_or_default()), cost }
    }
}

impl Allowance {
    /// The smaller of both limits.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let tokens = [self.tokens, other.tokens].into_iter().flatten().min();
        let cost = [self.cost, other.cost].into_iter().flatten().min();
        Self { tokens, cost }
    }

    /// What is left after `spent`.
    #[must_use]
    pub fn after(self, spent: Spent) -> Self {
        let tokens = self.tokens.map(|most| most.saturating_sub(spent.tokens));
        Self { tokens, cost: self.cost.map(|most| most.minus(spent.cost)) }
    }

    /// Whether nothing is left of one of the limits.
    pub fn is_nothing(self) -> bool {
        self.tokens == Some(0) || self.cost == Some(Cost::default())
    }

    /// Takes the share of a run out of what is left: `known` if it was given one, else as much of what is left as its
    /// own limit `own` allows. Returns the share and the rest.
    #[must_use]
    pub fn take(self, own: Self, known: Self) -> (Self, Self) {
        let share = Self {
            tokens: self
                .tokens
                .map(|left| known.tokens.unwrap_or_else(|| own.tokens.map_or(left, |own| own.min(left)))),
            cost: self.cost.map(|left| known.cost.unwrap_or_else(|| own.cost.map_or(left, |own| own.min(left)))),
        };
        let taken = Spent { tokens: share.tokens.unwrap_or_default(), cost: share.cost.unwrap_or_default() };
        (share, self.after(taken))
    }

    /// The usage in words, if a limit is reached: `used 21,344 of 20,000 tokens`.
    pub fn used_up(self, spent: Spent) -> Option<String> {
        let tokens = self.tokens.filter(|most| spent.tokens >= *most);
        let tokens = tokens.map(|most| format!("used {} of {} tokens", grouped(spent.tokens), grouped(most)));
        let cost = self.cost.filter(|most| spent.cost >= *most);
        let cost = cost.map(|most| format!("spent {} of {most}", spent.cost));
        match (tokens, cost) {
            (Some(tokens), Some(cost)) => Some(format!("{tokens} and {cost}")),
            (tokens, cost) => tokens.or(cost),
        }
    }
}

/// The message of a run that was stopped at its limit. `used` is from [`Allowance::used_up`].
pub fn stopped(used: &str) -> String {
    format!("the Task {used}, which is all that its budget allows, and was stopped")
}

/// A number with thousands separators: `21,344`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let separated = |place: usize| place > 0 && (digits.len() - place).is_multiple_of(3);
    digits.char_indices().fold(String::new(), |text, (place, digit)| {
        if separated(place) { format!("{text},{digit}") } else { format!("{text}{digit}") }
    })
}

#[cfg(test)]
mod tests {
    use api::kinds::task::TokenUsage;

    use super::*;

    fn spent(tokens: u64, cost: &str) -> Spent {
        Spent { tokens, cost: Cost::read(cost).unwrap() }
    }

    fn allowance(tokens: Option<u64>, cost: Option<&str>) -> Allowance {
        Allowance { tokens, cost: cost.map(|cost| Cost::read(cost).unwrap()) }
    }

    #[test]
    fn amounts_are_parsed_exactly_and_printed_with_two_decimals() {
        for (text, expected) in [
            ("2.50", "2.50"),
            ("10", "10.00"),
            ("0.002417", "0.002417"),
            ("0.0024", "0.0024"),
            ("7.", "7.00"),
            ("0.1234569", "0.123456"),
            ("99999999999999999999999999", "18446744073709.551615"),
        ] {
            assert_eq!(Cost::read(text).map(|cost| cost.to_string()).as_deref(), Some(expected), "{text}");
        }
        for text in ["", ".5", "-1", "1e3", "1,5", "one", "1.2.3"] {
            assert_eq!(Cost::read(text), None, "{text}");
        }
        let tenths = (0..10).fold(Cost::default(), |sum, _| sum.plus(Cost::read("0.1").unwrap()));
        assert_eq!(Some(tenths), Cost::read("1"));
    }

    #[test]
    fn floating_point_costs_are_rounded() {
        for (amount, expected) in [(0.1 + 0.2, "0.30"), (-1.0, "0.00"), (f64::NAN, "0.00"), (0.000_000_4, "0.00")] {
            assert_eq!(Cost::of(amount).to_string(), expected, "{amount}");
        }
        assert_eq!(Cost::of(f64::INFINITY), Cost(u64::MAX));
    }

    #[test]
    fn a_budget_is_used_up_when_a_limit_is_reached() {
        let check = |most: Allowance, used: Spent, expected: Option<&str>| {
            assert_eq!(most.used_up(used).as_deref(), expected);
        };
        let tokens = allowance(Some(20_000), None);
        check(tokens, spent(19_999, "1000"), None);
        check(tokens, spent(20_000, "0"), Some("used 20,000 of 20,000 tokens"));
        check(tokens, spent(1_021_344, "0"), Some("used 1,021,344 of 20,000 tokens"));
        let cost = allowance(None, Some("2.50"));
        check(cost, spent(u64::MAX, "2.499999"), None);
        check(cost, spent(1, "2.5"), Some("spent 2.50 of 2.50"));
        let both = allowance(Some(100), Some("1"));
        check(both, spent(100, "0.5"), Some("used 100 of 100 tokens"));
        check(both, spent(100, "1.25"), Some("used 100 of 100 tokens and spent 1.25 of 1.00"));
        check(Allowance::default(), spent(u64::MAX, "1000000"), None);
    }

    #[test]
    fn the_smaller_of_two_limits_counts_and_usage_is_subtracted() {
        let both = allowance(Some(100), None).and(allowance(Some(70), Some("3")));
        assert_eq!(both, allowance(Some(70), Some("3")));
        assert_eq!(both.after(spent(60, "1.5")), allowance(Some(10), Some("1.5")));
        assert_eq!(both.after(spent(99, "9")), allowance(Some(0), Some("0")));
    }

    #[test]
    fn a_run_takes_what_its_own_limit_allows_and_all_without_one() {
        let none = Allowance::default();
        let left = allowance(Some(100), Some("2"));
        let own = allowance(Some(30), None);
        assert_eq!(left.take(own, none), (allowance(Some(30), Some("2")), allowance(Some(70), Some("0"))));
        assert_eq!(left.take(allowance(Some(900), Some("1")), none).1, allowance(Some(0), Some("1")));
        // A share that was given stays as it is, whatever is left.
        assert_eq!(left.take(none, allowance(Some(120), Some("1"))).1, allowance(Some(0), Some("1")));
        // What the shared budget does not limit is not taken.
        assert_eq!(allowance(Some(100), None).take(allowance(None, Some("1")), none).0, allowance(Some(100), None));
        assert!(left.take(none, none).1.is_nothing() && !left.is_nothing() && !none.is_nothing());
    }

    #[test]
    fn usage_counts_input_output_and_reasoning_tokens() {
        let tokens = TokenUsage { input: 10, output: 5, reasoning: 1, cache: 900 };
        let usage = Usage { tokens: Some(tokens), cost: Some("0.250000".into()) };
        assert_eq!(Spent::from(&usage), spent(16, "0.25"));
        assert_eq!(Spent::from(&Usage { tokens: None, cost: Some("?".into()) }), Spent::default());
    }
}
