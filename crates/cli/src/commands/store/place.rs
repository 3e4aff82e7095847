//! Where a store is.

use std::{
    env, fmt,
    path::{Path, PathBuf},
};

use store::Store;

use crate::commands::{
    problem::{Answer, Problem},
    screen::line,
};

/// The file of the records in the directory of a store.
const RECORDS: &str = "records.db";
/// The directory of the blobs there.
const BLOBS: &str = "blobs";

/// Which store.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Store")]
pub struct PlaceArgs {
    /// Directory of the store [default: that of `kubeopencode up`].
    #[arg(long, value_name = "DIR", conflicts_with_all = ["records", "blobs"])]
    store: Option<PathBuf>,
    /// Records of the store: `postgres://…`, or an SQLite file. Set the variable if the URL has a password: other users
    /// of a machine see arguments.
    #[arg(long, value_name = "URL", env = "KUBEOPENCODE_STORE_RECORDS", hide_env_values = true)]
    records: Option<String>,
    /// Blobs of the store: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME` with the credentials of `AWS_ACCESS_KEY_ID` and
    /// `AWS_SECRET_ACCESS_KEY`, or a directory.
    #[arg(long, value_name = "URL", env = "KUBEOPENCODE_STORE_BLOBS")]
    blobs: Option<String>,
}

/// The other store of a copy.
#[derive(Clone, Debug, Default)]
pub struct OtherArgs {
    pub directory: Option<PathBuf>,
    pub records: Option<String>,
    pub blobs: Option<String>,
}

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Directory(PathBuf),
    Urls { records: String, blobs: String },
}

impl PlaceArgs {
    /// The named store, or that of the platform on this machine.
    pub fn find(&self) -> Answer<Place> {
        let other =
            OtherArgs { directory: self.store.clone(), records: self.records.clone(), blobs: self.blobs.clone() };
        if other.directory.is_some() || other.records.is_some() || other.blobs.is_some() {
            return other.place();
        }
        let state = env::var_os("KUBEOPENCODE_STATE_DIR").map(PathBuf::from);
        let state = crate::up::state_dir(state).map_err(|error| Problem::new(error.to_string()))?;
        let store = state.join(local::platform::STORE);
        if !is_store(&store) {
            return Err(Problem::not_found(format!("{} has no store", line(&state.display().to_string())))
                .next("name one with --store DIR, or with --records and --blobs"));
        }
        Ok(Place::Directory(store))
    }
}

impl OtherArgs {
    pub fn place(self) -> Answer<Place> {
        let set = |text: Option<String>| text.filter(|text| !text.is_empty());
        match (self.directory, set(self.records), set(self.blobs)) {
            (Some(directory), _, _) => Ok(Place::Directory(directory)),
            (None, Some(records), Some(blobs)) => Ok(Place::Urls { records, blobs }),
            (None, _, _) => Err(Problem::usage("a store has records and blobs").next("name both URLs")),
        }
    }
}

impl Place {
    /// Opens a store that exists.
    pub async fn open(&self) -> Answer<Store> {
        let missing = match self {
            Self::Directory(directory) => (!is_store(directory)).then(|| directory.clone()),
            Self::Urls { records, .. } => file_of(records).filter(|file| !file.is_file()),
        };
        match missing {
            Some(missing) => {
                Err(Problem::not_found(format!("there is no store in {}", line(&missing.display().to_string())))
                    .next("check the path; the store of `kubeopencode up` is `store` in its state directory"))
            }
            None => self.create().await,
        }
    }

    /// Opens a store, which is created if necessary.
    pub async fn create(&self) -> Answer<Store> {
        let opened = match self {
            Self::Directory(directory) => Store::directory(directory),
            Self::Urls { records, blobs } => Store::open(records, blobs).await,
        };
        opened.map_err(|error| Problem::new(format!("{self} cannot be opened: {error}")))
    }

    /// Whether two stores have the same records, or the same place for blobs: a collection in one removes those of the
    /// other.
    pub fn shares_with(&self, other: &Self) -> bool {
        self.records() == other.records() || self.blobs() == other.blobs()
    }

    fn records(&self) -> String {
        match self {
            Self::Directory(directory) => real(&directory.join(RECORDS)),
            Self::Urls { records, .. } => file_of(records).map_or_else(|| records.clone(), |file| real(&file)),
        }
    }

    /// A bucket and prefix, without the options of its URL.
    fn blobs(&self) -> String {
        match self {
            Self::Directory(directory) => real(&directory.join(BLOBS)),
            Self::Urls { blobs, .. } if blobs.starts_with("s3://") => {
                blobs.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned()
            }
            Self::Urls { blobs, .. } => real(Path::new(blobs.strip_prefix("file://").unwrap_or(blobs))),
        }
    }

