//! Moves the logs and records of an earlier version, which were files, into a store.
//!
//! A Task is removed from the files when all of it is in the store, so a move that was interrupted is continued.

use crate::{Archive, Directory, Error, Log, Owner, Run, Store, Stream, database::Statement};

/// Bytes per read. A line is shorter.
const CHUNK: usize = 4 << 20;

impl Store {
    /// Moves everything in `files` here. Returns the number of Tasks.
    pub async fn take_over(&self, files: &Directory) -> Result<usize, Error> {
        let mut moved = 0;
        for task in files.owners().await? {
            self.take_over_task(files, &task).await?;
            files.remove(&task).await?;
            moved += 1;
        }
        Ok(moved)
    }

    /// Copies everything in `files` here, which stay as they are. Returns the number of Tasks.
    ///
    /// The Tasks need not exist here. What was copied before stays as it is.
    pub async fn import_files(&self, files: &Directory) -> Result<usize, Error> {
        // What is whole there is whole here.
        let here = self.clone().with_log_limit(u64::MAX);
        let mut copied = 0;
        for task in files.owners().await? {
            let epochs = files.epochs(&task).await?;
            for epoch in &epochs {
                here.mark_copied(&Run { task: task.clone(), epoch: *epoch }).await?;
            }
            here.take_over_task(files, &task).await?;
            copied += usize::from(!epochs.is_empty());
        }
        Ok(copied)
    }

    async fn take_over_task(&self, files: &Directory, task: &Owner) -> Result<(), Error> {
        for (epoch, record) in files.records(task).await? {
            self.put_record(&Run { task: task.clone(), epoch }, record).await?;
        }
        for epoch in files.epochs(task).await? {
            let run = Run { task: task.clone(), epoch };
            if let Some(settings) = files.settings(&run).await? {
                self.put_settings(&run, settings).await?;
            }
            for stream in [Stream::Text, Stream::Records] {
                self.take_over_log(files, &Log { run: run.clone(), stream }).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn take_over_log(&self, files: &dyn Archive, log: &Log) -> Result<(), Error> {
        let Some(found) = files.find(log).await? else { return Ok(()) };
        if let Some(expiry) = found.expired {
            return self.expire_logs(&log.run, expiry, None).await;
        }
        let mut at = self.find_log(log).await?.map_or(0, |here| here.bytes);
        while at < found.bytes {
            let mut chunk = files.read(log, at, CHUNK).await?;
            let whole = chunk.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            chunk.bytes.truncate(whole);
            if chunk.bytes.is_empty() {
                break;
            }
            if chunk.at > at {
                self.skip(log, at, chunk.at).await?;
            }
            at = chunk.at + chunk.bytes.len() as u64;
            self.append_lines(log, chunk.at, &chunk.bytes).await?;
        }
        if let Some(end) = found.end {
            self.close_log(log, end).await?;
        }
        Ok(())
    }

    /// Lines that were left out already.
    async fn skip(&self, log: &Log, from: u64, to: u64) -> Result<(), Error> {
        let skip = log.statement(
            "UPDATE logs SET bytes = $5
             WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4 AND bytes = $6",
            vec![to.into(), from.into()],
        );
        let skip: Statement = skip.requires(1);
        if self.write(vec![skip]).await?.is_done() {
            return Ok(());
        }
        let found = self.find_log(log).await?.map_or(0, |found| found.bytes);
        Err(Error::Moved { log: log.clone(), expected: from, found })
    }
}
