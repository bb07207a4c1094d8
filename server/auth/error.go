package auth

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
)

// The machine-readable reasons of refusals: ErrorInfo.reason.
const (
	ReasonNoCredentials      = "NO_CREDENTIALS"
	ReasonBadCredentials     = "BAD_CREDENTIALS" // they cannot be parsed
	ReasonTokenUnknown       = fsm.ReasonTokenUnknown
	ReasonTokenRevoked       = fsm.ReasonTokenRevoked
	ReasonTokenExpired       = fsm.ReasonTokenExpired
	ReasonTokenInvalid       = "TOKEN_INVALID"      // an access token with a bad signature, or for another audience
	ReasonTokenEarly         = "TOKEN_TOO_EARLY"    // an access token that begins later
	ReasonClockUnknown       = "CLOCK_NOT_COMPARED" // this peer cannot judge yet whether a credential is valid now
	ReasonCertificateExpired = "CERTIFICATE_EXPIRED"
	ReasonIssuerUnreachable  = "ISSUER_UNREACHABLE"
	ReasonRole               = "ROLE"    // the role does not allow the call
	ReasonScope              = "SCOPE"   // the call needs a caller that is not scoped to pools
	ReasonNotOwn             = "NOT_OWN" // an agent named a machine or pool other than its own
	ReasonNotMember          = "NOT_A_MEMBER"
	ReasonPeersOnly          = "PEERS_ONLY"
	ReasonOverHTTP           = "OVER_HTTP" // machines can call the method only by its HTTP route
	ReasonNoRule             = "NO_RULE"
	ReasonRateLimit          = "RATE_LIMIT"
	ReasonStreamLimit        = "STREAM_LIMIT"    // the caller has too many open streams
	ReasonForeignHost        = "FOREIGN_HOST"    // --insecure, and the Host header is not a loopback name
	ReasonSignInState        = "SIGN_IN_STATE"   // an answer of an issuer to no sign-in of this browser
	ReasonSignInRefused      = "SIGN_IN_REFUSED" // the issuer answered with an error
	ReasonCrossOrigin        = "CROSS_ORIGIN"    // a browser sent it for a page of another site
)

// Error is a refusal of the gate. Its message names the remedy, and contains no part of
// the credentials.
type Error struct {
	Code    codes.Code // Unauthenticated, PermissionDenied, ResourceExhausted or Unavailable
	Reason  string
	Message string
	Retry   time.Duration // of ResourceExhausted and Unavailable: time to wait before a retry
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// GRPCStatus returns the status with its details.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.Code, e.Message)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: e.Reason, Domain: outcome.Domain}}
	if e.Retry > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.Retry)})
	}
	if d, err := st.WithDetails(details...); err == nil {
		return d
	}
	return st
}

// judged returns the refusal of a credential. If only the time speaks against it, and this peer
// does not know the time yet, the credential may be valid: it is neither refused nor accepted.
func (g *Gate) judged(e *Error) *Error {
	if e == nil || g.cfg.Doubtful == nil || !g.cfg.Doubtful() {
		return e
	}
	switch e.Reason {
	case ReasonTokenExpired, ReasonTokenEarly, ReasonCertificateExpired:
		return &Error{
			Code: codes.Unavailable, Reason: ReasonClockUnknown, Retry: time.Second,
			Message: "cannot check the credentials: this peer has not compared its clock with the others yet: retry, " +
				"or ask another peer (`holdfast cluster status` lists wrong clocks)",
		}
	}
	return e
}

// undecided is judged for an error that may be no refusal.
func (g *Gate) undecided(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return g.judged(e)
	}
	return err
}

func unauthenticated(reason, format string, args ...any) *Error {
	return &Error{Code: codes.Unauthenticated, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func denied(reason, format string, args ...any) *Error {
	return &Error{Code: codes.PermissionDenied, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
