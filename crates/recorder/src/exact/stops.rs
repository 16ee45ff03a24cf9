//! Paths that were under way when threads ended.
//!
//! A thread that ends in order says where it is, and leaves its stack with the frames that calls
//! from it left ([`wire::exact::ThreadExit`]). A frame is in use if unwinding the stack comes to
//! its stack pointer. What is not known: where threads were that were killed, by a signal or
//! because another one ended the process; and activations that `longjmp` or an exception left.

use std::sync::Arc;

use image::Svma;
use profile::model::ModuleId;

use super::counts::Stop;
use crate::process::Watched;
use crate::unwind::Frame;

/// A function that was active when its thread ended.
#[derive(Clone, Copy, Debug)]
pub struct Stopped {
    pub thread: u32,
    /// Where the module is in the process.
    pub module_base: u64,
    pub module: ModuleId,
    pub stop: Stop,
}

/// Where the functions were that were active when their threads ended; of each thread, the
/// innermost first.
pub fn stops(watched: &mut Watched) -> Vec<Stopped> {
    let process = Arc::clone(&watched.process);
    let mut places: Vec<(u32, u64, u64, bool)> = Vec::new();
    process.for_each_thread_exit(&mut |record| {
        let wire::exact::ThreadExit { rip, rsp, rbp, frame, thread, .. } = record.exit;
        let thread = thread as u32;
        places.push((thread, rip, frame, false));
        let frame_at = |key: u64| {
            let index = record.frames.binary_search_by_key(&key, |&(found, _)| found).ok()?;
            Some(record.frames[index].1)
        };
        let calls = watched.unwinder.calls(Frame::of_pointers([rip, rsp, rbp]), &record.stack);
        places.extend(calls.into_iter().filter_map(|(address, key)| Some((thread, address, frame_at(key)?, true))));
    });
    let located = places.into_iter().filter_map(|(thread, address, frame, is_behind_call)| {
        let module = watched.modules.iter().find(|module| module.contains(address))?;
        let at = Svma(address.wrapping_sub(module.mapped.bias));
        let stop = Stop { at, register: frame as i32, is_behind_call };
        Some(Stopped { thread, module_base: module.mapped.base, module: module.id, stop })
    });
    located.collect()
}
