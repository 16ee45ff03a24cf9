//! The whole life of a process in a session, with a small C program in the place of the runtime.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use attach::{Error, Joined, Launch, Listener, MappedModule, Mode, PathEnds, Placed, Process, Settings};
use wire::clusters::{LEADER, LIBRARIES, PROGRAM};
use wire::control::{Control, FILE_BYTES, MODULES_OFFSET, TickSource};
use wire::recovery::Run;
use wire::sample::{EndReason, SampleHeader};
use wire::thread::{AREA_BYTES, FIRST_SEGMENT, MAGIC, MAX_THREADS, ThreadHeader};

const SETTINGS: Settings = Settings {
    enabled: true,
    tick_interval_ns: 1_000_000,
    tick_source: TickSource::Off,
    seed: 1,
    mode: Mode::Bursts { checks: 1000, stack_bytes: 4096, ends: PathEnds::ALL, values: None },
};

/// Compiles with gcc, which must be there.
fn compile(arguments: &[&str], source: &Path, to: &Path) {
    let output = Command::new("gcc").args(["-O1", "-o"]).arg(to).arg(source).args(arguments).output();
    let output = output.expect("gcc is needed for this test (package gcc)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn fake_runtime(directory: &Path, more: &[&str]) -> PathBuf {
    let defines = [
        ("VERSION", u64::from(wire::VERSION)),
        ("CONTROL_BYTES", FILE_BYTES),
        ("ARENA_BYTES", AREA_BYTES * MAX_THREADS as u64),
        ("FIRST_SEGMENT", FIRST_SEGMENT),
        ("MAGIC", MAGIC),
        ("MODULES_OFFSET", MODULES_OFFSET),
        ("HEADER_BYTES", size_of::<SampleHeader>() as u64),
        ("OFFSET_SEGMENTS", offset_of!(ThreadHeader, stream.segments) as u64),
        ("OFFSET_CURSOR", offset_of!(ThreadHeader, burst.cursor) as u64),
        ("OFFSET_STATE", offset_of!(ThreadHeader, burst.state) as u64),
        ("OFFSET_N_AREAS", offset_of!(Control, threads.n_areas) as u64),
        ("OFFSET_UNLOADS", offset_of!(Control, modules.unloads) as u64),
    ];
    let defines: Vec<String> = defines.iter().map(|(name, value)| format!("-D{name}={value}ul")).collect();
    let arguments: Vec<&str> = defines.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let program = directory.join("fake_runtime");
    compile(&arguments, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_runtime.c"), &program);
    program
}

/// A running fake; killed when dropped.
struct Fake {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Fake {
    fn start(program: &Path, listener: &Listener, how: &str) -> Fake {
        let argv = [program.as_os_str().to_owned(), listener.name().into(), how.into()];
        let launch = Launch { program: program.to_owned(), argv: argv.to_vec(), injection: None, ignored_signals: 0 };
        let mut command = attach::command(&launch).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Fake { child, commands, answers }
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn send(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything that a test starts with.
struct Scene {
    directory: tempfile::TempDir,
    listener: Listener,
    program: PathBuf,
}

impl Scene {
    fn new(compiler_flags: &[&str]) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let program = fake_runtime(directory.path(), compiler_flags);
        Scene { directory, listener: Listener::bind().unwrap(), program }
    }

    fn join(&self, how: &str) -> (Fake, Box<Process>) {
        let mut fake = Fake::start(&self.program, &self.listener, how);
        let process = accept(&self.listener);
        assert_eq!(fake.answer(), "joined");
        (fake, process)
    }

    fn refused(&self, how: &str) -> (Fake, Error) {
        let fake = Fake::start(&self.program, &self.listener, how);
        match self.listener.accept(&SETTINGS).unwrap() {
            Joined::Refused { pid, error } => {
                assert_eq!(pid, fake.child.id());
                (fake, error)
            }
            other => panic!("{other:?}"),
        }
    }

    /// A library with a function `in_library`.
    fn library(&self) -> PathBuf {
        let source = self.directory.path().join("library.c");
        std::fs::write(&source, "int in_library(void) { return 5; }\n").unwrap();
        let library = self.directory.path().join("library.so");
        compile(&["-shared", "-fPIC"], &source, &library);
        library
    }
}

fn accept(listener: &Listener) -> Box<Process> {
    match listener.accept(&SETTINGS).unwrap() {
        Joined::Process(process) => process,
        other => panic!("{other:?}"),
    }
}

fn module(process: &Process, is_wanted: impl Fn(&MappedModule) -> bool) -> MappedModule {
    process.modules().unwrap().into_iter().find(is_wanted).expect("the module")
}

/// A copy in which every address with code is a function that returns `value`.
fn place(process: &Process, module: &MappedModule, value: u8) -> Result<Placed, Error> {
    let code = [0x90, 0xb8, value, 0, 0, 0, 0xc3, 0xcc];
    let runs = [Run { copy: 0, original: 0x1000, ..Run::default() }; 3];
    let reserved = process.reserve(module, code.len(), runs.len())?;
    let code_addresses = module.exec.iter().cloned().flatten();
    let entries = code_addresses.map(|address| ((address - module.base) as u32, 1 | LEADER));
    process.fill(&reserved, code.to_vec(), &runs, entries)
}

#[test]
fn a_process_joins_and_runs_copies() {
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie"]] {
        let scene = Scene::new(flags);
        let (mut fake, process) = scene.join("well");
        assert_eq!(process.pid(), fake.child.id());
        assert_eq!((process.parent(), process.is_alive()), (None, true));
        let program = module(&process, |module| module.is_program);
        assert_eq!(program.path, scene.program.canonicalize().unwrap());
        assert_eq!((program.cluster, program.reason), (Some(PROGRAM), None));
        assert_eq!(fake.ask("call"), "-1");
        let placed = place(&process, &program, 42).unwrap();
        assert_eq!(fake.ask("call"), "42");
        assert_eq!(fake.ask("slot 0"), "3");
        process.unplace(placed);
        assert_eq!(fake.ask("call"), "-1");
        assert_eq!(fake.ask("slot 0"), "0");
        let libc = module(&process, |module| module.path.ends_with("libc.so.6"));
        assert_eq!(libc.cluster, Some(LIBRARIES));
    }
}

#[test]
fn a_process_that_finds_something_in_the_way_gets_another_offer() {
    let scene = Scene::new(&[]);
    let (mut fake, process) = scene.join("occupied");
    let program = module(&process, |module| module.is_program);
    place(&process, &program, 9).unwrap();
    assert_eq!(fake.ask("call"), "9");
}

#[test]
fn processes_that_misbehave_are_refused() {
    let scene = Scene::new(&[]);
    let (mut old, error) = scene.refused("old");
    assert!(matches!(error, Error::Version { theirs } if theirs == wire::VERSION + 1));
    assert_eq!(old.answer(), "refused");
    let (_short, error) = scene.refused("short");
    assert!(matches!(error, Error::BadMessage { got: 5, expected: 32 }));
    let (_silent, error) = scene.refused("silent");
    assert!(matches!(error, Error::System { .. }), "{error}");
    scene.join("well");
}

#[test]
fn a_stopped_listener_stops() {
    let listener = Listener::bind().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| listener.accept(&SETTINGS).unwrap());
        listener.stop();
        assert!(matches!(waiting.join().unwrap(), Joined::Stopped));
    });
    assert!(matches!(listener.accept(&SETTINGS).unwrap(), Joined::Stopped));
}

#[test]
fn names_are_new_each_time() {
    assert_ne!(Listener::bind().unwrap().name(), Listener::bind().unwrap().name());
}

#[test]
fn a_forked_child_runs_its_parents_copies() {
    let scene = Scene::new(&[]);
    let (mut fake, parent) = scene.join("well");
    let program = module(&parent, |module| module.is_program);
    let placed = place(&parent, &program, 11).unwrap();
    fake.send("fork");
    let child = accept(&scene.listener);
    assert_eq!(child.parent(), Some(parent.pid()));
    assert_eq!(fake.answer(), "joined");
    assert_eq!(fake.ask("call"), "11");
    let libc = module(&child, |module| module.path.ends_with("libc.so.6"));
    place(&parent, &libc, 12).expect("both have the library at one place");
    assert_eq!(child.counters().threads_started, 0);
    child.unplace(placed);
    assert_eq!(fake.ask("call"), "-1");
    fake.send("leave");
    assert_eq!(fake.answer(), "0");
}

#[test]
fn a_module_that_only_one_of_the_family_has_gets_no_copy() {
    let scene = Scene::new(&[]);
    let library = scene.library();
    let (mut fake, parent) = scene.join("well");
    fake.send("fork");
    let child = accept(&scene.listener);
    assert_eq!(fake.answer(), "joined");
    assert_eq!(fake.ask(&format!("load {}", library.display())), "ok");
    let loaded = module(&child, |module| module.path == library);
    assert!(matches!(place(&child, &loaded, 1), Err(Error::Shared)));
    assert!(matches!(place(&parent, &loaded, 1), Err(Error::Unloaded)));
    assert_eq!(fake.ask("call library"), "-1");
    drop(parent);
    place(&child, &loaded, 2).expect("the child is alone now");
    assert_eq!(fake.ask("call library"), "2");
}

#[test]
fn a_child_that_lacks_a_module_of_its_parent_is_refused() {
    let scene = Scene::new(&[]);
    let library = scene.library();
    let (mut fake, parent) = scene.join("well");
    assert_eq!(fake.ask(&format!("load {}", library.display())), "ok");
    place(&parent, &module(&parent, |module| module.path == library), 1).unwrap();
    fake.send("fork unload");
    let joined = scene.listener.accept(&SETTINGS).unwrap();
    assert!(matches!(joined, Joined::Refused { error: Error::DifferentModules, .. }), "{joined:?}");
    assert_eq!(fake.answer(), "refused");
}

#[test]
fn a_module_that_is_gone_gets_no_copy() {
    let scene = Scene::new(&[]);
    let library = scene.library();
    let (mut fake, process) = scene.join("well");
    assert_eq!(fake.ask(&format!("load {}", library.display())), "ok");
    let loaded = module(&process, |module| module.path == library);
    assert_eq!(fake.ask("unload"), "ok");
    assert!(matches!(place(&process, &loaded, 1), Err(Error::Unloaded)));
}

#[test]
fn perf_ticks_are_to_be_had_where_the_system_says_so() {
    let scene = Scene::new(&[]);
    let (_fake, process) = scene.join("well");
    let rare = u64::from(u32::MAX);
    let ticks = process.start_perf_ticks(rare);
    assert_eq!(ticks.is_ok(), attach::probe::system().has_perf_ticks);
    if let Ok(mut ticks) = ticks {
        ticks.set_interval_ns(2 * rare).unwrap();
    }
}

#[test]
fn unloaded_modules_lose_their_copies() {
    let scene = Scene::new(&[]);
    let library = scene.library();
    let (mut fake, process) = scene.join("well");
    let load = format!("load {}", library.display());
    assert_eq!(fake.ask(&load), "ok");
    let loaded = module(&process, |module| module.path == library);
    let placed = place(&process, &loaded, 23).unwrap();
    assert_eq!(fake.ask("call library"), "23");
    assert!(!process.unloads_pending());
    assert_eq!(fake.ask("unload"), "ok");
    assert!(process.unloads_pending());
    assert_eq!(process.acknowledge_unloads().unwrap(), [placed]);
    assert!(!process.unloads_pending());
    assert_eq!(fake.ask(&load), "ok");
    assert_eq!(fake.ask("call library"), "-1");
}

#[test]
fn an_orphan_whose_parent_has_left_is_refused() {
    let scene = Scene::new(&[]);
    let (mut fake, parent) = scene.join("well");
    drop(parent);
    fake.send("fork");
    let joined = scene.listener.accept(&SETTINGS).unwrap();
    let parent = fake.child.id();
    assert!(matches!(joined, Joined::Refused { error: Error::UnknownParent { parent: of }, .. } if of == parent));
    assert_eq!(fake.answer(), "refused");
}

#[test]
fn heirs_are_known_before_they_join() {
    let scene = Scene::new(&[]);
    let (mut fake, parent) = scene.join("well");
    assert!(!parent.has_heirs());
    let child = fake.ask("fork quietly");
    fake.child.kill().unwrap();
    fake.child.wait().unwrap();
    assert!(!parent.is_alive());
    assert!(parent.has_heirs());
    let killed = Command::new("kill").args(["-KILL", &child]).status().unwrap();
    assert!(killed.success());
    while parent.has_heirs() {
        std::thread::yield_now();
    }
}

#[test]
fn samples_come_out_alive_and_dead() {
    let scene = Scene::new(&[]);
    let (mut fake, process) = scene.join("well");
    let mut reasons = Vec::new();
    let mut sink = |sample: attach::SampleRef<'_>| {
        assert_eq!(sample.records, [0x1234]);
        assert_eq!(sample.header.tid, process.pid());
        reasons.push(sample.header.end_reason);
    };
    assert_eq!(fake.ask("sample"), "ok");
    assert_eq!(fake.ask("sample"), "ok");
    assert_eq!(process.drain(&mut sink).samples, 2);
    assert_eq!(fake.ask("burst"), "ok");
    assert_eq!(process.drain(&mut sink).samples, 0);
    fake.child.kill().unwrap();
    fake.child.wait().unwrap();
    assert!(!process.is_alive());
    assert_eq!(process.salvage(&mut sink).salvaged, 1);
    assert_eq!(reasons, [0, 0, EndReason::Died as u8]);
    assert!(process.modules().is_err());
}

