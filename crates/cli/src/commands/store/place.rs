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

    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Directory(one), Self::Directory(other)) => {
                let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
                real(one) == real(other)
            }
            (one, other) => one == other,
        }
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
        assert!(place.open().await.is_ok() && place.is_same(&place) && !place.is_same(&urls));
        assert!(OtherArgs { records: Some("x".to_owned()), ..OtherArgs::default() }.place().is_err());
    }
}
