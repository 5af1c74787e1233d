//! Numbers of the tables against the kernel's own headers.

use linux_raw_sys::{general, ioctl, prctl};
use syscall_model::variants::FUTEX;
use syscall_model::{FCNTL, IOCTL, PRCTL, VariantTable, by_name};

/// The names of constants with their values.
macro_rules! constants {
    ($module:ident: $($name:ident),* $(,)?) => { [$((stringify!($name), $module::$name)),*] };
}

fn check_requests(table: &VariantTable, expected: &[(&str, u32)]) {
    for &(name, request) in expected {
        let found = table.find(u64::from(request)).map(|variant| variant.name);
        assert_eq!(found, Some(name), "{} {request:#x}", table.name);
    }
}

#[test]
fn every_row_has_the_number_of_its_name() {
    #[rustfmt::skip]
    let expected = constants![general:
        __NR_read, __NR_write, __NR_open, __NR_close, __NR_stat, __NR_fstat, __NR_lstat, __NR_poll,
        __NR_lseek, __NR_mmap, __NR_mprotect, __NR_munmap, __NR_brk, __NR_rt_sigaction,
        __NR_rt_sigprocmask, __NR_rt_sigreturn, __NR_ioctl, __NR_pread64, __NR_pwrite64, __NR_readv,
        __NR_writev, __NR_access, __NR_pipe, __NR_select, __NR_sched_yield, __NR_mremap, __NR_msync,
        __NR_mincore, __NR_madvise, __NR_shmget, __NR_shmat, __NR_shmctl, __NR_dup, __NR_dup2,
        __NR_pause, __NR_nanosleep, __NR_getitimer, __NR_alarm, __NR_setitimer, __NR_getpid,
        __NR_sendfile, __NR_socket, __NR_connect, __NR_accept, __NR_sendto, __NR_recvfrom,
        __NR_sendmsg, __NR_recvmsg, __NR_shutdown, __NR_bind, __NR_listen, __NR_getsockname,
        __NR_getpeername, __NR_socketpair, __NR_setsockopt, __NR_getsockopt, __NR_clone, __NR_fork,
        __NR_vfork, __NR_execve, __NR_exit, __NR_wait4, __NR_kill, __NR_uname, __NR_semget,
        __NR_semop, __NR_semctl, __NR_shmdt, __NR_msgget, __NR_msgsnd, __NR_msgrcv, __NR_msgctl,
        __NR_fcntl, __NR_flock, __NR_fsync, __NR_fdatasync, __NR_truncate, __NR_ftruncate,
        __NR_getdents, __NR_getcwd, __NR_chdir, __NR_fchdir, __NR_rename, __NR_mkdir, __NR_rmdir,
        __NR_creat, __NR_link, __NR_unlink, __NR_symlink, __NR_readlink, __NR_chmod, __NR_fchmod,
        __NR_chown, __NR_fchown, __NR_lchown, __NR_umask, __NR_gettimeofday, __NR_getrlimit,
        __NR_getrusage, __NR_sysinfo, __NR_times, __NR_ptrace, __NR_getuid, __NR_syslog,
        __NR_getgid, __NR_setuid, __NR_setgid, __NR_geteuid, __NR_getegid, __NR_setpgid,
        __NR_getppid, __NR_getpgrp, __NR_setsid, __NR_setreuid, __NR_setregid, __NR_getgroups,
        __NR_setgroups, __NR_setresuid, __NR_getresuid, __NR_setresgid, __NR_getresgid,
        __NR_getpgid, __NR_setfsuid, __NR_setfsgid, __NR_getsid, __NR_capget, __NR_capset,
        __NR_rt_sigpending, __NR_rt_sigtimedwait, __NR_rt_sigqueueinfo, __NR_rt_sigsuspend,
        __NR_sigaltstack, __NR_utime, __NR_mknod, __NR_uselib, __NR_personality, __NR_ustat,
        __NR_statfs, __NR_fstatfs, __NR_sysfs, __NR_getpriority, __NR_setpriority,
        __NR_sched_setparam, __NR_sched_getparam, __NR_sched_setscheduler, __NR_sched_getscheduler,
        __NR_sched_get_priority_max, __NR_sched_get_priority_min, __NR_sched_rr_get_interval,
        __NR_mlock, __NR_munlock, __NR_mlockall, __NR_munlockall, __NR_vhangup, __NR_modify_ldt,
        __NR_pivot_root, __NR__sysctl, __NR_prctl, __NR_arch_prctl, __NR_adjtimex, __NR_setrlimit,
        __NR_chroot, __NR_sync, __NR_acct, __NR_settimeofday, __NR_mount, __NR_umount2, __NR_swapon,
        __NR_swapoff, __NR_reboot, __NR_sethostname, __NR_setdomainname, __NR_iopl, __NR_ioperm,
        __NR_create_module, __NR_init_module, __NR_delete_module, __NR_get_kernel_syms,
        __NR_query_module, __NR_quotactl, __NR_nfsservctl, __NR_getpmsg, __NR_putpmsg,
        __NR_afs_syscall, __NR_tuxcall, __NR_security, __NR_gettid, __NR_readahead, __NR_setxattr,
        __NR_lsetxattr, __NR_fsetxattr, __NR_getxattr, __NR_lgetxattr, __NR_fgetxattr,
        __NR_listxattr, __NR_llistxattr, __NR_flistxattr, __NR_removexattr, __NR_lremovexattr,
        __NR_fremovexattr, __NR_tkill, __NR_time, __NR_futex, __NR_sched_setaffinity,
        __NR_sched_getaffinity, __NR_set_thread_area, __NR_io_setup, __NR_io_destroy,
        __NR_io_getevents, __NR_io_submit, __NR_io_cancel, __NR_get_thread_area,
        __NR_lookup_dcookie, __NR_epoll_create, __NR_epoll_ctl_old, __NR_epoll_wait_old,
        __NR_remap_file_pages, __NR_getdents64, __NR_set_tid_address, __NR_restart_syscall,
        __NR_semtimedop, __NR_fadvise64, __NR_timer_create, __NR_timer_settime, __NR_timer_gettime,
        __NR_timer_getoverrun, __NR_timer_delete, __NR_clock_settime, __NR_clock_gettime,
        __NR_clock_getres, __NR_clock_nanosleep, __NR_exit_group, __NR_epoll_wait, __NR_epoll_ctl,
        __NR_tgkill, __NR_utimes, __NR_vserver, __NR_mbind, __NR_set_mempolicy, __NR_get_mempolicy,
        __NR_mq_open, __NR_mq_unlink, __NR_mq_timedsend, __NR_mq_timedreceive, __NR_mq_notify,
        __NR_mq_getsetattr, __NR_kexec_load, __NR_waitid, __NR_add_key, __NR_request_key,
        __NR_keyctl, __NR_ioprio_set, __NR_ioprio_get, __NR_inotify_init, __NR_inotify_add_watch,
        __NR_inotify_rm_watch, __NR_migrate_pages, __NR_openat, __NR_mkdirat, __NR_mknodat,
        __NR_fchownat, __NR_futimesat, __NR_newfstatat, __NR_unlinkat, __NR_renameat, __NR_linkat,
        __NR_symlinkat, __NR_readlinkat, __NR_fchmodat, __NR_faccessat, __NR_pselect6, __NR_ppoll,
        __NR_unshare, __NR_set_robust_list, __NR_get_robust_list, __NR_splice, __NR_tee,
        __NR_sync_file_range, __NR_vmsplice, __NR_move_pages, __NR_utimensat, __NR_epoll_pwait,
        __NR_signalfd, __NR_timerfd_create, __NR_eventfd, __NR_fallocate, __NR_timerfd_settime,
        __NR_timerfd_gettime, __NR_accept4, __NR_signalfd4, __NR_eventfd2, __NR_epoll_create1,
        __NR_dup3, __NR_pipe2, __NR_inotify_init1, __NR_preadv, __NR_pwritev,
        __NR_rt_tgsigqueueinfo, __NR_perf_event_open, __NR_recvmmsg, __NR_fanotify_init,
        __NR_fanotify_mark, __NR_prlimit64, __NR_name_to_handle_at, __NR_open_by_handle_at,
        __NR_clock_adjtime, __NR_syncfs, __NR_sendmmsg, __NR_setns, __NR_getcpu,
        __NR_process_vm_readv, __NR_process_vm_writev, __NR_kcmp, __NR_finit_module,
        __NR_sched_setattr, __NR_sched_getattr, __NR_renameat2, __NR_seccomp, __NR_getrandom,
        __NR_memfd_create, __NR_kexec_file_load, __NR_bpf, __NR_execveat, __NR_userfaultfd,
        __NR_membarrier, __NR_mlock2, __NR_copy_file_range, __NR_preadv2, __NR_pwritev2,
        __NR_pkey_mprotect, __NR_pkey_alloc, __NR_pkey_free, __NR_statx, __NR_io_pgetevents,
        __NR_rseq, __NR_pidfd_send_signal, __NR_io_uring_setup, __NR_io_uring_enter,
        __NR_io_uring_register, __NR_open_tree, __NR_move_mount, __NR_fsopen, __NR_fsconfig,
        __NR_fsmount, __NR_fspick, __NR_pidfd_open, __NR_clone3, __NR_close_range, __NR_openat2,
        __NR_pidfd_getfd, __NR_faccessat2, __NR_process_madvise, __NR_epoll_pwait2,
        __NR_mount_setattr, __NR_quotactl_fd, __NR_landlock_create_ruleset, __NR_landlock_add_rule,
        __NR_landlock_restrict_self, __NR_memfd_secret, __NR_process_mrelease, __NR_futex_waitv,
        __NR_set_mempolicy_home_node, __NR_cachestat, __NR_fchmodat2, __NR_map_shadow_stack,
        __NR_futex_wake, __NR_futex_wait, __NR_futex_requeue, __NR_statmount, __NR_listmount,
        __NR_lsm_get_self_attr, __NR_lsm_set_self_attr, __NR_lsm_list_modules, __NR_mseal, __NR_setxattrat, __NR_getxattrat,
        __NR_listxattrat, __NR_removexattrat, __NR_open_tree_attr, __NR_file_getattr, __NR_file_setattr,
    ];
    assert_eq!(expected.len(), syscall_model::ROW_COUNT);
    for (constant, nr) in expected {
        let name = constant.strip_prefix("__NR_").expect("the list above");
        let row = by_name(name).unwrap_or_else(|| panic!("no row for {name}"));
        assert_eq!(u32::from(row.nr), nr, "{name}");
    }
}

