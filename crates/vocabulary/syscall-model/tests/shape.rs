//! What must hold of every row and every request, whatever it describes.

use std::collections::HashSet;

use syscall_model::variants::ALL;
use syscall_model::{Act, Arg, FlagSet, IOCTL, Len, NR_MAX, PRCTL, ROW_COUNT, Row, TABLE, Ty, row};

/// Every list of arguments in the model, with a name for messages. Requests have
/// the name of their table before their own.
fn argument_lists() -> Vec<(String, &'static [Arg], Act)> {
    let rows = TABLE.iter().flatten().map(|row| (row.name.to_owned(), row.args, row.act));
    let requests = ALL.iter().flat_map(|table| {
        table
            .variants
            .iter()
            .map(|request| (format!("{} {}", table.name, request.name), request.args, request.act))
    });
    rows.chain(requests).collect()
}

/// The argument that a length depends on.
fn length_argument(len: Len) -> Option<u8> {
    match len {
        Len::Arg(at)
        | Len::ArgPlus(at, _)
        | Len::ArgTimes(at, _)
        | Len::RetOrArg(at)
        | Len::RetOrArgTimes(at, _)
        | Len::BitsOfArg(at)
        | Len::NodeMask(at)
        | Len::PagesOfArg(at)
        | Len::AtArg32(at, _)
        | Len::AtArg64(at, _) => Some(at),
        Len::Fixed(_)
        | Len::Ret
        | Len::RetPlus(_)
        | Len::RetTimes(_)
        | Len::SelfSized32
        | Len::Text
        | Len::Counted { .. } => None,
    }
}

/// The argument that an argument depends on.
fn other_argument(ty: Ty) -> Option<u8> {
    match ty {
        Ty::In(len) | Ty::Out(len, _) | Ty::InOut(len, _) => length_argument(len),
        Ty::IovIn(at)
        | Ty::IovOut(at)
        | Ty::MmsgIn(at)
        | Ty::MmsgOut(at)
        | Ty::OutSockLen(at)
        | Ty::OptionOut(at) => Some(at),
        Ty::Int
        | Ty::Uint
        | Ty::Long
        | Ty::Size
        | Ty::Hex
        | Ty::Fd
        | Ty::DirFd
        | Ty::Pid
        | Ty::Id
        | Ty::Mode
        | Ty::Signal
        | Ty::Flags(_)
        | Ty::Address
        | Ty::Path
        | Ty::Text
        | Ty::TextList
        | Ty::MsgIn
        | Ty::MsgOut
        | Ty::XattrOut
        | Ty::IfConf => None,
    }
}

#[test]
fn the_table_holds_the_pinned_abi() {
    assert_eq!(TABLE.iter().flatten().count(), ROW_COUNT);
    for (nr, entry) in TABLE.iter().enumerate() {
        assert_eq!(entry.is_some(), nr <= 334 || nr >= 424, "{nr}");
        assert!(entry.as_ref().is_none_or(|row| usize::from(row.nr) == nr), "{nr}");
    }
    assert!(row(NR_MAX as u64).is_some());
    assert!(row(NR_MAX as u64 + 1).is_none());
    assert!(row(u64::MAX).is_none());
}

#[test]
fn names_are_unique() {
    let mut seen = HashSet::new();
    for (name, _, _) in argument_lists() {
        assert!(seen.insert(name.clone()), "{name} stands twice");
    }
    let mut tables = HashSet::new();
    assert!(ALL.iter().all(|table| tables.insert(table.name)), "tables are compared by name");
}

#[test]
fn requests_are_sorted_and_found() {
    for table in ALL {
        for pair in table.variants.windows(2) {
            assert!(
                pair[0].request < pair[1].request,
                "{}: {} and {}",
                table.name,
                pair[0].name,
                pair[1].name
            );
        }
        for request in table.variants {
            let found = table.find(request.request).map(|found| found.name);
            assert_eq!(found, Some(request.name), "{}", table.name);
            assert_eq!(request.request & !u64::from(table.mask), 0, "{} {}", table.name, request.name);
            assert!(usize::from(table.selector) < request.args.len(), "{} {}", table.name, request.name);
        }
    }
}

#[test]
fn a_selector_is_taken_as_the_kernel_takes_it() {
    let sign_extended = 0xffff_ffff_8004_5430;
    assert_eq!(IOCTL.find(sign_extended).map(|request| request.name), Some("TIOCGPTN"));
    let private_with_realtime_clock = 9 | 0x80 | 0x100;
    let futex = syscall_model::variants::FUTEX.find(private_with_realtime_clock);
    assert_eq!(futex.map(|request| request.name), Some("FUTEX_WAIT_BITSET"));
    let group_quota = 0x8000_0701;
    let quota = syscall_model::variants::QUOTACTL.find(group_quota);
    assert_eq!(quota.map(|request| request.name), Some("Q_GETQUOTA"));
    assert!(PRCTL.find(0).is_none());
}

