package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/holdfast-metal/holdfast/providers"
)

// ErrClosed is the error of operations after the provider was closed.
var ErrClosed = errors.New("provider is closed")

// reply is an error that is an answer of the BMC and knows its class, such as an error response of
// a Redfish service.
type reply interface {
	error
	Class() providers.Class
}

// Classify adds a class to an error that has none. effect is true if a request that changes
// something was sent. If the answer to it is missing, the class is Timeout: the outcome is unknown.
func Classify(op string, err error, effect bool) error {
	if err == nil {
		return nil
	}
	var classed *providers.Error
	if errors.As(err, &classed) {
		return err
	}
	class := providers.Transient
	var r reply
	var dial *net.OpError
	var nerr net.Error
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var said *answered
	switch {
	case errors.As(err, &r):
		class = r.Class()
	case errors.As(err, &cert), errors.As(err, &unknown):
		class = providers.Unsupported
		err = fmt.Errorf("%w: set ca_file to the certificate of its CA, or tls to insecure", err)
	case errors.Is(err, context.Canceled):
	case errors.Is(err, context.DeadlineExceeded):
		class = providers.Timeout
	case errors.As(err, &said):
	case errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout():
	case errors.As(err, &nerr) && nerr.Timeout(), effect:
		class = providers.Timeout
	}
	return providers.Errorf(class, op, "%w", err)
}

// Silent reports whether err means that the BMC did not answer. Such errors open the circuit
// breaker.
func Silent(err error) bool {
	if err == nil || errors.As(err, new(reply)) {
		return false
	}
	var said *answered
	if errors.As(err, &said) {
		return false
	}
	switch providers.ClassOf(err) {
	case providers.Auth, providers.Unsupported, providers.Late, providers.Gone:
		return false
	}
	return true
}

// answered marks an error that was found in an answer of the BMC: the BMC is there.
type answered struct{ error }

func (a *answered) Unwrap() error { return a.error }

// Answered returns err, marked as found in an answer of the BMC: it is not Silent.
func Answered(err error) error { return &answered{err} }

// Disagree returns an error about the contents of an answer.
func Disagree(format string, args ...any) error { return &answered{fmt.Errorf(format, args...)} }

// UnknownAction returns the error for a power action that no driver has.
func UnknownAction(a providers.PowerAction) error {
	return providers.Errorf(providers.Unsupported, "set the power",
		"action %q is not one of on, soft-off, hard-off", Clip(string(a), 40))
}
