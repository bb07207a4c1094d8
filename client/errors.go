package client

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrorDomain is the domain of the google.rpc.ErrorInfo in Holdfast's errors.
const ErrorDomain = "holdfast.dev"

// Reasons in an UNAVAILABLE error, which report the outcome of a write.
const (
	ReasonNotApplied     = "NOT_APPLIED"     // not applied, and never will be
	ReasonNoLeader       = "NO_LEADER"       // not applied, because there is no leader
	ReasonOutcomeUnknown = "OUTCOME_UNKNOWN" // may have been applied, or may still be
)

// ReasonRateLimit is the reason in a RESOURCE_EXHAUSTED error of a caller that exceeds its
// rate limit. The call was rejected before it had any effect, and the client retries it
// later.
const ReasonRateLimit = "RATE_LIMIT"

// CallError is the error of a call that no peer answered. Either the time ran out, or the
// request must not be repeated. If the server refuses a call, its own status error is
// returned instead.
type CallError struct {
	Method string // full method, e.g. /holdfast.v1.RunService/StartRun
	Addr   string // the address tried last
	Tries  int
	// OutcomeUnknown is true if the request may have been applied, or may still be.
	OutcomeUnknown bool
	// Repeatable is true if the same request may be sent again without another effect.
	Repeatable bool
	// Reads is true if the call changes nothing.
	Reads bool
	// Err is the last try's error, a gRPC status.
	Err error
	// Cause is the context's error if the context ended the tries.
	Cause error
}

// Error returns the method, the address, the last error and, if the outcome is unknown,
// advice.
func (e *CallError) Error() string {
	name := e.Method[strings.LastIndexByte(e.Method, '/')+1:]
	last := tidy(status.Convert(e.Err).Message(), e.Addr)
	if e.OutcomeUnknown {
		return fmt.Sprintf("%s: the outcome is unknown: %s: %s: it may have been applied: %s",
			name, e.Addr, last, e.advice())
	}
	if e.Tries == 1 {
		return fmt.Sprintf("%s: no response from %s: %s", name, e.Addr, last)
	}
	return fmt.Sprintf("%s: no response in %d tries: last error from %s: %s", name, e.Tries, e.Addr, last)
}

// advice returns the remedy for a request whose outcome is unknown.
func (e *CallError) advice() string {
	if e.Repeatable {
		return "repeat the same request, which has no second effect"
	}
	return cmp.Or(retryOf(e.Method).GetRemedy(), "read the state back before you repeat it")
}

// tidy removes the wording of gRPC and of the dialer from a failed connection, and the address,
// which the error has already.
func tidy(msg, addr string) string {
	cause, ok := strings.CutPrefix(msg, `connection error: desc = "`)
	if !ok {
		return msg
	}
	cause = strings.TrimSuffix(cause, `"`)
	if text, err := strconv.Unquote(`"` + cause + `"`); err == nil {
		cause = text // gRPC quotes the text of the dialer
	}
	switch {
	case strings.Contains(cause, httpSign):
		return "it answers in HTTP/1.1"
	case strings.Contains(cause, alpnSign):
		return "it uses TLS, but does not speak gRPC"
	case cause == plainSign, cause == "transport: authentication handshake failed: EOF":
		return "it closes the connection"
	}
	for _, prefix := range []string{"transport: Error while dialing: ", "transport: authentication handshake failed: ",
		"error reading server preface: ", "dial tcp " + addr + ": ", "dial tcp: "} {
		cause = strings.TrimPrefix(cause, prefix)
	}
	return worded(dialed.ReplaceAllString(cause, ""))
}

// dialed is the address to which a name was resolved, in an error of the dialer.
var dialed = regexp.MustCompile(`^dial tcp [^ ]+: `)

// alerts are the reasons of a server that refuses a client certificate.
var alerts = regexp.MustCompile(`^remote error: tls: (unknown certificate authority|bad certificate|` +
	`expired certificate|revoked certificate|unsupported certificate|unknown certificate)$`)

var lookup = regexp.MustCompile(`^lookup ([^ ]+)(?: on [^ ]+)?: (.*)$`)

// worded returns an error of a connection in words for people.
func worded(cause string) string {
	switch m := lookup.FindStringSubmatch(cause); {
	case m != nil && m[2] == "no such host":
		return "there is no host " + m[1]
	case m != nil:
		return "the name " + m[1] + " cannot be looked up: " + m[2]
	}
	if m := alerts.FindStringSubmatch(cause); m != nil {
		return "it refuses the client certificate: " + m[1]
	}
	if _, why, ok := strings.Cut(cause, "tls: failed to verify certificate: x509: "); ok {
		if strings.HasPrefix(why, "certificate signed by unknown authority") {
			why = "it is issued by another CA"
		}
		return "its certificate is not accepted: " + why
	}
	if cause == "remote error: tls: certificate required" {
		return "it requires a client certificate"
	}
	return strings.TrimPrefix(strings.TrimPrefix(cause, "connect: "), "read: ")
}

// Unwrap returns the last try's error and, if the context ended the tries, its error.
func (e *CallError) Unwrap() []error {
	if e.Cause != nil {
		return []error{e.Err, e.Cause}
	}
	return []error{e.Err}
}

// GRPCStatus implements status.FromError. The code and details are those of the last try.
func (e *CallError) GRPCStatus() *status.Status {
	p := status.Convert(e.Err).Proto()
	p.Message = e.Error()
	return status.FromProto(p)
}

// Reason returns the reason of Holdfast's ErrorInfo in a gRPC error, such as NO_LEADER, or
// "".
func Reason(err error) string { return errorInfo(err).GetReason() }

// errorInfo returns Holdfast's ErrorInfo in a gRPC error, or nil.
func errorInfo(err error) *errdetails.ErrorInfo {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == ErrorDomain {
			return info
		}
	}
	return nil
}

// tooMany reports whether a call was rejected by a rate limit.
func tooMany(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && Reason(err) == ReasonRateLimit
}

// retryDelay returns how long a rate-limited caller should wait, or 0 if the server did not
// specify it.
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

// FieldViolations returns the field violations of an INVALID_ARGUMENT error.
func FieldViolations(err error) []*errdetails.BadRequest_FieldViolation {
	var all []*errdetails.BadRequest_FieldViolation
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			all = append(all, bad.GetFieldViolations()...)
		}
	}
	return all
}

// Detail returns a value of Holdfast's ErrorInfo in a gRPC error, such as run_id, or "".
func Detail(err error, key string) string { return errorInfo(err).GetMetadata()[key] }
