package fleet

import "github.com/holdfast-metal/holdfast/fsm"

// Discovery configures the creation of machines for reports from unknown MAC addresses.
type Discovery struct {
	On    bool
	Limit uint32 // how many machines may await approval; 0: no limit
}

// LimitIn returns how many machines may await approval in a state. It is 0 while a peer is
// too old to know the limit.
func (d Discovery) LimitIn(v *fsm.View) uint32 {
	if !v.Has(fsm.Level2) {
		return 0
	}
	return d.Limit
}
