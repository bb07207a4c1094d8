package demo

import (
	"fmt"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// view is the state of the demo at one moment.
type view struct {
	Elapsed  time.Duration
	Steps    []string // of the plan
	Machines []machineView
	Peers    []peerView
	Events   []event // oldest first
	Done     int     // steps
	Ended    int     // runs
	Adopted  int     // attempts
}

func (v view) total() int { return len(v.Machines) * len(v.Steps) }

func (v view) retries() int {
	n := 0
	for _, m := range v.Machines {
		n += m.Retries
	}
	return n
}

// machineView is a machine and its run.
type machineView struct {
	ID      string
	Phase   holdfastv1.Run_Phase // of the run; unspecified before there is one
	Done    int                  // steps
	Step    string               // the current one
	Attempt int32                // of the current step, 0 before the first
	Adopted bool                 // the attempt was begun by an earlier leader
	Waiting string               // waiting_for of the run
	Failure string               // of the last attempt of the current step; "" while one is running
	Error   string               // of a failed run
	Retries int                  // of all steps
	Took    time.Duration        // of a run that has ended
}

func (m machineView) ended() bool {
	switch m.Phase {
	case holdfastv1.Run_SUCCEEDED, holdfastv1.Run_FAILED, holdfastv1.Run_CANCELED:
		return true
	}
	return false
}

func (m machineView) failed() bool { return m.ended() && m.Phase != holdfastv1.Run_SUCCEEDED }

// peerState is the state of a peer's process.
type peerState int

const (
	starting peerState = iota
	up
	killed
)

type peerView struct {
	ID     string
	State  peerState
	Leader bool
}

// kind is the severity of an event.
type kind int

const (
	plain kind = iota
	good
	warning
	bad
)

// event is a line of the log of the demo.
type event struct {
	At        time.Duration
	Kind      kind
	Text      string
	Retry     bool // a failed attempt that is retried: there may be many
	Quiet     bool // the frame already shows it
	Unsettled bool // the text may still change
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// seconds formats a duration like "3.2 s".
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
