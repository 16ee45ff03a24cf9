//! Modules as the agent needs them: read, analyzed, translated, with a cache on disk so that a
//! second run starts warm.
//!
//! A cached copy is trusted only if it was made by this very `strobe` from a file with the same
//! build-id (or, without one, the same path, size and time) under the same settings; all of that is
//! in its name; if it is whole and was written under that name; and if nobody else can have written
//! it ([`crate::cache`]). Anything wrong with the cache means translating anew.

pub mod block_index;
pub mod code;
pub mod guide;
pub mod select;
pub mod work;

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use emit::ModuleCopy;
use flow::{Executor, ModuleFlow};
use image::Image;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ReadCache, ReadRef};
use profile::ModuleCode;
use profile::code::CodeFunction;
use sampling::selector::Selector;

use self::block_index::BlockIndex;
use self::code::module_code;
use self::guide::Guide;
use crate::cache::{self, Version};
use crate::error::{Result, refused};
use crate::plan::{Mode, Plan};
use crate::threads::Threads;
use crate::unwind::UnwindSections;

/// What files of copies end in, and those of control flow.
const COPY: &str = "copy";
const CODE: &str = "code";

/// A module, ready to be placed in any number of processes.
#[derive(Debug)]
pub struct Translation {
    pub build_id: Option<String>,
    pub copy: ModuleCopy,
    /// The copy that only checks, if there are two versions.
    pub checking: Option<ModuleCopy>,
    /// Control flow for the profile; see [`Translator::find_code`].
    pub code: OnceLock<Arc<ModuleCode>>,
    /// Only when traces are checked.
    pub blocks: OnceLock<Arc<BlockIndex>>,
    /// Of a module that was analyzed just now.
    flow: Mutex<Option<Box<ModuleFlow>>>,
    pub from_cache: bool,
    pub time: Duration,
}

impl Translation {
    fn new(build_id: Option<String>, copies: Copies, flow: Option<ModuleFlow>, time: Duration) -> Translation {
        let from_cache = flow.is_none();
        let flow = Mutex::new(flow.map(Box::new));
        let Copies { copy, checking } = copies;
        Translation { build_id, copy, checking, code: OnceLock::new(), blocks: OnceLock::new(), flow, from_cache, time }
    }
}

/// The copies of a module: more than one where there is a version that only checks.
#[derive(Debug)]
struct Copies {
    copy: ModuleCopy,
    checking: Option<ModuleCopy>,
}

/// What a mapped file is identified by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileKey {
    pub path: PathBuf,
    pub device: u64,
    pub inode: u64,
    pub cluster: usize,
}

/// Makes translations, each once.
#[derive(Debug)]
pub struct Translator {
    cache: Option<PathBuf>,
    content: Content,
    keeps_flow: bool,
    guide: Guide,
    n_threads: NonZeroUsize,
    /// Pieces of work done.
    n_done: AtomicU32,
    /// Something was to be written to the cache.
    has_news: AtomicBool,
    /// Why the first thing that could not be written was not.
    unwritten: OnceLock<io::Error>,
    known: Mutex<HashMap<FileKey, Arc<Mutex<Option<Known>>>>>,
}

/// What copies record.
#[derive(Debug)]
pub struct Content {
    pub probe: emit::Probe,
    /// What a second copy does, which notes nothing.
    pub checking_probe: Option<emit::Probe>,
    pub events: emit::Events,
    /// Where events are noted; `None`: everywhere.
    pub selector: Option<Selector>,
}

impl Content {
    /// Returns what copies record for a plan.
    pub fn of(plan: &Plan) -> Content {
        let selector = plan.noting.as_ref().and_then(|noting| noting.selector.clone());
        Content { events: plan.events(), selector, ..Content::of_mode(&plan.mode) }
    }

    /// Returns what copies record in a mode, if no values are noted beside.
    pub fn of_mode(mode: &Mode) -> Content {
        let (probe, checking_probe) = (mode.probe(), mode.checking_probe());
        Content { probe, checking_probe, events: emit::Events::NONE, selector: None }
    }
}

type Known = std::result::Result<Arc<Translation>, String>;

impl Translator {
    pub fn new(
        use_cache: bool,
        content: Content,
        keeps_flow: bool,
        guide: Guide,
        n_threads: NonZeroUsize,
    ) -> Translator {
        let cache = use_cache.then(cache::folder).flatten();
        Translator {
            cache,
            content,
            keeps_flow,
            guide,
            n_threads,
            n_done: AtomicU32::new(0),
            has_news: AtomicBool::new(false),
            unwritten: OnceLock::new(),
            known: Mutex::default(),
        }
    }

    /// Keeps the cache within its limit, if it has grown.
    pub fn trim_cache(&self) {
        if let Some(folder) = self.cache.as_ref().filter(|_| self.has_news.load(Ordering::Relaxed)) {
            let limit = cache::limit().unwrap_or(cache::DEFAULT_LIMIT);
            cache::trim(folder, limit);
        }
    }

