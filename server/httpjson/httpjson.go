// Package httpjson contains the shared parts of a peer's HTTP APIs: routes, request bodies,
// responses and the details of call errors.
//
// It does not define error bodies. Each API has its own.
package httpjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/server/auth"
)

// Bad is the error of an invalid body.
type Bad struct {
	TooLarge bool   // the body has more than auth.MaxBody bytes
	Field    string // path of the member with the wrong type; empty if the body is not JSON
	Message  string
}

// Status returns the default HTTP status of the error. An API may specify another one.
func (b *Bad) Status() int {
	if b.TooLarge {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

// small is the maximum length of a body that is read into an exactly sized buffer.
const small = 16 << 10

// byteOrderMark begins the files of some editors.
const byteOrderMark = "\ufeff"

// Body reads the body without a byte order mark. Bad is nil if it was read completely.
func Body(r *http.Request) (b []byte, bad *Bad) {
	var err error
	if n := r.ContentLength; n > 0 && n <= small { // the server enforces Content-Length
		b = make([]byte, n)
		_, err = io.ReadFull(r.Body, b)
	} else {
		b, err = io.ReadAll(r.Body)
	}
	switch {
	case auth.TooLarge(err):
		return nil, &Bad{TooLarge: true, Message: fmt.Sprintf("body has more than %d bytes", auth.MaxBody)}
	case err != nil:
		return nil, &Bad{Message: "body is incomplete"}
	}
	return bytes.TrimPrefix(b, []byte(byteOrderMark)), nil
}

// Read decodes the body as JSON into v. Unknown members and the content type are ignored,
// because clients in the field differ.
func Read(r *http.Request, v any) *Bad {
	b, bad := Body(r)
	if bad != nil {
		return bad
	}
	return decode(b, v)
}

// ReadAny is Read for an optional body. If the body is empty, v is unchanged.
func ReadAny(r *http.Request, v any) *Bad {
	b, bad := Body(r)
	if bad != nil || len(b) == 0 {
		return bad
	}
	return decode(b, v)
}

func decode(b []byte, v any) *Bad {
	err := unmarshal(b, v)
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		want := kind(wrong.Type.Kind().String())
		return &Bad{
			Field:   wrong.Field,
			Message: fmt.Sprintf("%s: want %s, not %s", cmp.Or(wrong.Field, "body"), want, wrong.Value),
		}
	case errors.As(err, &syntax):
		return &Bad{Message: "body is not JSON: " + err.Error()}
	}
	return &Bad{Message: strings.TrimPrefix(err.Error(), "json: ")} // from a member's UnmarshalJSON
}

// kind returns a readable name for a Go kind.
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

// Write writes a JSON response. A retryable status gets a Retry-After header. If the body
// cannot be encoded, it responds with an internal error.
func Write(w http.ResponseWriter, code int, body any) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(body); err != nil {
		writeEncodingError(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if (code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests) && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // the client has disconnected
}

// writeEncodingError reports that a response cannot be encoded. It uses the API's own error form
// if the route was added with Add.
func writeEncodingError(w http.ResponseWriter, err error) {
	e := &auth.Error{Code: codes.Internal, Reason: "INTERNAL", Message: "encode the response: " + err.Error()}
	if own, ok := w.(*writer); ok {
		own.writeError(own.ResponseWriter, own.r, http.StatusInternalServerError, e)
		return
	}
	http.Error(w, e.Message, http.StatusInternalServerError)
}

// Finite returns f, or 0 if JSON cannot represent it.
func Finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// Known returns f, or nil if it is unknown or JSON cannot represent it.
func Known(f *float64) *float64 {
	if f == nil || math.IsNaN(*f) || math.IsInf(*f, 0) {
		return nil
	}
	return f
}

// OrNull returns nil for an empty string, so that the member is null.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
