//! Values of expressions, and what bad ones come to.

use bytecode::{Failure, Host, evaluate};
use lane_protocol::bytecode::op::*;
use proptest::prelude::*;

/// Memory of 256 bytes at address 0x1000, each byte its own offset.
#[derive(Default)]
struct Sample {
    values: Vec<u64>,
}

impl Host for Sample {
    fn register(&mut self, number: u16) -> Option<u64> {
        (number < 17).then(|| u64::from(number) * 100)
    }

    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        let fits = address >= 0x1000 && address.saturating_add(into.len() as u64) <= 0x1100;
        if fits {
            for (index, byte) in into.iter_mut().enumerate() {
                *byte = (address - 0x1000 + index as u64) as u8;
            }
        }
        fits
    }

    fn record_value(&mut self, value: u64) {
        self.values.push(value);
    }
}

fn value(code: &[u8]) -> Result<u64, Failure> {
    evaluate(code, &mut Sample::default())
}

#[test]
fn arithmetic_is_as_in_c() {
    let minus_seven = [CONST8, 0xf9, EXT, 8];
    for (operation, expected) in
        [(DIV_SIGNED, -3), (REM_SIGNED, -1), (ADD, -5), (SUB, -9), (MUL, -14), (LESS_SIGNED, 1), (EQUAL, 0)]
    {
        let code = [&minus_seven[..], &[CONST8, 2, operation, END]].concat();
        assert_eq!(value(&code), Ok(expected as u64), "{operation:#x}");
    }
    assert_eq!(value(&[CONST8, 1, CONST8, 64, LSH, END]), Ok(0));
    assert_eq!(value(&[&minus_seven[..], &[CONST8, 1, RSH_SIGNED, END]].concat()), Ok(-4i64 as u64));
    assert_eq!(value(&[CONST8, 5, LOG_NOT, LOG_NOT, END]), Ok(1));
    assert_eq!(value(&[CONST16, 0x12, 0x34, ZERO_EXT, 8, END]), Ok(0x34));
}

#[test]
fn memory_and_registers_are_read() {
    assert_eq!(value(&[CONST16, 0x10, 0x04, REF32, END]), Ok(0x0706_0504));
    assert_eq!(value(&[REG, 0, 3, END]), Ok(300));
    assert_eq!(value(&[REG, 0, 99, END]), Err(Failure::NoRegister));
    assert_eq!(value(&[CONST16, 0x10, 0xff, REF16, END]), Err(Failure::Unreadable(0x10ff)));
}

#[test]
fn the_stack_is_arranged() {
    let three = [CONST8, 1, CONST8, 2, CONST8, 3];
    for (rest, expected) in [(&[SWAP][..], 2), (&[PICK, 2], 1), (&[ROT], 2), (&[ROT, POP], 1), (&[POP], 2)] {
        assert_eq!(value(&[&three[..], rest].concat()), Ok(expected), "{rest:?}");
    }
}

#[test]
fn jumps_choose_and_values_are_recorded() {
    let mut host = Sample::default();
    // if (5) 7 else 9
    let code = [CONST8, 5, IF_GOTO, 0, 10, CONST8, 9, GOTO, 0, 12, CONST8, 7, DUP, RECORD_VALUE, END];
    assert_eq!(evaluate(&code, &mut host), Ok(7));
    assert_eq!(host.values, [7]);
}

#[test]
fn what_is_no_expression_is_refused() {
    for code in [&[ADD][..], &[CONST64, 1], &[0xff], &[GOTO, 0, 0], &[GOTO, 0, 9], &[PICK, 0]] {
        assert_eq!(value(code), Err(Failure::BadProgram), "{code:?}");
    }
    assert_eq!(value(&[CONST8, 1, CONST8, 0, DIV_UNSIGNED]), Err(Failure::DivisionByZero));
    assert_eq!(value(&[DUP].repeat(100)), Err(Failure::BadProgram));
    assert_eq!(value(&[]), Ok(0));
}

proptest! {
    #[test]
    fn any_bytes_end(code in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = value(&code);
    }
}