    /// Whether the translation was made now and is in the cache for the next run.
    pub fn has_cached(&self, translation: &Translation) -> bool {
        self.cache.is_some() && !translation.from_cache
    }

    /// Returns whether there was anything to write to the cache.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn written(self) -> io::Result<bool> {
        self.unwritten.into_inner().map_or(Ok(self.has_news.into_inner()), Err)
    }

    /// A number that changes as long as translating gets on.
    pub fn progress(&self) -> u32 {
        self.n_done.load(Ordering::Relaxed)
    }

    fn threads(&self) -> CountedThreads<'_> {
        CountedThreads { threads: Threads(self.n_threads), n_done: &self.n_done }
    }

    /// The translation of a mapped file. Threads that ask for the same file wait for the first.
    pub fn get(&self, key: &FileKey) -> Known {
        let slot = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(key.clone()).or_default())
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let known = slot.get_or_insert_with(|| self.make(key).map(Arc::new).map_err(|error| error.to_string()));
        known.clone()
    }

    fn make(&self, key: &FileKey) -> Result<Translation> {
        let started = Instant::now();
        let source = Source::open(key)?;
        let build_id = source.build_id().unwrap_or_default();
        let Content { probe, checking_probe, events, ref selector } = self.content;
        let cached_at = |probe| {
            let name = self.cache_name(key, build_id.as_deref(), &source, probe);
            self.cache.as_ref().map(|folder| folder.join(name))
        };
        let cached = |probe| {
            let bytes = cached_at(probe).and_then(|path| cache::read(&path).ok())?;
            ModuleCopy::from_bytes(&bytes).ok()
        };
        if let Some(copy) = cached(probe) {
            let checking = checking_probe.map(cached);
            if checking.as_ref().is_none_or(Option::is_some) {
                let copies = Copies { copy, checking: checking.flatten() };
                return Ok(Translation::new(build_id, copies, None, started.elapsed()));
            }
        }
        let bytes = source.read()?;
        let image = Image::parse(&bytes)?;
        let threads = self.threads();
        let mut flow = flow::analyze(&image, &threads);
        self.guide.apply(&key.path, build_id.as_deref(), &mut flow);
        let options = emit::Options { cluster: key.cluster, probe, events };
        let copy = match selector {
            Some(selector) => {
                let places = select::places(selector, &key.path, &image, &flow, events, &threads);
                emit::translate_selected(&image, &flow, options, places, &threads)
            }
            None => emit::translate(&image, &flow, options, &threads),
        };
        let checking = checking_probe.map(|probe| {
            emit::translate(&image, &flow, emit::Options { probe, events: emit::Events::NONE, ..options }, &threads)
        });
        let time = started.elapsed();
        for (probe, copy) in [(Some(probe), Some(&copy)), (checking_probe, checking.as_ref())] {
            if let (Some(path), Some(copy)) = (probe.and_then(cached_at), copy) {
                self.keep(&path, &copy.to_bytes());
            }
        }
        Ok(Translation::new(build_id, Copies { copy, checking }, Some(flow), time))
    }

    /// Makes sure that the module's control flow is known: from the cache, from the analysis that
    /// the copy was made by, or from a new one. The program should not wait for that, so it is done
    /// after the copy is in place.
    pub fn find_code(&self, key: &FileKey, translation: &Translation) -> Result<()> {
        if translation.code.get().is_some() {
            return Ok(());
        }
        let threads = self.threads();
        let source = Source::open(key)?;
        let name = self.cache_name(key, translation.build_id.as_deref(), &source, self.content.probe);
        let cached_at = self.cache.as_ref().map(|folder| folder.join(name).with_extension(CODE));
        let cached = cached_at.as_ref().and_then(|path| cache::read(path).ok());
        let cached = cached.and_then(|bytes| ModuleCode::from_bytes(&bytes).ok());
        let is_cached = cached.is_some();
        if let Some(code) = cached.filter(|_| !self.keeps_flow) {
            translation.code.get_or_init(|| Arc::new(code));
            return Ok(());
        }
        let made = translation.flow.lock().unwrap_or_else(PoisonError::into_inner).take();
        let bytes = source.read()?;
        let image = Image::parse(&bytes)?;
        let flow = match made {
            Some(flow) => flow,
            None => {
                let mut flow = flow::analyze(&image, &threads);
                self.guide.apply(&key.path, translation.build_id.as_deref(), &mut flow);
                Box::new(flow)
            }
        };
        let code = module_code(&image, &flow, &threads);
        if let Some(path) = cached_at.filter(|_| !is_cached) {
            self.keep(&path, &code.to_bytes());
        }
        translation.code.get_or_init(|| Arc::new(code));
        if self.keeps_flow {
            translation.blocks.get_or_init(|| Arc::new(BlockIndex::new(Arc::new(*flow))));
        }
        Ok(())
    }

    /// The build-id of a file, and what unwinding needs of it, as far as it has them.
    pub fn facts(key: &FileKey) -> (Option<String>, UnwindSections) {
        Source::open(key).and_then(|source| source.facts()).unwrap_or_default()
    }

    /// The functions that a file states, without looking at its code; none if it cannot be read any
    /// more.
    pub fn stated_functions(key: &FileKey) -> Vec<CodeFunction> {
        let bytes = Source::open(key).and_then(|source| source.read()).unwrap_or_default();
        Image::parse(&bytes).map(|image| code::stated_functions(&image)).unwrap_or_default()
    }

    /// Keeps something for later runs. A cache that cannot be written only makes them slower.
    fn keep(&self, path: &Path, bytes: &[u8]) {
        if !self.has_news.swap(true, Ordering::Relaxed)
            && let Some(folder) = &self.cache
        {
            Version::sign(folder);
        }
        if let Err(error) = cache::write(path, bytes) {
            self.unwritten.get_or_init(|| error);
        }
    }

    fn cache_name(&self, key: &FileKey, build_id: Option<&str>, source: &Source, probe: emit::Probe) -> String {
        let mut hasher = std::hash::DefaultHasher::new();
        match build_id {
            Some(id) => id.hash(&mut hasher),
            None => (&key.path, source.modified).hash(&mut hasher),
        }
        // The same build-id with another size is another file, whatever it claims.
        let Content { events, selector, .. } = &self.content;
        (source.len, key.cluster, probe, events).hash(&mut hasher);
        selector.as_ref().map(Selector::to_string).hash(&mut hasher);
        self.guide.identity(&key.path, build_id).hash(&mut hasher);
        cache::name(&key.path, hasher.finish(), COPY)
    }

    /// Everything translated so far, failures with their reasons.
    pub fn all(&self) -> Vec<(FileKey, Known)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let slots: Vec<_> = known.iter().map(|(key, slot)| (key.clone(), Arc::clone(slot))).collect();
        drop(known);
        let ready = slots.into_iter().filter_map(|(key, slot)| {
            let slot = slot.try_lock().ok()?;
            slot.clone().map(|known| (key, known))
        });
        ready.collect()
    }
}

