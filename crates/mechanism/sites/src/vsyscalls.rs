//! Whether a file names the vsyscall page, whose three calls the kernel answers where no
//! interception of system calls sees them (arch/x86/entry/vsyscall/vsyscall_64.c, Linux 6.18).
//!
//! Named by an instruction that moves one of the three addresses, or by a word of the file's
//! data. What only looks like it costs the program a filter that has nothing to do.

use memchr::memmem;

use crate::image::{Image, Region};

/// gettimeofday, time and getcpu: the lower halves of 0xffffffffff600000 and so on.
const CALLS: [[u8; 4]; 3] = [[0, 0, 0x60, 0xff], [0, 4, 0x60, 0xff], [0, 8, 0x60, 0xff]];
/// The upper half.
const UPPER: [u8; 4] = [0xff; 4];

pub(crate) fn are_named(image: &Image<'_>) -> bool {
    image.loaded.iter().any(|region| CALLS.iter().any(|call| is_named(region, call)))
}

fn is_named(region: &Region<'_>, call: &[u8; 4]) -> bool {
    memmem::find_iter(region.bytes, call).any(|at| {
        let (ahead, behind) = region.bytes.split_at(at);
        is_move(ahead) || behind[4..].starts_with(&UPPER) && is_word(ahead, region.address + at as u64)
    })
}

/// True ahead of the constant of `mov r/m64, imm32`: REX.W, c7 /0, then what the operand's form
/// takes (0 to 5 bytes).
fn is_move(ahead: &[u8]) -> bool {
    (0..=5).any(|operand| {
        let Some([rex, opcode, form]) = ahead
            .len()
            .checked_sub(3 + operand)
            .and_then(|from| <[u8; 3]>::try_from(&ahead[from..from + 3]).ok())
        else {
            return false;
        };
        let takes = match (form >> 6, form & 7) {
            (3, _) => 0,
            (0, 4) => 1,
            (0, 5) => 4,
            (0, _) => 0,
            (1, 4) => 2,
            (1, _) => 1,
            (_, 4) => 5,
            (_, _) => 4,
        };
        rex & 0xf8 == 0x48 && opcode == 0xc7 && form & 0x38 == 0 && takes == operand
    })
}

/// True ahead of a word of data, or of the constant of `mov r64, imm64`.
fn is_word(ahead: &[u8], address: u64) -> bool {
    address.is_multiple_of(8) || matches!(ahead, [.., 0x48 | 0x49, 0xb8..=0xbf])
}
