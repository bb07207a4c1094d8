package guard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/holdfast-metal/holdfast/providers"
)

// Classify returns the class of an error of a request without an answer, and the error with the
// remedy if there is one. effect is true if the request changes something: its outcome is then
// unknown, which is the class Timeout, unless there was no connection.
func Classify(err error, effect bool) (providers.Class, error) {
	var dial *net.OpError
	var nerr net.Error
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &cert), errors.As(err, &unknown):
		return providers.Unsupported,
			fmt.Errorf("%w: set ca_file to the certificate of its CA, or tls to insecure", err)
	case errors.Is(err, context.Canceled):
	case errors.Is(err, context.DeadlineExceeded):
		return providers.Timeout, err
	case errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout():
	case errors.As(err, &nerr) && nerr.Timeout(), effect:
		return providers.Timeout, err
	}
	return providers.Transient, err
}
