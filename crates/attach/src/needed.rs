//! Which libraries a program loads when it starts.
//!
//! The dynamic linker that the program names is asked, with `--list`, as `ldd` does: what it finds
//! depends on its configuration, on paths in the program and on the environment, and only it knows
//! the rules. It maps the program and its libraries, prints them and ends; no code of theirs runs.
//! Both glibc's and musl's linkers know this.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Result};

/// What a program loads when it starts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// The files.
    pub found: Vec<PathBuf>,
    /// Names for which there is no file.
    pub missing: Vec<String>,
}

/// Asks the dynamic linker of a program which libraries it would load.
///
/// # Errors
/// If it does not say.
pub fn needed_libraries(linker: &Path, program: &Path) -> Result<Needed> {
    const STEP: &str = "asking the dynamic linker for the libraries of a program";
    // A name without a slash would be looked for among the libraries.
    let program = program.canonicalize().map_err(|cause| Error::System { step: STEP, cause })?;
    let mut command = Command::new(linker);
    command.arg("--list").arg(&program).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|cause| Error::System { step: STEP, cause })?;
    let mut needed = parse(&output.stdout);
    if !output.status.success() && needed.missing.is_empty() {
        return Err(Error::Linker { linker: linker.to_owned(), status: output.status });
    }
    needed.found.push(linker.to_owned());
    Ok(needed)
}

/// Parses lines such as `libc.so.6 => /lib/libc.so.6 (0x7f...)`. What has no file has no slash.
fn parse(list: &[u8]) -> Needed {
    const ARROW: &[u8] = b" => ";
    let mut needed = Needed::default();
    for line in list.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        let arrow = line.windows(ARROW.len()).position(|part| part == ARROW);
        let (name, file) = match arrow {
            Some(at) => (&line[..at], &line[at + ARROW.len()..]),
            None => (line, line),
        };
        let end = file.windows(4).rposition(|part| part == b" (0x").unwrap_or(file.len());
        if file.starts_with(b"/") {
            needed.found.push(OsStr::from_bytes(&file[..end]).into());
        } else if arrow.is_some() && end == file.len() {
            needed.missing.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launchability::{Launchability, probe_binary};

    #[test]
    fn lists_of_linkers_are_understood() {
        let glibc = b"\tlinux-vdso.so.1 (0x00007ffd4a5f2000)\n\
            \tlibone.so => /opt/two words/libone.so (0x00007f0000000000)\n\
            \tlibtwo.so => not found\n\
            \tlibthree.so => linux-vdso.so.1 (0x00007ffd4a5f2000)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f0000400000)\n";
        let found = ["/opt/two words/libone.so", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from).to_vec();
        assert_eq!(parse(glibc), Needed { found, missing: vec!["libtwo.so".to_owned()] });
        let musl = b"\t/lib/ld-musl-x86_64.so.1 (0x7f61ad6ce000)\n\
            \tlibc.musl-x86_64.so.1 => /lib/ld-musl-x86_64.so.1 (0x7f61ad6ce000)\n";
        assert_eq!(parse(musl).found, vec![PathBuf::from("/lib/ld-musl-x86_64.so.1"); 2]);
        assert_eq!(parse(b"\tstatically linked\n"), Needed::default());
    }

    #[test]
    fn a_shell_needs_the_c_library() {
        let shell = Path::new("/bin/sh");
        let Launchability::Dynamic { linker } = probe_binary(shell) else { panic!("every system has a shell") };
        let needed = needed_libraries(&linker, shell).expect("its linker says what it needs");
        assert!(needed.found.iter().all(|path| path.is_file()), "{needed:?}");
        assert!(needed.found.iter().any(|path| path.to_string_lossy().contains("/libc.so")), "{needed:?}");
        assert!(needed.found.contains(&linker) && needed.missing.is_empty(), "{needed:?}");
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let Launchability::Dynamic { linker } = probe_binary(Path::new("/bin/sh")) else { panic!("a shell") };
        let error = needed_libraries(&linker, Path::new("/proc/self/maps")).expect_err("not a program");
        assert!(error.to_string().contains("--list"), "{error}");
    }
}
