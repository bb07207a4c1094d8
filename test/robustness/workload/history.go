package workload

import (
	"time"
)

// Kind is what a call asks for.
type Kind string

// The kinds of calls.
const (
	StartRun      Kind = "StartRun"
	CancelRun     Kind = "CancelRun"
	GetRun        Kind = "GetRun"
	UpdateMachine Kind = "UpdateMachine" // writes the label LabelKey
	GetMachine    Kind = "GetMachine"
	ListMachines  Kind = "ListMachines"
	CreatePlan    Kind = "CreatePlan" // replaces a plan that no run refers to, writes its display name
	GetPlan       Kind = "GetPlan"

	// Of pools and plans that are there to be made and deleted: each is made once and deleted once,
	// by one client.
	AddPool  Kind = "CreatePool"
	DropPool Kind = "DeletePool"
	SeePool  Kind = "GetPool"
	AddPlan  Kind = "CreatePlan (once)"
	DropPlan Kind = "DeletePlan"
	SeePlan  Kind = "GetPlan (once)"
)

// LabelKey is the label that the workload writes unique values to.
const LabelKey = "robustness"

// Outcome is what is known of a call.
type Outcome string

// The outcomes of a call (docs/concepts.md).
const (
	OK         Outcome = "ok"
	Refused    Outcome = "refused"     // the state refused it: an answer like any other
	NotApplied Outcome = "not-applied" // it has changed nothing and never will
	Unknown    Outcome = "unknown"     // it may have been applied, or may still be
)

// Op is one call of one client on one peer.
type Op struct {
	Client, Peer int
	Kind         Kind
	Stale        bool          // a read of the peer's own state
	Call, Return time.Duration // since History.Base
	Outcome      Outcome
	Code, Reason string // of a call that is not OK: the gRPC code, and the ErrorInfo's reason
	Message      string
	Named        string // the run that a refusal names

	Machine, Request, Plan, Run, Value string // what was asked
	Pool                               string // the same

	Machines []MachineSeen // what was answered, of machines
	Got      *RunSeen      // what was answered, of a run
	Index    uint64        // the index in the answer's header; 0 if there was none
}

// MachineSeen is what an answer says of a machine. Of a plan it has the display name as Value.
type MachineSeen struct {
	ID, Value, Active string
	Revision          uint64
}

// RunSeen is what an answer says of a run.
type RunSeen struct {
	ID, Machine, Request, Plan, Phase string
	Ended                             bool
	Revision                          uint64
}

// Event is one event that a watcher was sent.
type Event struct {
	Cursor, Index uint64
	Current       bool // of the state that a stream begins with, not a transition
	Run           RunSeen
	Step, Message string
	Steps         string // states and attempts of the steps, in order, e.g. "S1 R2 W0"
}

// Watch is all that one watcher saw, over all its streams.
type Watch struct {
	Name     string
	Events   []Event
	Sessions int      // streams opened
	Trouble  []string // errors that a watcher must not get
}

// Tail is a run's log as one reader saw it, over all its streams.
type Tail struct {
	Run      string
	Data     []byte
	Done     bool // the log has ended, as the server says
	Sessions int
	Trouble  []string // gaps, and errors that a reader must not get
}

// History is everything that was asked and answered.
type History struct {
	Base     time.Time
	Prefix   string   // of the ids of its machines
	Machines []string // ids
	Plans    []string // the plans that runs are of
	Register string   // the plan that is written, if there is one
	MinOps   int
	Ops      []Op
	Watches  []Watch
	Tails    []Tail
	Fleet    *Fleet // nil if there are no clients of leases
	Real     *Real  // nil if all machines are fake
}

// Count counts the calls of a kind with an outcome; an empty outcome is any.
func (h *History) Count(k Kind, o Outcome) int {
	n := 0
	for _, op := range h.Ops {
		if op.Kind == k && (o == "" || op.Outcome == o) {
			n++
		}
	}
	return n
}
