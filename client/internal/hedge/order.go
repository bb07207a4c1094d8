package hedge

import (
	"slices"
	"sync"
)

// Order is the order in which targets are tried. A target that does well stays in front,
// and one that fails moves to the end. It is safe for concurrent use.
type Order struct {
	mu   sync.Mutex
	list []int // never changed, only replaced
}

// NewOrder returns the order of n targets, numbered from 0, beginning with first.
func NewOrder(n, first int) *Order {
	o := &Order{}
	for i := range n {
		o.list = append(o.list, (first+i)%n)
	}
	return o
}

// List returns the current order. The caller must not change it.
func (o *Order) List() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list
}

// Leave moves a failed target to the end if it is in front. If several calls fail there, it
// moves once.
func (o *Order) Leave(target int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.list[0] == target {
		o.putLast(target)
	}
}

// Late moves a target to the end if another one answered before it, wherever it is in the
// order.
func (o *Order) Late(target int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.putLast(target)
}

func (o *Order) putLast(target int) {
	others := slices.DeleteFunc(slices.Clone(o.list), func(t int) bool { return t == target })
	o.list = slices.Concat(others, []int{target})
}
