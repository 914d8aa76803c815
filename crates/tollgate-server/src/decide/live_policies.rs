//! The live policies, kept in step with their files.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tollgate_policy::{Change, Config, Generation, PolicyLimiter, PolicySet};

use crate::live::record::Changes;
use crate::live::target::LiveTarget;
use crate::observe::stopwatch::Stopwatch;
use crate::overrides::warn_of_inert;
use crate::store::ServedStore;

/// The policies of a limiter.
pub(crate) struct LivePolicies {
    limiter: Arc<PolicyLimiter<ServedStore>>,
}

impl LivePolicies {
    pub(crate) const fn new(limiter: Arc<PolicyLimiter<ServedStore>>) -> Self {
        Self { limiter }
    }
}

impl LiveTarget for LivePolicies {
    const NAME: &'static str = "policies";

    type Content = Config;

    fn go_live(&mut self, config: Config, source: &str) -> Option<Changes> {
        let before = self.limiter.live();
        let changes = before.policies().changes(config.policies());
        let changes = Changes::of(changes.iter().map(Change::to_string))?;
        let policies = config.into_policies();
        // Before they are live, so that nobody waits for it.
        let _ = policies.generation();
        let after = self.limiter.replace(policies, source);
        warn_of_inert(Some(before.overrides()), after.overrides());
        free_here(before);
        Some(changes)
    }

    fn version(&self) -> u64 {
        self.limiter.live().version()
    }

    fn generation(&self) -> Option<Generation> {
        Some(self.limiter.live().policies().generation())
    }
}

/// Frees policies on this thread. The last holder frees them, which takes a tenth of a second if they are many, and a
/// request that is being decided holds them as well.
fn free_here(policies: Arc<PolicySet>) {
    const MAX_WAIT: Duration = Duration::from_secs(1);
    const STEP: Duration = Duration::from_millis(1);
    let waiting = Stopwatch::start();
    while Arc::strong_count(&policies) > 1 && waiting.elapsed() < MAX_WAIT {
        thread::sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tollgate::MemoryStore;

    use super::*;
    use crate::decide::policy_files::PolicyFiles;
    use crate::live::cause::Cause;
    use crate::live::reload::{Reload, Reloads};
    use crate::live::target::ReloadResult;
    use crate::store::fit::StoreFlags;

    /// A file that was removed and came back unchanged stayed "not live", because its text was known. And if the log
    /// was written to the same folder, each line about the missing file caused the next.
    #[test]
    fn a_missing_file_is_logged_once_and_is_live_again_when_it_returns() {
        let folder = std::env::temp_dir().join(format!("tollgate-reload-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, away) = (folder.join("t.yaml"), folder.join("away.yaml"));
        fs::write(&path, "policies: []").unwrap();
        let (file, config) = PolicyFiles::load(std::slice::from_ref(&path), &StoreFlags::default()).unwrap();
        let limiter =
            PolicyLimiter::new(ServedStore::Memory(MemoryStore::new()), config.into_policies(), file.name());
        let reloads = Reloads::new(file, LivePolicies::new(Arc::new(limiter)));
        let failed = || reloads.state().counts()[2];

        fs::rename(&path, &away).unwrap();
        let error = reloads.reload(Cause::Watch).unwrap_err().to_string();
        assert!(error.contains("t.yaml: No such file"), "{error}");
        assert_eq!(reloads.reload(Cause::Watch).unwrap_err().to_string(), error);
        assert_eq!(failed(), ("failed", 1));
        let _ = reloads.reload(Cause::Signal).unwrap_err();
        assert_eq!(failed(), ("failed", 2), "a requested reload is logged again");

        fs::rename(&away, &path).unwrap();
        assert_eq!(reloads.reload(Cause::Watch).unwrap(), ReloadResult::Unchanged(1));
        assert!(reloads.state().failure().is_none());
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A second look at a file that was still invalid reset the age of the policies.
    #[test]
    fn policies_grow_old_while_their_file_is_not_valid() {
        let folder = std::env::temp_dir().join(format!("tollgate-age-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("t.yaml");
        fs::write(&path, "policies: []").unwrap();
        let (file, config) = PolicyFiles::load(std::slice::from_ref(&path), &StoreFlags::default()).unwrap();
        let limiter =
            PolicyLimiter::new(ServedStore::Memory(MemoryStore::new()), config.into_policies(), file.name());
        let reloads = Reloads::new(file, LivePolicies::new(Arc::new(limiter)));

        let looked = Stopwatch::start();
        assert_eq!(reloads.reload(Cause::Watch).unwrap(), ReloadResult::Unchanged(1));
        assert!(reloads.state().age() <= looked.elapsed());

        let broken = Stopwatch::start();
        fs::write(&path, "policies: [{ name: broken }]").unwrap();
        let _ = reloads.reload(Cause::Watch).unwrap_err();
        assert_eq!(reloads.reload(Cause::Watch).unwrap(), ReloadResult::Unchanged(1), "it is logged once");
        let since = broken.elapsed();
        assert!(reloads.state().age() >= since);
        fs::remove_dir_all(&folder).unwrap();
    }
}
