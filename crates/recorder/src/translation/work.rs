//! Translating in the background: a queue of modules of processes, the most wanted first.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use attach::{MappedModule, Placed, Process};

use super::{FileKey, Translation, Translator};
use crate::wake::Waker;

/// A module to be translated and placed in a process.
#[derive(Debug)]
pub struct Job {
    pub process: Arc<Process>,
    pub module: MappedModule,
    pub key: FileKey,
    /// Higher is sooner.
    pub urgency: u64,
}

/// The result of a job.
#[derive(Debug)]
pub struct Done {
    pub process: Arc<Process>,
    pub module: MappedModule,
    pub result: Result<(Arc<Translation>, Placement), String>,
}

/// Where the copies of a module are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The copy that records or counts.
    pub copy: Placed,
    /// The one that only checks.
    pub checking: Option<Placed>,
}

impl Placement {
    /// Returns whether one of the copies satisfies a condition.
    pub fn any(self, mut is_one: impl FnMut(Placed) -> bool) -> bool {
        is_one(self.copy) || self.checking.is_some_and(is_one)
    }
}

/// The queue and the thread that works on it.
#[derive(Debug)]
pub struct Work {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: HashMap<(u32, u64), Job>,
    is_closed: bool,
    is_busy: bool,
    /// The process whose module is being worked on.
    busy_with: Option<u32>,
    /// Modules in place whose control flow is not known yet.
    n_indexing: usize,
}

impl Work {
    pub fn start(translator: Arc<Translator>, done: Sender<Done>, waker: Waker) -> Work {
        let shared = Arc::new(Shared::default());
        let for_worker = Arc::clone(&shared);
        let (send_performed, performed) = channel::<Performed>();
        let for_indexer = Arc::clone(&translator);
        let counted = Arc::clone(&shared);
        // Control flow may take its time; the next module should not wait for it.
        std::thread::spawn(move || {
            for Performed { key, to_index, done: each } in performed {
                if let Some(translation) = &to_index {
                    let _ = for_indexer.find_code(&key, translation);
                }
                let _ = done.send(each);
                counted.queue.lock().unwrap_or_else(PoisonError::into_inner).n_indexing -= 1;
                waker.wake();
            }
        });
        let worker = std::thread::spawn(move || {
            while let Some(job) = for_worker.next() {
                let performed = perform(&translator, job);
                for_worker.queue.lock().unwrap_or_else(PoisonError::into_inner).n_indexing += 1;
                let _ = send_performed.send(performed);
                let mut queue = for_worker.queue.lock().unwrap_or_else(PoisonError::into_inner);
                (queue.is_busy, queue.busy_with) = (false, None);
            }
        });
        Work { shared, worker: Some(worker) }
    }

    pub fn add(&self, job: Job) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.jobs.insert((job.process.pid(), job.module.base), job);
        self.shared.changed.notify_one();
    }

    /// Makes a waiting job more urgent, because ticks hit its module.
    pub fn want(&self, pid: u32, base: u64) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(job) = queue.jobs.get_mut(&(pid, base)) {
            job.urgency += WANTED;
        }
    }

    /// Returns whether nothing is being translated, and nothing waits for that.
    pub fn is_idle(&self) -> bool {
        let queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.jobs.is_empty() && !queue.is_busy
    }

    /// Returns whether the control flow of a module that is in place is still being found.
    pub fn is_indexing(&self) -> bool {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).n_indexing != 0
    }

    /// Returns whether modules of the process are being placed, or wait for that.
    pub fn has_jobs_for(&self, pid: u32) -> bool {
        let queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.busy_with == Some(pid) || queue.jobs.keys().any(|&(owner, _)| owner == pid)
    }

    /// Whether something is being translated that ticks have hit, or is waiting for that.
    pub fn is_wanted(&self) -> bool {
        let queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.is_busy || queue.jobs.values().any(|job| job.urgency >= WANTED)
    }

    /// Drops what has not been started. A thread in the middle of a translation is left behind.
    pub fn close(mut self) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.is_closed = true;
        queue.jobs.clear();
        let is_busy = queue.is_busy;
        drop(queue);
        self.shared.changed.notify_one();
        if let Some(worker) = self.worker.take().filter(|_| !is_busy) {
            let _ = worker.join();
        }
    }
}

/// What one tick in a module adds to its urgency.
const WANTED: u64 = 1 << 32;

impl Shared {
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if queue.is_closed {
                return None;
            }
            let most_wanted = queue.jobs.iter().max_by_key(|(key, job)| (job.urgency, **key)).map(|(&key, _)| key);
            if let Some(job) = most_wanted.and_then(|key| queue.jobs.remove(&key)) {
                (queue.is_busy, queue.busy_with) = (true, Some(job.process.pid()));
                return Some(job);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A job that has been done, and what is left to do for it.
struct Performed {
    key: FileKey,
    /// A module whose control flow is to be found.
    to_index: Option<Arc<Translation>>,
    done: Done,
}

fn perform(translator: &Translator, job: Job) -> Performed {
    let Job { process, module, key, .. } = job;
    let translated = translator.get(&key);
    let placed = translated.clone().and_then(|translation| {
        let place = |copy| process.place(&module, copy).map_err(|error| error.to_string());
        let checking = translation.checking.as_ref().map(place).transpose()?;
        let placement = Placement { copy: place(&translation.copy)?, checking };
        Ok((translation, placement))
    });
    // When the process is gone before a new copy is in place, the next run should find the control
    // flow beside the copy in the cache.
    let to_index = translated.ok().filter(|translation| placed.is_ok() || translator.has_cached(translation));
    Performed { key, to_index, done: Done { process, module, result: placed } }
}
