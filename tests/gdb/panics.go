package main

import (
	"os"
	"sync"
)

type order struct {
	total float64
}

//go:noinline
func price(orders map[int]*order, id int) float64 {
	return orders[id].total * 1.2
}

//go:noinline
func deep(n int) int {
	return deep(n+1) + n
}

//go:noinline
func wait(never chan int) int {
	return <-never
}

func main() {
	var all sync.WaitGroup
	all.Add(1)
	switch os.Args[1] {
	case "panic":
		// In a goroutine of its own.
		go price(map[int]*order{}, 7)
	case "deep":
		deep(1)
	case "deadlock":
		wait(make(chan int))
	}
	all.Wait()
}
