//! The packages for Java, which Maven builds outside their sources.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::ALL_SUITES;
use super::package::ClientProgram;
use crate::command::{CommandLine, command, target_directory};
use crate::system;

pub(super) const FOLDER: &str = "clients/java";

const DRIVER: &str = "io.github.tollgaters.client.Driver";

/// Versions of Spring Boot and Spring Cloud besides the oldest, which is the default of the build.
const NEWER: [[&str; 2]; 2] = [
    ["-Dspring-boot.version=4.1.1", "-Dspring-cloud.version=2025.1.3"],
    ["-Dspring-boot.version=4.0.8", "-Dspring-cloud.version=2025.1.3"],
];

/// Compiles the client and its client program, without the packages that need Spring.
pub(super) fn install_driver() -> Result<()> {
    system::MAVEN
        .require()
        .context("the packages for Java need JDK 17 or newer, and Maven 3.6.3 or newer")?;
    let paths = format!("-Dmdep.outputFile={}", dependencies()?.display());
    maven("test-compile dependency:build-classpath --projects client")?
        .arguments(["-DincludeScope=runtime", &paths])
        .run()
}

pub(super) fn drivers() -> Result<Vec<ClientProgram>> {
    let list = dependencies()?;
    let jars = fs::read_to_string(&list)
        .with_context(|| format!("there is no list of jars at {}", list.display()))?;
    let target = folder()?.join("tollgate-client/target");
    let paths = ["test-classes", "classes"].map(|name| target.join(name).display().to_string());
    let paths = format!("{}:{}", paths.join(":"), jars.trim());
    Ok(vec![("java", command("java -cp").arguments([paths.as_str(), DRIVER]))])
}

/// Builds and tests everything with the oldest versions, and tests the same classes with newer ones.
pub(super) fn suite() -> Result<Vec<CommandLine>> {
    let runs_all = std::env::var_os(ALL_SUITES).is_some();
    let archives = command("java clients/java/Archives.java").argument(folder()?);
    let mut commands = vec![maven("package")?, archives];
    for versions in NEWER.iter().take(if runs_all { NEWER.len() } else { 1 }) {
        commands.push(maven("test -Dmaven.main.skip=true")?.arguments(versions));
    }
    Ok(commands)
}

/// Runs Maven, whose builds go to a folder of their own. Its `--quiet` would hide the warnings that fail a build.
fn maven(words: &str) -> Result<CommandLine> {
    let build = format!("-Dbuild.folder={}/${{project.artifactId}}", folder()?.display());
    Ok(command("mvn --batch-mode -Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        .argument(build)
        .arguments(words.split_whitespace())
        .directory(FOLDER.into()))
}

/// The file that lists the jars which the client needs.
fn dependencies() -> Result<PathBuf> {
    Ok(folder()?.join("dependencies"))
}

fn folder() -> Result<PathBuf> {
    Ok(target_directory()?.join("clients/java"))
}
