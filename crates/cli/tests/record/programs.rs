//! The table of programs. Each line is a test.

use crate::build::{Library, Program};
use crate::recorder::expect_transparent;

macro_rules! programs {
    ($($name:ident: $program:expr;)*) => {
        $(
            #[test]
            fn $name() {
                expect_transparent(&$program.build());
            }
        )*
    };
}

programs! {
    // Signals.
    signals: Program::new("signals.c");
    signals_at_fixed_address: Program::new("signals.c").flags(&["-no-pie"]);
    signals_unoptimized: Program::new("signals.c").flags(&["-O0"]);
    masks: Program::new("masks.c");
    altstack: Program::new("altstack.c");
    siglongjmp: Program::new("siglongjmp.c");
    faults: Program::new("faults.c");
    faults_unoptimized: Program::new("faults.c").flags(&["-O0"]);
    sigflags: Program::new("sigflags.c");
    sigwait: Program::new("sigwait.c");
    sigpipe: Program::new("sigpipe.c");
    eintr: Program::new("eintr.c");
    resets: Program::new("resets.c");
    timers: Program::new("timers.c");
    backtrace: Program::new("backtrace.c");
    tracer: Program::new("tracer.c");
    raw_handler: Program::new("raw_handler.c");

    // Threads and processes.
    threads: Program::new("threads.c");
    cancel: Program::new("cancel.c");
    locks: Program::new("locks.c");
    clone: Program::new("clone.c");
    fork: Program::new("fork.c");
    spawn: Program::new("spawn.c");
    exec: Program::new("exec.c");
    exec_at_fixed_address: Program::new("exec.c").flags(&["-no-pie"]);
    daemon: Program::new("daemon.c");
    surroundings: Program::new("surroundings.c");
    refused: Program::new("refused.c");

    // Control flow.
    throws: Program::new("throws.cpp").libraries(&THROWING);
    throwing_faults: Program::new("throwing_faults.cpp").flags(&["-O2", "-fnon-call-exceptions"]);
    longjmp: Program::new("longjmp.c");
    coroutines: Program::new("coroutines.c");
    ends: Program::new("ends.c");
    recursion: Program::new("recursion.c");
    recursion_unoptimized: Program::new("recursion.c").flags(&["-O0"]);
    interpreter: Program::new("interpreter.c");
    interpreter_static: Program::new("interpreter.c").flags(&["-static"]);
    dispatch: Program::new("dispatch.cpp");
    dispatch_unoptimized: Program::new("dispatch.cpp").flags(&["-O0"]);
    idioms: Program::new("idioms.c");
    idioms_at_fixed_address: Program::new("idioms.c").flags(&["-no-pie"]);
    idioms_with_flags_across_calls: Program::new("idioms.c").arguments(&["flags"]);

    // State of the processor and of memory.
    registers: Program::new("registers.c");
    vectors: Program::new("vectors.c");
    gs: Program::new("gs.c");
    rseq: Program::new("rseq.c");
    memory: Program::new("memory.c");
    memory_at_fixed_address: Program::new("memory.c").flags(&["-no-pie"]);
    library: Program::new("library.c");
    dlopen: Program::new("dlopen.c").libraries(&PLUGINS);
    jit: Program::new("jit.c");
    jit_over_own_text: Program::new("jit.c").arguments(&["over"]).writes_over_itself();
    jit_over_own_text_early: Program::new("jit.c").arguments(&["early"]).writes_over_itself();

    // Beginnings and ends.
    ends_by_return: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["return"]);
    ends_by_exit: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["exit"]);
    ends_by_quick_exit: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["quick"]);
    ends_by_thread: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["thread"]);
    ends_after_main_thread: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["main-thread-first"]);
    ends_by_abort: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["abort"]);
    ends_by_terminate: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["terminate"]);
    ends_by_segv: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["segv"]);
    ends_by_fault: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["fault"]);
    ends_by_trap: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["trap"]);
    ends_by_kill: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["kill"]);
    ignores_urgent: Program::new("lifecycle.cpp").flags(&["-std=c++17"]).arguments(&["urgent-default"]);
}

/// They call each other, so the first is linked with a symbol still open.
const THROWING: [Library; 2] = [
    Library { source: "throws_first.cpp", file: "libfirst.so", flags: &[], is_linked: true },
    Library { source: "throws_second.cpp", file: "libsecond.so", flags: &[], is_linked: true },
];

const PLUGINS: [Library; 4] = [
    plugin("plugin0.so", &["-DVARIANT=0"]),
    plugin("plugin1.so", &["-DVARIANT=1"]),
    plugin("plugin2.so", &["-DVARIANT=2"]),
    plugin("plugin3.so", &["-DVARIANT=3"]),
];

const fn plugin(file: &'static str, flags: &'static [&'static str]) -> Library {
    Library { source: "plugin.c", file, flags, is_linked: false }
}
