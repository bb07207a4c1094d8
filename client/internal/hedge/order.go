package hedge

import (
	"slices"
	"sync"
)

// Order is in which order targets are asked: who did well stays in front, who failed goes to the
// end. It is safe for concurrent use.
type Order struct {
	mu   sync.Mutex
	list []int // never changed, only replaced
}

// NewOrder returns n targets, by number from 0, beginning with first.
func NewOrder(n, first int) *Order {
	o := &Order{}
	for i := range n {
		o.list = append(o.list, (first+i)%n)
	}
	return o
}

// List returns the order as it is. It must not be changed.
func (o *Order) List() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list
}

// Leave moves on from a target that failed: once for all the calls that failed there.
func (o *Order) Leave(target int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.list[0] == target {
		o.putLast(target)
	}
}

// Late puts a target last that had not answered when another did, wherever it stands.
func (o *Order) Late(target int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.putLast(target)
}

func (o *Order) putLast(target int) {
	list := make([]int, 0, len(o.list))
	for _, t := range o.list {
		if t != target {
			list = append(list, t)
		}
	}
	o.list = slices.Clip(append(list, target))
}
