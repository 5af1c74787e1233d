// Vector registers, the x87 stack and the control words of both are after a rollback
// what they were.
// prints: went back
#include "live.h"

static void change(void)
{
	uint32_t control = 0x1f80 | 3 << 13;
	uint16_t word = 0x0c7f;
	__asm__ volatile("pcmpeqd %%xmm3, %%xmm3\n\tpcmpeqd %%xmm15, %%xmm15\n\tldmxcsr %0\n\t"
			 "fninit\n\tfldcw %1\n\tfld1"
			 :
			 : "m"(control), "m"(word)
			 : "xmm3", "xmm15");
}

int main(void)
{
	need_session();
	uint64_t set[4] = {0x1111111122222222, 0x3333333344444444, 0x5555555566666666,
			   0x7777777788888888};
	uint64_t got[4];
	uint32_t control_set = 0x1f80 | 1 << 13, control_got;
	uint16_t word_set = 0x0f7f, word_got;
	double popped;
	long result = RV_CALL_BASE + RV_OP_CHECKPOINT;
	// Between setting and getting there is nothing but the call.
	__asm__ volatile("movdqu %[first], %%xmm3\n\tmovdqu %[second], %%xmm15\n\t"
			 "ldmxcsr %[control]\n\tfninit\n\tfldcw %[word]\n\tfldpi\n\t"
			 "syscall\n\t"
			 "movdqu %%xmm3, %[first_got]\n\tmovdqu %%xmm15, %[second_got]\n\t"
			 "stmxcsr %[control_got]\n\tfnstcw %[word_got]\n\tfstpl %[popped]"
			 : "+a"(result), [first_got] "=m"(*(uint64_t(*)[2])got),
			   [second_got] "=m"(*(uint64_t(*)[2])(got + 2)), [control_got] "=m"(control_got),
			   [word_got] "=m"(word_got), [popped] "=m"(popped)
			 : [first] "m"(*(uint64_t(*)[2])set), [second] "m"(*(uint64_t(*)[2])(set + 2)),
			   [control] "m"(control_set), [word] "m"(word_set), "D"(0)
			 : "rcx", "r11", "memory", "xmm3", "xmm15");
	uint32_t usual = 0x1f80;
	__asm__ volatile("ldmxcsr %0\n\tfninit" : : "m"(usual));
	CHECK(result >= 0);
	CHECK(memcmp(set, got, sizeof set) == 0);
	CHECK(control_got == control_set && word_got == word_set);
	CHECK(popped > 3.14159 && popped < 3.1416);
	if (first_time((int)result)) {
		change();
		back((int)result);
	}
	say("went back");
	return 0;
}
