// Threads by the standard library. Lines with ~ tell what chance decided.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std;
using namespace chrono_literals;

static unsigned mix(unsigned hash, unsigned value) { return (hash ^ value) * 16777619u; }

// Whoever has the lock says so: the order is what chance decides.
static void order_of_locking()
{
	mutex lock;
	unsigned hash = 2166136261u;
	vector<int> counts(4);
	vector<thread> threads;
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			for (int i = 0; i < 5000; i++) {
				lock_guard<mutex> held(lock);
				hash = mix(hash, t);
				counts[t]++;
			}
		});
	for (auto &thread : threads)
		thread.join();
	printf("locked %d times\n~ in the order %08x\n", accumulate(counts.begin(), counts.end(), 0), hash);
}

static void queue_of_work()
{
	mutex lock;
	condition_variable full, empty;
	deque<int> queue;
	bool ended = false;
	vector<long> sums(3);
	vector<thread> consumers;
	for (int t = 0; t < 3; t++)
		consumers.emplace_back([&, t] {
			for (;;) {
				unique_lock<mutex> held(lock);
				full.wait(held, [&] { return ended || !queue.empty(); });
				if (queue.empty())
					return;
				sums[t] += queue.front();
				queue.pop_front();
				empty.notify_one();
			}
		});
	for (int i = 1; i <= 20000; i++) {
		unique_lock<mutex> held(lock);
		empty.wait(held, [&] { return queue.size() < 16; });
		queue.push_back(i);
		full.notify_one();
	}
	{
		lock_guard<mutex> held(lock);
		ended = true;
	}
	full.notify_all();
	for (auto &thread : consumers)
		thread.join();
	printf("consumed %ld\n~ by %ld %ld %ld\n", sums[0] + sums[1] + sums[2], sums[0], sums[1], sums[2]);
}

// Threads that wait for each other without the kernel, and one that races.
static void atomics()
{
	atomic<long> sum{0};
	atomic<int> turn{0};
	volatile long racy = 0;
	vector<thread> threads;
	for (int t = 0; t < 3; t++)
		threads.emplace_back([&, t] {
			for (int i = 0; i < 100; i++) {
				while (turn.load(memory_order_acquire) != t)
					this_thread::yield();
				turn.store((t + 1) % 3, memory_order_release);
			}
			for (int i = 0; i < 1000000; i++)
				racy = racy + 1;
			for (int i = 0; i < 100000; i++)
				sum.fetch_add(i, memory_order_relaxed);
		});
	for (auto &thread : threads)
		thread.join();
	printf("summed %ld\n~ raced to %ld\n", sum.load(), (long)racy);
}

static void futures()
{
	vector<future<long>> parts;
	for (int t = 0; t < 8; t++)
		parts.push_back(async(launch::async, [t] {
			long sum = 0;
			for (int i = t * 100000; i < (t + 1) * 100000; i++)
				sum += i;
			if (t == 7)
				throw runtime_error("thrown in a thread");
			return sum;
		}));
	long sum = 0;
	for (auto &part : parts)
		try {
			sum += part.get();
		} catch (const exception &error) {
			printf("caught %s\n", error.what());
		}
	promise<string> promised;
	auto told = promised.get_future();
	thread teller([&] { promised.set_value_at_thread_exit("told"); });
	printf("summed %ld, %s, late %d\n", sum, told.get().c_str(),
	       told.valid() ? 1 : (int)(promise<int>().get_future().wait_for(2ms) == future_status::timeout));
	teller.join();
}

static void readers_and_writers()
{
	shared_mutex lock;
	map<int, string> names;
	atomic<long> found{0};
	vector<thread> threads;
	for (int t = 0; t < 2; t++)
		threads.emplace_back([&, t] {
			for (int i = 0; i < 1000; i++) {
				unique_lock<shared_mutex> held(lock);
				names[i * 2 + t] = to_string(i);
			}
		});
	for (int t = 0; t < 2; t++)
		threads.emplace_back([&] {
			for (int i = 0; i < 2000; i++) {
				shared_lock<shared_mutex> held(lock);
				found += names.count(i);
			}
		});
	for (auto &thread : threads)
		thread.join();
	printf("wrote %zu\n~ found %ld\n", names.size(), found.load());
}

static thread_local string name = "main";

static void own_variables()
{
	vector<string> names(3);
	once_flag once;
	int calls = 0;
	vector<thread> threads;
	for (int t = 0; t < 3; t++)
		threads.emplace_back([&, t] {
			call_once(once, [&] { calls++; });
			name += to_string(t);
			this_thread::sleep_for(1ms * t);
			names[t] = name;
		});
	for (auto &thread : threads)
		thread.join();
	printf("%s %s %s %s, %d call\n", names[0].c_str(), names[1].c_str(), names[2].c_str(), name.c_str(), calls);
}

int main()
{
	order_of_locking();
	queue_of_work();
	atomics();
	futures();
	readers_and_writers();
	own_variables();
	// Short-lived ones, some of which outlive their maker.
	// None ends while it is being detached: glibc 2.36 looks at its memory once more then.
	atomic<int> detached{0}, ended{0};
	for (int i = 0; i < 300; i++) {
		thread([&, i] {
			while (detached <= i)
				this_thread::yield();
			ended++;
		}).detach();
		detached++;
	}
	while (ended < 300)
		this_thread::sleep_for(1ms);
	printf("%d detached ended\n", ended.load());
	thread([] { for (;;) this_thread::sleep_for(1h); }).detach();
	return 7;
}