#[test]
fn fcntl_commands_have_their_numbers() {
    #[rustfmt::skip]
    let expected = constants![general:
        F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_SETOWN, F_GETOWN,
        F_SETSIG, F_GETSIG, F_SETOWN_EX, F_GETOWN_EX, F_GETOWNER_UIDS, F_OFD_GETLK, F_OFD_SETLK,
        F_OFD_SETLKW, F_SETLEASE, F_GETLEASE, F_NOTIFY, F_DUPFD_QUERY, F_CREATED_QUERY, F_CANCELLK,
        F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS, F_GET_RW_HINT,
        F_SET_RW_HINT, F_GET_FILE_RW_HINT, F_SET_FILE_RW_HINT,
    ];
    check_requests(&FCNTL, &expected);
}

#[test]
fn futex_commands_have_their_numbers() {
    #[rustfmt::skip]
    let expected = constants![general:
        FUTEX_WAIT, FUTEX_WAKE, FUTEX_FD, FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP,
        FUTEX_LOCK_PI, FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET,
        FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI, FUTEX_LOCK_PI2,
    ];
    check_requests(&FUTEX, &expected);
}

#[test]
fn prctl_options_have_their_numbers() {
    #[rustfmt::skip]
    let expected = constants![prctl:
        PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_GET_UNALIGN,
        PR_SET_UNALIGN, PR_GET_KEEPCAPS, PR_SET_KEEPCAPS, PR_GET_FPEMU, PR_SET_FPEMU, PR_GET_FPEXC,
        PR_SET_FPEXC, PR_GET_TIMING, PR_SET_TIMING, PR_SET_NAME, PR_GET_NAME, PR_GET_ENDIAN,
        PR_SET_ENDIAN, PR_GET_SECCOMP, PR_SET_SECCOMP, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_GET_TSC,
        PR_SET_TSC, PR_GET_SECUREBITS, PR_SET_SECUREBITS, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK,
        PR_TASK_PERF_EVENTS_DISABLE, PR_TASK_PERF_EVENTS_ENABLE, PR_MCE_KILL, PR_MCE_KILL_GET,
        PR_SET_MM, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS,
        PR_GET_NO_NEW_PRIVS, PR_GET_TID_ADDRESS, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE,
        PR_MPX_ENABLE_MANAGEMENT, PR_MPX_DISABLE_MANAGEMENT, PR_SET_FP_MODE, PR_GET_FP_MODE,
        PR_CAP_AMBIENT, PR_SVE_SET_VL, PR_SVE_GET_VL, PR_GET_SPECULATION_CTRL,
        PR_SET_SPECULATION_CTRL, PR_PAC_RESET_KEYS, PR_SET_TAGGED_ADDR_CTRL,
        PR_GET_TAGGED_ADDR_CTRL, PR_SET_IO_FLUSHER, PR_GET_IO_FLUSHER, PR_SET_SYSCALL_USER_DISPATCH,
        PR_PAC_SET_ENABLED_KEYS, PR_PAC_GET_ENABLED_KEYS, PR_SCHED_CORE, PR_SME_SET_VL,
        PR_SME_GET_VL, PR_SET_MDWE, PR_GET_MDWE, PR_SET_MEMORY_MERGE, PR_GET_MEMORY_MERGE,
        PR_RISCV_V_SET_CONTROL, PR_RISCV_V_GET_CONTROL, PR_RISCV_SET_ICACHE_FLUSH_CTX,
        PR_PPC_GET_DEXCR, PR_PPC_SET_DEXCR, PR_GET_AUXV, PR_SET_VMA, PR_SET_PTRACER,
    ];
    check_requests(&PRCTL, &expected);
}

