package main

import "runtime"

var counter int

func waiter(ready chan bool, from chan int) {
	ready <- true
	counter += <-from
}

func done() {
	counter++
}

func main() {
	// One at a time: the other one waits where this one goes on.
	runtime.GOMAXPROCS(1)
	ready, from := make(chan bool), make(chan int)
	go waiter(ready, from)
	<-ready
	done()
	from <- 1
}
