//! Our kinds, by any name that their definitions allow.

use std::sync::LazyLock;

use api::names::{CATEGORY, GROUP, VERSION};
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::Value;

use super::{
    columns::Column,
    problem::{Answer, Problem},
};

/// One kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// `Task`.
    pub name: String,
    /// `tasks`.
    pub plural: String,
    /// `task`.
    pub singular: String,
    /// `tk`.
    pub short: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What a table shows of it.
    pub columns: Vec<Column>,
}

/// An object of one of our kinds, as arguments name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its kind.
    pub kind: Kind,
    /// Its name; all objects of the kind when unset.
    pub name: Option<String>,
}

impl Kind {
    /// Every kind, in the order in which people learn them.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| api::crds().iter().map(Kind::of).collect());
        &ALL
    }

    /// The kind that `word` means: its name in singular or plural, short or with its group, in any case.
    pub fn named(word: &str) -> Answer<Self> {
        let wanted = word.to_ascii_lowercase();
        let wanted = wanted.strip_suffix(&format!(".{GROUP}")).unwrap_or(&wanted).to_owned();
        let all = Self::all();
        if let Some(kind) = all.iter().find(|kind| kind.answers_to(&wanted)) {
            return Ok(kind.clone());
        }
        let known: Vec<_> = all.iter().map(|kind| kind.plural.as_str()).collect();
        Err(Problem::usage(format!("there is no kind '{word}'")).next(format!("use one of: {}", known.join(", "))))
    }

    fn answers_to(&self, word: &str) -> bool {
        word == self.plural || word == self.singular || self.short.iter().any(|short| short == word)
    }

    fn of(crd: &Value) -> Self {
        let names = &crd["spec"]["names"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = &crd["spec"]["versions"][0];
        let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten();
        Self {
            name: text(&names["kind"]),
            plural: text(&names["plural"]),
            singular: text(&names["kind"]).to_ascii_lowercase(),
            short: names["shortNames"].as_array().into_iter().flatten().map(text).collect(),
            namespaced: crd["spec"]["scope"] == "Namespaced",
            columns: columns.map(Column::of).collect(),
        }
    }

    /// How the API calls it.
    pub fn resource(&self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(GROUP, VERSION, &self.name);
        ApiResource::from_gvk_with_plural(&gvk, &self.plural)
    }

    /// Its objects, in one namespace or in all.
    pub fn api(&self, client: Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource()),
            None => Api::all_with(client, &self.resource()),
        }
    }

    /// `task.kubeopencode.io/fix`, as kubectl writes it.
    pub fn full_name(&self, name: &str) -> String {
        format!("{}.{GROUP}/{name}", self.singular)
    }
}

/// The objects that the words of a command mean: `tasks`, `tasks a b`, `task/a agent/b`, `tasks,agents`, `all`.
pub fn named(words: &[String]) -> Answer<Vec<Named>> {
    let Some((first, names)) = words.split_first() else {
        return Err(Problem::usage("name a kind, such as tasks or agents"));
    };
    if words.iter().any(|word| word.contains('/')) {
        return words.iter().map(|word| one(word)).collect();
    }
    if names.is_empty() && (first == "all" || first == CATEGORY) {
        return Ok(Kind::all().iter().map(|kind| Named { kind: kind.clone(), name: None }).collect());
    }
    let mut all = Vec::new();
    for word in first.split(',') {
        let kind = Kind::named(word)?;
        if names.is_empty() {
            all.push(Named { kind, name: None });
        } else {
            all.extend(names.iter().map(|name| Named { kind: kind.clone(), name: Some(name.clone()) }));
        }
    }
    Ok(all)
}

/// `task/fix`.
fn one(word: &str) -> Answer<Named> {
    match word.split_once('/') {
        Some((kind, name)) if !name.is_empty() && !name.contains('/') => {
            Ok(Named { kind: Kind::named(kind)?, name: Some(name.to_owned()) })
        }
        _ => Err(Problem::usage(format!("'{word}' is no KIND/NAME, such as task/fix"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &str, expected: &str) {
        let words: Vec<_> = words.split(' ').map(ToOwned::to_owned).collect();
        let found = match named(&words) {
            Ok(all) => {
                let one = |named: Named| format!("{}/{}", named.kind.name, named.name.unwrap_or_default());
                all.into_iter().map(one).collect::<Vec<_>>().join(" ")
            }
            Err(problem) => problem.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_kind_has_many_names() {
        for word in ["task", "tasks", "tk", "Task", "tasks.kubeopencode.io"] {
            check(word, "Task/");
        }
        check("registry", "Registry/");
        check("reg", "Registry/");
        check("ct", "CronTask/");
        check("agt", "AgentTemplate/");
        check("pods", "there is no kind 'pods'");
    }

    #[test]
    fn objects_are_named_as_in_kubectl() {
        check("tasks a b", "Task/a Task/b");
        check("task/a agent/b", "Task/a Agent/b");
        check("tasks,agents", "Task/ Agent/");
        check("task/ x", "'task/' is no KIND/NAME, such as task/fix");
        assert_eq!(named(&["all".to_owned()]).unwrap().len(), Kind::all().len());
    }
}
