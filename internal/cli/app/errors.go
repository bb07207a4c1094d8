package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/misfit"
)

// opError is a failed call: the operation with its value, the cause, and the remedy.
type opError struct {
	op  string // "get machine m-1"
	err error
}

// Failed wraps the error of a call; nil stays nil.
func Failed(err error, op string, args ...any) error {
	if err == nil {
		return nil
	}
	return &opError{op: fmt.Sprintf(op, args...), err: err}
}

// Error returns one line. Unwrap returns the status, so the exit code is kept.
func (e *opError) Error() string {
	msg := e.op + ": " + Reason(e.err)
	if hint := hint(e.err); hint != "" {
		msg += ": " + hint
	}
	return msg
}

func (e *opError) Unwrap() error { return e.err }

// Reason returns the server's message without gRPC's prefix.
func Reason(err error) string {
	if call, ok := errors.AsType[*client.CallError](err); ok {
		// The operation is already in the message.
		_, why, _ := strings.Cut(call.Error(), ": ")
		return why
	}
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		if msg := s.GRPCStatus().Message(); !strings.Contains(msg, plainHTTP) {
			return msg
		}
		return "the server does not answer in gRPC"
	}
	return err.Error()
}

// hint returns the remedy for an error whose message has none.
func hint(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	s, ok := status.FromError(err)
	if !ok {
		return ""
	}
	if call, ok := errors.AsType[*client.CallError](err); ok && call.OutcomeUnknown {
		return "" // its message has the remedy
	}
	switch s.Code() {
	case codes.NotFound:
		return notFoundHint(client.Reason(err))
	case codes.Unavailable:
		return unavailableHint(err)
	case codes.DeadlineExceeded:
		return "give it longer with --timeout"
	case codes.Unauthenticated:
		if strings.Contains(s.Message(), "holdfast login") {
			return "" // it names the remedy
		}
		return "give a token with --token or HOLDFAST_TOKEN, or run: holdfast login"
	case codes.Unimplemented:
		if strings.Contains(s.Message(), plainHTTP) {
			return httpPort
		}
		return "the server is another version, or not Holdfast: see: holdfast version --server"
	}
	return ""
}

// plainHTTP is a part of gRPC's message for a server that speaks HTTP/2 without gRPC.
const plainHTTP = "unexpected HTTP status code"

const httpPort = "that is an HTTP port: give the port of the gRPC API, 7400 unless a peer is configured otherwise"

// unavailableHint returns the remedy for a peer that cannot be reached or does not answer.
func unavailableHint(err error) string {
	switch client.Reason(err) {
	case client.ReasonNoLeader:
		if call, ok := errors.AsType[*client.CallError](err); ok && call.Reads {
			return "--stale reads what a peer without a leader has"
		}
		return "nothing was changed: see: holdfast cluster status"
	case client.ReasonNotApplied:
		return "try again"
	}
	msg := err.Error()
	if call, ok := errors.AsType[*client.CallError](err); ok {
		msg = status.Convert(call.Err).Message() // CallError shows it in other words
	}
	return connectionHint(msg)
}

// connectionHint returns the remedy for gRPC's message about a failed connection.
func connectionHint(msg string) string {
	const grpcPort = "is it the port of the gRPC API, 7400 unless a peer is configured otherwise?"
	switch {
	case strings.Contains(msg, "looked like an HTTP/1.1 header"):
		return httpPort
	case strings.Contains(msg, "missing selected ALPN property"), strings.Contains(msg, "handshake failed: EOF"):
		return grpcPort
	case strings.Contains(msg, "tls: certificate required"):
		return "the cluster requires a client certificate: give --cert and --key"
	case strings.Contains(msg, "remote error: tls: "):
		return "the cluster refuses the client certificate: is it issued by the CA of the cluster, and still valid (--cert)?"
	case strings.Contains(msg, "error reading server preface"):
		return "does the cluster require TLS? give its CA with --ca or HOLDFAST_CA"
	case strings.Contains(msg, "first record does not look like a TLS handshake"):
		return "the cluster has no TLS: leave out --ca, --cert and --key"
	case strings.Contains(msg, "failed to verify certificate"):
		return "is it the CA of this cluster (--ca, HOLDFAST_CA)?"
	case strings.Contains(msg, "connection refused"):
		return "does a peer run there (--addr, HOLDFAST_ADDR)? To try Holdfast: holdfast server --dev"
	}
	return "is the address right (--addr, HOLDFAST_ADDR)?"
}

// notFoundHint returns the command that lists the existing resources.
func notFoundHint(reason string) string {
	noun, is := strings.CutSuffix(reason, "_NOT_FOUND")
	if !is || !slices.Contains([]string{"MACHINE", "PLAN", "RUN", "POOL", "NODE", "SERVICE", "IMAGE", "INSTALL",
		"SECRET", "TOKEN", "WEBHOOK", "WAVE"}, noun) {
		return ""
	}
	return "see: holdfast " + strings.ToLower(noun) + " list"
}

// inWords returns the text of an error without the words of Go's packages.
func inWords(err error) string {
	text := misfit.Files(err.Error())
	before, ok := strings.CutSuffix(text, context.DeadlineExceeded.Error())
	if ok && errors.Is(err, context.DeadlineExceeded) { // not an error of a peer
		text = before + "time is up (--timeout)"
	}
	return text
}

// PrintError writes an error as one line, and each field violation as another.
func PrintError(s Streams, err error) {
	var b strings.Builder
	write := func(indent string, err error) {
		fmt.Fprintf(&b, "%s\n", render.Clean(inWords(err)))
		for _, v := range client.FieldViolations(err) {
			if strings.Contains(err.Error(), v.GetDescription()) {
				continue // there is one, and the message is it
			}
			fmt.Fprintf(&b, "%s  %s: %s\n", indent, render.Clean(v.GetField()), render.Clean(v.GetDescription()))
		}
	}
	b.WriteString("error: ")
	if several, ok := errors.AsType[*severalError](err); ok {
		b.WriteString(several.msg + "\n")
		for _, one := range several.errs {
			b.WriteString("  ")
			write("  ", one)
		}
	} else {
		write("", err)
	}
	_, _ = fmt.Fprint(s.Err, b.String())
}

// severalError holds the errors of several documents or ids. Its exit code is that of the
// first.
type severalError struct {
	msg  string
	errs []error
}

func (e *severalError) Error() string { return e.msg }
func (e *severalError) Unwrap() error { return e.errs[0] }

// Several joins the errors of n operations, most of which may have succeeded. A single error is
// returned as it is.
func Several(errs []error, n int, what string) error {
	switch {
	case len(errs) == 0:
		return nil
	case n == 1:
		return errs[0]
	}
	return &severalError{msg: fmt.Sprintf("%s: %d of %d failed:", what, len(errs), n), errs: errs}
}
