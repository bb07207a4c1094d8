package edge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
)

// retryAfter is the RetryInfo of UNAVAILABLE: about the time until an election is
// noticed.
const retryAfter = 250 * time.Millisecond

// Status returns the gRPC status for the error of a method, or nil. An error of an unknown
// kind becomes INTERNAL: the client gets an id, and the error is logged with that id.
func (p *Peer) Status(ctx context.Context, method string, err error) error {
	if err == nil { // most calls; the variables below would be on the heap
		return nil
	}
	var refusal *fsm.Error
	var unsure *outcome.Error
	var already interface{ GRPCStatus() *status.Status }
	switch {
	case errors.As(err, &refusal):
		return refused(refusal)
	case errors.As(err, &unsure):
		st := unsure.GRPCStatus()
		if st.Code() == codes.Unavailable {
			return with(st, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
		}
		return st.Err()
	case errors.Is(err, ErrDraining):
		return with(status.New(codes.Unavailable, err.Error()), info("SHUTTING_DOWN", nil),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
	case errors.As(err, &already):
		return err
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	id := RandomHex(4)
	p.Log.ErrorContext(ctx, "call failed", "method", method, "error_id", id, "error", err)
	return with(status.Newf(codes.Internal, "internal error %s: see the log of the peer that served the call", id),
		info("INTERNAL", map[string]string{"error_id": id}))
}

// refused returns the status of a refusal by the state, with details for programs.
func refused(e *fsm.Error) error {
	details := []protoadapt.MessageV1{info(e.Reason, e.Meta)}
	switch e.Code {
	case fsm.InvalidArgument:
		bad := &errdetails.BadRequest{}
		for _, f := range e.Fields {
			bad.FieldViolations = append(bad.FieldViolations,
				&errdetails.BadRequest_FieldViolation{Field: f.Field, Description: f.Description})
		}
		details = append(details, bad)
	case fsm.FailedPrecondition:
		details = append(details, &errdetails.PreconditionFailure{
			Violations: []*errdetails.PreconditionFailure_Violation{
				{Type: e.Reason, Subject: subject(e.Meta), Description: e.Message},
			},
		})
	}
	return with(status.New(code(e.Code), e.Message), details...)
}

// code returns the gRPC code of a refusal.
func code(c fsm.Code) codes.Code {
	switch c {
	case fsm.InvalidArgument:
		return codes.InvalidArgument
	case fsm.NotFound:
		return codes.NotFound
	case fsm.AlreadyExists:
		return codes.AlreadyExists
	case fsm.FailedPrecondition:
		return codes.FailedPrecondition
	case fsm.Aborted:
		return codes.Aborted
	case fsm.OutOfRange:
		return codes.OutOfRange
	case fsm.Unauthenticated:
		return codes.Unauthenticated
	case fsm.PermissionDenied:
		return codes.PermissionDenied
	}
	return codes.Unknown
}

// subject returns the most specific resource in the metadata of a refusal.
func subject(meta map[string]string) string {
	for _, kind := range []struct{ key, prefix string }{
		{"run_id", "runs/"}, {"machine_id", "machines/"}, {"plan_id", "plans/"}, {"step", "steps/"},
	} {
		if v := meta[kind.key]; v != "" {
			return kind.prefix + v
		}
	}
	return ""
}

// info returns the reason of an error for programs.
func info(reason string, meta map[string]string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: reason, Domain: outcome.Domain, Metadata: meta}
}

// with returns a status with details. If they cannot be added, it returns the status
// without them.
func with(st *status.Status, details ...protoadapt.MessageV1) error {
	if d, err := st.WithDetails(details...); err == nil {
		return d.Err()
	}
	return st.Err()
}

// RandomHex returns 2n random hex characters, for a new id.
func RandomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: see crypto/rand
	return hex.EncodeToString(b)
}
