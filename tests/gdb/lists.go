package main

import "fmt"

type Box struct {
	Name  string
	Sizes []int32
}

//go:noinline
func join(parts []string, between string) string {
	all := ""
	for i, part := range parts {
		if i > 0 {
			all += between
		}
		all += part
	}
	return all
}

func main() {
	box := Box{"crate", []int32{4, 5, 6}}
	words := []string{"a", "bc"}
	joined := join(words, "-")
	fmt.Println(joined, box.Name, len(box.Sizes), len(words)) // MARK
}
