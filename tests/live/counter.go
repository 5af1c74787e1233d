// Goroutines add to a counter; the program goes back three times, and is replayed. Go
// makes the call itself, without C.
// prints: after 0 rollbacks: 4000
// prints: after 1 rollbacks: 4000
// prints: after 2 rollbacks: 4000
// prints: after 3 rollbacks: 4000
// prints: replayed: 8000
// prints: unknown: ENOENT
package main

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

const callBase = 0x525600

const (
	checkpoint = callBase + iota
	discard
	rollback
	replay
	rollbacks
	replaying
)

func call(operation, id int) (int, syscall.Errno) {
	result, _, errno := syscall.RawSyscall(uintptr(operation), uintptr(id), 0, 0)
	return int(result), errno
}

func must(operation, id int) int {
	result, errno := call(operation, id)
	if errno == syscall.ENOSYS {
		fmt.Println("no retrovane")
		os.Exit(77)
	}
	if errno != 0 {
		fmt.Println("FAIL", operation-callBase, errno)
		os.Exit(99)
	}
	return result
}

// Eight goroutines make 500 steps each.
func work(counter *int) {
	var lock sync.Mutex
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for step := 0; step < 500; step++ {
				lock.Lock()
				*counter++
				lock.Unlock()
			}
		}()
	}
	group.Wait()
}

func main() {
	counter := 0
	id := must(checkpoint, 0)
	count := must(rollbacks, id)
	work(&counter)
	fmt.Printf("after %d rollbacks: %d\n", count, counter)
	if count < 3 {
		must(rollback, id)
	}
	must(discard, id)

	id = must(checkpoint, 0)
	work(&counter)
	must(replay, id)
	if now := must(replaying, 0); now != 0 {
		fmt.Println("FAIL: still replaying")
		os.Exit(99)
	}
	fmt.Println("replayed:", counter)
	must(discard, id)
	if _, errno := call(rollback, id); errno == syscall.ENOENT {
		fmt.Println("unknown: ENOENT")
	}
}
