// http_server PORT: a server that answers from goroutines and ends on SIGTERM.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

func main() {
	var lock sync.Mutex
	counts := map[string]int{}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		counts[r.URL.Path]++
		lock.Unlock()
		fmt.Fprintf(w, "you asked for %s\n", r.URL.Path)
	})
	server := &http.Server{Addr: "127.0.0.1:" + os.Args[1]}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go server.ListenAndServe()
	<-ended
	server.Shutdown(context.Background())
	fmt.Println("served", counts["/x"])
	os.Exit(5)
}
