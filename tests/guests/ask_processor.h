// What the guests share that make code which asks the processor.
#ifndef ASK_PROCESSOR_H
#define ASK_PROCESSOR_H

// unsigned ask(void): cpuid with eax 1, of which it returns ebx.
static const unsigned char code[] = {
	0x53,                         // push %rbx
	0xb8, 0x01, 0x00, 0x00, 0x00, // mov $1, %eax
	0x31, 0xc9,                   // xor %ecx, %ecx
	0x0f, 0xa2,                   // cpuid
	0x89, 0xd8,                   // mov %ebx, %eax
	0x5b,                         // pop %rbx
	0xc3,                         // ret
};

#endif
