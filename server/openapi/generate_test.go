package openapi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/jsonapi"
	"github.com/holdfast-metal/holdfast/server/openapi"
)

// object is a JSON object.
type object = map[string]any

// generator describes routes in OpenAPI.
type generator struct {
	comments map[string]string // of the .proto files, by full name
	schemas  object
}

func newGenerator(t *testing.T) *generator {
	t.Helper()
	b, err := os.ReadFile("../../internal/cli/explain/comments.txt")
	if err != nil {
		t.Fatal(err)
	}
	g := &generator{comments: map[string]string{}, schemas: object{}}
	for line := range strings.Lines(string(b)) {
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		g.comments[name] = text
	}
	return g
}

func (g *generator) comment(d protoreflect.Descriptor) string {
	return g.comments[string(d.FullName())]
}

// document returns the whole description.
func (g *generator) document(routes []jsonapi.Route) object {
	paths, tags := object{}, []any{}
	for _, r := range routes {
		at, _ := paths[r.Path].(object)
		if at == nil {
			at = object{}
		}
		at[strings.ToLower(r.Verb)] = g.operation(r)
		paths[r.Path] = at
		service := r.Method.Parent()
		tag := object{"name": service.Name(), "description": g.comment(service)}
		if !slices.ContainsFunc(tags, func(t any) bool { return t.(object)["name"] == service.Name() }) {
			tags = append(tags, tag)
		}
	}
	g.schemas["Problem"] = problemSchema()
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Holdfast", "version": "v1",
			"description": "Every method of holdfast.v1 as JSON over HTTP. docs/http.md has the rules for all routes.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{"token": []any{}}, object{}},
		"tags":     tags, "paths": paths,
		"components": object{
			"schemas": g.schemas,
			"securitySchemes": object{"token": object{
				"type": "http", "scheme": "bearer",
				"description": "A token (holdfast token create). A client certificate may take its place.",
			}},
		},
	}
}

func problemSchema() object {
	text := object{"type": "string"}
	list := func(names ...string) object {
		properties := object{}
		for _, n := range names {
			properties[n] = text
		}
		return object{"type": "array", "items": object{"type": "object", "properties": properties}}
	}
	return object{
		"type": "object", "description": "An error (RFC 9457), with the code and the reason of gRPC.",
		"required": []any{"type", "title", "status", "detail", "code"},
		"properties": object{
			"type": text, "title": text, "status": object{"type": "integer"}, "detail": text, "code": text, "reason": text,
			"metadata":       object{"type": "object", "additionalProperties": text},
			"fields":         list("field", "description"),
			"preconditions":  list("type", "subject", "description"),
			"retry_after_ms": object{"type": "integer"},
		},
	}
}

// operation describes one route.
func (g *generator) operation(r jsonapi.Route) object {
	rule := auth.SameAs(r.Name())
	op := object{
		"operationId": r.Method.Name(), "tags": []any{r.Method.Parent().Name()},
		"summary":     g.comment(r.Method),
		"description": "gRPC: " + r.Name() + ". Callers: " + rule.Needs() + ".",
		"parameters":  g.parameters(r),
		"responses": object{
			"200": object{"description": "The response.", "content": g.content(r)},
			"default": object{"description": "An error.", "content": object{
				"application/problem+json": object{"schema": ref("Problem")},
			}},
		},
	}
	in := r.Method.Input()
	switch body := r.Body; {
	case body == "":
	case r.Method.IsStreamingClient():
		op["requestBody"] = object{"content": object{"application/octet-stream": object{}}}
	case body == "*":
		op["requestBody"] = object{"content": object{"application/json": object{"schema": g.message(in)}}}
	default:
		op["requestBody"] = object{"content": object{"application/json": object{
			"schema": g.message(in.Fields().ByName(protoreflect.Name(body)).Message()),
		}}}
	}
	return op
}

// content describes the body of a response.
func (g *generator) content(r jsonapi.Route) object {
	out := g.message(r.Method.Output())
	data := r.Method.Output().Fields().ByName("data")
	switch {
	case r.ResponseBody != "":
		return object{"application/octet-stream": object{}}
	case !r.Method.IsStreamingServer():
		return object{"application/json": object{"schema": out}}
	case data != nil && data.Kind() == protoreflect.BytesKind:
		return object{
			"text/event-stream": object{"schema": out}, "text/plain": object{}, "application/octet-stream": object{},
		}
	}
	return object{"text/event-stream": object{"schema": out}}
}