    /// The archive of files that this is instead of a store, as `--log-archive` names one.
    pub async fn archive(&self) -> Answer<Option<store::Directory>> {
        let Self::Directory(directory) = self else { return Ok(None) };
        if is_store(directory) || !directory.is_dir() {
            return Ok(None);
        }
        let unreadable = |error: store::Error| Problem::new(line(&error.to_string()));
        let archive = store::Directory::open(directory).map_err(unreadable)?;
        let is_empty = store::Archive::owners(&archive).await.map_err(unreadable)?.is_empty();
        Ok(Some(archive).filter(|_| !is_empty))
    }
}

/// For messages: a URL may contain a password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => write!(f, "the store {}", line(&directory.display().to_string())),
            Self::Urls { records, .. } => match records.split_once("://") {
                Some(("sqlite", path)) => write!(f, "the store {}", line(path)),
                Some((scheme, rest)) => {
                    let host = rest.split(['/', '?']).next().unwrap_or_default();
                    write!(f, "the store {scheme}://{}", line(host.rsplit('@').next().unwrap_or_default()))
                }
                None => write!(f, "the store {}", line(records)),
            },
        }
    }
}

/// A path that other paths to the same file are equal to. The file need not exist.
fn real(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = absolute.ancestors().find_map(|parent| Some((parent.canonicalize().ok()?, parent)));
    let real = known.map(|(real, parent)| match absolute.strip_prefix(parent) {
        Ok(rest) if rest.as_os_str().is_empty() => real,
        Ok(rest) => real.join(rest),
        Err(_) => absolute.clone(),
    });
    real.unwrap_or_else(|| absolute.clone()).display().to_string()
}

fn is_store(directory: &Path) -> bool {
    directory.join(RECORDS).is_file()
}

/// The file of an SQLite database; `None` for another one.
fn file_of(records: &str) -> Option<PathBuf> {
    match records.split_once("://") {
        Some(("sqlite", path)) => Some(path.into()),
        Some(_) => None,
        None => Some(records.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_does_not_contain_a_password() {
        let place = |records: &str| Place::Urls { records: records.to_owned(), blobs: "/b".to_owned() }.to_string();
        assert_eq!(place("postgres://me:secret@db:5432/records?x=secret"), "the store postgres://db:5432");
        assert_eq!(place("sqlite:///a/b"), "the store /a/b");
        assert_eq!(place("/a/b"), "the store /a/b");
    }

    #[test]
    fn two_stores_share_neither_records_nor_blobs() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path).display().to_string();
        std::fs::create_dir_all(dir.path().join("store/blobs")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("store"), dir.path().join("link")).unwrap();
        let urls = |records: &str, blobs: &str| Place::Urls { records: records.to_owned(), blobs: blobs.to_owned() };
        let store = Place::Directory(dir.path().join("store"));
        let check = |one: &Place, other: &Place, expected: bool| {
            assert_eq!((one.shares_with(other), other.shares_with(one)), (expected, expected), "{one:?} {other:?}");
        };
        check(&store, &Place::Directory(dir.path().join("link")), true);
        check(&store, &Place::Directory(dir.path().join("other")), false);
        check(&store, &urls(&at("other.db"), &at("store/blobs/")), true);
        check(&store, &urls(&at("other.db"), &format!("file://{}", at("link/blobs"))), true);
        check(&store, &urls(&format!("sqlite://{}", at("store/records.db")), &at("other")), true);
        check(&store, &urls(&at("other.db"), &at("other")), false);
        let bucket = urls("postgres://db/one", "s3://b/p?endpoint=http://x");
        check(&bucket, &urls("postgres://db/two", "s3://b/p/?endpoint=http://x&region=y"), true);
        check(&bucket, &urls("postgres://db/two", "s3://b/p2"), false);
        check(&bucket, &urls("postgres://db/one", "s3://b/p2"), true);
    }

    #[tokio::test]
    async fn an_archive_of_files_is_told_from_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::Directory(dir.path().to_owned());
        assert!(place.archive().await.unwrap().is_none());
        std::fs::create_dir_all(dir.path().join("default/7c9e6679")).unwrap();
        assert!(place.archive().await.unwrap().is_some());
        Store::directory(dir.path()).unwrap();
        assert!(place.archive().await.unwrap().is_none());
        assert!(Place::Directory(dir.path().join("none")).archive().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_store_that_is_not_there_is_not_created_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::Directory(dir.path().join("none"));
        let problem = place.open().await.unwrap_err();
        assert!(problem.to_string().starts_with("there is no store in "), "{problem}");
        assert!(!dir.path().join("none").exists());
        let records = dir.path().join("records").display().to_string();
        let blobs = dir.path().join("blobs").display().to_string();
        let urls = OtherArgs { records: Some(records), blobs: Some(blobs), ..OtherArgs::default() }.place().unwrap();
        assert!(urls.open().await.is_err());
        urls.create().await.unwrap();
        urls.open().await.unwrap();
        place.create().await.unwrap();
        assert!(place.open().await.is_ok() && place.shares_with(&place) && !place.shares_with(&urls));
        assert!(OtherArgs { records: Some("x".to_owned()), ..OtherArgs::default() }.place().is_err());
    }
}
