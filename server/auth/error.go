package auth

import (
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
)

// The reasons of refusals, for programs: ErrorInfo.reason.
const (
	ReasonNoCredentials      = "NO_CREDENTIALS"
	ReasonBadCredentials     = "BAD_CREDENTIALS" // they cannot be read
	ReasonTokenUnknown       = fsm.ReasonTokenUnknown
	ReasonTokenRevoked       = fsm.ReasonTokenRevoked
	ReasonTokenExpired       = fsm.ReasonTokenExpired
	ReasonTokenInvalid       = "TOKEN_INVALID" // an access token that its issuer did not make so, or not for us
	ReasonCertificateExpired = "CERTIFICATE_EXPIRED"
	ReasonIssuerUnreachable  = "ISSUER_UNREACHABLE"
	ReasonRole               = "ROLE"    // the role does not allow it
	ReasonScope              = "SCOPE"   // only somebody who is scoped to no pool may
	ReasonNotOwn             = "NOT_OWN" // an agent may speak for itself only
	ReasonPeersOnly          = "PEERS_ONLY"
	ReasonOverHTTP           = "OVER_HTTP" // a method that machines reach by its HTTP route only
	ReasonNoRule             = "NO_RULE"
	ReasonRateLimit          = "RATE_LIMIT"
	ReasonForeignHost        = "FOREIGN_HOST" // --insecure, and the request names another host than this one
	ReasonCrossOrigin        = "CROSS_ORIGIN" // a page of another site has had a browser send it
)

// Error is a refusal of the gate. Its message says what to do next and holds nothing that was
// presented.
type Error struct {
	Code    codes.Code // Unauthenticated, PermissionDenied, ResourceExhausted or Unavailable
	Reason  string
	Message string
	Retry   time.Duration // of ResourceExhausted and Unavailable: how long to wait
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// GRPCStatus returns the status with its details.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.Code, e.Message)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: e.Reason, Domain: cluster.ErrorDomain}}
	if e.Retry > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.Retry)})
	}
	if d, err := st.WithDetails(details...); err == nil {
		return d
	}
	return st
}

func unauthenticated(reason, format string, args ...any) *Error {
	return &Error{Code: codes.Unauthenticated, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func denied(reason, format string, args ...any) *Error {
	return &Error{Code: codes.PermissionDenied, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