#[test]
fn arguments_depend_on_arguments_that_exist() {
    for (name, args, _) in argument_lists() {
        assert!(args.len() <= 6, "{name}");
        for (index, arg) in args.iter().enumerate() {
            let Some(other) = other_argument(arg.ty) else { continue };
            assert!(usize::from(other) < args.len(), "{name}: {}", arg.name);
            assert_ne!(usize::from(other), index, "{name}: {}", arg.name);
        }
    }
}

#[test]
fn a_length_in_memory_is_an_argument_that_the_kernel_updates() {
    for (name, args, _) in argument_lists() {
        for arg in args {
            let (at, size) = match arg.ty {
                Ty::OutSockLen(at) | Ty::OptionOut(at) => (at, 4),
                Ty::In(Len::AtArg32(at, _))
                | Ty::Out(Len::AtArg32(at, _), _)
                | Ty::InOut(Len::AtArg32(at, _), _) => (at, 4),
                Ty::In(Len::AtArg64(at, _))
                | Ty::Out(Len::AtArg64(at, _), _)
                | Ty::InOut(Len::AtArg64(at, _), _) => (at, 8),
                _ => continue,
            };
            let length = args[usize::from(at)].ty;
            assert!(
                matches!(length, Ty::InOut(Len::Fixed(bytes), _) if bytes == size),
                "{name}: {}",
                arg.name
            );
        }
    }
}

#[test]
fn the_kernel_reads_no_length_from_its_result() {
    for (name, args, _) in argument_lists() {
        for arg in args {
            let from_result = matches!(
                arg.ty,
                Ty::In(
                    Len::Ret | Len::RetPlus(_) | Len::RetTimes(_) | Len::RetOrArg(_) | Len::RetOrArgTimes(..)
                )
            );
            assert!(!from_result, "{name}: {}", arg.name);
        }
    }
}

#[test]
fn requests_have_no_tables_of_their_own() {
    for table in ALL {
        assert!(!matches!(table.fallback, Act::Variant(_)), "{}", table.name);
        for request in table.variants {
            assert!(!matches!(request.act, Act::Variant(_)), "{} {}", table.name, request.name);
        }
    }
}

#[test]
fn what_is_refused_says_why() {
    for (name, _, act) in argument_lists() {
        let Act::Reject(why) = act else { continue };
        assert!(why.len() > 20 && !why.ends_with('.'), "{name}: {why:?}");
    }
}

#[test]
fn flags_of_several_bits_stand_before_their_parts() {
    for (name, args, _) in argument_lists() {
        for arg in args {
            let Ty::Flags(set) = arg.ty else { continue };
            check_flags(&name, set);
        }
    }
}

fn check_flags(user: &str, set: &FlagSet) {
    for (index, flag) in set.flags.iter().enumerate() {
        for before in &set.flags[..index] {
            assert_ne!(before.value, flag.value, "{user}: {} and {}", before.name, flag.name);
            let hidden = set.bits && before.value != 0 && before.value & flag.value == before.value;
            assert!(!hidden, "{user}: {} never shows behind {}", flag.name, before.name);
        }
    }
}

#[test]
fn flags_are_shown_as_strace_shows_them() {
    use syscall_model::flags::{files, memory, sockets};
    let shown = |set: &'static FlagSet, value| set.show(value).to_string();
    assert_eq!(shown(&files::OPEN, 0), "O_RDONLY");
    assert_eq!(shown(&files::OPEN, 0o2000101), "O_WRONLY|O_CREAT|O_CLOEXEC");
    assert_eq!(shown(&files::OPEN, 0o4010001), "O_SYNC|O_WRONLY");
    assert_eq!(shown(&memory::MAP, 0x22), "MAP_PRIVATE|MAP_ANONYMOUS");
    assert_eq!(shown(&sockets::SOCK, 0o2000003), "SOCK_RAW|SOCK_CLOEXEC");
    assert_eq!(shown(&sockets::AF, 10), "AF_INET6");
    assert_eq!(shown(&sockets::AF, 999), "0x3e7");
    assert_eq!(shown(&files::UNLINKAT, 0x201), "AT_REMOVEDIR|0x1");
}

/// What a row says beyond its arguments has to be possible with them.
#[test]
fn facts_fit_arguments() {
    let rows = || TABLE.iter().flatten();
    for row in rows() {
        let has = |names: &[&str]| row.args.iter().any(|arg| names.contains(&arg.name));
        assert!(!row.signals || has(&["sig"]), "{} has no signal", row.name);
        assert!(!row.moves_end || has(&["length", "len"]), "{} has no length", row.name);
        assert!(!row.changes_ids || row.args.iter().all(|arg| arg.name.ends_with("id")), "{}", row.name);
        assert!(!row.shadowed || has(&["fd"]), "{} has no descriptor", row.name);
    }
    let count = |is: fn(&Row) -> bool| rows().filter(|row| is(row)).count();
    let counts = [count(|row| row.signals), count(|row| row.moves_end), count(|row| row.changes_ids)];
    assert_eq!(counts, [6, 3, 6]);
    assert_eq!([count(|row| row.changes_rights), count(|row| row.shadowed)], [6, 2]);
}
