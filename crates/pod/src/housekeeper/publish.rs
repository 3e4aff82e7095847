//! The branch and the pull request: pushed here, because the agent's container has no credential for them.

use std::time::Instant;

use api::run::PublishWhen;
use domain::contract::collect::{CollectFailure, PublishPlan};

use super::collection::Collection;
use crate::publish::{self, Published};
use crate::text;

impl Collection<'_> {
    /// Whether the changes are pushed after this end of the run.
    pub(super) fn publishes(&self, plan: &PublishPlan) -> bool {
        match plan.settings.when {
            PublishWhen::OnSuccess => self.succeeded(),
            PublishWhen::Always => true,
        }
    }

    pub(super) async fn publish(&mut self) {
        let settings = self.settings;
        let Some(plan) = settings.keep.publish.as_ref().filter(|plan| self.publishes(plan)) else { return };
        let Some(publishing) = &settings.publish else { return };
        if plan.settings.when == PublishWhen::OnSuccess && self.left_too_little() {
            self.settled(&plan.branch);
            return self.note("the changes are not published, because the run did not leave what it had to".to_owned());
        }
        let begin = Instant::now();
        let done = publish::run(plan, publishing, self.run.as_ref()).await;
        let published = done.as_ref().map_or_else(|error| error.published().cloned(), |done| Some(done.clone()));
        let pushed = published.as_ref().is_some_and(|published| published.status.branch.is_some());
        if let Some(Published { status, notes }) = published {
            self.notes(notes);
            self.report.published = Some(status).filter(|_| pushed);
        }
        if pushed {
            self.stored(&plan.branch);
        } else {
            self.settled(&plan.branch);
        }
        match done {
            Ok(_) => tracing::info!("publishing took {}", text::seconds(begin.elapsed())),
            Err(error) => self.fail(CollectFailure::PublishFailed, error.to_string()),
        }
    }
}
