//! The error for an object that does not exist, with what the user probably meant.

use kube::api::ListParams;

use super::{
    connect::Cluster,
    kinds::Kind,
    problem::{Answer, Problem},
};

/// Maximum number of names that are compared with the wanted one.
const COMPARED: u32 = 500;
/// Maximum number of suggested names.
const SUGGESTED: usize = 3;

/// The error for a missing object. Looks up names that the user may have meant, as far as the user may list them.
pub async fn missing(cluster: &Cluster, kind: &Kind, name: &str) -> Problem {
    // Boxed, because every command contains it and hardly any needs it.
    Box::pin(look(cluster, kind, name)).await
}

async fn look(cluster: &Cluster, kind: &Kind, name: &str) -> Problem {
    let here = match names(cluster, kind, Some(&cluster.namespace), &ListParams::default().limit(COMPARED)).await {
        Ok(names) => names.into_iter().map(|(_, name)| name).collect(),
        // The kind itself is unknown to the cluster.
        Err(kube::Error::Api(status)) if status.code == 404 => return Problem::from_status(&status),
        Err(_) => Vec::new(),
    };
    let elsewhere = if kind.namespaced {
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        names(cluster, kind, None, &params).await.unwrap_or_default().into_iter().map(|(place, _)| place).collect()
    } else {
        Vec::new()
    };
    let place = if kind.namespaced { format!(" in namespace '{}'", cluster.namespace) } else { String::new() };
    Problem::not_found(format!("there is no {} '{name}'{place}", kind.name)).next(next(kind, name, &here, &elsewhere))
}

/// Fails at once if the object does not exist. A user who may not read it is not stopped here.
pub async fn check(cluster: &Cluster, kind: &Kind, name: &str) -> Answer<()> {
    match kind.api(cluster.client.clone(), Some(&cluster.namespace)).get_metadata_opt(name).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(missing(cluster, kind, name).await),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Namespaces and names of the objects of a kind.
async fn names(
    cluster: &Cluster,
    kind: &Kind,
    namespace: Option<&str>,
    params: &ListParams,
) -> kube::Result<Vec<(String, String)>> {
    let found = kind.api(cluster.client.clone(), namespace).list_metadata(params).await?;
    let one =
        |metadata: kube::core::ObjectMeta| (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
    Ok(found.items.into_iter().map(|object| one(object.metadata)).collect())
}

/// The next step: the same name in another namespace, a similar name in this one, or the list of all.
fn next(kind: &Kind, wanted: &str, here: &[String], elsewhere: &[String]) -> String {
    let list = format!("kubeopencode get {}{}", kind.plural, if kind.namespaced { " --all-namespaces" } else { "" });
    if let Some(place) = elsewhere.first() {
        let one = format!("{} '{wanted}' exists in namespace '{place}': use -n {place}", kind.name);
        return if elsewhere.len() == 1 { one } else { format!("{one}, or list all with: {list}") };
    }
    let near = near(wanted, here.iter().map(String::as_str));
    if near.is_empty() {
        return format!("list {} with: {list}", plural(&kind.name));
    }
    let near: Vec<_> = near.into_iter().map(|name| format!("'{name}'")).collect();
    format!("did you mean {}?", near.join(" or "))
}

fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}

/// Names that a typing error may have turned into `wanted`, the most similar first.
pub fn near<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    // One error in three letters; more would suggest unrelated names.
    let tolerated = (wanted.chars().count() / 3).max(1);
    let distance = |name: &str| match strsim::osa_distance(&wanted, &name.to_lowercase()) {
        // The start of a longer name, such as `python` for `python-3`.
        distance if distance > tolerated && wanted.len() >= 3 && name.starts_with(&wanted) => tolerated,
        distance => distance,
    };
    let mut found: Vec<_> = known.into_iter().map(|name| (distance(name), name)).collect();
    found.retain(|(distance, _)| *distance <= tolerated);
    found.sort_unstable();
    found.into_iter().take(SUGGESTED).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wanted: &str, known: &[&str], expected: &[&str]) {
        assert_eq!(near(wanted, known.iter().copied()), expected);
    }

    #[test]
    fn a_typing_error_is_recognized() {
        let known = ["python", "scripted", "go"];
        check("pyhton", &known, &["python"]);
        check("Python", &known, &["python"]);
        check("scriptd", &known, &["scripted"]);
        check("script", &known, &["scripted"]);
        check("og", &known, &["go"]);
        check("nope", &known, &[]);
    }

    #[test]
    fn the_most_similar_names_come_first_and_generated_names_are_not_similar() {
        check("fixx", &["fixy", "fix", "faxx", "fixes", "other"], &["faxx", "fix", "fixy"]);
        check("task-x7k2p", &["task-b9q4m", "task-x7k2q"], &["task-x7k2q"]);
    }

    #[test]
    fn the_next_step_can_be_followed() {
        let task = Kind::named("task").unwrap();
        let here = ["fix".to_owned()];
        let check = |wanted: &str, elsewhere: &[&str], expected: &str| {
            let elsewhere: Vec<_> = elsewhere.iter().map(|place| (*place).to_owned()).collect();
            assert_eq!(next(&task, wanted, &here, &elsewhere), expected);
        };
        check("fxi", &[], "did you mean 'fix'?");
        check("other", &[], "list Tasks with: kubeopencode get tasks --all-namespaces");
        check("hello", &["demo"], "Task 'hello' exists in namespace 'demo': use -n demo");
        check(
            "hello",
            &["a", "b"],
            "Task 'hello' exists in namespace 'a': use -n a, or list all with: kubeopencode get tasks --all-namespaces",
        );
        let registry = Kind::named("reg").unwrap();
        assert_eq!(
            next(&registry, "x", &[], &[]),
            "list Registries with: kubeopencode get registries --all-namespaces"
        );
    }
}
