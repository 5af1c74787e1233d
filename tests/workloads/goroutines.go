// Goroutines, channels, garbage, and loops that only a signal preempts.
// Lines with ~ tell what chance decided.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

func locked() {
	var lock sync.Mutex
	var group sync.WaitGroup
	order := fnv.New32a()
	count := 0
	for t := 0; t < 8; t++ {
		group.Add(1)
		go func(t int) {
			defer group.Done()
			for i := 0; i < 2000; i++ {
				lock.Lock()
				count++
				order.Write([]byte{byte(t)})
				lock.Unlock()
			}
		}(t)
	}
	group.Wait()
	fmt.Printf("counted %d\n~ in the order %08x\n", count, order.Sum32())
}

func channels() {
	jobs := make(chan int)
	results := make(chan int, 16)
	for t := 0; t < 4; t++ {
		go func() {
			for job := range jobs {
				results <- job * job
			}
		}()
	}
	go func() {
		for i := 0; i < 5000; i++ {
			jobs <- i
		}
		close(jobs)
	}()
	sum, timeouts := 0, 0
	late := time.After(time.Minute)
	for i := 0; i < 5000; i++ {
		select {
		case value := <-results:
			sum += value
		case <-late:
			timeouts++
		}
	}
	ticker := time.NewTicker(time.Millisecond)
	for i := 0; i < 20; i++ {
		<-ticker.C
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	fmt.Println("summed", sum, timeouts, ctx.Err())
}

// No call, so that nothing but SIGURG takes the processor away.
func spin(ended *int32) uint64 {
	var x uint64
	for atomic.LoadInt32(ended) == 0 {
		x = x*6364136223846793005 + 1
	}
	return x
}

func preempted() {
	var ended int32
	var group sync.WaitGroup
	for t := 0; t < 4; t++ {
		group.Add(1)
		go func() {
			defer group.Done()
			spin(&ended)
		}()
	}
	for i := 0; i < 20; i++ {
		runtime.Gosched()
		runtime.GC()
	}
	atomic.StoreInt32(&ended, 1)
	group.Wait()
	fmt.Println("preempted")
}

type node struct {
	left, right *node
}

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func (n *node) count() int {
	if n.left == nil {
		return 1
	}
	return 1 + n.left.count() + n.right.count()
}

func garbage() {
	var group sync.WaitGroup
	counts := make([]int, 4)
	for t := range counts {
		group.Add(1)
		go func(t int) {
			defer group.Done()
			for i := 0; i < 10; i++ {
				counts[t] += tree(12).count()
			}
		}(t)
	}
	group.Wait()
	fmt.Println("counted", counts)
}

func served() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s", r.URL.Path)
	}))
	defer server.Close()
	var group sync.WaitGroup
	answers := make([]string, 40)
	for i := range answers {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			response, err := http.Get(fmt.Sprintf("%s/%d", server.URL, i))
			if err != nil {
				answers[i] = err.Error()
				return
			}
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			answers[i] = string(body)
		}(i)
	}
	group.Wait()
	sort.Strings(answers)
	fmt.Println(answers)
}

func main() {
	runtime.GOMAXPROCS(4)
	locked()
	channels()
	preempted()
	garbage()
	served()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	writer.Write(bytes.Repeat([]byte("goroutine "), 100000))
	writer.Close()
	fmt.Println("packed", packed.Len() > 0)
	output, err := exec.Command("echo", "from a child").Output()
	fmt.Printf("%s %v\n", output, err)
	keys := map[int]bool{}
	for i := 0; i < 10; i++ {
		keys[i] = true
	}
	for key := range keys {
		fmt.Println("~ first of the map:", key)
		break
	}
	os.Exit(8)
}
