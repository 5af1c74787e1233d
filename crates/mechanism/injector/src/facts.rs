//! What has to be the same where the image of a process is taken up as where it was made.

use crate::image::RUNTIME;
use crate::session_memory::SessionMemory;

/// The runtime, bytes of the session that processes know of by heart, and what the processor
/// keeps in frames of signals.
pub fn image_facts(memory: &SessionMemory) -> (&'static [u8], String) {
    // SAFETY: the session is mapped; these were set before its first process began.
    let (interception, cpuid) =
        unsafe { ((*memory.session()).interception, (*memory.session()).cpuid_faulting) };
    // SAFETY: the call only asks.
    let frame_bytes = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) };
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of_processor = |line: &&str| line.starts_with("model name") || line.starts_with("flags");
    let lines: Vec<&str> = processor.lines().filter(of_processor).take(2).collect();
    (RUNTIME, format!("{interception} {cpuid} {frame_bytes}\n{}", lines.join("\n")))
}
