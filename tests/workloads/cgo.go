// Go that calls C that calls Go, on threads of both.
package main

/*
#cgo LDFLAGS: -lpthread
#include <pthread.h>
#include <stdlib.h>

extern int fromC(int);

static void *call(void *number) { return (void *)(long)fromC((int)(long)number); }

static int on_a_thread_of_c(int number)
{
	pthread_t thread;
	void *result;
	pthread_create(&thread, NULL, call, (void *)(long)number);
	pthread_join(thread, &result);
	return (int)(long)result;
}

static long sum(long n)
{
	volatile long sum = 0;
	for (long i = 0; i < n; i++)
		sum += i;
	return sum;
}
*/
import "C"

import (
	"fmt"
	"os/user"
	"runtime"
	"sync"
)

//export fromC
func fromC(number C.int) C.int {
	runtime.Gosched()
	return number * 2
}

func main() {
	var group sync.WaitGroup
	var lock sync.Mutex
	total := 0
	for t := 0; t < 8; t++ {
		group.Add(1)
		go func(t int) {
			defer group.Done()
			for i := 0; i < 20; i++ {
				value := int(C.on_a_thread_of_c(C.int(t))) + int(C.sum(10000))
				lock.Lock()
				total += value
				lock.Unlock()
			}
		}(t)
	}
	group.Wait()
	runtime.GC()
	_, err := user.LookupId("0")
	fmt.Println(total, err)
}
