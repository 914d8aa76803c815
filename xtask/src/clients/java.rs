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

/// What the suite plays with [`NEWER`] versions.
pub(super) const ONLY_WITH_ALL: &str = "newer versions of Spring";

/// Versions of Spring Boot and Spring Cloud besides the oldest, which is the default of the build.
const NEWER: [[&str; 2]; 2] = [
    ["-Dspring-boot.version=4.1.1", "-Dspring-cloud.version=2025.1.3"],
    ["-Dspring-boot.version=4.0.8", "-Dspring-cloud.version=2025.1.3"],
];

/// Keeps the classes that were compiled against the oldest versions.
const SAME_CLASSES: &str = "-Dmaven.main.skip=true";

/// Compiles the client and its client program, without the packages that need Spring.
pub(super) fn install_driver() -> Result<()> {
    require()?;
    maven("test-compile --projects client")?.arguments(class_path_list()?).run()
}

pub(super) fn drivers() -> Result<Vec<ClientProgram>> {
    let paths = class_path("tollgate-client", &["test-classes", "classes"])?;
    let java = command("java -cp").arguments([paths.as_str(), DRIVER]);
    Ok(vec![("java", java.clone()), ("java with futures", java.argument("async"))])
}

/// Builds the apps of the proofs, and returns their class path.
pub(super) fn apps() -> Result<String> {
    require()?;
    let build = maven("compile --activate-profiles proofs --projects apps --also-make")?;
    build.arguments(class_path_list()?).run()?;
    class_path("tollgate-apps", &["classes"])
}

/// Builds everything without tests, which downloads what these need with each of the versions. `dependency:resolve` and
/// `dependency:go-offline` would leave plugins out, or parts of them.
pub(super) fn install_suite() -> Result<()> {
    let build = maven("package -DskipTests -Dmaven.javadoc.skip=true")?;
    build.clone().run()?;
    newer().iter().try_for_each(|versions| build.clone().argument(SAME_CLASSES).arguments(versions).run())
}

/// Builds and tests everything with the oldest versions. If all suites run, tests the same classes with newer ones.
pub(super) fn suite() -> Result<Vec<CommandLine>> {
    let archives = command("java clients/java/Archives.java").argument(folder()?);
    let mut commands = vec![maven("package")?, archives];
    for versions in newer() {
        commands.push(maven("test")?.argument(SAME_CLASSES).arguments(versions));
    }
    Ok(commands)
}

/// Returns the newer versions to test with: all or none.
fn newer() -> &'static [[&'static str; 2]] {
    if std::env::var_os(ALL_SUITES).is_some() { &NEWER } else { &[] }
}

fn require() -> Result<()> {
    system::MAVEN.require().context("the packages for Java need JDK 17 or newer, and Maven 3.6.3 or newer")
}

/// Runs Maven, whose builds go to a folder of their own. Its `--quiet` would hide the warnings that fail a build. What
/// tests print is kept next to their reports.
fn maven(words: &str) -> Result<CommandLine> {
    let build = format!("-Dbuild.folder={}/${{project.artifactId}}", folder()?.display());
    Ok(command("mvn --batch-mode -Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        .argument("-Dmaven.test.redirectTestOutputToFile=true")
        .argument(build)
        .arguments(words.split_whitespace())
        .directory(FOLDER.into()))
}

/// Lets Maven list the jars that each module needs when it runs.
fn class_path_list() -> Result<[String; 3]> {
    let file = format!("-Dmdep.outputFile={}/${{project.artifactId}}.classpath", folder()?.display());
    Ok(["dependency:build-classpath".to_owned(), "-DincludeScope=runtime".to_owned(), file])
}

/// Returns the class path of a module that was compiled.
fn class_path(artifact: &str, classes: &[&str]) -> Result<String> {
    let list = folder()?.join(format!("{artifact}.classpath"));
    let jars = fs::read_to_string(&list)
        .with_context(|| format!("there is no list of jars at {}", list.display()))?;
    let target = folder()?.join(artifact).join("target");
    let folders = classes.iter().map(|name| target.join(name).display().to_string());
    Ok(folders.chain([jars.trim().to_owned()]).collect::<Vec<_>>().join(":"))
}

fn folder() -> Result<PathBuf> {
    Ok(target_directory()?.join("clients/java"))
}
