package main

import "fmt"

type Order struct {
	id   int
	next *Order
}

type Queue struct {
	first, last *Order
	length      int
}

func (q *Queue) add(id int) {
	order := &Order{id: id}
	if q.first == nil {
		q.first = order
	} else {
		q.last.next = order
	}
	q.last = order
	q.length++
}

func (q *Queue) cancel(id int) {
	for at := &q.first; *at != nil; at = &(*at).next {
		if (*at).id == id {
			*at = (*at).next
			q.length--
			return
		}
	}
}

func (q *Queue) ids() []int {
	ids := make([]int, 0, q.length)
	for order := q.first; order != nil; order = order.next {
		ids = append(ids, order.id)
	}
	return ids
}

func main() {
	queue := &Queue{}
	for id := 1; id <= 4; id++ {
		queue.add(id)
	}
	queue.cancel(4)
	queue.add(5)
	queue.add(6)
	ids := queue.ids()
	fmt.Println(ids)
	if len(ids) != queue.length {
		panic("orders are lost")
	}
}
