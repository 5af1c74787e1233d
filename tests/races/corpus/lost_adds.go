// Goroutines add to a balance that no lock guards, and make no system calls meanwhile.
package main

import (
	"fmt"
	"os"
	"sync"
)

type account struct{ balance int }

func (account *account) add(amount int) { account.balance += amount }

func main() {
	var shared account
	var customers sync.WaitGroup
	for range 4 {
		customers.Add(1)
		go func() {
			defer customers.Done()
			for range 100 {
				shared.add(1)
			}
		}()
	}
	customers.Wait()
	if shared.balance != 400 {
		fmt.Fprintln(os.Stderr, "caught: additions were lost")
		os.Exit(1)
	}
}
