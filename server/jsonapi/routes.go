package jsonapi

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Route is the route of one method.
type Route struct {
	Method       protoreflect.MethodDescriptor
	Verb         string   // GET, POST, PUT, PATCH, DELETE
	Path         string   // /v1/machines/{machine_id}
	Params       []string // the fields in Path, in order
	Body         string   // field of the request that the body contains; "*": all fields; empty: no body
	ResponseBody string   // bytes field of a stream whose values are the body of the response

	suffix string // of the last parameter, which may contain slashes: ":release"
	many   bool   // the last parameter may contain slashes
}

// Routes returns the routes of all methods that have one, by path and verb.
func Routes() ([]Route, error) {
	var (
		all  []Route
		errs error
	)
	protoregistry.GlobalFiles.RangeFilesByPackage("holdfast.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				rule, ok := proto.GetExtension(methods.Get(j).Options(), annotations.E_Http).(*annotations.HttpRule)
				if !ok || rule == nil {
					continue
				}
				r, err := routeOf(methods.Get(j), rule)
				if err != nil {
					errs = err
					return false
				}
				all = append(all, r)
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b Route) int { return strings.Compare(a.Path+" "+a.Verb, b.Path+" "+b.Verb) })
	return all, errs
}

// routeOf returns the route of a method. A path consists of literal segments and {field}; the last
// segment may be {field=**}, optionally followed by :verb.
func routeOf(m protoreflect.MethodDescriptor, rule *annotations.HttpRule) (Route, error) {
	r := Route{Method: m, Body: rule.GetBody(), ResponseBody: rule.GetResponseBody()}
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		r.Verb, r.Path = "GET", p.Get
	case *annotations.HttpRule_Put:
		r.Verb, r.Path = "PUT", p.Put
	case *annotations.HttpRule_Post:
		r.Verb, r.Path = "POST", p.Post
	case *annotations.HttpRule_Delete:
		r.Verb, r.Path = "DELETE", p.Delete
	case *annotations.HttpRule_Patch:
		r.Verb, r.Path = "PATCH", p.Patch
	}
	if !strings.HasPrefix(r.Path, "/v1/") || len(rule.GetAdditionalBindings()) > 0 {
		return r, fmt.Errorf("read the route of %s: %q is not one path below /v1/", m.FullName(), r.Path)
	}
	for segment := range strings.SplitSeq(r.Path, "/") {
		inside, ok := strings.CutPrefix(segment, "{")
		if !ok {
			continue
		}
		inside, r.suffix, _ = strings.Cut(inside, "}")
		inside, r.many = strings.CutSuffix(inside, "=**")
		if r.suffix != "" && !r.many {
			return r, fmt.Errorf("read the route of %s: %q needs =** in front of %s", m.FullName(), r.Path, r.suffix)
		}
		if !isString(m.Input(), inside) {
			return r, fmt.Errorf("read the route of %s: %q is not a string field of the request", m.FullName(), inside)
		}
		r.Params = append(r.Params, inside)
	}
	r.Path = strings.ReplaceAll(r.Path, "=**", "")
	return r, nil
}

// isString reports whether a path of fields leads to a string field of a message.
func isString(d protoreflect.MessageDescriptor, path string) bool {
	fd := fieldAt(d, path)
	return fd != nil && fd.Kind() == protoreflect.StringKind && !fd.IsList()
}

// fieldAt returns the field at a path of fields, or nil. Only the last one may be repeated.
func fieldAt(d protoreflect.MessageDescriptor, path string) protoreflect.FieldDescriptor {
	name, rest, more := strings.Cut(path, ".")
	fd := d.Fields().ByName(protoreflect.Name(name))
	switch {
	case fd == nil || !more:
		return fd
	case fd.Message() == nil || fd.Cardinality() == protoreflect.Repeated:
		return nil
	}
	return fieldAt(fd.Message(), rest)
}

// Pattern returns the pattern of the route for http.ServeMux.
func (r *Route) Pattern() string {
	path := strings.TrimSuffix(r.Path, r.suffix)
	for i, p := range r.Params {
		to := "{" + wildcard(p) + "}"
		if r.many && i == len(r.Params)-1 {
			to = "{" + wildcard(p) + "...}"
		}
		path = strings.Replace(path, "{"+p+"}", to, 1)
	}
	return r.Verb + " " + path
}

// wildcard returns the name of a parameter in a pattern, which must be an identifier: the last part
// of the field's path.
func wildcard(field string) string { return field[strings.LastIndexByte(field, '.')+1:] }

// Name returns the name of the method as access rules use it: holdfast.v1.RunService/StartRun.
func (r *Route) Name() string {
	return string(r.Method.Parent().FullName()) + "/" + string(r.Method.Name())
}
