// Package httpjson is what the HTTP APIs of a peer have in common: bodies in, answers out, and what a gRPC error was about.
//
// It owns no words of any API: each has its own error bodies.
package httpjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// Bad is a body that is not what was asked for.
type Bad struct {
	TooLarge bool   // more than auth.MaxBody bytes
	Field    string // path of the member with the wrong type; empty when the body is no JSON at all
	Message  string
}

// Error gives the message.
func (b *Bad) Error() string { return b.Message }

// Read reads the body as JSON into v. Members that are not known are passed over. The error is a *Bad.
func Read(r *http.Request, v any) error {
	b, err := io.ReadAll(r.Body)
	switch {
	case auth.TooLarge(err):
		return &Bad{TooLarge: true, Message: fmt.Sprintf("body has more than %d bytes", auth.MaxBody)}
	case err != nil:
		return &Bad{Message: "body did not come whole"}
	}
	err = json.Unmarshal(b, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return &Bad{Field: wrong.Field, Message: fmt.Sprintf("%s: want %s, not %s", orBody(wrong.Field), kind(wrong.Type.Kind().String()), wrong.Value)}
	}
	return &Bad{Message: "body is not JSON: " + strings.TrimPrefix(err.Error(), "json: ")}
}

func orBody(field string) string {
	if field == "" {
		return "body"
	}
	return field
}

// kind words a Go kind for those who do not write Go.
func kind(k string) string {
	switch {
	case strings.HasPrefix(k, "int"), strings.HasPrefix(k, "uint"):
		return "a whole number"
	case strings.HasPrefix(k, "float"):
		return "a number"
	case k == "bool":
		return "true or false"
	case k == "slice":
		return "a list"
	case k == "struct", k == "map":
		return "an object"
	}
	return "a " + k
}

// Write answers with JSON. A client that should come back later is told when.
func Write(w http.ResponseWriter, code int, body any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if (code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests) && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client is gone: nobody to tell
}

// Reason gives the reason in a gRPC error's ErrorInfo; empty when there is none.
func Reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			return i.GetReason()
		}
	}
	return ""
}

// Fields gives the violations in a gRPC error's BadRequest.
func Fields(err error) []*errdetails.BadRequest_FieldViolation {
	for _, d := range status.Convert(err).Details() {
		if b, ok := d.(*errdetails.BadRequest); ok {
			return b.GetFieldViolations()
		}
	}
	return nil
}
