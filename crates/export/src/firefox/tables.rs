//! The tables of a thread, as the format wants them: one array per column, rows by index, no row
//! twice.

use profile::model::{ModuleId, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::json;

use crate::labels::file_name;

/// A row of the frame table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub(super) struct FrameIndex(u32);

/// A row of the stack table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub(super) struct StackIndex(u32);

/// What a frame shows.
#[derive(Debug, Default)]
pub(super) struct Frame<'a> {
    /// Name of the function, perhaps an inlined one.
    pub name: &'a str,
    pub module: Option<ModuleId>,
    pub address: Option<u64>,
    /// Address, size and name of the function that the code belongs to.
    pub symbol: Option<(u64, u64, &'a str)>,
    pub inline_depth: usize,
    pub category: u32,
    /// Empty if unknown.
    pub file: &'a str,
    /// 0 if unknown.
    pub line: u32,
    /// 0 if unknown.
    pub function_line: u32,
}

/// A thread in the making.
#[derive(Debug)]
pub(super) struct Tables {
    strings: Strings,
    functions: FunctionTable,
    function_ids: FxHashMap<(u32, Option<u32>, i64), u32>,
    symbols: SymbolTable,
    symbol_ids: FxHashMap<(u64, u32), u32>,
    frames: FrameTable,
    frame_ids: FxHashMap<FrameKey, FrameIndex>,
    stacks: StackTable,
    stack_ids: FxHashMap<(Option<StackIndex>, FrameIndex), StackIndex>,
    resources: ResourceTable,
    samples: SampleTable,
}

/// Function, address, depth of inlining, line.
type FrameKey = (u32, Option<u64>, usize, u32);

impl Tables {
    /// Every module is a resource of the same index.
    pub fn new(profile: &Profile) -> Tables {
        let mut strings = Strings::default();
        let n_modules = profile.modules.len();
        let names = profile.modules.iter().map(|module| strings.index(file_name(&module.path))).collect();
        let resources = ResourceTable {
            length: n_modules,
            lib: (0..n_modules).collect(),
            name: names,
            host: vec![(); n_modules],
            kind: vec![1; n_modules],
        };
        Tables {
            strings,
            functions: FunctionTable::default(),
            function_ids: FxHashMap::default(),
            symbols: SymbolTable::default(),
            symbol_ids: FxHashMap::default(),
            frames: FrameTable::default(),
            frame_ids: FxHashMap::default(),
            stacks: StackTable::default(),
            stack_ids: FxHashMap::default(),
            resources,
            samples: SampleTable { weight_type: "tracing-ms", ..SampleTable::default() },
        }
    }

    pub fn frame(&mut self, frame: &Frame<'_>) -> FrameIndex {
        let func = self.function(frame);
        let key = (func, frame.address, frame.inline_depth, frame.line);
        if let Some(&index) = self.frame_ids.get(&key) {
            return index;
        }
        let native_symbol = self.symbol(frame);
        let table = &mut self.frames;
        let index = FrameIndex(table.length);
        table.length += 1;
        table.address.push(frame.address.map_or(-1, |address| i64::try_from(address).unwrap_or(-1)));
        table.inline_depth.push(frame.inline_depth);
        table.category.push(frame.category);
        table.subcategory.push(0);
        table.func.push(func);
        table.native_symbol.push(native_symbol);
        table.inner_window_id.push(0);
        table.line.push(Some(frame.line).filter(|&line| line != 0));
        table.column.push(());
        self.frame_ids.insert(key, index);
        index
    }

    pub fn stack(&mut self, prefix: Option<StackIndex>, frame: FrameIndex) -> StackIndex {
        let table = &mut self.stacks;
        *self.stack_ids.entry((prefix, frame)).or_insert_with(|| {
            let index = StackIndex(table.length);
            table.length += 1;
            table.prefix.push(prefix);
            table.frame.push(frame);
            index
        })
    }

    /// Adds a sample that begins where the previous one ends.
    pub fn sample(&mut self, stack: Option<StackIndex>, ns: u64) {
        let table = &mut self.samples;
        table.length += 1;
        table.stack.push(stack);
        table.time_deltas.push(table.last_ns as f64 / 1e6);
        table.weight.push(ns as f64 / 1e6);
        table.last_ns = ns;
    }

    pub fn finish(self, name: &str, pid: u32, tid: u32) -> impl Serialize {
        Thread {
            name: name.to_owned(),
            is_main_thread: true,
            pid: pid.to_string(),
            tid,
            process_name: name.to_owned(),
            process_type: "default",
            process_startup_time: 0.0,
            process_shutdown_time: None,
            register_time: 0.0,
            unregister_time: None,
            paused_ranges: [],
            show_markers_in_timeline: false,
            markers: json!({
                "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": [],
            }),
            frame_table: self.frames,
            func_table: self.functions,
            native_symbols: self.symbols,
            resource_table: self.resources,
            samples: self.samples,
            stack_table: self.stacks,
            string_array: self.strings.values,
        }
    }

    fn function(&mut self, frame: &Frame<'_>) -> u32 {
        let name = self.strings.index(frame.name);
        let file = Some(frame.file).filter(|file| !file.is_empty()).map(|file| self.strings.index(file));
        let resource = frame.module.map_or(-1, |module| i64::from(module.0));
        let table = &mut self.functions;
        *self.function_ids.entry((name, file, resource)).or_insert_with(|| {
            let index = table.length;
            table.length += 1;
            table.name.push(name);
            table.is_js.push(false);
            table.relevant_for_js.push(false);
            table.resource.push(resource);
            table.file_name.push(file);
            table.line_number.push(Some(frame.function_line).filter(|&line| line != 0));
            table.column_number.push(());
            index
        })
    }

    fn symbol(&mut self, frame: &Frame<'_>) -> Option<u32> {
        let (module, (address, size, name)) = (frame.module?, frame.symbol?);
        let name = self.strings.index(name);
        let table = &mut self.symbols;
        Some(*self.symbol_ids.entry((address, module.0)).or_insert_with(|| {
            let index = table.length;
            table.length += 1;
            table.address.push(address);
            table.function_size.push(size);
            table.lib_index.push(module.0);
            table.name.push(name);
            index
        }))
    }
}

#[derive(Debug, Default)]
struct Strings {
    values: Vec<String>,
    indices: FxHashMap<String, u32>,
}

impl Strings {
    fn index(&mut self, text: &str) -> u32 {
        if let Some(&index) = self.indices.get(text) {
            return index;
        }
        let index = self.values.len() as u32;
        self.values.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    name: String,
    is_main_thread: bool,
    pid: String,
    tid: u32,
    process_name: String,
    process_type: &'static str,
    process_startup_time: f64,
    process_shutdown_time: Option<f64>,
    register_time: f64,
    unregister_time: Option<f64>,
    paused_ranges: [(); 0],
    show_markers_in_timeline: bool,
    markers: serde_json::Value,
    frame_table: FrameTable,
    func_table: FunctionTable,
    native_symbols: SymbolTable,
    resource_table: ResourceTable,
    samples: SampleTable,
    stack_table: StackTable,
    string_array: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FrameTable {
    length: u32,
    address: Vec<i64>,
    inline_depth: Vec<usize>,
    category: Vec<u32>,
    subcategory: Vec<u32>,
    func: Vec<u32>,
    native_symbol: Vec<Option<u32>>,
    #[serde(rename = "innerWindowID")]
    inner_window_id: Vec<u32>,
    line: Vec<Option<u32>>,
    column: Vec<()>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionTable {
    length: u32,
    name: Vec<u32>,
    #[serde(rename = "isJS")]
    is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    relevant_for_js: Vec<bool>,
    resource: Vec<i64>,
    file_name: Vec<Option<u32>>,
    line_number: Vec<Option<u32>>,
    column_number: Vec<()>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct SymbolTable {
    length: u32,
    address: Vec<u64>,
    function_size: Vec<u64>,
    lib_index: Vec<u32>,
    name: Vec<u32>,
}

#[derive(Debug, Serialize)]
struct ResourceTable {
    length: usize,
    lib: Vec<usize>,
    name: Vec<u32>,
    host: Vec<()>,
    /// 1 is a library.
    #[serde(rename = "type")]
    kind: Vec<u32>,
}

#[derive(Debug, Default, Serialize)]
struct StackTable {
    length: u32,
    prefix: Vec<Option<StackIndex>>,
    frame: Vec<FrameIndex>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct SampleTable {
    length: u32,
    weight_type: &'static str,
    stack: Vec<Option<StackIndex>>,
    time_deltas: Vec<f64>,
    weight: Vec<f64>,
    #[serde(skip)]
    last_ns: u64,
}
