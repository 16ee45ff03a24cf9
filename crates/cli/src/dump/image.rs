//! `strobe dump image`: what a file says about itself.

use std::io::{self, Write};

use image::{Cfa, Frame, FunctionSeed, Image, Permissions, PltStub, RegisterRule, Svma, SvmaRange, Symbol, UnwindRow};

/// Prints all facts of a file.
pub fn print(image: &Image<'_>, out: &mut impl Write) -> io::Result<()> {
    let build_id = image.build_id().map_or_else(|| "none".to_owned(), ToString::to_string);
    writeln!(out, "image {:?} static={} build-id={build_id}", image.kind(), image.is_static())?;
    for segment in image.segments() {
        let file = &segment.file_range;
        let permissions = letters(segment.permissions);
        writeln!(out, "segment {:?} {permissions} file={:#x}..{:#x}", segment.range, file.start, file.end)?;
    }
    for section in image.sections().iter().filter(|section| section.is_allocated) {
        let code = if section.is_executable { " code" } else { "" };
        let writable = if section.is_writable { " writable" } else { "" };
        writeln!(out, "section {:?} {}{code}{writable}", section.range, section.name)?;
    }
    print_ranges(image, |_| true, out)?;
    for (location, target) in image.code_pointers() {
        writeln!(out, "code-pointer {location} -> {target}")?;
    }
    for problem in image.problems() {
        writeln!(out, "problem {problem}")?;
    }
    Ok(())
}

/// Prints the facts of the code in `parts`.
pub fn print_function(image: &Image<'_>, parts: &[SvmaRange], out: &mut impl Write) -> io::Result<()> {
    print_ranges(image, |at| parts.iter().any(|part| part.contains(at)), out)
}

fn print_ranges(image: &Image<'_>, wanted: impl Fn(Svma) -> bool, out: &mut impl Write) -> io::Result<()> {
    for symbol in image.symbols().iter().filter(|symbol| wanted(symbol.address)) {
        print_symbol(symbol, out)?;
    }
    for stub in image.plt_stubs().iter().filter(|stub| wanted(stub.range.start)) {
        print_stub(stub, out)?;
    }
    for seed in image.functions().iter().filter(|seed| wanted(seed.start)) {
        print_seed(image, seed, out)?;
    }
    for frame in image.frames().iter().filter(|frame| wanted(frame.range.start)) {
        print_frame(image, frame, out)?;
    }
    Ok(())
}

fn print_symbol(symbol: &Symbol<'_>, out: &mut impl Write) -> io::Result<()> {
    let Symbol { name, address, size, binding, kind, source } = symbol;
    writeln!(out, "symbol {address} size={size} {kind:?} {binding:?} {source:?} {name}")
}

fn print_stub(stub: &PltStub, out: &mut impl Write) -> io::Result<()> {
    let symbol = stub.symbol.as_deref().unwrap_or("-");
    writeln!(out, "plt {:?} slot={} {:?} {symbol}", stub.range, stub.slot, stub.kind)
}

fn print_seed(image: &Image<'_>, seed: &FunctionSeed, out: &mut impl Write) -> io::Result<()> {
    let size = seed.size.map_or_else(|| "?".to_owned(), |size| size.to_string());
    writeln!(out, "function {} size={size} {} {}", seed.start, seed.sources, image.name_of(seed.start))
}

fn print_frame(image: &Image<'_>, frame: &Frame, out: &mut impl Write) -> io::Result<()> {
    let start = frame.range.start;
    let lsda = frame.lsda.map_or(String::new(), |at| format!(" lsda={at}"));
    let signal = if frame.is_signal_trampoline { " signal-trampoline" } else { "" };
    writeln!(out, "frame {:?}{lsda}{signal}", frame.range)?;
    match image.unwind_rows(frame) {
        Ok(rows) => rows.iter().try_for_each(|row| writeln!(out, "unwind {start} {}", describe_row(row)))?,
        Err(error) => writeln!(out, "unwind {start} error: {error}")?,
    }
    match image.call_sites(frame) {
        Ok(sites) => {
            for site in sites {
                let pad = site.landing_pad.map_or_else(|| "none".to_owned(), |at| at.to_string());
                writeln!(out, "call-site {start} {:?} landing-pad={pad} action={}", site.range, site.action)?;
            }
            Ok(())
        }
        Err(error) => writeln!(out, "call-site {start} error: {error}"),
    }
}

fn describe_row(row: &UnwindRow) -> String {
    let cfa = match row.cfa {
        Cfa::Register { register, offset } => format!("{}{offset:+}", register_name(register)),
        Cfa::Expression => "expression".to_owned(),
    };
    let mut text = format!("{:?} cfa={cfa}", row.range);
    for &(register, rule) in &row.registers {
        let rule = match rule {
            RegisterRule::Offset(offset) => format!("[cfa{offset:+}]"),
            other => format!("{other:?}"),
        };
        text.push_str(&format!(" {}={rule}", register_name(register)));
    }
    text
}

/// Names by DWARF number.
fn register_name(number: u16) -> String {
    const NAMES: [&str; 17] = [
        "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
        "return",
    ];
    NAMES.get(usize::from(number)).map_or_else(|| format!("r{number}"), |name| (*name).to_owned())
}

fn letters(permissions: Permissions) -> String {
    let Permissions { read, write, execute } = permissions;
    [(read, 'r'), (write, 'w'), (execute, 'x')].map(|(has, letter)| if has { letter } else { '-' }).iter().collect()
}
