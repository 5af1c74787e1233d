//! The runtime as it was built uses no vector registers: they are the program's.

use std::path::{Path, PathBuf};

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Register};
use object::{Object, ObjectSection, SectionKind};

use super::Finding;
use super::tree::Tree;

/// Name of the runtime's image.
const IMAGE: &str = "rv-runtime";

/// Disassembles every image of the runtime that builds have left. Saving and
/// restoring all vector state as a block names no register, and is permitted.
pub fn has_no_vector_instructions(tree: &Tree) -> Vec<Finding> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tree.root.join("target"), PathBuf::from);
    let newest = images(&target).into_iter().max_by_key(|image| modified(image));
    let Some(bytes) = newest.and_then(|image| std::fs::read(image).ok()) else { return Vec::new() };
    let found = match vector_instructions(&bytes) {
        Ok(found) => found,
        Err(error) => vec![format!("the runtime's image cannot be read: {error}")],
    };
    found.into_iter().map(|what| Finding::new("crates/in-tracee/runtime", 0, what)).collect()
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(path).and_then(|found| found.modified()).ok()
}

/// Images of all profiles: `PROFILE/build/injector-HASH/out/runtime/TARGET/release/`.
fn images(target: &Path) -> Vec<PathBuf> {
    let folders = |path: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let builds = folders(target).into_iter().flat_map(|profile| folders(&profile.join("build")));
    let image = |build: PathBuf| build.join("out/runtime/x86_64-unknown-none/release").join(IMAGE);
    builds.map(image).filter(|image| image.is_file()).collect()
}

/// The instructions that name a vector register.
fn vector_instructions(image: &[u8]) -> object::Result<Vec<String>> {
    let file = object::File::parse(image)?;
    let mut found = Vec::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let data = section.data()?;
        let mut factory = InstructionInfoFactory::new();
        for instruction in Decoder::with_ip(64, data, section.address(), DecoderOptions::NONE).iter() {
            if let Some(register) = vector_register(&mut factory, &instruction) {
                let place = instruction.ip();
                found.push(format!("{:?} at {place:#x} uses {register:?}", instruction.mnemonic()));
            }
        }
    }
    Ok(found)
}

/// A vector register that the instruction names.
fn vector_register(factory: &mut InstructionInfoFactory, instruction: &Instruction) -> Option<Register> {
    let is_vector =
        |register: &Register| register.is_vector_register() || register.is_mm() || register.is_k();
    let named = (0..instruction.op_count()).map(|operand| instruction.op_register(operand)).find(is_vector);
    // vzeroupper and its kin name none, and change them all; fxrstor and xrstor
    // load them from memory, which is their purpose.
    named.or_else(|| {
        let info = factory.info(instruction);
        let is_block = instruction.is_save_restore_instruction();
        info.used_registers()
            .iter()
            .map(|used| used.register())
            .find(|register| !is_block && is_vector(register))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(code: &[u8]) -> Option<Register> {
        let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
        vector_register(&mut InstructionInfoFactory::new(), &instruction)
    }

    #[test]
    fn vector_registers_are_recognised() {
        assert_eq!(first(&[0x0f, 0x57, 0xc0]), Some(Register::XMM0), "xorps xmm0, xmm0");
        assert!(first(&[0xc5, 0xf8, 0x77]).is_some(), "vzeroupper");
        assert_eq!(first(&[0x48, 0x89, 0xd8]), None, "mov rax, rbx");
        assert_eq!(first(&[0x48, 0x0f, 0xae, 0x08]), None, "fxrstor64 [rax]");
    }
}