// parameters describes the parameters in the path, in the query and in the headers.
func (g *generator) parameters(r jsonapi.Route) []any {
	all := []any{}
	in := r.Method.Input()
	add := func(name, where string, required bool) {
		fd := fieldAt(in, name)
		all = append(all, object{
			"name": name, "in": where, "required": required, "description": g.comment(fd), "schema": g.field(fd),
		})
	}
	for _, p := range r.Params {
		add(p, "path", true)
	}
	for _, q := range r.Query() {
		if fieldAt(in, q) == nil { // consistency
			all = append(all, object{
				"name": q, "in": "query", "description": "of a read: stale answers from the state of this peer",
				"schema": object{"type": "string", "enum": []any{"linearizable", "stale"}},
			})
			continue
		}
		add(q, "query", false)
	}
	header := func(name, about string) {
		all = append(all, object{"name": name, "in": "header", "description": about, "schema": object{"type": "string"}})
	}
	if in.Fields().ByName("request_id") != nil {
		header("Idempotency-Key", "the request_id")
	}
	resumes := r.ResponseBody == "" && r.Method.Name() != "CollectDebug"
	if r.Method.IsStreamingServer() && !r.Method.IsStreamingClient() && resumes {
		header("Last-Event-ID", "resumes after this event")
	}
	return all
}

func fieldAt(d protoreflect.MessageDescriptor, path string) protoreflect.FieldDescriptor {
	name, rest, more := strings.Cut(path, ".")
	fd := d.Fields().ByName(protoreflect.Name(name))
	if fd == nil || !more {
		return fd
	}
	return fieldAt(fd.Message(), rest)
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// message returns the schema of a message, and describes it on its first use.
func (g *generator) message(d protoreflect.MessageDescriptor) object {
	switch d.FullName() {
	case "google.protobuf.Timestamp":
		return object{"type": "string", "format": "date-time"}
	case "google.protobuf.Duration":
		return object{"type": "string", "pattern": "^-?[0-9]+([.][0-9]+)?s$"}
	case "google.protobuf.FieldMask":
		return object{"type": "string", "description": "paths, separated by commas"}
	}
	name := strings.TrimPrefix(string(d.FullName()), "holdfast.v1.")
	if g.schemas[name] == nil {
		properties := object{}
		schema := object{"type": "object", "properties": properties}
		if text := g.comment(d); text != "" {
			schema["description"] = text
		}
		g.schemas[name] = schema
		for i := range d.Fields().Len() {
			fd := d.Fields().Get(i)
			s := g.field(fd)
			if text := g.comment(fd); text != "" {
				s["description"] = text
			}
			properties[string(fd.Name())] = s
		}
	}
	return ref(name)
}

// field returns the schema of a field.
func (g *generator) field(fd protoreflect.FieldDescriptor) object {
	switch {
	case fd.IsMap():
		return object{"type": "object", "additionalProperties": g.single(fd.MapValue())}
	case fd.IsList():
		return object{"type": "array", "items": g.single(fd)}
	}
	return g.single(fd)
}

func (g *generator) single(fd protoreflect.FieldDescriptor) object {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return g.message(fd.Message())
	case protoreflect.EnumKind:
		values := []any{}
		for i := range fd.Enum().Values().Len() {
			values = append(values, fd.Enum().Values().Get(i).Name())
		}
		return object{"type": "string", "enum": values}
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.StringKind:
		return object{"type": "string"}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return object{"type": "number"}
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind, protoreflect.Fixed32Kind,
		protoreflect.Sfixed32Kind:
		return object{"type": "integer", "format": fd.Kind().String()}
	}
	return object{"type": "string", "format": fd.Kind().String()} // 64 bits do not fit into a number of JavaScript
}

// TestV1 compares v1.json with the .proto files. UPDATE_GOLDEN=1 writes it.
func TestV1(t *testing.T) {
	routes, err := jsonapi.Routes()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(newGenerator(t).document(routes)); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile("v1.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), string(openapi.V1())); diff != "" {
		t.Errorf("v1.json is not what proto/ says: UPDATE_GOLDEN=1 writes it (-want +got):\n%s", diff)
	}
}
