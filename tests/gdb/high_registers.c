/* The registers of AVX-512, where the machine has them. */
static int supported;

int main(void)
{
	__builtin_cpu_init();
	supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
	if (supported)
		__asm__ volatile("vpbroadcastd %0, %%zmm20\n vpbroadcastd %0, %%zmm3\n kmovw %0, %%k3\n"
		                 "vpbroadcastd %1, %%ymm21\n"
		                 : : "r"(0x1234), "r"(7));
	__asm__ volatile("has_them: nop");
	return 0;
}
