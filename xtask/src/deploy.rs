//! `cargo xtask prove deploy`: checks `deploy/` with the tools of its users.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command::{command, program, target_directory};
use crate::system::{self, SystemPackage};
use crate::tools;

const SYSTEMD: SystemPackage = SystemPackage { name: "systemd", probe: "command -v systemd-analyze" };

/// Versions that the proof is known to work with.
const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.19.0";
const VALIDATORS: [&str; 2] = ["kubernetes-validate==1.37.0", "check-jsonschema==0.39.0"];

const UNIT: &str = "deploy/systemd/tollgate.service";
const CHART: &str = "deploy/helm/tollgate";
/// The chart with its default values, for users without Helm.
const MANIFEST: &str = "deploy/kubernetes/tollgate.yaml";

/// The page with the flags of the service, each of whose files the chart can mount.
const FLAGS: &str = "docs/cli.md";

/// Values that turn on everything in the chart.
const EVERYTHING: &str = "deploy/helm/everything.yaml";

/// Ten times the highest exposure level that `systemd-analyze security` may report.
const MAX_EXPOSURE: &str = "20";

/// Checks everything. With `write`, writes the rendered manifest instead of comparing it.
pub(crate) fn prove(write: bool) -> Result<()> {
    unit()?;
    chart(write)?;
    compose()?;
    println!("RESULT prove/deploy violations=0");
    Ok(())
}

fn unit() -> Result<()> {
    SYSTEMD.require()?;
    let security =
        command("systemd-analyze security --offline=true --no-pager --threshold").argument(MAX_EXPOSURE);
    let (said, outcome) = security.argument(UNIT).say()?;
    println!("{}", said.lines().last().unwrap_or_default());
    outcome?;
    // Points at a program that exists, and not at the pages of a package that is not installed.
    let text = fs::read_to_string(UNIT)?;
    let text = text.replace("/usr/bin/tollgate", "/bin/true");
    let text = text.lines().filter(|line| !line.starts_with("Documentation=")).collect::<Vec<_>>().join("\n");
    let folder = target_directory()?.join("unit");
    fs::create_dir_all(&folder)?;
    let copy = folder.join("tollgate.service");
    fs::write(&copy, text)?;
    command("systemd-analyze verify").argument(copy).run()
}

fn chart(write: bool) -> Result<()> {
    let helm = helm()?;
    let (folder, validator) = (target_directory()?.join("chart"), validator("kubernetes-validate")?);
    fs::create_dir_all(&folder)?;
    let everything = ["--values", EVERYTHING];
    for (name, values) in [("default", &[][..]), ("everything", &everything)] {
        program(&helm).arguments(["lint", "--strict", CHART]).arguments(values).run()?;
        let rendered = rendered(&helm, values)?;
        // Only Kubernetes' own kinds, not those of the Prometheus operator.
        let own = rendered.split("\n---\n").filter(|document| !document.contains("monitoring.coreos.com"));
        let file = folder.join(format!("{name}.yaml"));
        fs::write(&file, own.collect::<Vec<_>>().join("\n---\n"))?;
        program(&validator).argument("--strict").argument(&file).run()?;
        if name == "everything" {
            names_every_file(&rendered)?;
        }
        takes_the_flags(&rendered)?;
        if name == "default" {
            match write {
                true => fs::write(MANIFEST, &rendered)?,
                false => ensure!(
                    fs::read_to_string(MANIFEST)? == rendered,
                    "{MANIFEST} is not what the chart renders: run `cargo xtask prove deploy --write`"
                ),
            }
        }
    }
    let open_admin = ["--set-json", r#"networkPolicy.adminFrom=[{"podSelector":{}}]"#];
    ensure!(rendered(&helm, &open_admin).is_err(), "the admin listener is opened without tokens");
    Ok(())
}

/// Checks that the chart names a file for each flag of the service that takes one.
fn names_every_file(rendered: &str) -> Result<()> {
    let page = fs::read_to_string(FLAGS)?;
    let (_, serve) = page.split_once("\n## tollgate serve\n").context("no flags of `serve`")?;
    let (serve, _) = serve.split_once("\n## ").context("no other command")?;
    let flags = serve.lines().filter_map(|line| line.strip_prefix("- `")?.split_once(" <FILE>`"));
    let flags: Vec<&str> = flags.map(|(flag, _)| flag).collect();
    ensure!(!flags.is_empty(), "no flag takes a file");
    let missing = flags.iter().find(|flag| !rendered.contains(&format!("{flag}=")));
    ensure!(missing.is_none(), "the chart has no value for `{}`", missing.unwrap_or(&""));
    Ok(())
}

/// Starts the service with the chart's flags. It has no files, so it ends at once; but flags that contradict each other
/// are a mistake of the chart, and no pod would ever start.
fn takes_the_flags(rendered: &str) -> Result<()> {
    let (_, flags) = rendered.split_once("          args:\n").context("the chart has no arguments")?;
    let (flags, _) = flags.split_once("          ports:\n").context("the chart has no ports")?;
    let flags = flags.replace("/etc/tollgate/", "/dev/null/");
    let flags = flags.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let said = target_directory()?.join("chart/said.txt");
    command("cargo run --quiet --package tollgate-server --").arguments(flags).run_into(&said)?;
    let said = fs::read_to_string(said)?;
    ensure!(said.contains("/dev/null/"), "the service does not look for its files: {said}");
    Ok(())
}

fn rendered(helm: &Path, values: &[&str]) -> Result<String> {
    program(helm)
        .arguments(["template", "tollgate", CHART, "--namespace", "tollgate"])
        // A helm that `go install` has built assumes an old cluster.
        .arguments(["--kube-version", "1.34.0"])
        .arguments(values)
        .read()
}

/// Returns the installed program, or builds one under the target directory.
fn helm() -> Result<PathBuf> {
    if command("helm version").succeeds() {
        return Ok("helm".into());
    }
    let folder = target_directory()?.join("helm");
    if !folder.join("helm").exists() {
        system::GO.require()?;
        let path = folder.to_str().context("the target directory is no text")?;
        command("go install").argument(HELM).environment("GOBIN", path).run()?;
    }
    Ok(folder.join("helm"))
}

/// Installs the program into a virtual environment under the target directory.
fn validator(name: &str) -> Result<PathBuf> {
    let environment = target_directory()?.join("validators");
    tools::make_environment(&environment)?;
    let python = environment.join("bin/python");
    program(&python).arguments(["-m", "pip", "install", "--quiet"]).arguments(VALIDATORS).run()?;
    Ok(environment.join("bin").join(name))
}

fn compose() -> Result<()> {
    let file = "deploy/compose/compose.yaml";
    program(&validator("check-jsonschema")?)
        .arguments(["--builtin-schema", "vendor.compose-spec", file])
        .run()?;
    if command("docker compose version").succeeds() {
        command("docker compose --file").argument(file).arguments(["config", "--quiet"]).run()?;
    } else {
        println!("docker compose is not there: the file was held against its schema alone");
    }
    Ok(())
}
