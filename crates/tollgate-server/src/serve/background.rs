//! The parts of the service that run by themselves.

use std::pin::Pin;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::signals::hangup;
use crate::live::follow;
use crate::live::reload::{FileSource, Reloads};
use crate::live::target::LiveTarget;

/// A part of the service that runs by itself and has not started.
pub(super) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Parts that run until the service has stopped.
#[derive(Default)]
pub(super) struct BackgroundTasks(Vec<Task>);

impl BackgroundTasks {
    pub(super) fn add(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.push(Box::pin(task));
    }

    /// Keeps a target in step with its files.
    ///
    /// # Errors
    ///
    /// If SIGHUP cannot be caught.
    pub(super) fn follow<S: FileSource, T: LiveTarget<Content = S::Content>>(
        &mut self,
        reloads: Arc<Reloads<S, T>>,
    ) -> anyhow::Result<()> {
        self.add(follow::keep_in_step(reloads, hangup()?));
        Ok(())
    }

    /// Starts all parts. They stop when the result is dropped.
    pub(super) fn start(self) -> JoinSet<()> {
        self.0.into_iter().collect()
    }
}
