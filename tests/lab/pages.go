// A server of pages, and with an argument a client of it: of package net alone, which is built in seconds.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

func get(path string) (string, error) {
	connection, err := net.Dial("tcp", "server:8080")
	if err != nil {
		return "", err
	}
	defer connection.Close()
	fmt.Fprintf(connection, "GET %s HTTP/1.0\r\n\r\n", path)
	answer, err := io.ReadAll(connection)
	_, page, _ := strings.Cut(string(answer), "\r\n\r\n")
	return page, err
}

func serve(connection net.Conn, count int) {
	defer connection.Close()
	lines := bufio.NewReader(connection)
	request, _ := lines.ReadString('\n')
	for line := request; strings.TrimSpace(line) != ""; {
		line, _ = lines.ReadString('\n')
	}
	fmt.Fprintf(connection, "HTTP/1.0 200 OK\r\n\r\n%s %d", strings.Fields(request)[1], count)
}

func main() {
	if len(os.Args) > 1 {
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		for i := 0; i < 3; i++ {
			page, err := get(fmt.Sprint("/", i))
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			fmt.Println(page)
		}
		fmt.Println("took", time.Since(began).Milliseconds(), "ms")
		addresses, _ := net.LookupHost("server")
		fmt.Println(addresses)
		return
	}
	listener, err := net.Listen("tcp", ":8080")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for count := 1; ; count++ {
		connection, err := listener.Accept()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		go serve(connection, count)
	}
}
