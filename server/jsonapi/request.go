package jsonapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/misfit"
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
			return invalid("INVALID_PATH", "read the path: "+misfit.Quote(value)+" is not UTF-8")
		}
		if err := runtime.PopulateFieldFromPath(msg, p, value); err != nil { // they are texts
			return invalid("INVALID_PATH", "read the path: "+misfit.Quote(value)+" is no "+p)
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
		return unfit(b, msg.ProtoReflect().Descriptor())
	}
	return nil
}

// unfit returns the error for a body that the decoder has refused.
func unfit(body []byte, md protoreflect.MessageDescriptor) error {
	p := misfit.JSON(body, md)
	if p == nil { // no such body is known
		p = &misfit.Problem{Msg: "it does not fit the request: see /docs"}
	}
	return &badField{reason: "INVALID_BODY", field: p.Field, prefix: "read the body", why: p.Msg}
}

// readQuery sets the fields that the query names.
func (e *endpoint) readQuery(r *http.Request, msg proto.Message) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("INVALID_QUERY", "read the query: "+misfit.Quote(r.URL.RawQuery)+
			" is not percent-encoded: write % as %25, ; as %3B")
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := e.checkParameter(key, values[key]); err != nil {
			return err
		}
	}
	delete(values, consistency)
	if err := runtime.PopulateQueryParameters(msg, values, &utilities.DoubleArray{}); err != nil {
		return invalid("INVALID_QUERY", "read the query: a parameter does not fit "+e.Name()+": see /docs")
	}
	return nil
}

// checkParameter returns an error for a query parameter that does not exist or whose value does
// not fit.
func (e *endpoint) checkParameter(key string, all []string) error {
	bad := func(why string) error {
		return &badField{reason: "INVALID_QUERY", field: key, prefix: "read the query", why: why}
	}
	if !e.inQuery(key) {
		return &badField{reason: "UNKNOWN_PARAMETER", field: key, prefix: "read the query",
			why: e.Name() + " has no such parameter" + cmp.Or(misfit.Unknown(key, e.query), ": it has none")}
	}
	if key == consistency {
		return nil // outgoing checks it
	}
	name, _, _ := strings.Cut(key, "[")
	fd := fieldAt(e.Method.Input(), name)
	if fd.IsMap() {
		fd = fd.MapValue()
	} else if len(all) > 1 && !fd.IsList() {
		return bad(fmt.Sprintf("it is given %d times: give it once", len(all)))
	}
	for _, text := range all {
		if why := misfit.Text(fd, text); why != "" {
			return bad(why)
		}
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

// badField is the refusal of one field of the body or the query.
type badField struct{ reason, field, prefix, why string }

// Error returns the part of the request, the field and the reason.
func (e *badField) Error() string {
	if e.field == "" {
		return e.prefix + ": " + e.why
	}
	return e.prefix + ": " + e.field + ": " + e.why
}

// GRPCStatus returns the status, with the field as the server has it for other refusals.
func (e *badField) GRPCStatus() *status.Status {
	st := invalid(e.reason, e.Error()).GRPCStatus()
	if e.field == "" {
		return st
	}
	with, err := st.WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: e.field, Description: e.why}}})
	if err != nil {
		return st
	}
	return with
}
