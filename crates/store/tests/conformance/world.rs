//! The back ends on which every case runs.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use futures::TryStreamExt as _;
use kubeopencode_store::{Archive, Directory, LOG_LIMIT, Log, OpenError, Selection, Store, read};
use testenv::{Bucket, Postgres, runner::CaseFuture};
use tokio::sync::OnceCell;

/// A name and what starts the case.
pub type Cases = &'static [(&'static str, fn(World) -> CaseFuture)];

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        &[$((stringify!($case), |world| Box::pin(async move { $case(world).await; Ok(()) }))),*]
    };
}
pub(crate) use cases;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// Files alone, as earlier versions wrote them.
    Files,
    Sqlite,
    Postgres,
    PostgresAndBucket,
}

impl World {
    pub const ALL: [Self; 4] = [Self::Files, Self::Sqlite, Self::Postgres, Self::PostgresAndBucket];
    pub const STORES: [Self; 3] = [Self::Sqlite, Self::Postgres, Self::PostgresAndBucket];

    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::PostgresAndBucket => "postgres_s3",
        }
    }

    /// A new archive.
    pub async fn case(self) -> Case {
        self.limited(LOG_LIMIT).await
    }

    /// A new archive whose logs are limited.
    pub async fn limited(self, limit: u64) -> Case {
        let place = Place::new(self).await;
        Case { archive: place.open(limit).await, limit, place }
    }

    /// A new store, which is more than an archive.
    pub async fn store(self) -> (Store, Place) {
        let place = Place::new(self).await;
        (place.store().await.unwrap(), place)
    }
}

/// Where the data of one case is.
pub struct Place {
    world: World,
    pub directory: tempfile::TempDir,
    database: String,
}

impl Place {
    async fn new(world: World) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let database = match world {
            World::Files | World::Sqlite => String::new(),
            World::Postgres | World::PostgresAndBucket => {
                let name = format!("case{}", NUMBER.fetch_add(1, Ordering::Relaxed));
                postgres().await.database(&name).unwrap()
            }
        };
        Self { world, directory: tempfile::tempdir().unwrap(), database }
    }

    async fn open(&self, limit: u64) -> Arc<dyn Archive> {
        match self.store().await {
            Some(store) => Arc::new(store.with_log_limit(limit)),
            None => Arc::new(Directory::open(self.directory.path()).unwrap().with_log_limit(limit)),
        }
    }

    /// The store; `None` for files alone.
    pub async fn store(&self) -> Option<Store> {
        if self.world == World::Files { None } else { Some(self.try_store().await.unwrap()) }
    }

    pub async fn try_store(&self) -> Result<Store, OpenError> {
        match self.world {
            World::Files | World::Sqlite => Store::directory(self.directory.path()),
            World::Postgres | World::PostgresAndBucket => {
                let (records, blobs) = self.urls().await;
                Store::open(&records, &blobs).await
            }
        }
    }

    /// The addresses of the records and of the blobs.
    pub async fn urls(&self) -> (String, String) {
        let directory = self.directory.path().to_str().unwrap();
        match self.world {
            World::Files | World::Sqlite => {
                (format!("sqlite://{directory}/records.db"), format!("file://{directory}/blobs"))
            }
            World::Postgres => (self.database.clone(), directory.to_owned()),
            World::PostgresAndBucket => (self.database.clone(), bucket_url(bucket().await, &self.prefix())),
        }
    }

    /// The part of the bucket that belongs to this place.
    fn prefix(&self) -> String {
        self.directory.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.').to_owned()
    }

    /// Leaves the mark of a future version.
    pub async fn pretend_newer_schema(&self) {
        match self.world {
            World::Files => {}
            World::Sqlite => {
                let database = rusqlite::Connection::open(self.directory.path().join("records.db")).unwrap();
                database.pragma_update(None, "user_version", 1000).unwrap();
            }
            World::Postgres | World::PostgresAndBucket => {
                let (client, connection) =
                    tokio_postgres::connect(&self.database, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                client.execute("INSERT INTO schema_version (version) VALUES (1000)", &[]).await.unwrap();
            }
        }
    }

    /// The number of uploads that did not end.
    pub async fn uploads(&self) -> i64 {
        let sql = "SELECT count(*) FROM uploads";
        match self.world {
            World::Files => 0,
            World::Sqlite => {
                let database = rusqlite::Connection::open(self.directory.path().join("records.db")).unwrap();
                database.query_row(sql, [], |row| row.get(0)).unwrap()
            }
            World::Postgres | World::PostgresAndBucket => {
                let (client, connection) =
                    tokio_postgres::connect(&self.database, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                client.query_one(sql, &[]).await.unwrap().get(0)
            }
        }
    }

    /// The files that hold blobs.
    pub async fn blobs(&self) -> Vec<PathBuf> {
        let directory = self.directory.path();
        let base = match self.world {
            World::Files | World::Sqlite => directory.join("blobs"),
            World::Postgres => directory.to_owned(),
            World::PostgresAndBucket => bucket().await.directory().join(self.prefix()),
        };
        let mut files = Vec::new();
        let mut folders = vec![base.join("sha256"), base.join("streams")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() { folders.push(entry.path()) } else { files.push(entry.path()) }
            }
        }
        files
    }
}

/// An archive as one process sees it.
pub struct Case {
    pub archive: Arc<dyn Archive>,
    limit: u64,
    place: Place,
}

impl Case {
    /// The archive as the next process sees it.
    pub async fn reopen(&mut self) {
        self.archive = self.place.open(self.limit).await;
    }

    pub async fn texts(&self, log: &Log, wanted: Selection) -> Vec<String> {
        let lines: Vec<_> = read(Arc::clone(&self.archive), log.clone(), wanted).try_collect().await.unwrap();
        lines.into_iter().map(|(_, line)| String::from_utf8(line.text).unwrap()).collect()
    }
}

pub fn bucket_url(bucket: &Bucket, prefix: &str) -> String {
    format!("s3://{}/{prefix}?endpoint={}&region=us-east-1", Bucket::NAME, bucket.endpoint())
}

/// The Postgres server that the cases share.
async fn postgres() -> &'static Postgres {
    static SHARED: OnceCell<Postgres> = OnceCell::const_new();
    SHARED.get_or_init(async || Postgres::start().await.unwrap()).await
}

/// The S3 server that the cases share.
async fn bucket() -> &'static Bucket {
    static SHARED: OnceCell<Bucket> = OnceCell::const_new();
    SHARED.get_or_init(async || Bucket::start().await.unwrap()).await
}
