//! Looks up our kinds by any name that their definitions allow.

use std::sync::LazyLock;

use api::names::{CATEGORY, GROUP, VERSION};
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::Value;

use super::{
    columns::Column,
    missing::near,
    problem::{Answer, Problem},
};

/// Shorter names of kinds, as people call them, beside the names of the definitions.
const ALIASES: [(&str, &str); 12] = [
    ("template", "agenttemplates"),
    ("templates", "agenttemplates"),
    ("cron", "crontasks"),
    ("crons", "crontasks"),
    ("provider", "modelproviders"),
    ("providers", "modelproviders"),
    ("tool", "agenttools"),
    ("tools", "agenttools"),
    ("workflow", "agentworkflows"),
    ("workflows", "agentworkflows"),
    ("config", "kubeopencodeconfigs"),
    ("configs", "kubeopencodeconfigs"),
];

/// One of our kinds.
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
    pub namespaced: bool,
    /// The columns of its tables.
    pub columns: Vec<Column>,
}

/// An object of one of our kinds, named by an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub kind: Kind,
    /// `None` for all objects of the kind.
    pub name: Option<String>,
}

impl Kind {
    /// All kinds, in the order of the definitions.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| api::crds().iter().map(Kind::of).collect());
        &ALL
    }

    /// Finds a kind by its singular, plural or short name, with or without the group, in any case.
    pub fn named(name: &str) -> Answer<Self> {
        let wanted = name.to_ascii_lowercase();
        let wanted = wanted.strip_suffix(&format!(".{GROUP}")).unwrap_or(&wanted).to_owned();
        let all = Self::all();
        if let Some(kind) = all.iter().find(|kind| kind.has_name(&wanted)) {
            return Ok(kind.clone());
        }
        let known: Vec<_> = all.iter().map(|kind| kind.plural.as_str()).collect();
        let names = all.iter().flat_map(|kind| [kind.singular.as_str(), kind.plural.as_str()]);
        let next = match near(&wanted, names.chain(ALIASES.map(|(alias, _)| alias))).first() {
            Some(name) => format!("did you mean '{name}'? The kinds are: {}", known.join(", ")),
            None => format!("use one of: {}", known.join(", ")),
        };
        Err(Problem::usage(format!("there is no kind '{name}'")).next(next))
    }

    /// The kind of a type.
    pub fn of_type<K: kube::Resource<DynamicType = ()>>() -> Answer<Self> {
        Self::named(&K::plural(&()))
    }

    fn has_name(&self, name: &str) -> bool {
        let is_name = |name: &str| name == self.plural || name == self.singular;
        is_name(name)
            || self.short.iter().any(|short| short == name)
            || ALIASES.iter().any(|(alias, plural)| *alias == name && *plural == self.plural)
    }

    fn of(crd: &Value) -> Self {
        let names = &crd["spec"]["names"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = &crd["spec"]["versions"][0];
        let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten();
        let mut columns: Vec<_> = columns.map(Column::of).collect();
        if names["kind"] == "Task" {
            // A printer column shows the first name of a list only.
            columns.insert(columns.len().saturating_sub(1), Column::names("ARTIFACTS", ".status.artifacts"));
        }
        Self {
            name: text(&names["kind"]),
            plural: text(&names["plural"]),
            singular: text(&names["kind"]).to_ascii_lowercase(),
            short: names["shortNames"].as_array().into_iter().flatten().map(text).collect(),
            namespaced: crd["spec"]["scope"] == "Namespaced",
            columns,
        }
    }

    /// The API resource of the kind.
    pub fn resource(&self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(GROUP, VERSION, &self.name);
        ApiResource::from_gvk_with_plural(&gvk, &self.plural)
    }

    /// The API of the kind, in one namespace or in all.
    pub fn api(&self, client: Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource()),
            None => Api::all_with(client, &self.resource()),
        }
    }

    /// `task.kubeopencode.io/fix`, as kubectl prints it.
    pub fn full_name(&self, name: &str) -> String {
        format!("{}.{GROUP}/{name}", self.singular)
    }
}

/// Parses the objects that arguments name: `tasks`, `tasks a b`, `task/a agent/b`, `tasks,agents`, `all`.
pub fn named(arguments: &[String]) -> Answer<Vec<Named>> {
    let Some((first, names)) = arguments.split_first() else {
        return Err(Problem::usage("name a kind, such as tasks or agents"));
    };
    if arguments.iter().any(|argument| argument.contains('/')) {
        return arguments.iter().map(|argument| one(argument)).collect();
    }
    if names.is_empty() && (first == "all" || first == CATEGORY) {
        return Ok(Kind::all().iter().map(|kind| Named { kind: kind.clone(), name: None }).collect());
    }
    let mut all = Vec::new();
    for kind in first.split(',') {
        let kind = Kind::named(kind)?;
        if names.is_empty() {
            all.push(Named { kind, name: None });
        } else {
            all.extend(names.iter().map(|name| Named { kind: kind.clone(), name: Some(name.clone()) }));
        }
    }
    Ok(all)
}

/// Parses `task/fix`.
fn one(argument: &str) -> Answer<Named> {
    match argument.split_once('/') {
        Some((kind, name)) if !name.is_empty() && !name.contains('/') => {
            Ok(Named { kind: Kind::named(kind)?, name: Some(name.to_owned()) })
        }
        _ => Err(Problem::usage(format!("'{argument}' is no KIND/NAME, such as task/fix"))),
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
    fn every_alias_is_a_name_of_one_kind_only() {
        for (alias, plural) in ALIASES {
            let kinds: Vec<_> = Kind::all().iter().filter(|kind| kind.has_name(alias)).collect();
            assert!(matches!(kinds.as_slice(), [kind] if kind.plural == plural), "{alias}: {kinds:?}");
        }
        check("templates a", "AgentTemplate/a");
    }

    #[test]
    fn a_mistyped_kind_is_recognized() {
        let next = |word: &str| Kind::named(word).unwrap_err().next_step().unwrap().to_owned();
        assert!(next("taks").starts_with("did you mean 'task'?"), "{}", next("taks"));
        assert!(next("tempaltes").starts_with("did you mean 'templates'?"));
        assert!(next("pods").starts_with("use one of: tasks, "));
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
