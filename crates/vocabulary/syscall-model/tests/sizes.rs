//! Sizes of kernel structures in the tables against the kernel's and libc's headers.

use linux_raw_sys::{general, net, system};
use syscall_model::variants::{FCNTL, IOCTL, MSGCTL, SEMCTL, SHMCTL};
use syscall_model::{Arg, Len, Ty, VariantTable, by_name};

/// The size that the model gives an argument, in bytes (of one element, where it is an array).
fn size_of_argument(arg: &Arg) -> usize {
    let (Ty::In(len) | Ty::Out(len, _) | Ty::InOut(len, _)) = arg.ty else {
        panic!("{} is no memory", arg.name)
    };
    match len {
        Len::Fixed(size) | Len::ArgTimes(_, size) | Len::RetTimes(size) | Len::RetOrArgTimes(_, size) => {
            size as usize
        }
        Len::Arg(_)
        | Len::ArgPlus(..)
        | Len::Ret
        | Len::RetPlus(_)
        | Len::RetOrArg(_)
        | Len::BitsOfArg(_)
        | Len::NodeMask(_)
        | Len::PagesOfArg(_)
        | Len::AtArg32(..)
        | Len::AtArg64(..)
        | Len::SelfSized32
        | Len::Text
        | Len::Counted { .. } => panic!("{} has no size of its own", arg.name),
    }
}

#[track_caller]
fn call<T>(name: &str, argument: usize) {
    let row = by_name(name).unwrap_or_else(|| panic!("no row for {name}"));
    assert_eq!(size_of_argument(&row.args[argument]), size_of::<T>(), "{name}");
}

#[track_caller]
fn request<T>(table: &VariantTable, name: &str) {
    let request = table.variants.iter().find(|request| request.name == name);
    let request = request.unwrap_or_else(|| panic!("no request {name}"));
    let last = request.args.last().expect("a request has its selector");
    assert_eq!(size_of_argument(last), size_of::<T>(), "{} {name}", table.name);
}

#[test]
fn of_files() {
    call::<general::stat>("fstat", 1);
    call::<general::stat>("newfstatat", 2);
    call::<general::statfs>("statfs", 1);
    call::<general::statx>("statx", 4);
    call::<general::cachestat_range>("cachestat", 1);
    call::<general::cachestat>("cachestat", 2);
    call::<[libc::c_int; 2]>("pipe2", 0);
    call::<libc::utimbuf>("utime", 1);
    call::<[libc::timeval; 2]>("utimes", 1);
    call::<[libc::timespec; 2]>("utimensat", 2);
    request::<general::flock>(&FCNTL, "F_GETLK");
    request::<general::flock>(&FCNTL, "F_OFD_SETLKW");
    request::<general::f_owner_ex>(&FCNTL, "F_GETOWN_EX");
}

#[test]
fn of_processes() {
    call::<general::rusage>("getrusage", 1);
    call::<general::rusage>("wait4", 3);
    call::<general::siginfo_t>("waitid", 2);
    call::<general::rlimit64>("prlimit64", 3);
    call::<general::__user_cap_header_struct>("capget", 0);
    call::<[general::__user_cap_data_struct; 2]>("capget", 1);
    call::<libc::sched_param>("sched_getparam", 1);
    call::<libc::gid_t>("getgroups", 1);
    call::<libc::iovec>("process_vm_readv", 3);
}

#[test]
fn of_signals_and_time() {
    call::<general::kernel_sigaction>("rt_sigaction", 1);
    call::<general::kernel_sigaction>("rt_sigaction", 2);
    call::<general::siginfo_t>("rt_sigtimedwait", 1);
    call::<libc::stack_t>("sigaltstack", 1);
    call::<libc::sigevent>("timer_create", 1);
    call::<general::__kernel_timespec>("clock_gettime", 1);
    call::<general::__kernel_timespec>("nanosleep", 1);
    call::<general::__kernel_old_timeval>("gettimeofday", 0);
    call::<general::timezone>("gettimeofday", 1);
    call::<general::__kernel_old_itimerval>("setitimer", 2);
    call::<general::__kernel_itimerspec>("timer_settime", 3);
    call::<general::__kernel_itimerspec>("timerfd_gettime", 1);
    call::<libc::timex>("adjtimex", 0);
    call::<libc::timex>("clock_adjtime", 1);
    call::<libc::tms>("times", 0);
}

#[test]
fn of_waiting() {
    call::<general::pollfd>("poll", 0);
    call::<general::epoll_event>("epoll_wait", 1);
    call::<general::epoll_event>("epoll_ctl", 3);
    call::<general::futex_waitv>("futex_waitv", 0);
    call::<general::__kernel_old_timeval>("select", 4);
    call::<general::__kernel_timespec>("pselect6", 4);
    call::<(usize, usize)>("pselect6", 5);
}

#[test]
fn of_sockets() {
    call::<net::socklen_t>("accept4", 2);
    call::<net::socklen_t>("getsockopt", 4);
    call::<[libc::c_int; 2]>("socketpair", 3);
    for name in ["SIOCGIFFLAGS", "SIOCGIFMAP", "SIOCSIFADDR", "TUNSETIFF"] {
        request::<libc::ifreq>(&IOCTL, name);
    }
    request::<libc::arpreq>(&IOCTL, "SIOCGARP");
    request::<libc::rtentry>(&IOCTL, "SIOCADDRT");
}

#[test]
fn of_ipc() {
    call::<libc::sembuf>("semop", 1);
    call::<libc::mq_attr>("mq_getsetattr", 2);
    call::<libc::sigevent>("mq_notify", 1);
    request::<libc::shmid_ds>(&SHMCTL, "IPC_STAT");
    request::<libc::semid_ds>(&SEMCTL, "IPC_STAT");
    request::<libc::msqid_ds>(&MSGCTL, "IPC_STAT");
    request::<libc::seminfo>(&SEMCTL, "SEM_INFO");
    request::<libc::msginfo>(&MSGCTL, "MSG_INFO");
}

#[test]
fn of_the_system() {
    call::<system::new_utsname>("uname", 0);
    call::<system::sysinfo>("sysinfo", 0);
}

#[test]
fn of_devices() {
    request::<general::termios>(&IOCTL, "TCGETS");
    request::<general::termios2>(&IOCTL, "TCSETS2");
    request::<general::termio>(&IOCTL, "TCGETA");
    request::<general::winsize>(&IOCTL, "TIOCGWINSZ");
    request::<general::fsxattr>(&IOCTL, "FS_IOC_FSGETXATTR");
    request::<general::file_clone_range>(&IOCTL, "FICLONERANGE");
    request::<general::fstrim_range>(&IOCTL, "FITRIM");
}
