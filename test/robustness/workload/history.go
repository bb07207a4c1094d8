package workload

import (
	"time"
)

// Kind is the kind of a call.
type Kind string

// Kinds of calls.
const (
	StartRun      Kind = "StartRun"
	CancelRun     Kind = "CancelRun"
	GetRun        Kind = "GetRun"
	UpdateMachine Kind = "UpdateMachine" // writes the label LabelKey
	GetMachine    Kind = "GetMachine"
	ListMachines  Kind = "ListMachines"
	CreatePlan    Kind = "CreatePlan" // replaces a plan that no run refers to, writes its display name
	GetPlan       Kind = "GetPlan"

	// Calls on pools and plans that are created once and deleted once, by one client.
	CreatePool     Kind = "CreatePool"
	DeletePool     Kind = "DeletePool"
	GetPool        Kind = "GetPool"
	CreatePlanOnce Kind = "CreatePlan (once)"
	DeletePlan     Kind = "DeletePlan"
	GetPlanOnce    Kind = "GetPlan (once)"
)

// LabelKey is the label to which the workload writes unique values.
const LabelKey = "robustness"

// Outcome is the known outcome of a call.
type Outcome string

// Outcomes of a call (docs/concepts.md).
const (
	OK         Outcome = "ok"
	Refused    Outcome = "refused"     // the state refused it, which is a final response
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

	Machine, Request, Plan, Run, Value string // of the request
	Pool                               string // of the request

	Machines []MachineSeen // machines in the response
	Got      *RunSeen      // the run in the response
	Index    uint64        // the index in the response's header; 0 if there was none
}

// MachineSeen is a machine in a response. For a plan, Value is the display name.
type MachineSeen struct {
	ID, Value, Active string
	Revision          uint64
}

// RunSeen is a run in a response.
type RunSeen struct {
	ID, Machine, Request, Plan, Phase string
	Ended                             bool
	Revision                          uint64
}

// Event is one event that a watcher received.
type Event struct {
	Cursor, Index uint64
	Current       bool // of the state at the beginning of a stream, not a transition
	Run           RunSeen
	Step, Message string
	Steps         string // states and attempts of the steps, in order, e.g. "S1 R2 W0"
}

// Watch is the history of one watcher, over all its streams.
type Watch struct {
	Name     string
	Events   []Event
	Sessions int      // streams opened
	Trouble  []string // errors that a watcher must not get
}

// Tail is a run's log as one reader received it, over all its streams.
type Tail struct {
	Run      string
	Data     []byte
	Done     bool // the server has reported the end of the log
	Sessions int
	Trouble  []string // gaps, and errors that a reader must not get
}

// History is all calls and responses.
type History struct {
	Base     time.Time
	Prefix   string   // of the ids of its machines
	Machines []string // ids
	Plans    []string // the plans of runs
	Register string   // the plan that is written, if there is one
	MinOps   int
	Ops      []Op
	Watches  []Watch
	Tails    []Tail
	Fleet    *Fleet // nil if there are no clients of leases
	Real     *Real  // nil if all machines are fake
}

// Count returns the number of calls of a kind with an outcome; an empty outcome matches
// any.
func (h *History) Count(k Kind, o Outcome) int {
	n := 0
	for _, op := range h.Ops {
		if op.Kind == k && (o == "" || op.Outcome == o) {
			n++
		}
	}
	return n
}
