package fleet

import "github.com/holdfast-metal/holdfast/fsm"

// Discovery configures the creation of machines for reports from unknown MAC addresses.
type Discovery struct {
	On    bool
	Limit uint32 // maximum number of machines that await approval; 0: no limit
}

// LimitIn returns the limit for commands on a state. It is 0 while a peer is too old to know
// the limit.
func (d Discovery) LimitIn(v *fsm.View) uint32 {
	if !v.Has(fsm.Level2) {
		return 0
	}
	return d.Limit
}
