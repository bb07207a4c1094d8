package client

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrorDomain is the domain of the google.rpc.ErrorInfo in Holdfast's errors.
const ErrorDomain = "holdfast.dev"

// The reasons in an UNAVAILABLE error that tell what became of a write.
const (
	ReasonNotApplied     = "NOT_APPLIED"     // it was not applied and never will be
	ReasonNoLeader       = "NO_LEADER"       // there is no leader: it was not applied
	ReasonOutcomeUnknown = "OUTCOME_UNKNOWN" // it may have been applied, or may still be
)

// ReasonRateLimit is the reason in a RESOURCE_EXHAUSTED error of a caller who makes too many calls:
// this one was turned away before anything was done, and is made again a little later.
const ReasonRateLimit = "RATE_LIMIT"

// CallError is a call that no peer answered: the tries are over because the time is, or because the
// request must not be repeated. A refusal by the server is not a CallError but its own status
// error.
type CallError struct {
	Method string // full method, e.g. /holdfast.v1.RunService/StartRun
	Addr   string // the address asked last
	Tries  int
	// OutcomeUnknown means that the request may have been applied, or may still be.
	OutcomeUnknown bool
	// Err is the last try's error, a gRPC status.
	Err error
	// Cause is the context's error when the context ended the tries.
	Cause error
}

// Error reports what was asked, of whom, what is known about it and what to do.
func (e *CallError) Error() string {
	name := e.Method[strings.LastIndexByte(e.Method, '/')+1:]
	last := tidy(status.Convert(e.Err).Message(), e.Addr)
	if e.OutcomeUnknown {
		return fmt.Sprintf("%s: the outcome is unknown: %s: %s: it may have been applied: %s", name, e.Addr, last, advice(e.Method))
	}
	if e.Tries == 1 {
		return fmt.Sprintf("%s: no answer from %s: %s", name, e.Addr, last)
	}
	return fmt.Sprintf("%s: no answer in %d tries: at last from %s: %s", name, e.Tries, e.Addr, last)
}

// tidy takes gRPC's words off a failed connection, and the address, which is said anyway.
func tidy(msg, addr string) string {
	dial, ok := strings.CutPrefix(msg, `connection error: desc = "transport: Error while dialing: `)
	if !ok {
		return msg
	}
	return strings.TrimPrefix(strings.TrimSuffix(dial, `"`), "dial tcp "+addr+": ")
}

// Unwrap returns the last try's error and what ended the tries.
func (e *CallError) Unwrap() []error {
	if e.Cause != nil {
		return []error{e.Err, e.Cause}
	}
	return []error{e.Err}
}

// GRPCStatus makes status.Code and status.FromError work: the code and details are the last try's.
func (e *CallError) GRPCStatus() *status.Status {
	p := status.Convert(e.Err).Proto()
	p.Message = e.Error()
	return status.FromProto(p)
}

// Reason is the reason of Holdfast's ErrorInfo in a gRPC error, e.g. NO_LEADER, or "".
func Reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == ErrorDomain {
			return info.GetReason()
		}
	}
	return ""
}

// tooMany tells that a call was turned away because there were too many.
func tooMany(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && Reason(err) == ReasonRateLimit
}

// retryDelay is how long a server that has turned a call away wants to be left alone, 0 if it does
// not say.
func retryDelay(err error) time.Duration {
	if !tooMany(err) {
		return 0
	}
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// FieldViolations lists what is wrong with the fields of a request that was INVALID_ARGUMENT.
func FieldViolations(err error) []*errdetails.BadRequest_FieldViolation {
	var all []*errdetails.BadRequest_FieldViolation
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			all = append(all, bad.GetFieldViolations()...)
		}
	}
	return all
}

// Detail is a value of Holdfast's ErrorInfo in a gRPC error, e.g. run_id, or "".
func Detail(err error, key string) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == ErrorDomain {
			return info.GetMetadata()[key]
		}
	}
	return ""
}
