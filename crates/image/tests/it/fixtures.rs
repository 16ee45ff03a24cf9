//! Builds small programs and runs the tools that read them. A missing tool fails the test that
//! needs it.

use image::Image;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Files of the system that every Debian installation with a compiler and Python has.
pub const SYSTEM_FILES: [&str; 4] =
    ["/bin/true", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/bin/python3.11"];

/// A file in a folder of its own, which goes away with it.
pub struct Fixture {
    folder: TempDir,
    pub path: PathBuf,
    pub data: Vec<u8>,
}

impl Fixture {
    /// The image in the file; any damage reported in it is a failure.
    pub fn image(&self) -> Image<'_> {
        intact(&self.data)
    }

    /// A file beside the fixture.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The fixture after a tool has changed a copy of it: `arguments` come between the program and
    /// the two file names.
    pub fn changed_by(&self, program: &str, arguments: &[&str]) -> Fixture {
        let folder = TempDir::new().expect("temporary folder");
        let path = folder.path().join("changed");
        let mut command = Command::new(program);
        command.args(arguments).arg(&self.path);
        if program == "strip" {
            command.arg("-o");
        }
        execute(command.arg(&path));
        Fixture::open(folder, path)
    }

    /// The same file without section headers, as `sstrip` makes it.
    pub fn without_sections(&self) -> Vec<u8> {
        let mut data = self.data.clone();
        data[40..48].fill(0);
        data[58..64].fill(0);
        data
    }

    fn open(folder: TempDir, path: PathBuf) -> Fixture {
        let data = std::fs::read(&path).expect("the tool wrote its output");
        Fixture { folder, path, data }
    }
}

/// Compiles one of the `sources` beside this file with `gcc` or `g++`.
pub fn compile(source: &str, flags: &[&str]) -> Fixture {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sources");
    let compiler = if source.ends_with(".cpp") { "g++" } else { "gcc" };
    let folder = TempDir::new().expect("temporary folder");
    let path = folder.path().join("built");
    execute(Command::new(compiler).current_dir(sources).arg(source).args(flags).arg("-o").arg(&path));
    Fixture::open(folder, path)
}

/// The ways to link a program, each with its compiler flags.
pub const LINKINGS: [(&str, &[&str]); 9] = [
    ("pie", &["-O2", "-fPIE", "-pie"]),
    ("fixed addresses", &["-O1", "-no-pie", "-fno-pie"]),
    ("static", &["-O2", "-static"]),
    ("static pie", &["-O2", "-static-pie", "-fPIE"]),
    ("packed relocations", &["-O2", "-pie", "-fPIE", "-Wl,-z,pack-relative-relocs"]),
    ("branch tracking", &["-O2", "-fcf-protection=full", "-Wl,-z,ibtplt"]),
    ("no linkage table", &["-O2", "-fno-plt"]),
    ("bound at start", &["-O2", "-Wl,-z,now"]),
    ("gold", &["-O2", "-fuse-ld=gold"]),
];

pub fn intact(data: &[u8]) -> Image<'_> {
    let image = Image::parse(data).expect("a program of this machine");
    assert_eq!(image.problems(), [], "no damage in an undamaged file");
    image
}

/// Runs a tool on a file and returns what it prints.
pub fn output(program: &str, arguments: &[&str], file: &Path) -> String {
    execute(Command::new(program).args(arguments).arg(file))
}

pub fn execute(command: &mut Command) -> String {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            panic!("{:?} cannot be run ({error}); the tests need gcc, binutils and xz", command.get_program())
        }
    };
    assert!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn hex(digits: &str) -> u64 {
    u64::from_str_radix(digits.trim_start_matches("0x"), 16).expect("a hexadecimal number")
}
