//! The copy that stays: it makes try after try, and puts back what each has changed.
//!
//! Its writable memory is write-protected: a page that a try writes to is saved first, and from then on
//! copied back behind each try. Its calls come to the handler below (syscall user dispatch), which makes
//! those whose effects it can take back, and so do the signals that a try dies of. Whatever else happens
//! (a call of another kind, too many pages) it leaves: the server makes this try and all that follow by forks. Invariant: a try begins with the memory, registers and descriptors that the first one began
//! with. See ADR 0117. Deliberately absent: anything about a try's meaning.

/// Pages that are saved at most: to copy more takes longer than a fork.
pub(super) const SAVED_PAGES_MAX: usize = 1024;

/// Empties both outputs, which are appended to.
macro_rules! empty_outputs {
    () => {
        r#"
    mov edi, [r15 + 0x2c]
    xor esi, esi
    mov eax, 77
    syscall
    mov edi, [r15 + 0x30]
    xor esi, esi
    mov eax, 77
    syscall
"#
    };
}

pub(super) use empty_outputs;

/// Says that the order is done.
macro_rules! order_done {
    () => {
        r#"
    // futex(DONE, FUTEX_WAKE)
    mov eax, [r15 + 0x00]
    mov [r15 + 0x04], eax
    lea rdi, [r15 + 0x04]
    mov esi, 1
    mov edx, 1
    mov eax, 202
    syscall
"#
    };
}

pub(super) use order_done;

/// Gives a try its input: ftruncate and pwrite64 of a file, or a new pipe.
macro_rules! give_input {
    () => {
        r#"
    test dword ptr [r15 + 0x14], 2
    jnz 50f
    // pwrite64 and ftruncate of the input's file.
    xor r12d, r12d
40: mov edx, [r14 + 4]
    sub edx, r12d
    jz 42f
    mov edi, [r15 + 0x24]
    mov esi, [r14]
    add rsi, r15
    add rsi, r12
    mov r10, r12
    mov eax, 18
    syscall
    test rax, rax
    jle 42f
    add r12, rax
    jmp 40b
42: mov edi, [r15 + 0x24]
    mov rsi, r12
    mov eax, 77
    syscall
    test dword ptr [r15 + 0x14], 8
    jz 60f
    mov edi, [r15 + 0x28]
    xor esi, esi
    xor edx, edx
    mov eax, 8
    syscall
    jmp 60f
    // pipe2, F_SETPIPE_SZ to a MiB, write, dup2, close both.
50: lea rdi, [r15 + 0x40]
    xor esi, esi
    mov eax, 293
    syscall
    mov edi, [r15 + 0x44]
    mov esi, 1031
    mov edx, 0x100000
    mov eax, 72
    cmp dword ptr [r14 + 4], 0x10000
    jbe 52f
    syscall
52: mov edi, [r15 + 0x44]
    mov esi, [r14]
    add rsi, r15
    mov edx, [r14 + 4]
    mov eax, 1
    syscall
    mov edi, [r15 + 0x40]
    mov esi, [r15 + 0x28]
    mov eax, 33
    syscall
    mov edi, [r15 + 0x40]
    mov eax, 3
    syscall
    mov edi, [r15 + 0x44]
    mov eax, 3
    syscall
60:
"#
    };
}
pub(super) use give_input;

