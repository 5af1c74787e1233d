// The standard library's containers in a region, by several threads, each with containers of its own; killed again and again.
//
//   containers REGION KILLS [slow]: prints how many rounds were back in the end, and "all whole". With `slow` it is killed
//   when something was durable.
#include <retrovane-mirror.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <new>
#include <poll.h>
#include <set>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

using retrovane::mirror_allocator;
template <typename T> using in_region = mirror_allocator<T>;
typedef std::basic_string<char, std::char_traits<char>, in_region<char>> text;

static const int threads = 3;
static const long keys = 500;

// What a thread has. Each container says the same: which keys are there, and in which round they came.
struct shelf {
	std::map<long, long, std::less<long>, in_region<std::pair<const long, long>>> ordered;
	std::unordered_map<long, long, std::hash<long>, std::equal_to<long>, in_region<std::pair<const long, long>>> hashed;
	std::vector<long, in_region<long>> flat;
	std::deque<long, in_region<long>> both_ends;
	std::list<long, in_region<long>> linked;
	std::multiset<text, std::less<text>, in_region<text>> names;
	long round;

	shelf(rv_mirror *r)
	    : ordered(in_region<long>(r)), hashed(in_region<long>(r)), flat(in_region<long>(r)), both_ends(in_region<long>(r)),
	      linked(in_region<long>(r)), names(in_region<long>(r)), round(0)
	{
	}

	static text name_of(long key, rv_mirror *r)
	{
		char room[64];
		snprintf(room, sizeof room, "the key %ld, whose name is long enough for a block", key);
		return text(room, in_region<char>(r));
	}

	// Puts a key there, or takes it away.
	void toggle(long key, rv_mirror *r)
	{
		long now = round + 1;
		text name = name_of(key, r);
		if (ordered.erase(key)) {
			hashed.erase(key);
			flat.erase(std::find(flat.begin(), flat.end(), key));
			both_ends.erase(std::find(both_ends.begin(), both_ends.end(), key));
			linked.remove(key);
			names.erase(name);
		} else {
			ordered[key] = now;
			hashed[key] = now;
			flat.insert(flat.begin() + flat.size() / 2, key);
			if (key % 2)
				both_ends.push_front(key);
			else
				both_ends.push_back(key);
			linked.push_front(key);
			if (now % 16 == 0)
				linked.sort();
			if (now % 16 == 8)
				linked.reverse();
			if (now % 16 == 4) {
				std::list<long, in_region<long>> other;
				other.swap(linked);
				linked.swap(other);
			}
			names.insert(name);
		}
		round = now;
	}

	const char *wrong(rv_mirror *r) const
	{
		size_t count = ordered.size();
		if (hashed.size() != count || flat.size() != count || both_ends.size() != count || linked.size() != count ||
		    names.size() != count)
			return "sizes";
		long before = -1;
		size_t found = 0;
		for (auto &one : ordered) {
			if (one.first <= before)
				return "order";
			before = one.first;
			auto other = hashed.find(one.first);
			if (other == hashed.end() || other->second != one.second)
				return "hashed";
			if (std::count(flat.begin(), flat.end(), one.first) != 1 ||
			    std::count(both_ends.begin(), both_ends.end(), one.first) != 1 ||
			    std::count(linked.begin(), linked.end(), one.first) != 1)
				return "sequences";
			if (names.count(name_of(one.first, r)) != 1)
				return "names";
			found++;
		}
		for (auto at = ordered.rbegin(); at != ordered.rend(); ++at)
			found--;
		return found ? "backward" : nullptr;
	}
};

static rv_mirror *region;

static shelf **open_shelves(const char *path)
{
	rv_mirror_options options = {16 << 20, 0, 0};
	if (rv_mirror_open(path, &options, &region) < 0) {
		fprintf(stderr, "%s\n", rv_mirror_error());
		exit(2);
	}
	shelf **all = static_cast<shelf **>(rv_mirror_root(region, "shelves"));
	if (!all) {
		all = static_cast<shelf **>(rv_mirror_calloc(region, threads, sizeof *all));
		for (int index = 0; index < threads; index++)
			all[index] = new (rv_mirror_alloc(region, sizeof(shelf))) shelf(region);
		rv_mirror_set_root(region, "shelves", all);
		rv_mirror_wait(region, rv_mirror_checkpoint(region, 0), -1);
	}
	return all;
}

// Works until it is killed, or for so many rounds. Checkpoints are taken between two rounds of all threads.
static void work(shelf **all, long rounds, int said)
{
	unsigned long seed = getpid();
	for (long round = 0; round < rounds; round++) {
		std::vector<std::thread> working;
		for (int index = 0; index < threads; index++)
			working.emplace_back([=] {
				unsigned long own = seed + index + round * 77;
				for (int step = 0; step < 40; step++) {
					own = own * 6364136223846793005 + 1442695040888963407;
					all[index]->toggle((own >> 33) % keys, region);
				}
			});
		for (std::thread &one : working)
			one.join();
		if (said < 0)
			continue;
		int64_t checkpoint = rv_mirror_checkpoint(region, 0);
		if (checkpoint >= 0 && rv_mirror_wait(region, checkpoint, -1) == 0) {
			long sum = 0;
			for (int index = 0; index < threads; index++)
				sum += all[index]->round;
			if (write(said, &sum, sizeof sum) != sizeof sum)
				_exit(3);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	shelf **all = open_shelves(argv[1]);
	work(all, 20, -1);
	rv_mirror_wait_idle(region);
	uintptr_t at[1];
	if (rv_mirror_differences(region, at, 1)) {
		printf("%#lx differs\n", (unsigned long)at[0]);
		return 1;
	}
	rv_mirror_close(region);
	long durable = 0;
	for (int kill_at = 0; kill_at < atoi(argv[2]); kill_at++) {
		int ends[2];
		if (pipe(ends))
			return 2;
		pid_t child = fork();
		if (child == 0) {
			close(ends[0]);
			work(open_shelves(argv[1]), 1L << 40, ends[1]);
		}
		close(ends[1]);
		pollfd first = {ends[0], POLLIN, 0};
		if (argc > 3 && poll(&first, 1, -1) != 1)
			return 2;
		usleep(5000 + 1613 * kill_at % 40000);
		kill(child, SIGKILL);
		waitpid(child, nullptr, 0);
		long sum;
		while (read(ends[0], &sum, sizeof sum) == sizeof sum)
			durable = sum;
		close(ends[0]);
		all = open_shelves(argv[1]);
		sum = 0;
		for (int index = 0; index < threads; index++) {
			sum += all[index]->round;
			if (const char *what = all[index]->wrong(region)) {
				printf("kill %d: %s\n", kill_at, what);
				return 1;
			}
		}
		if (sum < durable) {
			printf("kill %d: %ld rounds are back of %ld\n", kill_at, sum, durable);
			return 1;
		}
		rv_mirror_close(region);
	}
	printf("%ld rounds, all whole\n", durable);
	return 0;
}
