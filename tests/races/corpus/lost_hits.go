// Handlers count hits in a variable that no lock guards, and log each by a system call.
package main

import (
	"fmt"
	"os"
	"sync"
)

var hits int

func main() {
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	var handlers sync.WaitGroup
	for range 8 {
		handlers.Add(1)
		go func() {
			defer handlers.Done()
			for range 25 {
				now := hits
				fmt.Fprintln(log, now)
				hits = now + 1
			}
		}()
	}
	handlers.Wait()
	if hits != 8*25 {
		fmt.Fprintln(os.Stderr, "caught: hits were lost")
		os.Exit(1)
	}
}