/// Threads that count what they have done.
struct CountedThreads<'a> {
    threads: Threads,
    n_done: &'a AtomicU32,
}

impl Executor for CountedThreads<'_> {
    fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
        self.threads.map(items, |item| {
            let result = work(item);
            self.n_done.fetch_add(1, Ordering::Relaxed);
            result
        })
    }
}

/// Where the bytes of a module are.
struct Source {
    bytes: Bytes,
    len: u64,
    /// When the file was last changed; nothing for code without a file.
    modified: (i64, i64),
}

enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    fn open(key: &FileKey) -> Result<Source> {
        if key.path.as_os_str() == attach::VDSO {
            let bytes = kernel_code()?;
            return Ok(Source { len: bytes.len() as u64, bytes: Bytes::Memory(bytes), modified: (0, 0) });
        }
        let file = File::open(&key.path)?;
        let metadata = file.metadata()?;
        if (metadata.dev(), metadata.ino()) != (key.device, key.inode) {
            return refused("the file on disk is not the one that was loaded");
        }
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Source { bytes: Bytes::File(file), len: metadata.len(), modified })
    }

    fn read(&self) -> Result<Vec<u8>> {
        match &self.bytes {
            Bytes::Memory(bytes) => Ok(bytes.clone()),
            Bytes::File(file) => {
                let mut bytes = vec![0; self.len as usize];
                file.read_exact_at(&mut bytes, 0)?;
                Ok(bytes)
            }
        }
    }

    fn build_id(&self) -> Result<Option<String>> {
        match &self.bytes {
            Bytes::Memory(bytes) => build_id(&ElfFile64::parse(bytes.as_slice())?),
            Bytes::File(file) => build_id(&ElfFile64::parse(&ReadCache::new(file.try_clone()?))?),
        }
    }

    /// Build-id and unwind information, without reading the whole file. A file too damaged for that
    /// may still have code.
    fn facts(&self) -> Result<(Option<String>, UnwindSections)> {
        match &self.bytes {
            Bytes::Memory(bytes) => facts(bytes.as_slice()),
            Bytes::File(file) => facts(&ReadCache::new(file.try_clone()?)),
        }
    }
}

fn facts<'data>(data: impl ReadRef<'data>) -> Result<(Option<String>, UnwindSections)> {
    let elf = ElfFile64::<LittleEndian, _>::parse(data)?;
    Ok((build_id(&elf)?, UnwindSections::of(&elf)))
}

fn build_id<'data, R: ReadRef<'data>>(elf: &ElfFile64<'data, LittleEndian, R>) -> Result<Option<String>> {
    Ok(elf.build_id()?.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// The code that the kernel maps into every process: the same in this one as in any other.
fn kernel_code() -> Result<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with(attach::VDSO));
    let range = line.and_then(|line| line.split_whitespace().next()?.split_once('-'));
    let address = |text| u64::from_str_radix(text, 16).ok();
    let Some((start, end)) = range.and_then(|(start, end)| address(start).zip(address(end))) else {
        return refused("the kernel provides no code here");
    };
    let mut bytes = vec![0; end.saturating_sub(start) as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}
