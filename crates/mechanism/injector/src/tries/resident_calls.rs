//! Calls of the copy that stays: those whose effects are taken back behind the try.
//!
//! The context is in rbp, the call's number in eax. Of most calls a row says where the kernel writes; the others change
//! what a list of the try knows: descriptors that it opened or closed, mappings, the end of the heap, the
//! signal mask. Invariant: a call that is made here has no effect outside of the process but on the try's
//! input and outputs. Deliberately absent: everything else; the copy leaves there (`.Lcannot`).

/// Places in the context are: rdi 104, rsi 112, rdx 136, r10 56, r8 40, r9 48, rax 144, the signal mask 296.
macro_rules! resident_calls {
    () => {
        r#"
    cmp eax, 231
    je .Lexit
    cmp eax, 60
    je .Lexit
    cmp eax, 0
    je .Lread
    cmp eax, 1
    je .Lwrite
    cmp eax, 20
    je .Lwrite
    cmp eax, 3
    je .Lclose
    cmp eax, 8
    je .Lseek
    cmp eax, 12
    je .Lbrk
    cmp eax, 9
    je .Lmmap
    cmp eax, 11
    je .Lmunmap
    cmp eax, 14
    je .Lmask
    cmp eax, 16
    je .Lioctl
    cmp eax, 72
    je .Lfcntl
    cmp eax, 234
    je .Ltgkill
    cmp eax, 257
    je .Lopenat
    cmp eax, 2
    je .Lopen
    cmp eax, 302
    je .Lprlimit
    lea rcx, [rip + .Lrows]
60: movzx edx, word ptr [rcx]
    cmp edx, 0xffff
    je .Lcannot
    cmp edx, eax
    je 61f
    add rcx, 8
    jmp 60b
    // A row: number, place of the pointer by eights, place of the length by eights, or the length; 0x80 in the
    // first place: rdi is a descriptor.
61: movzx edx, byte ptr [rcx + 2]
    btr edx, 7
    jnc 62f
    mov edi, [rbp + 104]
    test edi, edi
    js 62f
    call .Lis_closed
    jc .Lcannot
62: test edx, edx
    jz .Lmake
    mov rdi, [rbp + rdx*8]
    mov esi, [rcx + 4]
    movzx edx, byte ptr [rcx + 3]
    test edx, edx
    jz 63f
    mov rsi, [rbp + rdx*8]
63: call .Ltouch_all
    jmp .Lmake

.Lmake:
    call .Lcall
.Lresult:
    mov [rbp + 144], rax
    ret

    // Makes the call with its own arguments.
.Lcall:
    mov rdi, [rbp + 104]
    mov rsi, [rbp + 112]
    mov rdx, [rbp + 136]
    mov r10, [rbp + 56]
    mov r8, [rbp + 40]
    mov r9, [rbp + 48]
    mov eax, [rbp + 144]
    syscall
    ret

    // Carry: the descriptor edi was closed by the try, or is too high to be known.
.Lis_closed:
    cmp edi, 64
    jb 64f
    stc
    ret
64: bt qword ptr [r15 + {CLOSED}], rdi
    ret
    // Carry: it was opened by the try.
.Lis_opened:
    cmp edi, 64
    jae 65f
    bt qword ptr [r15 + {OPENED}], rdi
    ret
65: clc
    ret

.Lexit:
    mov r12d, [rbp + 104]
    and r12d, 0xff
    shl r12d, 8
    jmp .Lover

.Lno_descriptor:
    cmp edi, 64
    jae .Lcannot
    mov rax, -9
    jmp .Lresult

    // read: of what the try opened, or of an input that is given anew each time.
.Lread:
    mov edi, [rbp + 104]
    mov rsi, [rbp + 136]
    call .Lis_opened
    jc 70f
    call .Lis_closed
    jc .Lno_descriptor
    test dword ptr [r15 + 0x14], 2 + 8
    jz .Lcannot
    cmp edi, [r15 + 0x28]
    jne .Lcannot
    mov eax, [r15 + 0x0c]
    shl eax, 4
    mov eax, [r15 + rax + 0x1004]
    cmp rsi, rax
    cmova rsi, rax
70: mov rdi, [rbp + 112]
    call .Ltouch_all
    jmp .Lmake

    // write, writev: to an output.
.Lwrite:
    mov edi, [rbp + 104]
    lea eax, [rdi - 1]
    cmp eax, 2
    jae .Lcannot
    call .Lis_closed
    jc .Lno_descriptor
    mov dword ptr [r15 + {WROTE}], 1
    jmp .Lmake

    // close: of what the try opened; others are noted as closed only.
.Lclose:
    mov edi, [rbp + 104]
    cmp edi, 64
    jae .Lcannot
    call .Lis_opened
    jnc 71f
    btr qword ptr [r15 + {OPENED}], rdi
    jmp .Lmake
71: call .Lis_closed
    jc .Lcannot
    // fcntl(F_GETFD): is it open?
    mov esi, 1
    mov eax, 72
    syscall
    test rax, rax
    js .Lresult
    mov edi, [rbp + 104]
    bts qword ptr [r15 + {CLOSED}], rdi
    xor eax, eax
    jmp .Lresult

.Lseek:
    mov edi, [rbp + 104]
    call .Lis_opened
    jc .Lmake
    call .Lis_closed
    jc .Lno_descriptor
    test dword ptr [r15 + 0x14], 8
    jz .Lcannot
    cmp edi, [r15 + 0x28]
    je .Lmake
    jmp .Lcannot

    // open, openat: for reading only, and where none is noted as closed whose number it would get.
.Lopen:
    mov ecx, [rbp + 112]
    jmp 72f
.Lopenat:
    mov ecx, [rbp + 136]
72: test ecx, 0x400243
    jnz .Lcannot
    cmp qword ptr [r15 + {CLOSED}], 0
    jne .Lcannot
    call .Lcall
    test rax, rax
    js .Lresult
    cmp rax, 64
    jae .Lcannot
    bts qword ptr [r15 + {OPENED}], rax
    jmp .Lresult

.Lbrk:
    mov rdi, [rbp + 104]
    test rdi, rdi
    jz .Lmake
    cmp rdi, [r15 + {BRK}]
    jb .Lcannot
    mov dword ptr [r15 + {GREW}], 1
    jmp .Lmake

    // mmap: private, at a place of the kernel's choice.
.Lmmap:
    mov ecx, [rbp + 56]
    test ecx, 0x100010
    jnz .Lcannot
    and ecx, 3
    cmp ecx, 2
    jne .Lcannot
    mov edi, [rbp + 40]
    test edi, edi
    js 73f
    call .Lis_closed
    jc .Lcannot
73: cmp dword ptr [r15 + {MAPPED_COUNT}], {MAPPED_MAX}
    jae .Lcannot
    call .Lcall
    cmp rax, -4096
    ja .Lresult
    mov ecx, [r15 + {MAPPED_COUNT}]
    inc dword ptr [r15 + {MAPPED_COUNT}]
    shl ecx, 4
    mov [r15 + rcx + {MAPPED}], rax
    mov rdx, [rbp + 112]
    add rdx, 4095
    and rdx, -4096
    mov [r15 + rcx + {MAPPED} + 8], rdx
    jmp .Lresult

    // munmap: of a whole mapping of the try.
.Lmunmap:
    mov rdi, [rbp + 104]
    mov rsi, [rbp + 112]
    add rsi, 4095
    and rsi, -4096
    mov ecx, [r15 + {MAPPED_COUNT}]
74: sub ecx, 1
    jb .Lcannot
    mov eax, ecx
    shl eax, 4
    cmp rdi, [r15 + rax + {MAPPED}]
    jne 74b
    cmp rsi, [r15 + rax + {MAPPED} + 8]
    jne .Lcannot
    // The last row takes its place.
    dec dword ptr [r15 + {MAPPED_COUNT}]
    mov ecx, [r15 + {MAPPED_COUNT}]
    shl ecx, 4
    movups xmm0, [r15 + rcx + {MAPPED}]
    movups [r15 + rax + {MAPPED}], xmm0
    jmp .Lmake

    // rt_sigprocmask: the mask that the handler's end brings back, but for signals that come here.
.Lmask:
    mov rdi, [rbp + 136]
    mov esi, 8
    call .Ltouch_all
    call .Lcall
    mov [rbp + 144], rax
    mov dword ptr [r15 + {MASKED}], 1
    xor edi, edi
    xor esi, esi
    lea rdx, [rbp + 296]
    mov r10d, 8
    mov eax, 14
    syscall
    // SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV; SIGSYS.
    and dword ptr [rbp + 296], ~0x400004f8
    ret

    // ioctl: TCGETS.
.Lioctl:
    cmp dword ptr [rbp + 112], 0x5401
    jne .Lcannot
    mov edi, [rbp + 104]
    call .Lis_closed
    jc .Lno_descriptor
    mov rdi, [rbp + 136]
    mov esi, 64
    call .Ltouch_all
    jmp .Lmake

    // fcntl: F_GETFD, F_GETFL.
.Lfcntl:
    mov edi, [rbp + 104]
    call .Lis_closed
    jc .Lno_descriptor
    mov eax, [rbp + 112]
    cmp eax, 1
    je .Lmake
    cmp eax, 3
    je .Lmake
    jmp .Lcannot

    // prlimit64: questions of this process.
.Lprlimit:
    cmp dword ptr [rbp + 104], 0
    jne .Lcannot
    cmp qword ptr [rbp + 136], 0
    jne .Lcannot
    mov rdi, [rbp + 56]
    mov esi, 16
    call .Ltouch_all
    jmp .Lmake

    // tgkill: of itself, by a signal that ends it.
.Ltgkill:
    mov eax, 39
    syscall
    cmp eax, [rbp + 104]
    jne .Lcannot
    cmp eax, [rbp + 112]
    jne .Lcannot
    mov r12d, [rbp + 136]
    lea rcx, [rip + .Lsignals]
75: movzx edx, byte ptr [rcx]
    inc rcx
    test edx, edx
    jz .Lcannot
    cmp edx, r12d
    jne 75b
    jmp .Lover

    // SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS.
.Lsignals:
    .byte 11, 7, 4, 8, 5, 6, 31, 0
    .p2align 3
.macro retrovane_row number, pointer, length, bytes
    .short \number
    .byte \pointer, \length
    .long \bytes
.endm
.Lrows:
    // stat, fstat, lstat, newfstatat, statx
    retrovane_row 4, 112 / 8, 0, 144
    retrovane_row 5, 112 / 8 + 0x80, 0, 144
    retrovane_row 6, 112 / 8, 0, 144
    retrovane_row 262, 136 / 8 + 0x80, 0, 144
    retrovane_row 332, 40 / 8 + 0x80, 0, 256
    // pread64
    retrovane_row 17, 112 / 8 + 0x80, 136 / 8, 0
    // access, faccessat, faccessat2, readlink, readlinkat, getcwd
    retrovane_row 21, 0, 0, 0
    retrovane_row 269, 0x80, 0, 0
    retrovane_row 439, 0x80, 0, 0
    retrovane_row 89, 112 / 8, 136 / 8, 0
    retrovane_row 267, 136 / 8 + 0x80, 56 / 8, 0
    retrovane_row 79, 104 / 8, 112 / 8, 0
    // getpid, getppid, gettid, getuid, getgid, geteuid, getegid
    retrovane_row 39, 0, 0, 0
    retrovane_row 110, 0, 0, 0
    retrovane_row 186, 0, 0, 0
    retrovane_row 102, 0, 0, 0
    retrovane_row 104, 0, 0, 0
    retrovane_row 107, 0, 0, 0
    retrovane_row 108, 0, 0, 0
    // clock_gettime, clock_getres, time; getrandom, uname, getrlimit, sysinfo
    retrovane_row 228, 112 / 8, 0, 16
    retrovane_row 229, 112 / 8, 0, 16
    retrovane_row 201, 104 / 8, 0, 8
    retrovane_row 318, 104 / 8, 112 / 8, 0
    retrovane_row 63, 104 / 8, 0, 390
    retrovane_row 97, 112 / 8, 0, 16
    retrovane_row 99, 104 / 8, 0, 112
    retrovane_row 0xffff, 0, 0, 0
"#
    };
}
pub(super) use resident_calls;