#[test]
fn facts_about_a_process() {
    let scene = Scene::new(&[]);
    let (fake, process) = scene.join("well");
    assert_eq!(process.thread_ids().unwrap(), [fake.child.id()]);
    assert_eq!(process.hindrance().unwrap(), None);
    assert!(process.cpu_ns().unwrap() > 0);
    assert_eq!(process.threads_that_block_ticks().unwrap(), Vec::<u32>::new());
}

#[test]
fn room_for_copies_ends() {
    let scene = Scene::new(&[]);
    let (_fake, process) = scene.join("well");
    let libc = module(&process, |module| module.path.ends_with("libc.so.6"));
    let all = process.clusters()[LIBRARIES].copy_len as usize;
    assert!(matches!(process.reserve(&libc, all, 0), Err(Error::NoRoomForCopy { .. })));
    let first = process.reserve(&libc, all / 2, 1).unwrap();
    let second = process.reserve(&libc, 100, 1).unwrap();
    assert!(first.copy % 64 == 0 && second.copy % 64 == 0);
    assert!(second.copy >= first.copy + (all / 2) as u64 + 16);
    assert!(process.reserve(&libc, all / 2, 0).is_err());
    let mut far = libc;
    far.cluster = None;
    assert!(matches!(process.reserve(&far, 1, 1).unwrap_err(), Error::OutOfReach));
    assert!(matches!(process.fill(&second, vec![0; 200], &[Run::default()], []), Err(Error::Inconsistent)));
    assert!(matches!(
        process.fill(&second, vec![0; 100], &[Run::default()], [(u32::MAX, 1)]),
        Err(Error::Inconsistent)
    ));
    assert!(matches!(process.fill(&second, vec![0; 100], &[Run::default()], [(0, 200)]), Err(Error::Inconsistent)));
}

#[test]
fn argv_is_passed_as_given() {
    let launch = Launch {
        program: "/bin/sh".into(),
        argv: ["name", "-c", "echo $0 $1", "zero", "one"].map(OsString::from).to_vec(),
        injection: None,
        ignored_signals: 0,
    };
    let output = attach::command(&launch).unwrap().output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "zero one\n");
}
