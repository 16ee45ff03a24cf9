//! pprof: a gzipped protocol buffer, read by `go tool pprof` and by most continuous profilers.
//!
//! Sample types are `cpu/nanoseconds` (user and kernel) and `entries/count` (how often the leaf was
//! entered in this context). A context's CPU time is divided over the blocks of its function
//! (`costs`), so that `-list` and `-disasm` have something to show; its entries are counted at the
//! function's first address. Addresses are those of the files, hence every mapping begins at 0. A
//! location has one line per inlined function, innermost first. The facts of the recording are
//! comments (`-comments`).

use std::io;

use flate2::write::GzEncoder;
use profile::model::{FunctionId, ModuleId};
use profile::{Profile, Symbols};
use rustc_hash::FxHashMap;

use crate::costs::Costs;
use crate::labels::{KERNEL, Labels};
use crate::protobuf::Message;
use crate::round::whole;
use crate::stacks::{Place, Stacks, own_ns};

/// Numbers of the fields of `perftools.profiles.Profile` and of the messages in it.
mod field {
    pub const SAMPLE_TYPE: u32 = 1;
    pub const SAMPLE: u32 = 2;
    pub const MAPPING: u32 = 3;
    pub const LOCATION: u32 = 4;
    pub const FUNCTION: u32 = 5;
    pub const STRING_TABLE: u32 = 6;
    pub const COMMENT: u32 = 13;
    pub const DEFAULT_SAMPLE_TYPE: u32 = 14;

    pub mod value_type {
        pub const TYPE: u32 = 1;
        pub const UNIT: u32 = 2;
    }
    pub mod sample {
        pub const LOCATION_ID: u32 = 1;
        pub const VALUE: u32 = 2;
    }
    pub mod mapping {
        pub const ID: u32 = 1;
        pub const LIMIT: u32 = 3;
        pub const FILENAME: u32 = 5;
        pub const BUILD_ID: u32 = 6;
        pub const HAS_FUNCTIONS: u32 = 7;
        pub const HAS_FILENAMES: u32 = 8;
        pub const HAS_LINE_NUMBERS: u32 = 9;
        pub const HAS_INLINE_FRAMES: u32 = 10;
    }
    pub mod location {
        pub const ID: u32 = 1;
        pub const MAPPING_ID: u32 = 2;
        pub const ADDRESS: u32 = 3;
        pub const LINE: u32 = 4;
    }
    pub mod line {
        pub const FUNCTION_ID: u32 = 1;
        pub const LINE: u32 = 2;
    }
    pub mod function {
        pub const ID: u32 = 1;
        pub const NAME: u32 = 2;
        pub const SYSTEM_NAME: u32 = 3;
        pub const FILENAME: u32 = 4;
        pub const START_LINE: u32 = 5;
    }
}

/// Mappings end at a multiple of this.
const PAGE_BYTES: u64 = 4096;

/// Writes CPU time and entries by context.
///
/// # Errors
/// If `out` fails.
pub fn write(profile: &Profile, symbols: &dyn Symbols, out: &mut dyn io::Write) -> io::Result<()> {
    let mut encoder = Encoder::new(profile, symbols);
    encoder.sample_types();
    encoder.samples();
    encoder.mappings();
    for (name, value) in &profile.facts {
        let comment = encoder.string(&format!("{name}: {value}"));
        encoder.message.packed(field::COMMENT, [comment]);
    }
    let mut gzip = GzEncoder::new(out, flate2::Compression::default());
    io::Write::write_all(&mut gzip, encoder.finish().as_bytes())?;
    gzip.finish()?;
    Ok(())
}

/// A function as pprof knows it: name, linkage name, file, first line; strings by index.
type FunctionKey = (u64, u64, u64, u32);

struct Encoder<'a> {
    profile: &'a Profile,
    symbols: &'a dyn Symbols,
    labels: Labels,
    stacks: Stacks<'a>,
    message: Message,
    strings: Interned<String>,
    functions: Interned<FunctionKey>,
    locations: Interned<Place>,
}

