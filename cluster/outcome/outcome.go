// Package outcome owns the errors of commands and calls whose effect matters to the caller: nothing
// has changed, or nobody knows. It also owns their form in a gRPC status. It must not know how
// commands are committed.
package outcome

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kind is the known outcome of a command that did not succeed.
type Kind int

const (
	// NotApplied commands have changed nothing and never will. They may be retried freely.
	NotApplied Kind = iota + 1
	// Unknown commands may have been applied, or may still be. They may be retried only
	// under the same request id.
	Unknown
)

// String returns the outcome in words.
func (o Kind) String() string {
	switch o {
	case NotApplied:
		return "not applied"
	case Unknown:
		return "outcome unknown"
	}
	return fmt.Sprintf("outcome(%d)", int(o))
}

// Reasons in the ErrorInfo of outcome errors, in Domain.
const (
	Domain = "holdfast.dev"
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
	// ErrNoLeader is in an Error if no leader is known or reachable.
	ErrNoLeader = errors.New("no leader")
	// ErrNotLeader is in an Error if this peer does not lead, or is not ready to.
	ErrNotLeader = errors.New("this peer is not the leader")
	// ErrTooLarge is in an Error if a command exceeds the limit of a Raft entry (512
	// KiB).
	ErrTooLarge = errors.New("command is too large")
	// ErrEncoding is in an Error if a command cannot be encoded, because it has text
	// that is not UTF-8. The same command will never be accepted.
	ErrEncoding = errors.New("command cannot be encoded")
	// ErrStopping is in an Error if this peer is stopping.
	ErrStopping = errors.New("this peer is stopping")
)

// Error means that a command was not applied, or that its outcome is unknown.
type Error struct {
	Outcome Kind
	Leader  string // the leader as far as this peer knows; may be empty
	Err     error
}

// Error returns the outcome and its cause in words.
func (e *Error) Error() string {
	if e.Outcome == NotApplied && errors.Is(e.Err, ErrNoLeader) {
		return e.Err.Error()
	}
	text := e.Err.Error()
	st, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](e.Err)
	if ok { // without the words of gRPC
		text = strings.Replace(text, st.Error(), st.GRPCStatus().Message(), 1)
	}
	return e.Outcome.String() + ": " + strings.TrimPrefix(text, e.Outcome.String()+": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// GRPCStatus lets a handler return the error as it is. The status is UNAVAILABLE with an
// ErrorInfo that names the outcome and the leader. A command that is too large or cannot be
// encoded is INVALID_ARGUMENT, because a retry is useless.
func (e *Error) GRPCStatus() *status.Status {
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
	info := &errdetails.ErrorInfo{Domain: Domain, Reason: reason}
	if e.Leader != "" {
		info.Metadata = map[string]string{"leader": e.Leader}
	}
	st := status.New(code, e.Error())
	if with, err := st.WithDetails(info); err == nil {
		return with
	}
	return st
}

// Reason returns the reason of an outcome error received over gRPC, or "" for other
// errors.
func Reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok && i.GetDomain() == Domain {
			switch r := i.GetReason(); r {
			case ReasonNotApplied, ReasonOutcomeUnknown, ReasonNoLeader:
				return r
			}
		}
	}
	return ""
}

// Refusal returns the error of a call that has changed nothing: err itself if it states an outcome,
// otherwise one with the leader, which may be empty.
func Refusal(leader string, err error) error {
	if o, ok := errors.AsType[*Error](err); ok {
		return o
	}
	return &Error{Outcome: NotApplied, Leader: leader, Err: err}
}