#[test]
fn ioctl_requests_have_their_numbers() {
    #[rustfmt::skip]
    let expected = constants![ioctl:
        IOCTL_VM_SOCKETS_GET_LOCAL_CID, FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP, SIOCATMARK,
        SIOCGSTAMP, SIOCADDRT, SIOCDELRT, SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS, SIOCSIFFLAGS,
        SIOCGIFADDR, SIOCSIFADDR, SIOCGIFDSTADDR, SIOCSIFDSTADDR, SIOCGIFBRDADDR, SIOCSIFBRDADDR,
        SIOCGIFNETMASK, SIOCSIFNETMASK, SIOCGIFMETRIC, SIOCSIFMETRIC, SIOCGIFMTU, SIOCSIFMTU,
        SIOCSIFNAME, SIOCSIFHWADDR, SIOCGIFHWADDR, SIOCGIFSLAVE, SIOCADDMULTI, SIOCDELMULTI,
        SIOCGIFINDEX, SIOCSIFPFLAGS, SIOCGIFPFLAGS, SIOCSIFHWBROADCAST, SIOCGIFTXQLEN,
        SIOCSIFTXQLEN, SIOCDARP, SIOCGARP, SIOCSARP, SIOCGIFMAP, SIOCSIFMAP, SIOCGSTAMP_NEW,
        SIOCGSTAMPNS_NEW, TUNSETNOCSUM, TUNSETDEBUG, TUNSETIFF, TUNSETPERSIST, TUNSETOWNER,
        TUNSETLINK, TUNSETGROUP, TUNSETOFFLOAD, TUNSETSNDBUF, TUNSETVNETHDRSZ, TUNSETQUEUE,
        TUNSETIFINDEX, TUNSETVNETLE, TUNSETVNETBE, TUNGETFEATURES, TUNGETIFF, TUNGETSNDBUF,
        TUNGETVNETHDRSZ, TUNGETVNETLE, TUNGETVNETBE, TCGETS, TCSETS, TCSETSW, TCSETSF, TCGETA,
        TCSETA, TCSETAW, TCSETAF, TCSBRK, TCXONC, TCFLSH, TIOCEXCL, TIOCNXCL, TIOCSCTTY, TIOCGPGRP,
        TIOCSPGRP, TIOCOUTQ, TIOCSTI, TIOCGWINSZ, TIOCSWINSZ, TIOCMGET, TIOCMBIS, TIOCMBIC,
        TIOCMSET, TIOCGSOFTCAR, TIOCSSOFTCAR, FIONREAD, TIOCLINUX, TIOCCONS, TIOCGSERIAL,
        TIOCSSERIAL, TIOCPKT, FIONBIO, TIOCNOTTY, TIOCSETD, TIOCGETD, TCSBRKP, TIOCSBRK, TIOCCBRK,
        TIOCGSID, TIOCGRS485, TIOCVHANGUP, TIOCGPTPEER, FIOASYNC, TIOCGLCKTRMIOS, TIOCSLCKTRMIOS,
        TIOCSERGETLSR, TIOCMIWAIT, TIOCGICOUNT, TIOCSPTLCK, TIOCSIG, TCSETS2, TCSETSW2, TCSETSF2,
        TIOCGPTN, TIOCGDEV, TIOCGPKT, TIOCGPTLCK, TIOCGEXCL, TCGETS2, KIOCSOUND, KDMKTONE, KDGETLED,
        KDSETLED, KDGKBTYPE, KDSETMODE, KDGETMODE, KDGKBMODE, KDSKBMODE, KDGKBLED, KDSKBLED,
        VT_OPENQRY, VT_GETMODE, VT_SETMODE, VT_GETSTATE, VT_RELDISP, VT_ACTIVATE, VT_WAITACTIVE,
        VT_DISALLOCATE, FIBMAP, FIGETBSZ, FIONCLEX, FIOCLEX, FIOQSIZE, FICLONE, FS_IOC_SETFLAGS,
        FS_IOC_SETVERSION, FS_IOC_GET_ENCRYPTION_POLICY, FS_IOC_FSSETXATTR, FICLONERANGE,
        FS_IOC_SETFSLABEL, FAT_IOCTL_GET_ATTRIBUTES, FAT_IOCTL_SET_ATTRIBUTES, FS_IOC_GETFLAGS,
        FS_IOC_GETVERSION, EXT4_IOC_GETVERSION, FS_IOC_FSGETXATTR, FS_IOC_GETFSLABEL, FIFREEZE,
        FITHAW, FITRIM, FIDEDUPERANGE, FS_IOC_FIEMAP, BLKROSET, BLKROGET, BLKRRPART, BLKGETSIZE,
        BLKFLSBUF, BLKRASET, BLKRAGET, BLKFRASET, BLKFRAGET, BLKSECTGET, BLKSSZGET, BLKDISCARD,
        BLKIOMIN, BLKIOOPT, BLKALIGNOFF, BLKPBSZGET, BLKDISCARDZEROES, BLKSECDISCARD, BLKROTATIONAL,
        BLKZEROOUT, BLKBSZSET, BLKGETZONESZ, BLKGETNRZONES, BLKBSZGET, BLKGETSIZE64, BLKGETDISKSEQ,
        RNDZAPENTCNT, RNDCLEARPOOL, RNDRESEEDCRNG, RNDADDTOENTCNT, RNDADDENTROPY, RNDGETENTCNT,
        RTC_AIE_ON, RTC_AIE_OFF, RTC_UIE_ON, RTC_UIE_OFF, RTC_PIE_ON, RTC_PIE_OFF, RTC_WIE_ON,
        RTC_WIE_OFF, RTC_VL_CLR, RTC_ALM_SET, RTC_SET_TIME, RTC_IRQP_SET, RTC_EPOCH_SET,
        RTC_WKALM_SET, RTC_VL_READ, RTC_IRQP_READ, RTC_EPOCH_READ, RTC_ALM_READ, RTC_RD_TIME,
        RTC_WKALM_RD, WDIOC_KEEPALIVE, WDIOC_GETTIMEOUT, WDIOC_GETSUPPORT, WDIOC_SETTIMEOUT,
        IOC_WATCH_QUEUE_SET_SIZE, IOC_WATCH_QUEUE_SET_FILTER, NS_GET_USERNS, NS_GET_PARENT,
        NS_GET_NSTYPE, NS_GET_OWNER_UID, INOTIFY_IOC_SETNEXTWD, TFD_IOC_SET_TICKS,
        FUSE_DEV_IOC_CLONE,
    ];
    check_requests(&IOCTL, &expected);
}
