//! Chooses a value for each field and records its origin.

use std::collections::BTreeMap;

use api::run::Budget;

use crate::{
    platform::Platform,
    run::{
        budget::Cost,
        origin::{Origin, Origins},
    },
};

/// Applies defaults to the fields of an agent and records the origin of each value.
pub(super) struct AgentFields<'a> {
    pub(super) given: BTreeMap<&'static str, &'a Origin>,
    pub(super) platform: &'a Platform,
    pub(super) origins: Origins,
}

impl AgentFields<'_> {
    pub(super) fn origin_of(&self, setting: &str) -> Origin {
        self.given.get(setting).map_or(Origin::BuiltIn, |origin| (*origin).clone())
    }

    /// A setting without a platform-wide default.
    pub(super) fn keep<T>(&mut self, setting: &'static str, value: Option<T>) -> Option<T> {
        self.origins.note(format!("agent.{setting}"), self.origin_of(setting));
        value
    }

    /// A setting that the platform has a default for.
    pub(super) fn or_platform<T>(&mut self, setting: &'static str, value: Option<T>, default: T) -> T {
        let origin = if value.is_some() { self.origin_of(setting) } else { self.platform.origin(setting) };
        self.origins.note(format!("agent.{setting}"), origin);
        value.unwrap_or(default)
    }
}

/// Applies defaults to the fields of a run and records the origin of each value.
pub(super) struct RunFields {
    pub(super) origins: Origins,
    pub(super) by_template: Origin,
}

impl RunFields {
    pub(super) fn note(&mut self, path: impl Into<String>, origin: Origin) {
        self.origins.note(path, origin);
    }

    pub(super) fn origin_of(&self, path: &str) -> Origin {
        self.origins.get(path).cloned().unwrap_or(Origin::BuiltIn)
    }

    /// The first of two values that is set.
    pub(super) fn first<T>(&mut self, path: &str, values: [(Option<T>, Origin); 2]) -> Option<T> {
        self.first_of(path, values.into_iter().find_map(|(value, origin)| value.map(|value| (value, origin))))
    }

    pub(super) fn first_of<T>(&mut self, path: &str, found: Option<(T, Origin)>) -> Option<T> {
        let (value, origin) = found.map_or((None, Origin::BuiltIn), |(value, origin)| (Some(value), origin));
        self.note(path, origin);
        value
    }

    /// The smallest of all limits: an Agent's limit holds for its Tasks, whatever they set themselves. A limit for a
    /// window limits each run in it, too.
    pub(super) fn smallest_budget(&mut self, budgets: &[(Budget, Origin)]) -> Option<Budget> {
        let tokens = budgets.iter().filter_map(|(budget, origin)| Some((budget.max_tokens?, origin)));
        let tokens = tokens.min_by_key(|(most, _)| *most);
        let cost = budgets.iter().filter_map(|(budget, origin)| Some((budget.max_cost.clone()?, origin)));
        let cost = cost.min_by_key(|(most, _)| Cost::read(most));
        let of_cost = cost.as_ref().map(|(_, origin)| *origin);
        let Some(origin) = of_cost.or(tokens.as_ref().map(|(_, origin)| *origin)).cloned() else {
            self.note("budget", Origin::BuiltIn);
            return None;
        };
        if let Some((_, by)) = tokens.filter(|(_, by)| **by != origin) {
            self.note("budget.maxTokens", by.clone());
        }
        self.note("budget", origin);
        let budget =
            Budget { max_tokens: tokens.map(|(most, _)| most), max_cost: cost.map(|(most, _)| most), window: None };
        Some(budget)
    }

    /// A field that only a Task has.
    pub(super) fn own<T>(&mut self, path: &str, task: Option<T>) -> Option<T> {
        self.first_of(path, task.map(|value| (value, Origin::Task)))
    }

    /// A field that a Task and a template have.
    pub(super) fn shared<T>(&mut self, path: &str, task: Option<T>, template: Option<T>) -> Option<T> {
        let by_template = self.by_template.clone();
        self.first(path, [(task, Origin::Task), (template, by_template)])
    }

    pub(super) fn fall_back<T>(&mut self, path: &str, platform: &Platform, default: T) -> T {
        self.note(path, platform.origin(path));
        default
    }

    /// A field of the agent that a Task may replace.
    pub(super) fn replace<T>(&mut self, path: &str, task: Option<T>, field: &mut T) {
        if let Some(value) = task {
            *field = value;
            self.note(path, Origin::Task);
        }
    }
}
