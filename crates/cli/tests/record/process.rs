//! Runs a command in a process group and an empty working directory of its own, with a deadline.
//!
//! Output goes to files, not pipes, so that a descendant that outlives the command cannot make the
//! harness wait.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(2);

/// Everything a run leaves behind.
#[derive(Debug)]
pub struct Outcome {
    pub ended: Ended,
    /// The signal that ended it; a shell's view does not tell that from an exit code.
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    /// Contents of the working directory.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Not compared: strobe writes here, too.
    pub stderr: String,
}

/// A shell's view of the end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code, or 128 plus the number of the signal that ended it.
    pub code: i32,
}

impl Ended {
    pub const fn by_signal(number: i32) -> Ended {
        Ended { code: 128 + number }
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Ended {
        match (status.code(), status.signal()) {
            (Some(code), _) => Ended { code },
            (None, signal) => Ended::by_signal(signal.expect("a code or a signal")),
        }
    }
}

/// Still running at the deadline; its whole process group has been killed.
#[derive(Debug)]
pub struct Hang {
    /// What was running then, and its standard error.
    pub report: String,
}

/// A command under way.
#[derive(Debug)]
pub struct Running {
    child: Child,
    folder: PathBuf,
    deadline: Instant,
    has_ended: bool,
}

impl Running {
    /// Starts `command_line`; its files live in `folder`, which is made anew.
    pub fn start(command_line: &[String], folder: &Path, limit: Duration) -> Running {
        if folder.exists() {
            fs::remove_dir_all(folder).expect("an old run's files can go");
        }
        fs::create_dir_all(folder.join("files")).expect("a writable folder");
        let create = |name: &str| File::create(folder.join(name)).expect("a writable folder");
        // Whoever runs the tests may have signals ignored, as shells do for commands in the
        // background.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,QUIT,TERM,PIPE", "--"]).args(command_line);
        command.current_dir(folder.join("files")).env("PWD", folder.join("files")).process_group(0);
        command.stdin(Stdio::null()).stdout(create("stdout")).stderr(create("stderr"));
        let child = command.spawn().unwrap_or_else(|error| panic!("{command_line:?}: {error}"));
        Running { child, folder: folder.to_owned(), deadline: Instant::now() + limit, has_ended: false }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn wait(mut self) -> Result<Outcome, Hang> {
        let mut status = None;
        self.wait_until(|running| {
            status = running.child.try_wait().expect("a child to wait for");
            status.is_some()
        })?;
        self.has_ended = true;
        let read = |name: &str| fs::read(self.folder.join(name)).expect("the file made at the start");
        Ok(Outcome {
            ended: Ended::from(status.expect("just seen")),
            signal: status.and_then(|status| status.signal()),
            stdout: read("stdout"),
            files: files_in(&self.folder.join("files")),
            stderr: String::from_utf8_lossy(&read("stderr")).into_owned(),
        })
    }

    /// The content of a file in the working directory, as soon as it is there.
    pub fn wait_for_file(&mut self, name: &str) -> Result<String, Hang> {
        let path = self.folder.join("files").join(name);
        let mut content = None;
        self.wait_until(|_| {
            content = fs::read_to_string(&path).ok();
            content.is_some()
        })?;
        Ok(content.expect("just seen"))
    }

    /// Makes an empty file in the working directory.
    pub fn give_file(&self, name: &str) {
        File::create(self.folder.join("files").join(name)).expect("a writable folder");
    }

    pub fn wait_until(&mut self, mut is_done: impl FnMut(&mut Running) -> bool) -> Result<(), Hang> {
        while !is_done(self) {
            if Instant::now() > self.deadline {
                return Err(Hang { report: self.describe() });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let stderr = fs::read(self.folder.join("stderr")).unwrap_or_default();
        let group = self.child.id();
        format!("process group {group}:\n{}{}", describe_group(group), String::from_utf8_lossy(&stderr))
    }
}

/// Nothing of a run that failed stays behind.
impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended {
            send_signal("KILL", &format!("-{}", self.child.id()));
            self.child.wait().ok();
        }
    }
}

/// `target`: a process id, or a process group with a minus sign before it.
pub fn send_signal(signal: &str, target: &str) {
    let script = format!("kill -s {signal} -- {target} 2>/dev/null");
    Command::new("sh").args(["-c", &script]).status().expect("a shell");
}

/// CPU time of a process in clock ticks; `None` when it is gone or has ended.
pub fn cpu_ticks(pid: u32) -> Option<u64> {
    let stat = Stat::read(pid)?;
    (stat.field(3) != "Z").then(|| stat.number(14) + stat.number(15))
}

/// What a process is doing, as proc(5) abbreviates it; `None` when it is gone.
pub fn process_state(pid: u32) -> Option<String> {
    Stat::read(pid).map(|stat| stat.field(3).to_owned())
}

/// Files and their contents; a folder counts as a file without content.
fn files_in(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    let entries = entries.map(|entry| entry.expect("a readable folder"));
    entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).unwrap_or_default()))
        .collect()
}

/// One line for each process of a group: what it is and what it is doing.
fn describe_group(group: u32) -> String {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let members = pids.filter_map(|pid| Some((pid, Stat::read(pid)?))).filter(|(_, s)| s.number(5) == u64::from(group));
    members.map(|(pid, stat)| describe_process(pid, &stat)).collect()
}

fn describe_process(pid: u32, stat: &Stat) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    format!(
        "  {pid} {} state {} threads {} ticks {}+{} in {:?} syscall {}\n",
        read("comm").trim_end(),
        stat.field(3),
        stat.field(20),
        stat.field(14),
        stat.field(15),
        read("wchan"),
        read("syscall").trim_end()
    )
}

/// `/proc/PID/stat` from the third field on: the second is a name that may contain anything.
struct Stat(Vec<String>);

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, after_name) = text.rsplit_once(')')?;
        Some(Stat(after_name.split_whitespace().map(str::to_owned).collect()))
    }

    /// By the number that proc(5) gives the field.
    fn field(&self, number: usize) -> &str {
        self.0.get(number - 3).map_or("", String::as_str)
    }

    fn number(&self, number: usize) -> u64 {
        self.field(number).parse().unwrap_or_default()
    }
}
