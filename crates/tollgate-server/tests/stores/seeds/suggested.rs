//! The request that the service suggests at startup, for every file in `examples/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tollgate_testkit::servers::{Settings, Software};

use super::{keys, serve, url};
use crate::support::tollgate;

/// Every file that configures the service, with the flags that read it.
const EXAMPLES: [(&str, &[&str]); 10] = [
    ("rollout.yaml", &["--config", "FILE"]),
    ("shop.yaml", &["--config", "FILE"]),
    ("tokens.yaml", &["--config", "FILE"]),
    ("seeds/envoy-ratelimit/config/shop.yaml", &["--import", "envoy-ratelimit", "FOLDER"]),
    ("seeds/leetdezine/policies.yaml", &["--config", "FILE", "--answers", "leetdezine"]),
    ("seeds/rlaas/application.yaml", &["--import", "rlaas", "FILE"]),
    ("seeds/spring-starter/tollgate.yaml", &["--config", "FILE", "--answers", "spring-starter"]),
    ("seeds/valkey-server/limits.env", &["--import", "valkey-env"]),
    ("simulate/baseline.yaml", &["--config", "FILE"]),
    ("simulate/policies.yaml", &["--config", "FILE"]),
];

/// Adds the files below this folder that configure a service.
fn collect(folder: &Path, files: &mut BTreeSet<String>, root: &Path) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("alerts") {
            collect(&path, files, root);
        } else if path.extension().is_some_and(|extension| ["yaml", "env"].iter().any(|it| extension == *it))
        {
            let name = path.strip_prefix(root).expect("a file of the folder");
            files.insert(name.to_str().expect("a name in UTF-8").to_owned());
        }
    }
}

/// The line to try asked for what no policy of a file matched, or lacked the cost that one needs. Now it explains them.
#[test]
fn the_suggested_request_of_each_example_is_counted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files = BTreeSet::new();
    collect(&root, &mut files, &root);
    assert_eq!(files, EXAMPLES.map(|(file, _)| file.to_owned()).into(), "EXAMPLES lists each of them");

    let store = Settings::new(Software::Redis).start();
    let address = url(&store);
    for (name, flags) in EXAMPLES {
        let file = root.join(name);
        let (path, folder) =
            (file.display().to_string(), file.parent().expect("a folder").display().to_string());
        let text = fs::read_to_string(&file).expect("a file");
        let lines = text.lines().filter(|_| name.ends_with(".env"));
        let variables: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once('=')).collect();
        let given = flags.iter().map(|flag| match *flag {
            "FILE" => path.as_str(),
            "FOLDER" => folder.as_str(),
            flag => flag,
        });
        let server = serve(&variables, &given.chain(["--store", &address]).collect::<Vec<_>>());
        let to_try = server.said.last().filter(|line| line.starts_with("try ")).expect("a line to try");
        if let Some(command) = to_try.strip_prefix("try     tollgate ") {
            let arguments = command.split(' ').map(|argument| argument.trim_matches('\''));
            let explained = tollgate().args(arguments).output().expect("it runs");
            assert!(explained.status.success() && flags.contains(&"--config"), "{name}: {explained:?}");
            continue;
        }
        let address = format!("http://{}", server.public);
        let asked =
            to_try.split('\'').nth(1).and_then(|url| url.strip_prefix(&address)).expect("its own URL");
        let reply = server.get(asked);
        assert_eq!(reply.status, 200, "{name}: {to_try}: {reply:?}");
        // Envoy's service is asked by POST, so the line only shows that it is there.
        let counters: Vec<String> =
            keys(&store).into_iter().filter(|key| !key.contains("readiness")).collect();
        assert_eq!(counters.is_empty(), asked == "/healthcheck", "{name}: {to_try}: {counters:?}");
        store.command::<()>(["FLUSHALL"]);
    }
}