/// The copy's code; r15 has the address of the shared memory.
macro_rules! resident {
    () => {
        concat!(
            r#"
    .p2align 3
.Lshared:
    .quad 0
.Lretrovane_stay:
    mov [rip + .Lshared], r15
    lea rbx, [rip + retrovane_tries_begin]
    lea rsp, [rbx + {STACK_AT} + {STACK_BYTES}]
    xor eax, eax
    mov [r15 + {PAGES_COUNT}], eax
    mov [r15 + {MAPPED_COUNT}], eax
    mov [r15 + {GREW}], eax
    mov [r15 + {MASKED}], eax
    mov [r15 + {OPENED}], rax
    mov [r15 + {CLOSED}], rax
    mov dword ptr [r15 + {WROTE}], 1
    // PR_SET_PDEATHSIG
    mov edi, 1
    mov esi, 9
    mov eax, 157
    syscall
    // sigaltstack
    lea rax, [rbx + {STACK_AT}]
    mov [r15 + {SCRATCH}], rax
    mov qword ptr [r15 + {SCRATCH} + 8], 0
    mov qword ptr [r15 + {SCRATCH} + 16], {STACK_BYTES}
    lea rdi, [r15 + {SCRATCH}]
    xor esi, esi
    mov eax, 131
    syscall
    // rt_sigaction of each signal: SA_SIGINFO, SA_ONSTACK, SA_NODEFER, SA_RESTORER.
    lea rax, [rip + .Lhandler]
    mov [r15 + {SCRATCH}], rax
    mov qword ptr [r15 + {SCRATCH} + 8], 0x4c000004
    lea rax, [rip + .Lrestorer]
    mov [r15 + {SCRATCH} + 16], rax
    mov qword ptr [r15 + {SCRATCH} + 24], 0
    lea rbp, [rip + .Lsignals]
2:  movzx edi, byte ptr [rbp]
    test edi, edi
    jz 3f
    lea rsi, [r15 + {SCRATCH}]
    xor edx, edx
    mov r10d, 8
    mov eax, 13
    syscall
    inc rbp
    jmp 2b
    // rt_sigprocmask, brk
3:  xor edi, edi
    xor esi, esi
    lea rdx, [r15 + {SIGNAL_MASK}]
    mov r10d, 8
    mov eax, 14
    syscall
    xor edi, edi
    mov eax, 12
    syscall
    mov [r15 + {BRK}], rax
    call .Lvectors
    xsave64 [rbx + {VECTORS_AT}]
    // Pages of the kernel's are saved at once, and the stack is as long as it may become here.
    mov rdi, [r15 + {KERNELS}]
    test rdi, rdi
    jz 4f
    call .Lsave
4:  mov rdi, [r15 + {KERNELS} + 8]
    test rdi, rdi
    jz 5f
    call .Lsave
5:  mov rdi, [r15 + {STACK_LOW}]
    mov al, [rdi]
    // mprotect of each range.
    xor ebp, ebp
6:  cmp ebp, [r15 + {RANGES_COUNT}]
    jae 7f
    mov eax, ebp
    shl eax, 5
    lea rdx, [r15 + rax + {RANGES}]
    mov rdi, [rdx]
    mov rsi, [rdx + 8]
    sub rsi, rdi
    mov rdx, [rdx + 16]
    and edx, -3
    mov eax, 10
    syscall
    test eax, eax
    jnz .Lleave_for_good
    inc ebp
    jmp 6b
    // The lowest page of the stack is in no range.
7:  mov rdi, [r15 + {STACK_LOW}]
    mov esi, 4096
    mov edx, 1
    mov eax, 10
    syscall
    // PR_SET_SYSCALL_USER_DISPATCH, all but the code's pages.
    mov edi, 59
    mov esi, 1
    mov rdx, rbx
    mov r10d, {CODE_BYTES}
    xor r8d, r8d
    mov eax, 157
    syscall
    test eax, eax
    jnz .Lleave_for_good

    // Waits for an order: futex(GO, FUTEX_WAIT, DONE).
.Lorder:
    mov edx, [r15 + 0x04]
    cmp edx, [r15 + 0x00]
    jne 12f
    mov rdi, r15
    xor esi, esi
    xor r10d, r10d
    mov eax, 202
    syscall
    jmp .Lorder
12: test dword ptr [r15 + 0x14], 4
    jnz .Lleave
    mov ebx, [r15 + 0x0c]
.Lnext:
    mov [r15 + 0x0c], ebx
    cmp ebx, [r15 + 0x08]
    jae .Ldone
    mov r14d, ebx
    shl r14, 4
    lea r14, [r15 + r14 + 0x1000]
    cmp dword ptr [r15 + {WROTE}], 0
    je 13f
"#,
            super::resident_code::empty_outputs!(),
            r#"
    mov dword ptr [r15 + {WROTE}], 0
13:
"#,
            super::resident_code::give_input!(),
            r#"
    lea rbx, [rip + retrovane_tries_begin]
    call .Lvectors
    xrstor64 [rbx + {VECTORS_AT}]
    jmp .Lretrovane_enter

.Ldone:
    mov [r15 + 0x0c], ebx
"#,
            super::resident_code::order_done!(),
            r#"
    jmp .Lorder

    // Gives in edx:eax which vector registers are saved: all but those of AMX.
.Lvectors:
    xor ecx, ecx
    xgetbv
    and eax, 0xe7
    xor edx, edx
    ret

    // The end of a try, whose wait status is in r12d.
.Lover:
    lea rbx, [rip + retrovane_tries_begin]
    lea rsp, [rbx + {STACK_AT} + {STACK_BYTES}]
    xor ebp, ebp
20: cmp ebp, [r15 + {PAGES_COUNT}]
    jae 21f
    mov rdi, [r15 + rbp*8 + {PAGES}]
    mov esi, ebp
    shl rsi, 12
    lea rsi, [r15 + rsi + {SAVED}]
    mov ecx, 512
    rep movsq
    inc ebp
    jmp 20b
21: cmp dword ptr [r15 + {GREW}], 0
    je 22f
    mov rdi, [r15 + {BRK}]
    mov eax, 12
    syscall
    mov dword ptr [r15 + {GREW}], 0
22: mov ebp, [r15 + {MAPPED_COUNT}]
23: sub ebp, 1
    jb 24f
    mov eax, ebp
    shl eax, 4
    mov rdi, [r15 + rax + {MAPPED}]
    mov rsi, [r15 + rax + {MAPPED} + 8]
    mov eax, 11
    syscall
    jmp 23b
24: mov dword ptr [r15 + {MAPPED_COUNT}], 0
    mov rbp, [r15 + {OPENED}]
25: bsf rdi, rbp
    jz 26f
    btr rbp, rdi
    mov eax, 3
    syscall
    jmp 25b
26: mov [r15 + {OPENED}], rbp
    mov [r15 + {CLOSED}], rbp
    cmp dword ptr [r15 + {MASKED}], 0
    je 27f
    mov edi, 2
    lea rsi, [r15 + {SIGNAL_MASK}]
    xor edx, edx
    mov r10d, 8
    mov eax, 14
    syscall
    mov dword ptr [r15 + {MASKED}], 0
27: mov ebx, [r15 + 0x0c]
    mov eax, ebx
    shl eax, 4
    mov [r15 + rax + 0x1008], r12d
    inc ebx
    cmp r12d, [r15 + 0x10]
    jne .Lnext
    test dword ptr [r15 + 0x14], 1
    jz .Lnext
    jmp .Ldone

.Lleave_for_good:
    mov dword ptr [r15 + {WHY}], {NO_CALL}
.Lcannot:
    mov dword ptr [r15 + {MAY_STAY}], 0
.Lleave:
    mov dword ptr [r15 + {LEFT}], 1
    xor edi, edi
    mov eax, 231
    syscall
    ud2

    // Saves the page at rdi.
.Lsave:
    mov eax, [r15 + {PAGES_COUNT}]
    cmp eax, {PAGES_MAX}
    jae .Lleave_for_good
    mov [r15 + rax*8 + {PAGES}], rdi
    inc dword ptr [r15 + {PAGES_COUNT}]
    shl rax, 12
    mov rsi, rdi
    lea rdi, [r15 + rax + {SAVED}]
    mov ecx, 512
    rep movsq
    ret

    // Lets the page of the address rdi be written to. Gives 0 in eax if that is new.
.Ltouch:
    and rdi, -4096
    xor ecx, ecx
31: cmp ecx, [r15 + {RANGES_COUNT}]
    jae 34f
    mov eax, ecx
    shl eax, 5
    lea rdx, [r15 + rax + {RANGES}]
    inc ecx
    cmp rdi, [rdx]
    jb 31b
    cmp rdi, [rdx + 8]
    jae 31b
    mov ecx, [r15 + {PAGES_COUNT}]
32: sub ecx, 1
    jb 33f
    cmp rdi, [r15 + rcx*8 + {PAGES}]
    jne 32b
    jmp 35f
33: push rdi
    push qword ptr [rdx + 16]
    call .Lsave
    pop rdx
    pop rdi
    mov esi, 4096
    mov eax, 10
    syscall
    test eax, eax
    jnz .Lleave_for_good
    ret
    // A stack that grows further, by 8 MiB at most.
34: mov rax, [r15 + {STACK_LOW}]
    cmp rdi, rax
    ja 35f
    sub rax, 0x800000
    cmp rdi, rax
    jae .Lleave_for_good
35: mov eax, 1
    ret

    // The same for rsi bytes at rdi, which the kernel is about to write.
.Ltouch_all:
    test rdi, rdi
    jz 41f
    test rsi, rsi
    jz 41f
    lea r13, [rdi + rsi - 1]
    mov r14, rdi
    and r14, -4096
    mov rax, r13
    sub rax, r14
    cmp rax, 4096 * {PAGES_MAX}
    jae .Lcannot
40: mov rdi, r14
    call .Ltouch
    add r14, 4096
    cmp r14, r13
    jbe 40b
41: ret

.Lrestorer:
    mov eax, 15
    syscall
    ud2

    // A signal: edi, its siginfo in rsi, the context in rdx, and from here on in rbp.
.Lhandler:
    mov r15, [rip + .Lshared]
    mov rbp, rdx
    mov r12d, edi
    cmp edi, 31
    je 51f
    // A page fault by a write to a page that is there?
    cmp edi, 11
    jne .Lover
    cmp dword ptr [rsi + 8], 2
    jne .Lover
    cmp qword ptr [rbp + 200], 14
    jne .Lover
    test dword ptr [rbp + 192], 2
    jz .Lover
    mov rdi, [rsi + 16]
    call .Ltouch
    test eax, eax
    jnz .Lover
    ret
    // A call, if it is no signal that somebody sent (SYS_USER_DISPATCH).
51: cmp dword ptr [rsi + 8], 2
    jne .Lover
    mov eax, [rbp + 144]
    mov [r15 + {WHY}], eax
"#,
            super::resident_calls::resident_calls!()
        )
    };
}
pub(super) use resident;
