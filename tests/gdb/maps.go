// Maps of one group, of several tables and of none, and interfaces.
package main

import (
	"errors"
	"os"
)

type point struct{ x, y int }

type shop struct {
	prices map[string]int
	points map[int]point
	none   map[int]int
	large  map[int]int
}

type found struct {
	values [6]any
	failed error
	other  error
}

//go:noinline
func count(shop *shop, found *found) int {
	return len(shop.prices) + len(found.values)
}

//go:noinline
func divide(a, b int) (int, error) {
	if b == 0 {
		return 0, errors.New("no division by zero")
	}
	return a / b, nil
}

func main() {
	all := &shop{prices: map[string]int{"hat": 3}, points: map[int]point{1: {2, 3}}, large: map[int]int{}}
	for number := 0; number < 3000; number++ {
		all.large[number] = number * number
	}
	delete(all.large, 5)
	values := &found{values: [6]any{1, "two", point{3, 4}, &point{5, 6}, 2.5, nil}}
	_, values.failed = divide(1, 0)
	divide(6, 3)
	if count(all, values) != 7 {
		os.Exit(1)
	}
}
