package jsonapi

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// consistency is the query parameter that every route of a read has (docs/concepts.md).
const consistency = "consistency"

func invalid(reason, message string) *auth.Error {
	return &auth.Error{Code: codes.InvalidArgument, Reason: reason, Message: message}
}

// read sets the fields of a request message: first those of the body, then those of the query, then
// those of the path.
func (e *endpoint) read(r *http.Request, msg proto.Message) error {
	if err := e.readBody(r, msg); err != nil {
		return err
	}
	if r.URL.RawQuery != "" {
		if err := e.readQuery(r, msg); err != nil {
			return err
		}
	}
	for i, p := range e.Params {
		value := r.PathValue(e.wildcards[i])
		if i == len(e.Params)-1 && e.suffix != "" {
			var ok bool
			if value, ok = strings.CutSuffix(value, e.suffix); !ok {
				return &auth.Error{Code: codes.NotFound, Reason: "NO_SUCH_ROUTE", Message: "Not Found"}
			}
		}
		if !utf8.ValidString(value) {
			return invalid("INVALID_PATH", "the path is not UTF-8")
		}
		if err := runtime.PopulateFieldFromPath(msg, p, value); err != nil {
			return invalid("INVALID_PATH", err.Error())
		}
	}
	return e.readKey(r, msg)
}

// readBody decodes the body. An empty one sets no field.
func (e *endpoint) readBody(r *http.Request, msg proto.Message) error {
	if e.Body == "" || e.Method.IsStreamingClient() || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b, bad := httpjson.Body(r)
	switch {
	case bad != nil && bad.TooLarge:
		return &tooLarge{bad.Message}
	case bad != nil:
		return invalid("INVALID_BODY", bad.Message)
	case len(b) == 0:
		return nil
	}
	if e.body != nil {
		msg = msg.ProtoReflect().Mutable(e.body).Message().Interface()
	}
	if err := protojson.Unmarshal(b, msg); err != nil {
		return invalid("INVALID_BODY", "read the body: "+plain(err))
	}
	return nil
}

// plain returns the text of an error of protojson, without its prefix.
func plain(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimSpace(strings.TrimPrefix(text, "proto:"))
}

// readQuery sets the fields that the query names.
func (e *endpoint) readQuery(r *http.Request, msg proto.Message) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("INVALID_QUERY", "read the query: "+err.Error())
	}
	for key, all := range values {
		if !e.inQuery(key) {
			return invalid("UNKNOWN_PARAMETER", "unknown query parameter "+strconv.Quote(key)+": "+e.Name()+
				" has "+cmp.Or(strings.Join(e.query, ", "), "none"))
		}
		if !utf8.ValidString(strings.Join(all, "")) {
			return invalid("INVALID_QUERY", "query parameter "+key+" is not UTF-8")
		}
	}
	delete(values, consistency)
	if err := runtime.PopulateQueryParameters(msg, values, &utilities.DoubleArray{}); err != nil {
		return invalid("INVALID_QUERY", "read the query: "+err.Error())
	}
	return nil
}

// inQuery reports whether the query may set a field. A map has the form field[key].
func (e *endpoint) inQuery(key string) bool {
	if name, _, ok := strings.Cut(key, "["); ok {
		fd := fieldAt(e.Method.Input(), name)
		return fd != nil && fd.IsMap() && slices.Contains(e.query, name)
	}
	return slices.Contains(e.query, key)
}

// Query returns the fields that the query may set: those that are neither in the path nor in the
// body.
func (r *Route) Query() []string {
	var all []string
	if r.Body != "*" {
		all = r.queryBelow(r.Method.Input(), "")
	}
	if r.Verb == http.MethodGet {
		all = append(all, consistency)
	}
	return all
}

func (r *Route) queryBelow(d protoreflect.MessageDescriptor, prefix string) (all []string) {
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		name := prefix + string(fd.Name())
		switch {
		case name == r.Body, slices.Contains(r.Params, name):
		case fd.Message() == nil, fd.IsMap(), fd.Message().FullName().Parent() == "google.protobuf":
			all = append(all, name)
		case !fd.IsList() && prefix == "":
			all = append(all, r.queryBelow(fd.Message(), name+".")...)
		}
	}
	return all
}

// readKey sets the request id to the Idempotency-Key.
func (e *endpoint) readKey(r *http.Request, msg proto.Message) error {
	key := r.Header.Get("Idempotency-Key")
	switch {
	case key == "":
		return nil
	case e.requestID == nil && e.repeatable && (e.needs == "" || isSet(msg.ProtoReflect(), e.needs)):
		return nil
	case e.requestID == nil:
		return invalid("NOT_IDEMPOTENT", e.Name()+
			" takes no Idempotency-Key: it may not be repeated if its outcome is unknown")
	case !utf8.ValidString(key):
		return invalid("INVALID_FIELD", "Idempotency-Key is not UTF-8")
	}
	m := msg.ProtoReflect()
	if was := m.Get(e.requestID).String(); was != "" && was != key {
		return invalid("INVALID_FIELD", "request_id and Idempotency-Key differ: send one of them")
	}
	m.Set(e.requestID, protoreflect.ValueOfString(key))
	return nil
}

// isSet reports whether the field at a path is set.
func isSet(m protoreflect.Message, path string) bool {
	name, rest, more := strings.Cut(path, ".")
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if fd == nil || !m.Has(fd) || !more {
		return fd != nil && m.Has(fd)
	}
	return isSet(m.Get(fd).Message(), rest)
}

// tooLarge is the error of a body over the limit.
type tooLarge struct{ message string }

// Error returns the message.
func (e *tooLarge) Error() string { return e.message }

// GRPCStatus returns the status.
func (e *tooLarge) GRPCStatus() *status.Status {
	return invalid("BODY_TOO_LARGE", e.message).GRPCStatus()
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*tooLarge](err)
	return ok
}
