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
	quotient, rest, _ := divide(17, 5)
	first, share := boxed(int8(quotient), float64(rest))
	fmt.Println(first.Name, share, four())
}

//go:noinline
func divide(a, b int) (quotient int, rest int, text string) { return a / b, a % b, "fine" }

//go:noinline
func boxed(number int8, share float64) (Box, float64) {
	return Box{"made", []int32{int32(number), 9}}, share / 4
}

//go:noinline
func four() [4]int { return [4]int{1, 2, 3, 4} }
