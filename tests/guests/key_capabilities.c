// keyctl(2) clears of a buffer for its capabilities what is behind them.
#include "guest.h"
#include <linux/keyctl.h>

int main(void)
{
	unsigned char bytes[64];
	memset(bytes, 0xff, sizeof bytes);
	long size = nondet_outcome("capabilities", syscall(SYS_keyctl, KEYCTL_CAPABILITIES, bytes, sizeof bytes));
	int set = 0;
	for (long at = size > 0 ? size : (long)sizeof bytes; at < (long)sizeof bytes; at++)
		set += bytes[at] != 0;
	say("%d behind are set", set);
	return 0;
}
