// A tiny program at a low fixed address that is one page of code, data and stack use.
// covers: write getpid exit_group mmap
// build: -nostdlib -static -no-pie
// variants: O2
// expect: exit 5
	.globl _start
	.text
_start:
	mov $10000, %r12d
1:	mov $39, %eax
	syscall
	dec %r12d
	jnz 1b
	mov $9, %eax
	xor %edi, %edi
	mov $8192, %esi
	mov $3, %edx
	mov $0x22, %r10d
	mov $-1, %r8
	xor %r9d, %r9d
	syscall
	movb $'o', (%rax)
	movb $'k', 1(%rax)
	movb $'\n', 2(%rax)
	mov %rax, %rsi
	mov $1, %eax
	mov $1, %edi
	mov $3, %edx
	syscall
	mov $231, %eax
	mov $5, %edi
	syscall
	.section .note.GNU-stack, "", @progbits
