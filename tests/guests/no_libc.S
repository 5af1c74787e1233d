// A program without libc: writes, reads the clock, forks, exits with 21.
// covers: write fork wait4 exit clock_gettime getpid
// build: -nostdlib -static
// variants: O2
// expect: exit 21
	.globl _start
	.text
_start:
	mov $1, %eax
	mov $1, %edi
	lea message(%rip), %rsi
	mov $message_end - message, %edx
	syscall
	mov $57, %eax
	syscall
	test %rax, %rax
	jz child
	mov %rax, %rdi
	lea -64(%rsp), %rsi
	xor %edx, %edx
	xor %r10d, %r10d
	mov $61, %eax
	syscall
	mov -64(%rsp), %edi
	shr $8, %edi
	add $1, %edi
	mov $60, %eax
	syscall
	hlt
child:
	mov $228, %eax
	mov $1, %edi
	lea -128(%rsp), %rsi
	syscall
	cmpq $0, -120(%rsp)
	jl bad
	mov $60, %eax
	mov $20, %edi
	syscall
bad:
	ud2
	.section .rodata
message:
	.ascii "no libc here\n"
message_end:
	.section .note.GNU-stack, "", @progbits
