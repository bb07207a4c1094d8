// Package httpjson contains the shared parts of a peer's HTTP APIs: routes, request bodies,
// responses and the details of call errors.
//
// It does not define error bodies. Each API has its own.
package httpjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
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

// Body reads the body. Bad is nil if it was read completely.
func Body(r *http.Request) ([]byte, *Bad) { return bodyIn(r, nil) }

// bodyIn reads the body. It uses buf if the Content-Length is known and small.
func bodyIn(r *http.Request, buf []byte) (b []byte, bad *Bad) {
	var err error
	if n := r.ContentLength; n > 0 && n <= small { // the server enforces Content-Length
		b = slices.Grow(buf[:0], int(n))[:n]
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
	return b, nil
}

// Read decodes the body as JSON into v. Unknown members and the content type are ignored,
// because clients in the field differ.
func Read(r *http.Request, v any) *Bad {
	_, bad := ReadIn(r, v, nil)
	return bad
}

// ReadIn is Read with a buffer from an earlier request. It returns the buffer for the next
// one, which may have grown. v must keep only copies of the body.
func ReadIn(r *http.Request, v any, buf []byte) ([]byte, *Bad) {
	b, bad := bodyIn(r, buf)
	if bad == nil {
		bad = decode(b, v)
	}
	if b == nil || cap(b) > 2*small { // a huge buffer is not kept
		return buf, bad
	}
	return b, bad
}

// ReadAny is Read for an optional body. If the body is empty, v is unchanged.
func ReadAny(r *http.Request, v any) *Bad {
	b, bad := Body(r)
	if bad != nil || len(b) == 0 {
		return bad
	}
	return decode(b, v)
}

// Quick is a body with its own decoder for the form that nearly all clients send. For any
// other input, including errors, it returns false and stays empty. encoding/json then
// decodes it.
type Quick interface {
	ReadQuick(b []byte) bool
}

func decode(b []byte, v any) *Bad {
	if q, ok := v.(Quick); ok && q.ReadQuick(b) {
		return nil
	}
	err := json.Unmarshal(b, v)
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		want := kind(wrong.Type.Kind().String())
		return &Bad{
			Field:   wrong.Field,
			Message: fmt.Sprintf("%s: want %s, not %s", orBody(wrong.Field), want, wrong.Value),
		}
	case errors.As(err, &syntax):
		return &Bad{Message: "body is not JSON: " + err.Error()}
	}
	return &Bad{Message: strings.TrimPrefix(err.Error(), "json: ")} // from a member's UnmarshalJSON
}

func orBody(field string) string {
	if field == "" {
		return "body"
	}
	return field
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

// Appender is a response that encodes itself, byte for byte as encoding/json would.
type Appender interface {
	AppendJSON(b []byte) []byte
}

// Write writes a JSON response. A retryable status gets a Retry-After header. If the body
// cannot be encoded, it responds with an internal error.
func Write(w http.ResponseWriter, code int, body any) {
	if a, ok := body.(Appender); ok {
		WriteIn(w, code, a, make([]byte, 0, 256))
		return
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(body); err != nil {
		writeEncodingError(w, err)
		return
	}
	writeHeader(w, code)
	_, _ = w.Write(b.Bytes()) // the client has disconnected
}

// writeEncodingError reports that a response cannot be encoded. It uses the API's own error form
// if the route was added with Add.
func writeEncodingError(w http.ResponseWriter, err error) {
	e := &auth.Error{Code: codes.Internal, Reason: "INTERNAL", Message: "encode the response: " + err.Error()}
	if own, ok := w.(*writer); ok {
		own.words(own.ResponseWriter, own.r, http.StatusInternalServerError, e)
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

// WriteIn is Write with a buffer from an earlier response. It returns the buffer for the
// next one.
func WriteIn(w http.ResponseWriter, code int, body Appender, buf []byte) []byte {
	writeHeader(w, code)
	buf = append(body.AppendJSON(buf[:0]), '\n')
	_, _ = w.Write(buf) // as above
	return buf
}

func writeHeader(w http.ResponseWriter, code int) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if (code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests) && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(code)
}

// OrNull returns nil for an empty string, so that the member is null.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
