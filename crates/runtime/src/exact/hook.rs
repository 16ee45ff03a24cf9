//! Back from code of the kernel in user space.
//!
//! The vDSO has no copies, and nothing in it comes back by itself. It is entered by calls only. So
//! the gate puts the address of [`hook`] where the return address is, and remembers the true one in
//! the header. The hook puts everything in order and comes to the gate. A signal that arrives
//! meanwhile puts the true address back first, so that handlers and unwinders find the stack as it
//! should be.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;

use wire::sample::EndReason;
use wire::thread::ThreadHeader;

use crate::exact::gate_registers::saved;
use crate::exact::native_code;
use crate::exact::resume::Hooked;
use crate::sys::abi::{UContext, register};
use crate::threads::area::Area;

/// The reason with which the hook comes to the gate: `target` has been returned to.
pub const RETURNED: EndReason = EndReason::None;

/// If the thread in the gate has called code of the kernel at `target`: replaces the return
/// address.
pub fn set_at_call(area: &Area, target: u64) {
    if native_code::is_kernel(target) {
        // SAFETY: the thread has just made a call, so that its return address is on top of the
        // stack.
        unsafe {
            let slot = (*area.raw()).gate.registers[saved::RSP];
            set(area, Hooked { slot, address: *(slot as *const u64) });
        }
    }
}

/// Sets the hook again after [`unset`].
///
/// # Safety
/// The thread must be about to go on where [`unset`] found it.
pub unsafe fn set(area: &Area, hooked: Hooked) {
    let header = area.raw();
    // SAFETY: the caller's promise: the slot holds the return address of the kernel's code.
    unsafe {
        (*header).gate.hook_slot = hooked.slot;
        (*header).gate.hook_return = hooked.address;
        *(hooked.slot as *mut u64) = hook as *const () as u64;
    }
}

/// What [`unset`] found.
pub enum Found {
    /// The thread is in no code of the kernel (it may be about to go there), or came there in
    /// another way.
    Nothing,
    /// The thread is in code of the kernel.
    Inside(Hooked),
    /// It has just returned from there; now it is where it returned to.
    Returned,
}

/// If the signal of `context` interrupted code of the kernel or the hook: puts the true return
/// address back.
pub fn unset(area: &Area, context: &mut UContext) -> Found {
    let (start, end): (u64, u64);
    // SAFETY: takes two addresses.
    unsafe {
        asm!("lea {}, [rip + strobe_hook_start]", "lea {}, [rip + strobe_hook_end]", out(reg) start, out(reg) end,
             options(nomem, nostack, preserves_flags));
    }
    let header = area.raw();
    let registers = &mut context.registers;
    let pc = registers[register::RIP];
    // SAFETY: the area is the calling thread's; a hook that is set has replaced a return address
    // that is still to be used.
    unsafe {
        if (start..end).contains(&pc) {
            if pc != start {
                registers[register::RAX] = (*header).scratch.saved_rax;
            }
            registers[register::RIP] = (*header).gate.hook_return;
            (*header).gate.hook_slot = 0;
            (*header).scratch.target = (*header).gate.hook_return;
            area.header().burst.end_reason.store(RETURNED as u32, Relaxed);
            return Found::Returned;
        }
        let slot = core::mem::take(&mut (*header).gate.hook_slot);
        if slot == 0 {
            return Found::Nothing;
        }
        let hooked = Hooked { slot, address: (*header).gate.hook_return };
        *(slot as *mut u64) = hooked.address;
        if native_code::is_kernel(pc) { Found::Inside(hooked) } else { Found::Nothing }
    }
}

/// Where code of the kernel returns to.
#[unsafe(naked)]
unsafe extern "C" fn hook() {
    naked_asm!(
        ".globl strobe_hook_start",
        ".hidden strobe_hook_start",
        "strobe_hook_start:",
        "mov gs:[{saved_rax}], rax",
        "mov rax, gs:[{hook_return}]",
        "mov gs:[{target}], rax",
        "mov [rsp - 8], rax",
        "mov rax, gs:[{saved_rax}]",
        "mov dword ptr gs:[{end_reason}], {returned}",
        "mov qword ptr gs:[{hook_slot}], 0",
        "jmp qword ptr gs:[{gate}]",
        ".globl strobe_hook_end",
        ".hidden strobe_hook_end",
        "strobe_hook_end:",
        saved_rax = const offset_of!(ThreadHeader, scratch.saved_rax),
        hook_return = const offset_of!(ThreadHeader, gate.hook_return),
        hook_slot = const offset_of!(ThreadHeader, gate.hook_slot),
        target = const offset_of!(ThreadHeader, scratch.target),
        end_reason = const offset_of!(ThreadHeader, burst.end_reason),
        gate = const offset_of!(ThreadHeader, exact.gate),
        returned = const RETURNED as u32,
    )
}
