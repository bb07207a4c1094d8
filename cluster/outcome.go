package cluster

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/internal/readindex"
)

// Outcome is the known outcome of a command that did not succeed.
type Outcome int

const (
	// NotApplied commands have changed nothing and never will. They may be retried freely.
	NotApplied Outcome = iota + 1
	// Unknown commands may have been applied, or may still be. They may be retried only
	// under the same request id.
	Unknown
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case NotApplied:
		return "not applied"
	case Unknown:
		return "outcome unknown"
	}
	return fmt.Sprintf("outcome(%d)", int(o))
}

// Reasons in the ErrorInfo of outcome errors, in ErrorDomain.
const (
	ErrorDomain = "holdfast.dev"
	// ReasonNotApplied means that nothing has changed. Retry freely.
	ReasonNotApplied = "NOT_APPLIED"
	// ReasonOutcomeUnknown means that the command may have been applied. Retry only under
	// the same request id.
	ReasonOutcomeUnknown = "OUTCOME_UNKNOWN"
	// ReasonNoLeader means that nothing has changed, because no leader was found in time.
	ReasonNoLeader = "NO_LEADER"
	// ReasonTooLarge means that nothing has changed. The same command will never be
	// accepted.
	ReasonTooLarge = "COMMAND_TOO_LARGE"
	// ReasonEncoding means that nothing has changed. The same command will never be
	// accepted.
	ReasonEncoding = "COMMAND_NOT_ENCODABLE"
)

var (
	// ErrNoLeader is in an OutcomeError if no leader is known or reachable.
	ErrNoLeader = errors.New("no leader")
	// ErrNotLeader is in an OutcomeError if this peer does not lead, or is not ready to.
	ErrNotLeader = readindex.ErrNotLeader
	// ErrTooLarge is in an OutcomeError if a command exceeds the limit of a Raft entry (512
	// KiB).
	ErrTooLarge = errors.New("command is too large")
	// ErrEncoding is in an OutcomeError if a command cannot be encoded, because it has text
	// that is not UTF-8. The same command will never be accepted.
	ErrEncoding = errors.New("command cannot be encoded")
)

// OutcomeError means that a command was not applied, or that its outcome is unknown.
type OutcomeError struct {
	Outcome Outcome
	Leader  string // the leader as far as this peer knows; may be empty
	Err     error
}

// Error returns the outcome and its cause in words.
func (e *OutcomeError) Error() string {
	if e.Outcome == NotApplied && errors.Is(e.Err, ErrNoLeader) {
		return e.Err.Error()
	}
	return e.Outcome.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *OutcomeError) Unwrap() error { return e.Err }

// GRPCStatus lets a handler return the error as it is. The status is UNAVAILABLE with an
// ErrorInfo that names the outcome and the leader. A command that is too large or cannot be
// encoded is INVALID_ARGUMENT, because a retry is useless.
func (e *OutcomeError) GRPCStatus() *status.Status {
	code, reason := codes.Unavailable, ReasonNotApplied
	switch {
	case e.Outcome == Unknown:
		reason = ReasonOutcomeUnknown
	case errors.Is(e.Err, ErrNoLeader):
		reason = ReasonNoLeader
	case errors.Is(e.Err, ErrTooLarge):
		code, reason = codes.InvalidArgument, ReasonTooLarge
	case errors.Is(e.Err, ErrEncoding):
		code, reason = codes.InvalidArgument, ReasonEncoding
	}
	info := &errdetails.ErrorInfo{Domain: ErrorDomain, Reason: reason}
	if e.Leader != "" {
		info.Metadata = map[string]string{"leader": e.Leader}
	}
	st := status.New(code, e.Error())
	if with, err := st.WithDetails(info); err == nil {
		return with
	}
	return st
}

// outcomeReason returns the reason of an outcome error received over gRPC, or "" for other
// errors.
func outcomeReason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok && i.GetDomain() == ErrorDomain {
			switch r := i.GetReason(); r {
			case ReasonNotApplied, ReasonOutcomeUnknown, ReasonNoLeader:
				return r
			}
		}
	}
	return ""
}

// raftOutcome returns the outcome for an error of a Raft future. dispatched is true if the
// entry has an index, so its bytes may be on a disk.
func raftOutcome(err error, dispatched bool) Outcome {
	switch {
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrLeadershipTransferInProgress),
		errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrAbortedByRestore):
		return NotApplied
	case errors.Is(err, raft.ErrRaftShutdown) && !dispatched:
		return NotApplied
	}
	// ErrLeadershipLost, ErrRaftShutdown of a dispatched entry, an error of the log store,
	// or a timeout.
	return Unknown
}

// refusal returns the error of a call that has changed nothing.
func (n *Node) refusal(err error) error {
	if o, ok := errors.AsType[*OutcomeError](err); ok {
		return o
	}
	leader, _, _ := n.Leader()
	return &OutcomeError{Outcome: NotApplied, Leader: leader, Err: err}
}
