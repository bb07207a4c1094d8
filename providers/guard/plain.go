package guard

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// plainError is an error of the network in words for an operator. errors.Is and errors.As find the
// original.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }

func (e *plainError) Unwrap() error { return e.err }

// Timeout reports whether the original is a timeout. url.Error asks for it.
func (e *plainError) Timeout() bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](e.err)
	return ok && t.Timeout()
}

// plain returns err with words in place of those of the Go libraries, if it is a known one.
func plain(err error) error {
	if text := words(err); text != "" {
		return &plainError{text, err}
	}
	return err
}

func words(err error) string {
	var dial *net.OpError
	var name *net.DNSError
	var record tls.RecordHeaderError
	connecting := errors.As(err, &dial) && dial.Op == "dial"
	timeout, isTimeout := errors.AsType[net.Error](err)
	switch {
	case errors.As(err, &name):
		return "resolve " + name.Name + ": " + name.Err
	case connecting && dial.Timeout():
		return "no connection to " + dial.Addr.String() + " in time"
	case errors.Is(err, context.DeadlineExceeded), isTimeout && timeout.Timeout():
		return "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused" + to(dial)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the other side closed the connection"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the answer was cut off"
	case errors.Is(err, io.EOF):
		return "the other side closed the connection without an answer"
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "the port does not speak TLS: use http:// in the endpoint, or the port of HTTPS"
	case strings.Contains(err.Error(), "x509: "): // the HTTP of a server with an odd certificate may be right
		return ""
	case strings.Contains(err.Error(), "malformed HTTP "), strings.Contains(err.Error(), "malformed MIME "),
		strings.Contains(err.Error(), "bad Content-Length"), strings.Contains(err.Error(), "unsupported transfer encoding"):
		return "the answer is not valid HTTP: check the port of the endpoint"
	}
	return ""
}

func to(dial *net.OpError) string {
	if dial == nil || dial.Addr == nil {
		return ""
	}
	return " by " + dial.Addr.String()
}

// plainBody is the body of a response whose errors are plain.
type plainBody struct{ io.ReadCloser }

func (b plainBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF { // the end of a body is io.EOF itself
		return n, err
	}
	return n, plain(err)
}
