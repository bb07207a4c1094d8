// Package httpjson is what the HTTP APIs of a peer have in common: routes, bodies in, answers out,
// and what the error of a call was about.
//
// It owns no words of any API: each has its own error bodies.
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

// Bad is a body that is not what was asked for.
type Bad struct {
	TooLarge bool   // more than auth.MaxBody bytes
	Field    string // path of the member with the wrong type; empty if the body is no JSON at all
	Message  string
}

// Status returns the status of the answer, unless the document of an API says otherwise.
func (b *Bad) Status() int {
	if b.TooLarge {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

// small is the length of bodies that get room of their own length.
const small = 16 << 10

// Body reads the body, whatever it is; nil for Bad when it came whole.
func Body(r *http.Request) ([]byte, *Bad) { return bodyIn(r, nil) }

// bodyIn reads the body into room, if it has said how long it is and fits in there.
func bodyIn(r *http.Request, room []byte) (b []byte, bad *Bad) {
	var err error
	if n := r.ContentLength; n > 0 && n <= small { // it is not longer than it has said
		b = slices.Grow(room[:0], int(n))[:n]
		_, err = io.ReadFull(r.Body, b)
	} else {
		b, err = io.ReadAll(r.Body)
	}
	switch {
	case auth.TooLarge(err):
		return nil, &Bad{TooLarge: true, Message: fmt.Sprintf("body has more than %d bytes", auth.MaxBody)}
	case err != nil:
		return nil, &Bad{Message: "body did not come whole"}
	}
	return b, nil
}

// Read reads the body as JSON into v. Members that are not known are passed over; the content type
// is not looked at: clients in the field send what they like.
func Read(r *http.Request, v any) *Bad {
	_, bad := ReadIn(r, v, nil)
	return bad
}

// ReadIn is Read with room for the body that was used before. It gives room for the next one, maybe
// more of it. Nothing of the body may be kept in v but copies.
func ReadIn(r *http.Request, v any, room []byte) ([]byte, *Bad) {
	b, bad := bodyIn(r, room)
	if bad == nil {
		bad = decode(b, v)
	}
	if b == nil || cap(b) > 2*small { // a huge one is not to be kept
		return room, bad
	}
	return b, bad
}

// ReadAny is Read for a body that may be empty: then v stays as it is.
func ReadAny(r *http.Request, v any) *Bad {
	b, bad := Body(r)
	if bad != nil || len(b) == 0 {
		return bad
	}
	return decode(b, v)
}

// Quick is a body that reads itself where it is written in the way that nearly all clients write
// it. Of any other, mistakes included, it says false and is left empty: encoding/json reads that.
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
		return &Bad{Field: wrong.Field, Message: fmt.Sprintf("%s: want %s, not %s", orBody(wrong.Field), kind(wrong.Type.Kind().String()), wrong.Value)}
	case errors.As(err, &syntax):
		return &Bad{Message: "body is not JSON: " + err.Error()}
	}
	return &Bad{Message: strings.TrimPrefix(err.Error(), "json: ")} // of a member that reads itself
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

// Appender is an answer that writes itself, byte for byte as encoding/json would.
type Appender interface {
	AppendJSON(b []byte) []byte
}

// Write answers with JSON. A client that should come back later is told when. A body that JSON
// cannot say is an error of ours, and told as one.
func Write(w http.ResponseWriter, code int, body any) {
	if a, ok := body.(Appender); ok {
		WriteIn(w, code, a, make([]byte, 0, 256))
		return
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(body); err != nil {
		unsaid(w, err)
		return
	}
	writeHeader(w, code)
	_, _ = w.Write(b.Bytes()) // the client is gone: nobody to tell
}

// unsaid answers that an answer cannot be written: in the words of the API, where the route is one
// of Add's.
func unsaid(w http.ResponseWriter, err error) {
	e := &auth.Error{Code: codes.Internal, Reason: "INTERNAL", Message: "write the answer: " + err.Error()}
	if own, ok := w.(*writer); ok {
		own.words(own.ResponseWriter, own.r, http.StatusInternalServerError, e)
		return
	}
	http.Error(w, e.Message, http.StatusInternalServerError)
}

// Finite returns a number as JSON can say it: one that is none counts as not said.
func Finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// WriteIn is Write with room for the answer that was used before. It gives room for the next one.
func WriteIn(w http.ResponseWriter, code int, body Appender, room []byte) []byte {
	writeHeader(w, code)
	room = append(body.AppendJSON(room[:0]), '\n')
	_, _ = w.Write(room) // as above
	return room
}

func writeHeader(w http.ResponseWriter, code int) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if (code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests) && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(code)
}

// OrNull returns a text for a member that is null when there is none.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