impl<'a> Encoder<'a> {
    fn new(profile: &'a Profile, symbols: &'a dyn Symbols) -> Encoder<'a> {
        let mut strings = Interned::default();
        strings.insert(String::new());
        Encoder {
            profile,
            symbols,
            labels: Labels::new(profile, symbols),
            stacks: Stacks::new(profile),
            message: Message::default(),
            strings,
            functions: Interned::default(),
            locations: Interned::default(),
        }
    }

    fn finish(mut self) -> Message {
        for string in &self.strings.values {
            self.message.string(field::STRING_TABLE, string);
        }
        self.message
    }

    fn string(&mut self, text: &str) -> u64 {
        self.strings.insert(text.to_owned()).0
    }

    fn sample_types(&mut self) {
        for (kind, unit) in [("cpu", "nanoseconds"), ("entries", "count")] {
            let mut value_type = Message::default();
            value_type.number(field::value_type::TYPE, self.string(kind));
            value_type.number(field::value_type::UNIT, self.string(unit));
            self.message.message(field::SAMPLE_TYPE, &value_type);
        }
        let default = self.string("cpu");
        self.message.number(field::DEFAULT_SAMPLE_TYPE, default);
    }

    fn samples(&mut self) {
        let costs = Costs::new(self.profile);
        for context in &self.profile.contexts {
            let callers: Vec<Place> = self.stacks.callers(context).collect();
            let callers: Vec<u64> = callers.into_iter().map(|place| self.location(place)).collect();
            let entry = self.stacks.entry(context);
            let (user_ns, kernel_ns) = own_ns(context);
            let by_block = costs.divide_roughly(context.function, user_ns);
            let undivided_ns = if by_block.is_empty() { user_ns } else { 0 };
            self.sample(&[entry], &callers, undivided_ns, whole(context.entries.value));
            for (block, ns) in by_block {
                let address = self.profile.blocks[block.index()].address;
                self.sample(&[Place::Code { function: context.function, address }], &callers, ns, 0);
            }
            self.sample(&[Place::Kernel, entry], &callers, kernel_ns, 0);
        }
    }

    /// Adds a sample whose stack is `leaves`, innermost first, on top of `callers`.
    fn sample(&mut self, leaves: &[Place], callers: &[u64], cpu_ns: u64, n_entries: u64) {
        if cpu_ns == 0 && n_entries == 0 {
            return;
        }
        let leaves: Vec<u64> = leaves.iter().map(|&place| self.location(place)).collect();
        let mut sample = Message::default();
        sample.packed(field::sample::LOCATION_ID, leaves.iter().chain(callers).copied());
        sample.packed(field::sample::VALUE, [cpu_ns, n_entries]);
        self.message.message(field::SAMPLE, &sample);
    }

    fn location(&mut self, place: Place) -> u64 {
        let (index, is_new) = self.locations.insert(place);
        let id = index + 1;
        if is_new {
            let location = self.describe(id, place);
            self.message.message(field::LOCATION, &location);
        }
        id
    }

    fn describe(&mut self, id: u64, place: Place) -> Message {
        let mut location = Message::default();
        location.number(field::location::ID, id);
        let Place::Code { function, address } = place else {
            let kernel = self.function(KERNEL, "", "", 0);
            location.message(field::location::LINE, &line(kernel, 0));
            return location;
        };
        let module = self.profile.functions[function.index()].module;
        location.number(field::location::MAPPING_ID, mapping_id(module));
        location.number(field::location::ADDRESS, address);
        let frames = self.symbols.frames(module, address);
        if frames.is_empty() {
            let unknown = self.unknown_function(function);
            location.message(field::location::LINE, &line(unknown, 0));
        }
        for frame in frames {
            let id = self.function(&frame.function, &frame.linkage_name, &frame.file, frame.function_line);
            location.message(field::location::LINE, &line(id, frame.line));
        }
        location
    }

    fn unknown_function(&mut self, function: FunctionId) -> u64 {
        let label = self.labels.function(function).to_owned();
        self.function(&label, &self.profile.functions[function.index()].name, "", 0)
    }

    fn function(&mut self, name: &str, linkage_name: &str, file: &str, first_line: u32) -> u64 {
        let key = (self.string(name), self.string(linkage_name), self.string(file), first_line);
        let (index, is_new) = self.functions.insert(key);
        let id = index + 1;
        if is_new {
            let mut function = Message::default();
            function.number(field::function::ID, id);
            function.number(field::function::NAME, key.0);
            function.number(field::function::SYSTEM_NAME, key.1);
            function.number(field::function::FILENAME, key.2);
            function.number(field::function::START_LINE, u64::from(first_line));
            self.message.message(field::FUNCTION, &function);
        }
        id
    }

    fn mappings(&mut self) {
        let mut limits = vec![0; self.profile.modules.len()];
        for function in &self.profile.functions {
            let limit: &mut u64 = &mut limits[function.module.index()];
            *limit = (*limit).max(function.address.saturating_add(function.size));
        }
        for ((index, module), limit) in (0..).zip(&self.profile.modules).zip(limits) {
            let mut mapping = Message::default();
            mapping.number(field::mapping::ID, mapping_id(ModuleId(index)));
            mapping.number(field::mapping::LIMIT, (limit / PAGE_BYTES).saturating_add(1).saturating_mul(PAGE_BYTES));
            mapping.number(field::mapping::FILENAME, self.string(&module.path));
            mapping.number(field::mapping::BUILD_ID, self.string(&module.build_id));
            mapping.flag(field::mapping::HAS_FUNCTIONS, true);
            mapping.flag(field::mapping::HAS_FILENAMES, true);
            mapping.flag(field::mapping::HAS_LINE_NUMBERS, true);
            mapping.flag(field::mapping::HAS_INLINE_FRAMES, true);
            self.message.message(field::MAPPING, &mapping);
        }
    }
}

fn line(function_id: u64, line: u32) -> Message {
    let mut message = Message::default();
    message.number(field::line::FUNCTION_ID, function_id);
    message.number(field::line::LINE, u64::from(line));
    message
}

fn mapping_id(module: ModuleId) -> u64 {
    u64::from(module.0) + 1
}

/// Distinct values, numbered as they come.
struct Interned<T> {
    indices: FxHashMap<T, u64>,
    values: Vec<T>,
}

impl<T> Default for Interned<T> {
    fn default() -> Interned<T> {
        Interned { indices: FxHashMap::default(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interned<T> {
    /// The index of a value, and whether it is new.
    fn insert(&mut self, value: T) -> (u64, bool) {
        if let Some(&index) = self.indices.get(&value) {
            return (index, false);
        }
        let index = self.values.len() as u64;
        self.values.push(value.clone());
        self.indices.insert(value, index);
        (index, true)
    }
}
