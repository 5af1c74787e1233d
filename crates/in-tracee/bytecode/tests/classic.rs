//! Filters of seccomp(2): what is accepted, and what they return. That the kernel sees it the
//! same way is what the guest `filters_compared` shows.

use bytecode::classic::{INSTRUCTIONS_MAX, Instruction, is_valid, op, run, run_for_number};
use proptest::prelude::*;

const ALLOW: u32 = 0x7fff_0000;

fn at(code: u16, operand: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, operand }
}

fn branch(code: u16, operand: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code, if_true, if_false, operand }
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    let end = at(op::RETURN, ALLOW);
    assert!(is_valid(&[end]));
    assert!(is_valid(&[at(op::RETURN_A, 0)]));
    let bad = [
        at(op::LOAD, 64),
        at(op::LOAD, 2),
        // Half words and bytes.
        at(0x28, 0),
        at(0x30, 0),
        at(op::DIVIDE, 0),
        at(op::SHIFT_LEFT, 32),
        at(op::SHIFT_RIGHT, 32),
        // Modulo, and a negation with a register.
        at(0x94, 3),
        at(op::NEGATE | op::WITH_X, 0),
        at(op::STORE, 16),
        at(op::LOAD_CELL, 0),
        at(op::JUMP, 1),
        branch(op::IF_EQUAL, 0, 1, 0),
        branch(op::IF_EQUAL, 0, 0, 1),
        at(0xffff, 0),
    ];
    for instruction in bad {
        assert!(!is_valid(&[instruction, end]), "{instruction:?}");
    }
    assert!(!is_valid(&[]));
    assert!(!is_valid(&[end, at(op::LOAD, 0)]), "it has to return at its end");
    assert!(is_valid(&[end; INSTRUCTIONS_MAX]));
    assert!(!is_valid(&[end; INSTRUCTIONS_MAX + 1]));
}

#[test]
fn a_cell_is_read_only_where_every_way_stored_it() {
    let end = at(op::RETURN_A, 0);
    assert!(is_valid(&[at(op::STORE, 3), at(op::LOAD_CELL, 3), end]));
    let one_way = [branch(op::IF_EQUAL, 0, 1, 0), at(op::STORE, 3), at(op::LOAD_X_CELL, 3), end];
    assert!(!is_valid(&one_way));
    let both =
        [at(op::STORE_X, 3), branch(op::IF_EQUAL, 0, 1, 0), at(op::STORE, 3), at(op::LOAD_CELL, 3), end];
    assert!(is_valid(&both));
}

#[test]
fn arithmetic_is_that_of_32_bits() {
    let mut data = [0; 16];
    data[4] = 0x8000_0001;
    let of =
        |code: u16, operand: u32| run(&[at(op::LOAD, 16), at(code, operand), at(op::RETURN_A, 0)], &data);
    assert_eq!(of(op::ADD, 0x8000_0000), 1);
    assert_eq!(of(op::SUBTRACT, 2), 0x7fff_ffff);
    assert_eq!(of(op::MULTIPLY, 2), 2);
    assert_eq!(of(op::DIVIDE, 2), 0x4000_0000);
    assert_eq!(of(op::XOR, 1), 0x8000_0000);
    assert_eq!(of(op::SHIFT_LEFT, 1), 2);
    assert_eq!(of(op::SHIFT_RIGHT, 31), 1);
    assert_eq!(of(op::NEGATE, 0), 0x7fff_ffff);
    assert_eq!(of(op::LOAD_LENGTH, 0), 64);
    let by_x = |code: u16, x: u32| {
        let program =
            [at(op::LOAD, 16), at(op::LOAD_X_OPERAND, x), at(code | op::WITH_X, 0), at(op::RETURN_A, 0)];
        run(&program, &data)
    };
    assert_eq!(by_x(op::DIVIDE, 0), 0, "a division by zero kills");
    assert_eq!(by_x(op::SHIFT_LEFT, 33), 2);
}

#[test]
fn what_depends_on_the_number_alone_is_known_beforehand() {
    let program = [
        at(op::LOAD, 4),
        branch(op::IF_EQUAL, 0xc000_003e, 0, 4),
        at(op::LOAD, 0),
        branch(op::IF_GREATER_EQUAL, 10, 1, 0),
        at(op::RETURN, ALLOW),
        at(op::LOAD, 16),
        at(op::RETURN, 0),
    ];
    assert!(is_valid(&program));
    assert_eq!(run_for_number(&program, 9, 0xc000_003e), Some(ALLOW));
    assert_eq!(run_for_number(&program, 10, 0xc000_003e), None, "it looks at an argument");
    assert_eq!(run_for_number(&program, 9, 1), Some(0));
}

proptest! {
    /// Whatever is accepted ends, and what is known beforehand is what comes.
    #[test]
    fn a_valid_program_ends(
        codes in proptest::collection::vec((0u16..0x90, 0u8..4, 0u8..4, 0u32..70), 1..40),
        data in proptest::array::uniform16(0u32..20),
    ) {
        let mut program: Vec<Instruction> =
            codes.iter().map(|&(code, yes, no, operand)| branch(code, operand, yes, no)).collect();
        program.push(at(op::RETURN_A, 0));
        program.retain(|instruction| is_valid(&[*instruction, at(op::RETURN, 0), at(op::RETURN, 0),
            at(op::RETURN, 0), at(op::RETURN, 0), at(op::RETURN, 0)]));
        if is_valid(&program) {
            let result = run(&program, &data);
            if let Some(known) = run_for_number(&program, data[0], data[1]) {
                prop_assert_eq!(known, result);
            }
        }
    }
}
