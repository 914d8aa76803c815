//! Programs from packages of Debian, unpacked under the target directory. They are not installed, because Debian starts
//! a server as soon as it is.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::command::{CommandLine, command, target_directory};
use crate::system;

/// A program, and the packages that have it and the libraries that few systems have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpackedProgram {
    program: &'static str,
    path: &'static str,
    packages: &'static str,
}

pub(crate) const APACHE: UnpackedProgram = UnpackedProgram {
    program: "apache2",
    path: "usr/sbin/apache2",
    packages: "apache2-bin libapr1 libaprutil1 libpcre2-8-0",
};
pub(crate) const CADDY: UnpackedProgram =
    UnpackedProgram { program: "caddy", path: "usr/bin/caddy", packages: "caddy" };
pub(crate) const FAKETIME: UnpackedProgram =
    UnpackedProgram { program: "faketime", path: "usr/bin/faketime", packages: "faketime libfaketime" };
pub(crate) const HAPROXY: UnpackedProgram = UnpackedProgram {
    program: "haproxy",
    path: "usr/sbin/haproxy",
    packages: "haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1",
};
pub(crate) const NGINX: UnpackedProgram =
    UnpackedProgram { program: "nginx", path: "usr/sbin/nginx", packages: "nginx" };
/// A part of Prometheus.
pub(crate) const PROMTOOL: UnpackedProgram =
    UnpackedProgram { program: "promtool", path: "usr/bin/promtool", packages: "prometheus" };

impl UnpackedProgram {
    /// Returns the program that is installed, or else the unpacked one.
    pub(crate) fn program(self) -> Result<PathBuf> {
        // Not everybody's path has the folders of servers.
        let find = format!("PATH=\"$PATH:/usr/sbin:/usr/local/sbin\" command -v {}", self.program);
        if let Ok(found) = command("sh -c").argument(find).read() {
            return Ok(found.trim().into());
        }
        let program = self.folder()?.join(self.path);
        if !program.exists() {
            self.unpack().with_context(|| {
                format!("{} is missing, and cannot be unpacked from Debian's packages", self.program)
            })?;
        }
        Ok(program)
    }

    /// Returns a file in the folders of libraries: of the system, or else of what is unpacked.
    pub(crate) fn library(self, file: &str) -> Result<PathBuf> {
        self.program()?;
        let unpacked = self.libraries()?;
        let installed = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|folder| folder.path());
        let mut found =
            installed.chain(unpacked.split(':').map(PathBuf::from)).map(|folder| folder.join(file));
        found.find(|library| library.exists()).with_context(|| format!("{} has no {file}", self.packages))
    }

    /// Returns the folders of the unpacked libraries, for `LD_LIBRARY_PATH`.
    pub(crate) fn libraries(self) -> Result<String> {
        let Ok(folders) = fs::read_dir(self.folder()?.join("usr/lib")) else { return Ok(String::new()) };
        let folders = folders.map(|folder| Ok(folder?.path().display().to_string()));
        Ok(folders.collect::<Result<Vec<_>>>()?.join(":"))
    }

    fn folder(self) -> Result<PathBuf> {
        Ok(target_directory()?.join("unpacked").join(self.program))
    }

    fn unpack(self) -> Result<()> {
        ensure!(
            command("apt-get --version").succeeds(),
            "there is no apt-get here: install {}",
            self.program
        );
        let folder = self.folder()?;
        fs::create_dir_all(&folder)?;
        let in_folder = |line: CommandLine| line.directory(folder.clone());
        let download = in_folder(command("apt-get download").arguments(self.packages.split_whitespace()));
        // The lists may be missing or old; packages that can be had without them still are.
        if download.run().is_err() && system::may_install() {
            let _ = command("apt-get update").run();
            download.run()?;
        }
        // The program is there only if all of it is.
        let unpack = "for package in *.deb; do dpkg-deb --extract \"$package\" new || exit; done; \
                      cp --archive --force new/. . && rm -r new *.deb";
        in_folder(command("sh -c").argument(unpack)).run()
    }
}
