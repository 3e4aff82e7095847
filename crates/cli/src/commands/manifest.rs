//! Reads manifests from files, directories and standard input.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::problem::{Answer, Problem};

/// An object from a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub object: Value,
    /// The source, for error messages.
    pub file: String,
}

/// Reads all objects of these files and directories; `-` is standard input. Subdirectories are read only if
/// `recursive`.
pub fn read(files: &[PathBuf], recursive: bool) -> Answer<Vec<Manifest>> {
    let mut all = Vec::new();
    for file in files {
        if file.as_os_str() == "-" {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map_err(|error| unreadable("standard input", &error))?;
            all.extend(parse(&text, "standard input")?);
        } else if file.is_dir() {
            for file in files_in(file, recursive)? {
                all.extend(read_file(&file)?);
            }
        } else {
            all.extend(read_file(file)?);
        }
    }
    if all.is_empty() {
        return Err(Problem::new("there are no objects in what --filename names").next(
            "name files that end with .yaml, .yml or .json, directories with such files, or - for standard input",
        ));
    }
    Ok(all)
}

fn read_file(file: &Path) -> Answer<Vec<Manifest>> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).map_err(|error| unreadable(&name, &error))?;
    parse(&text, &name)
}

fn unreadable(name: &str, error: &io::Error) -> Problem {
    Problem::new(format!("{name} cannot be read: {error}"))
}

fn files_in(directory: &Path, recursive: bool) -> Answer<Vec<PathBuf>> {
    let name = directory.display().to_string();
    let entries = fs::read_dir(directory).map_err(|error| unreadable(&name, &error))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| unreadable(&name, &error))?.path());
    }
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let is_manifest = path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
        if path.is_dir() && recursive {
            files.extend(files_in(&path, recursive)?);
        } else if path.is_file() && is_manifest {
            files.push(path);
        }
    }
    Ok(files)
}

/// Parses the objects of one file as kubectl does: 0400 is an octal number, and a List is expanded to its items.
fn parse(text: &str, file: &str) -> Answer<Vec<Manifest>> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| Problem::new(format!("{file} is no YAML or JSON: {error}")))?;
    let mut objects = Vec::new();
    for mut document in documents.into_iter().filter(|document| !document.is_null()) {
        let kind = document["kind"].as_str().unwrap_or_default();
        if kind.ends_with("List") && document["items"].is_array() {
            if let Value::Array(items) = document["items"].take() {
                objects.extend(items);
            }
        } else {
            objects.push(document);
        }
    }
    objects.into_iter().map(|object| check(object, file)).collect()
}

fn check(object: Value, file: &str) -> Answer<Manifest> {
    for key in ["apiVersion", "kind"] {
        if object[key].as_str().is_none_or(str::is_empty) {
            return Err(Problem::new(format!("{file}: an object without {key}")));
        }
    }
    if object["metadata"]["name"].as_str().is_none_or(str::is_empty) {
        let kind = object["kind"].as_str().unwrap_or_default();
        let problem = Problem::new(format!("{file}: a {kind} without metadata.name"));
        return Err(match object["metadata"]["generateName"].as_str() {
            Some(_) => problem.next("apply needs a name; kubectl create works with generateName"),
            None => problem,
        });
    }
    Ok(Manifest { object, file: file.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = match parse(text, "f") {
            Ok(all) => {
                let one = |manifest: Manifest| manifest.object["metadata"]["name"].as_str().unwrap().to_owned();
                all.into_iter().map(one).collect::<Vec<_>>().join(" ")
            }
            Err(problem) => problem.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_text_may_hold_many_objects() {
        let one = |name: &str| format!("apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n");
        check(&format!("{}---\n# nothing\n---\n{}", one("a"), one("b")), "a b");
        check(
            r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"X","metadata":{"name":"c"}}]}"#,
            "c",
        );
    }

    #[test]
    fn an_invalid_object_is_reported_with_its_file() {
        check("kind: Task\nmetadata: {name: a}", "f: an object without apiVersion");
        check("apiVersion: v1\nkind: Task", "f: a Task without metadata.name");
        assert!(parse("a: [", "f").unwrap_err().to_string().starts_with("f is no YAML or JSON: "));
    }

    #[test]
    fn a_directory_is_read_in_the_order_of_names_and_deeper_only_if_asked() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("deep")).unwrap();
        for (name, object) in [("b.yaml", "b"), ("a.yml", "a"), ("deep/c.json", "c"), ("note.txt", "x")] {
            let text = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {object}}}\n");
            fs::write(directory.path().join(name), text).unwrap();
        }
        let names = |recursive| {
            let all = read(&[directory.path().to_owned()], recursive).unwrap();
            all.iter().map(|m| m.object["metadata"]["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(false), "a b");
        assert_eq!(names(true), "a b c");
    }
}
