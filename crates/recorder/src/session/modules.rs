//! Modules of the processes of a recording: which there are, which may have copies, and what became
//! of their translations.

use std::path::Path;
use std::sync::Arc;

use attach::MappedModule;
use profile::model::ModuleId;

use super::Session;
use super::processes::Followed;
use crate::process::Module;
use crate::translation::work::{Done, Job};
use crate::translation::{FileKey, Translator};
use crate::unwind::UnwindSections;

/// A file that some process has loaded.
#[derive(Debug, Clone)]
pub(super) struct KnownFile {
    pub id: ModuleId,
    unwind: UnwindSections,
}

impl Session {
    /// Looks for modules that have come.
    pub(super) fn scan(&mut self, followed: &mut Followed) {
        let Ok(mapped) = followed.of.process.modules() else { return };
        let mut has_news = false;
        for module in mapped {
            if followed.of.modules.iter().any(|known| known.mapped.is_same_as(&module)) {
                continue;
            }
            has_news = true;
            followed.remove_module(module.base);
            let watched = &mut followed.of;
            let path = module.path.display().to_string();
            let device = rustix::fs::makedev(module.dev.0, module.dev.1);
            let cluster = module.cluster.unwrap_or_default();
            let key = FileKey { path: module.path.clone(), device, inode: module.inode, cluster };
            let KnownFile { id, unwind } = self.known_file(&key);
            self.sums.recording.module_at(watched.id, &path, module.bias);
            watched.layout.add(module.base, module.end, module.bias, id);
            let problem = self.obstacle(&module);
            if let Some(problem) = &problem {
                self.sums.counters.problem(format!("{path}: {problem}"));
            } else if module.cluster.is_some() {
                let urgency = urgency(&module);
                self.work.add(Job { process: Arc::clone(&watched.process), module: module.clone(), key, urgency });
            }
            watched.add_module(Module { mapped: module, id, translation: None, placed: None, problem, unwind });
        }
        followed.of.scans.done(followed.of.cpu_ns, has_news);
    }

    fn known_file(&mut self, key: &FileKey) -> KnownFile {
        if let Some(known) = self.known_files.get(key) {
            return known.clone();
        }
        let (build_id, unwind) = Translator::facts(key);
        let id = self.sums.builder.module(&key.path.display().to_string(), &build_id.unwrap_or_default());
        let known = KnownFile { id, unwind };
        self.known_files.insert(key.clone(), known.clone());
        known
    }

    /// Finds out what the functions are of modules that ticks have met but that were not translated
    /// in time, or cannot be.
    pub fn name_untranslated(&mut self) {
        for module in self.sums.builder.modules_without_functions() {
            if let Some((key, _)) = self.known_files.iter().find(|(_, known)| known.id == module) {
                self.sums.builder.set_functions(module, Translator::stated_functions(key));
            }
        }
    }

    fn obstacle(&self, module: &MappedModule) -> Option<String> {
        if let Some(reason) = module.reason {
            return Some(reason.to_string());
        }
        let name = module.path.file_name().unwrap_or_default().to_string_lossy();
        let filters = &self.plan.modules;
        let is_filtered = !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str()));
        if is_filtered {
            return Some("left out by --module".to_owned());
        }
        is_volatile(&module.path).then(|| "libc may unload it at any time".to_owned())
    }

    pub(super) fn take_translations(&mut self) {
        while let Ok(done) = self.done.try_recv() {
            self.take_translation(done);
        }
    }

    /// Learns that a module has been placed, or could not be.
    fn take_translation(&mut self, done: Done) {
        let Done { process, module: of, result } = done;
        let base = of.base;
        let Session { processes, sums, .. } = self;
        let Some(index) = processes.iter().position(|followed| followed.is_process(&process)) else { return };
        let followed = &mut processes[index];
        let Some(module) = followed.of.modules.iter_mut().find(|module| module.mapped.is_same_as(&of)) else { return };
        let (translation, placed) = match result {
            Ok(done) => done,
            Err(problem) => {
                sums.counters.problem(format!("{}: {problem}", module.mapped.path.display()));
                module.problem = Some(problem);
                return;
            }
        };
        sums.counters.n_placed += 1;
        let first = translation.code.get().and_then(|code| sums.builder.set_code(module.id, Arc::clone(code)));
        followed.add_translation(base, &translation, Some(placed));
        if let Some(first) = first {
            followed.reader.code_known(&mut followed.of, base, first, &translation, sums);
        }
        // Children that were forked meanwhile run the same copy.
        for heir in processes.iter_mut().filter(|each| !each.is_process(&process)) {
            if heir.of.process.shares_copies_with(&process) && heir.of.lacks(base) {
                heir.add_translation(base, &translation, Some(placed));
                if let Some(first) = first {
                    heir.reader.code_known(&mut heir.of, base, first, &translation, sums);
                }
            }
        }
    }
}

/// Returns whether libc unloads a library by itself, past the function that the runtime watches.
pub fn is_volatile(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.components().any(|part| part.as_os_str() == "gconv") || name.starts_with("libnss_")
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
