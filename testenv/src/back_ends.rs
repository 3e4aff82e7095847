//! The back ends of a store: Postgres of Debian, and an S3 server. They listen on the loopback interface only, and end
//! with this process.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Error, Program, assets,
    process::{Leash, write},
    tool,
};

const LIMIT: Duration = Duration::from_mins(1);
/// The user that the Debian package makes; the server refuses to run as root.
const USER: &str = "postgres";

/// A Postgres server with an empty database.
#[derive(Debug)]
pub struct Postgres {
    leash: Leash,
    programs: PathBuf,
    data: PathBuf,
    port: u16,
}

impl Postgres {
    /// Makes a database and starts the server.
    pub async fn start() -> Result<Self, Error> {
        let leash = Leash::new(None, None)?;
        let data = leash.dir().join("data");
        let programs = programs()?;
        // The server's user must reach its directory.
        let open = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(leash.dir(), open).map_err(write(leash.dir()))?;
        tool::run(Command::new("install").args(["-d", "-m", "0700"]).args(owner()).arg(&data))
            .map_err(assets::Error::Tool)?;
        let mut initdb = Command::new(programs.join("initdb"));
        // Durability is not what is tested here: a server that is killed keeps what it wrote to the page cache.
        initdb.args(["--auth=trust", "--username=kubeopencode", "--no-sync", "--encoding=UTF8", "-D"]).arg(&data);
        tool::run(&mut as_user(&initdb)).map_err(assets::Error::Tool)?;
        let mut this = Self { leash, programs, data, port: free_port() };
        this.run().await?;
        Ok(this)
    }

    async fn run(&mut self) -> Result<(), Error> {
        let mut server = Command::new(self.programs.join("postgres"));
        server.arg("-D").arg(&self.data).args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        server.args(["-c", "fsync=off", "-c", "max_connections=200", "-p", &self.port.to_string()]);
        self.leash.spawn("postgres", as_user(&server))?;
        let (programs, port) = (self.programs.clone(), self.port.to_string());
        let ready = || {
            let mut probe = Command::new(programs.join("pg_isready"));
            std::future::ready(tool::run(probe.args(["-q", "-h", "127.0.0.1", "-p", &port])).is_ok())
        };
        Ok(self.leash.until("postgres", "readiness", LIMIT, ready).await?)
    }

    /// The URL of a database of this name, which is made if necessary.
    pub fn database(&self, name: &str) -> Result<String, Error> {
        let mut create = Command::new(self.programs.join("createdb"));
        create.args(["-h", "127.0.0.1", "-U", "kubeopencode", "-p", &self.port.to_string(), name]);
        tool::run(&mut create).map_err(assets::Error::Tool)?;
        Ok(format!("postgres://kubeopencode@127.0.0.1:{}/{name}?sslmode=disable", self.port))
    }

    /// Kills the server as a machine that fails does.
    pub fn kill(&mut self) {
        self.leash.kill("postgres");
    }

    /// Starts the killed server again, at the same address.
    pub async fn start_again(&mut self) -> Result<(), Error> {
        self.run().await
    }
}

/// An S3 server with one bucket.
#[derive(Debug)]
pub struct Bucket {
    leash: Leash,
    port: u16,
}

impl Bucket {
    pub const NAME: &str = "results";
    pub const ACCESS_KEY: &str = "access";
    pub const SECRET_KEY: &str = "not-so-secret";

    /// Starts the server with an empty bucket.
    pub async fn start() -> Result<Self, Error> {
        let leash = Leash::new(None, None)?;
        let bucket = leash.dir().join("objects").join(Self::NAME);
        std::fs::create_dir_all(&bucket).map_err(write(&bucket))?;
        let mut this = Self { leash, port: free_port() };
        this.run().await?;
        Ok(this)
    }

    async fn run(&mut self) -> Result<(), Error> {
        let mut server = Command::new(Program::Versitygw.obtain()?);
        server.args(["--port", &format!("127.0.0.1:{}", self.port), "posix"]).arg(self.leash.dir().join("objects"));
        server.env("ROOT_ACCESS_KEY_ID", Self::ACCESS_KEY).env("ROOT_SECRET_ACCESS_KEY", Self::SECRET_KEY);
        self.leash.spawn("versitygw", server)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let ready = || std::future::ready(TcpStream::connect(address).is_ok());
        Ok(self.leash.until("versitygw", "readiness", LIMIT, ready).await?)
    }

    /// The address of the server.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where the server keeps the objects of the bucket.
    pub fn directory(&self) -> PathBuf {
        self.leash.dir().join("objects").join(Self::NAME)
    }

    /// Kills the server as a machine that fails does.
    pub fn kill(&mut self) {
        self.leash.kill("versitygw");
    }

    /// Starts the killed server again, at the same address.
    pub async fn start_again(&mut self) -> Result<(), Error> {
        self.run().await
    }
}

/// The directory of the newest installed server.
fn programs() -> Result<PathBuf, Error> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).max();
    let missing = || tool::Error::Missing { tool: "postgres".to_owned(), remedy: "apt-get install postgresql-15" };
    let version = newest.ok_or_else(|| Error::from(assets::Error::Tool(missing())))?;
    Ok(Path::new("/usr/lib/postgresql").join(version.to_string()).join("bin"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn owner() -> &'static [&'static str] {
    if is_root() { &["-o", USER] } else { &[] }
}

/// The command as the user of the server, if this process is root.
fn as_user(command: &Command) -> Command {
    let mut whole = if is_root() {
        let mut whole = Command::new("setpriv");
        whole.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(command.get_program());
        whole
    } else {
        Command::new(command.get_program())
    };
    whole.args(command.get_args());
    whole
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).map_or(0, |address| address.port())
}
