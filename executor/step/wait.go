package step

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Wait is what an attempt waits for. The zero value is the wait of its begin.
type Wait struct {
	For   *holdfastv1.Wait // with the error that prevents progress, if any; it is never changed
	Since time.Time        // when it began; another error does not restart it
}

// Same reports whether two waits are for the same event, with any error.
func (w Wait) Same(other Wait) bool { return fsm.SameWait(w.For, other.For) }

// Waiting returns the current wait.
func (a *Attempt) Waiting() *holdfastv1.Wait {
	if a.Wait.For == nil {
		return &holdfastv1.Wait{Kind: holdfastv1.Wait_STEP, Subject: a.Kind}
	}
	return a.Wait.For
}

// awaits sets the current wait. A poll may call it to be more precise than its caller.
func (a *Attempt) awaits(w *holdfastv1.Wait) {
	if a.Wait.For == nil || !fsm.SameWait(a.Wait.For, w) {
		a.Wait.Since = time.Now()
	}
	a.Wait.For = w
}

// awaitsBut is awaits with the error that prevents progress.
func (a *Attempt) awaitsBut(w *holdfastv1.Wait, cause string) {
	w = proto.CloneOf(w)
	w.Cause = cause
	a.awaits(w)
}

// firstReading returns a wait for an answer to the first reading of a machine.
func firstReading(by, of string) *holdfastv1.Wait {
	return &holdfastv1.Wait{Kind: holdfastv1.Wait_READING, Subject: by, Value: of}
}

// answer returns a wait for an answer of a BMC, a host or a cluster, to the question for a value.
func answer(of, value string) *holdfastv1.Wait {
	return &holdfastv1.Wait{Kind: holdfastv1.Wait_ANSWER, Subject: of, Value: value}
}

// effect returns a wait for a thing to have a value.
func effect(thing, value string) *holdfastv1.Wait {
	return &holdfastv1.Wait{Kind: holdfastv1.Wait_EFFECT, Subject: thing, Value: value}
}

// inDetail returns an effect's wait with a detail that a provider reports.
func inDetail(thing, value, detail string) *holdfastv1.Wait {
	w := effect(thing, value)
	w.Detail = task.Truncate(task.MaxText, task.Clean(detail))
	return w
}

// accepted returns a wait for the effect of a press that the BMC has accepted.
func accepted(w *holdfastv1.Wait, press string) *holdfastv1.Wait {
	w.Press = press
	return w
}

// waitOf returns a wait of a kind that needs no value.
func waitOf(kind holdfastv1.Wait_Kind, subject string) *holdfastv1.Wait {
	return &holdfastv1.Wait{Kind: kind, Subject: subject}
}

// nodeIn returns the node of the machine in a cluster, as the subject of a wait.
func nodeIn(cluster string) string { return "node in " + cluster }

// The subjects of waits.
const (
	host    = "host"
	cluster = "cluster"
	bmc     = "BMC"
)
