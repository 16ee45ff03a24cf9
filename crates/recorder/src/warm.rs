//! Translating programs before they are recorded, so that their first recording starts as a later
//! one does: for images of containers, and for fleets.
//!
//! What a program loads when it starts is known from its dynamic linker; what it opens by itself
//! later is not. A module is translated as in a recording ([`crate::translation`]), and what is in
//! the cache already is left as it is, but counts as used.

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use attach::{Launchability, Needed};
use image::{Image, ImageKind};
use wire::clusters::{LIBRARIES, PROGRAM};

use crate::cache::{self, runtime_file};
use crate::error::{Error, Result, refused};
use crate::plan::Mode;
use crate::session::is_volatile;
use crate::translation::guide::Guide;
use crate::translation::{Content, FileKey, Translator};

/// A program or library to be translated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Module(FileKey);

/// The modules of some programs.
#[derive(Debug, Default)]
pub struct Modules {
    /// Each once, programs before their libraries.
    pub modules: Vec<Module>,
    /// Libraries that were not found, with the programs that need them.
    pub missing: Vec<(PathBuf, String)>,
    seen: HashSet<Module>,
}

impl Module {
    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Processes know their files by their real paths.
    fn new(path: &Path, cluster: usize) -> Result<Module> {
        let io = |cause| Error::io(path.display())(cause);
        let path = fs::canonicalize(path).map_err(io)?;
        let metadata = fs::metadata(&path).map_err(io)?;
        Ok(Module(FileKey { path, device: metadata.dev(), inode: metadata.ino(), cluster }))
    }

    fn kernel_code() -> Module {
        Module(FileKey { path: attach::VDSO.into(), device: 0, inode: 0, cluster: LIBRARIES })
    }
}

impl Modules {
    /// Adds a program and the libraries that it loads when it starts, or the interpreter of a
    /// script, or a library by itself.
    ///
    /// # Errors
    /// If it is nothing that can be recorded.
    pub fn add(&mut self, binary: &Path) -> Result<()> {
        match attach::probe_binary(binary) {
            Launchability::Script { interpreter, then } if then.is_profilable() => self.add(&interpreter),
            Launchability::Missing => refused(format!("{}: no such file; check the path", binary.display())),
            Launchability::Dynamic { linker } if !is_library(binary) => self.add_program(binary, &linker),
            _ if is_library(binary) => {
                self.push(Module::new(binary, LIBRARIES)?);
                Ok(())
            }
            _ => refused(format!(
                "{}: not a program that can be recorded, nor a library; `strobe record` says why",
                binary.display()
            )),
        }
    }

    fn add_program(&mut self, program: &Path, linker: &Path) -> Result<()> {
        let Needed { found, missing } = attach::needed_libraries(linker, program)?;
        self.push(Module::new(program, PROGRAM)?);
        for library in found.iter().filter(|path| !is_volatile(path)) {
            self.push(Module::new(library, LIBRARIES)?);
        }
        self.push(Module::kernel_code());
        self.missing.extend(missing.into_iter().map(|name| (program.to_owned(), name)));
        Ok(())
    }

    fn push(&mut self, module: Module) {
        if self.seen.insert(module.clone()) {
            self.modules.push(module);
        }
    }
}

fn is_library(path: &Path) -> bool {
    // Opening a named pipe would wait for a writer that never comes.
    let bytes = fs::metadata(path).is_ok_and(|metadata| metadata.is_file()).then(|| fs::read(path).ok()).flatten();
    bytes.is_some_and(|bytes| Image::parse(&bytes).is_ok_and(|image| image.kind() == ImageKind::SharedObject))
}

/// Makes sure that a module is in the cache, as recordings in this mode use it. Returns whether it
/// was not.
///
/// # Errors
/// If it cannot be translated, or nothing can be kept.
pub fn warm(module: &Module, mode: &Mode) -> Result<bool> {
    cache::folder_or_why()?;
    let n_threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    // One for each module, because it keeps what it has translated in memory.
    let translator = Translator::new(true, Content::of_mode(mode), mode.keeps_flow(), Guide::default(), n_threads);
    let named = |why: String| Error::Refused(format!("{}: {why}", module.path().display()));
    let translation = translator.get(&module.0).map_err(named)?;
    translator.find_code(&module.0, &translation)?;
    translator.written().map_err(|cause| named(format!("its translation cannot be kept: {cause}")))
}

/// Puts the library that programs load where recordings look for it.
///
/// # Errors
/// If there is no place for it.
pub fn install_runtime() -> Result<()> {
    runtime_file::install().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_the_modules_of_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let [mut of_script, mut of_shell] = [Modules::default(), Modules::default()];
        of_script.add(&script).unwrap();
        of_shell.add(Path::new("/bin/sh")).unwrap();
        assert_eq!(of_script.modules, of_shell.modules);
        let clusters: Vec<usize> = of_shell.modules.iter().map(|module| module.0.cluster).collect();
        assert!(clusters.len() >= 4 && clusters[0] == PROGRAM, "{clusters:?}");
        assert!(clusters[1..].iter().all(|&cluster| cluster == LIBRARIES), "{clusters:?}");
        of_shell.add(&script).unwrap();
        assert_eq!(of_script.modules, of_shell.modules, "each once");
    }

    #[test]
    fn a_library_is_one_module_and_data_is_none() {
        let mut of_shell = Modules::default();
        of_shell.add(Path::new("/bin/sh")).unwrap();
        let library = of_shell.modules[1].clone();
        let mut modules = Modules::default();
        modules.add(library.path()).unwrap();
        assert_eq!(modules.modules, [library]);
        for other in ["/proc/self/maps", "/", "/dev/null", "/no/such/file"] {
            assert!(modules.add(Path::new(other)).is_err(), "{other}");
        }
    }
}
