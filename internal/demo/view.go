package demo

import (
	"fmt"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// view is all that is to be seen at one moment.
type view struct {
	Elapsed   time.Duration
	Steps     []string // of the plan
	Machines  []machineView
	Peers     []peerView
	Events    []event // oldest first
	Done      int     // steps
	Ended     int     // runs
	TakenOver int     // attempts
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
	ID        string
	Phase     holdfastv1.Run_Phase // of the run; unspecified before there is one
	Done      int                  // steps
	Step      string               // the current one
	Attempt   int32                // of the current step, 0 before the first
	TakenOver bool                 // the attempt was begun by a leader that is gone
	Waiting   string               // for what
	Failure   string               // why the last attempt of the current step failed, "" while one is under way
	Error     string               // why the run failed
	Retries   int                  // of all steps
	Took      time.Duration        // of a run that has ended
}

func (m machineView) ended() bool {
	switch m.Phase {
	case holdfastv1.Run_SUCCEEDED, holdfastv1.Run_FAILED, holdfastv1.Run_CANCELED:
		return true
	}
	return false
}

func (m machineView) failed() bool { return m.ended() && m.Phase != holdfastv1.Run_SUCCEEDED }

// peerState is how a peer's process is.
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

// kind is what an event means.
type kind int

const (
	plain kind = iota
	good
	warning
	bad
)

// event is something worth a line.
type event struct {
	At        time.Duration
	Kind      kind
	Text      string
	Retry     bool // an attempt that failed and is made again: there may be many
	Quiet     bool // the picture shows it anyway
	Unsettled bool // the text may change yet
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// seconds writes a time as "3.2 s".
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
