//! Modules of the processes of a recording: which there are, which may have copies, and what became of their translations.

use std::sync::Arc;
use std::time::Instant;

use attach::MappedModule;
use profile::model::ModuleId;

use crate::record::process::{Module, Watched};
use crate::record::session::Session;
use crate::record::translation::{FileKey, Translator};
use crate::record::unwind::UnwindSections;
use crate::record::work::{Done, Job};

/// A file that some process has loaded.
#[derive(Debug, Clone)]
pub(super) struct KnownFile {
    pub id: ModuleId,
    unwind: UnwindSections,
}

impl Session<'_> {
    /// Looks for modules that have come.
    pub(super) fn scan(&mut self, watched: &mut Watched) {
        watched.last_scan = Instant::now();
        let Ok(mapped) = watched.process.modules() else { return };
        for module in mapped {
            if watched.modules.iter().any(|known| known.mapped.is_same_as(&module)) {
                continue;
            }
            watched.remove(module.base);
            let path = module.path.display().to_string();
            let device = rustix::fs::makedev(module.dev.0, module.dev.1);
            let cluster = module.cluster.unwrap_or_default();
            let key = FileKey { path: module.path.clone(), device, inode: module.inode, cluster };
            let KnownFile { id, unwind } = self.known_file(&key);
            self.recording.module_at(watched.id, &path, module.bias);
            watched.layout.add(module.base, module.end, module.bias, id);
            let problem = self.obstacle(&module);
            if let Some(problem) = &problem {
                *self.counters.problems.entry(format!("{path}: {problem}")).or_default() += 1;
            } else if module.cluster.is_some() {
                let urgency = urgency(&module);
                self.work.add(Job { process: Arc::clone(&watched.process), module: module.clone(), key, urgency });
            }
            watched.add_module(Module { mapped: module, id, translation: None, placed: None, problem, unwind });
        }
    }

    fn known_file(&mut self, key: &FileKey) -> KnownFile {
        if let Some(known) = self.known_files.get(key) {
            return known.clone();
        }
        let (build_id, unwind) = Translator::facts(key);
        let id = self.builder.module(&key.path.display().to_string(), &build_id.unwrap_or_default());
        let known = KnownFile { id, unwind };
        self.known_files.insert(key.clone(), known.clone());
        known
    }

    /// Finds out what the functions are of modules that ticks have met but that were not translated in time, or cannot be.
    pub fn name_untranslated(&mut self) {
        for module in self.builder.modules_without_functions() {
            if let Some((key, _)) = self.known_files.iter().find(|(_, known)| known.id == module) {
                self.builder.set_functions(module, Translator::stated_functions(key));
            }
        }
    }

    fn obstacle(&self, module: &MappedModule) -> Option<String> {
        if let Some(reason) = module.reason {
            return Some(reason.to_string());
        }
        let name = module.path.file_name().unwrap_or_default().to_string_lossy();
        let filters = &self.props.modules;
        let is_filtered = !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str()));
        if is_filtered {
            return Some("left out by --module".to_owned());
        }
        // libc unloads these by itself, past the function that the runtime watches.
        let is_volatile =
            module.path.components().any(|part| part.as_os_str() == "gconv") || name.starts_with("libnss_");
        is_volatile.then(|| "libc may unload it at any time".to_owned())
    }

    pub(super) fn take_translations(&mut self) {
        while let Ok(done) = self.done.try_recv() {
            self.take_translation(done, None);
        }
    }

    /// A module has been placed, or could not be. `ending` is a process that is no more among the others.
    pub(super) fn take_translation(&mut self, done: Done, ending: Option<&mut Watched>) {
        let Done { pid, module: of, result } = done;
        let base = of.base;
        let Session { processes, counters, builder, .. } = self;
        let mut all: Vec<&mut Watched> = processes.iter_mut().chain(ending).collect();
        let Some(index) = all.iter().position(|watched| watched.process.pid() == pid) else { return };
        let watched = all.swap_remove(index);
        let Some(module) = watched.modules.iter_mut().find(|module| module.mapped.is_same_as(&of)) else { return };
        match result {
            Ok((translation, placed)) => {
                counters.n_placed += 1;
                let first = translation.code.get().and_then(|code| builder.set_code(module.id, Arc::clone(code)));
                watched.add_translation(base, &translation, Some(placed));
                if let Some(first) = first {
                    watched.set_code(base, first, &translation, builder);
                }
                // Children that were forked meanwhile run the same copy.
                let heirs = all.into_iter().filter(|each| each.process.shares_copies_with(&watched.process));
                heirs.filter(|each| each.lacks(base)).for_each(|heir| {
                    heir.add_translation(base, &translation, Some(placed));
                });
            }
            Err(problem) => {
                let path = module.mapped.path.display();
                *counters.problems.entry(format!("{path}: {problem}")).or_default() += 1;
                module.problem = Some(problem);
            }
        }
    }
}

/// The program first, then libc, then small before large.
fn urgency(module: &MappedModule) -> u64 {
    let name = module.path.file_name().unwrap_or_default().to_string_lossy();
    let rank: u64 = if module.is_program {
        2
    } else if name.starts_with("libc.so") || name.starts_with("libc-") {
        1
    } else {
        0
    };
    (rank << 28) + (1 << 27) - module.exec_bytes().min(1 << 27)
}
