//! What instructions do, on symbolic values: open to everyone who follows code without running it.
//!
//! ```text
//! Values       expressions over what registers, stack slots and memory held, each with one id
//! State        which expression each place holds, and what comparisons have told about it
//! Interpreter  from the state before an instruction to the state behind it
//! ```
//!
//! **Equal ids are equal values.** An expression is stored once, so that whatever is learned about
//! a value holds in every place that has it. What is not modelled is a value of its own, named
//! after the instruction that made it: the interpreter never guesses.
//!
//! **What it takes for granted.** Slots of the stack frame change only through addresses made from
//! the stack pointer. A callee keeps to the calling convention, unless the caller of
//! [`Interpreter::new`] knows more about it.
//!
//! It models what compilers write around tables of jump targets, which is what [`crate::indirect`]
//! needs. Whoever follows a *thread*, with known registers and a stack that can be read, needs
//! other rules: [`crate::returning`] has them.
//!
//! ```
//! use flow::semantics::{Interpreter, State, Value};
//! use iced_x86::{Decoder, DecoderOptions};
//!
//! let program = std::fs::read("/proc/self/exe").expect("a running program has a file");
//! let image = image::Image::parse(&program).expect("a running program is an ELF file");
//! let mut interpreter = Interpreter::new(&image, None);
//! let mut state = State::at_entry(&mut interpreter.values);
//! // mov $5, %ecx; lea 1(%rcx,%rcx,2), %rax
//! let code = [0xb9, 5, 0, 0, 0, 0x48, 0x8d, 0x44, 0x49, 1];
//! for insn in &mut Decoder::new(64, &code, DecoderOptions::NONE) {
//!     interpreter.step(&mut state, &insn);
//! }
//! assert_eq!(interpreter.values.get(state.registers[0]), Value::Const(16));
//! ```

mod interpreter;
mod state;
mod value;

pub use interpreter::{Interpreter, RSP, refine};
pub use state::{Comparison, Interval, Merged, State};
pub use value::{Place, Value, ValueId, Values, low_mask, sign_extend};
