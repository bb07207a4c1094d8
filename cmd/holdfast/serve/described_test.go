package serve

import (
	"bytes"
	"fmt"
	"mime"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-metal/holdfast/server/openapi"
)

// description is openapi.yaml, for comparison with answers.
type description struct {
	paths    map[string]any
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by position
	seen     map[string]bool               // answers that have a schema, and were given: "GET /api/v1/nodes 200"
}

// describe reads the file. Objects with listed members allow no others here, because an answer must
// not have undocumented members.
func describe(t *testing.T) *description {
	t.Helper()
	raw, err := yaml.YAMLToJSON(openapi.File())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	closeObjects(doc)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("file:///openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return &description{paths: member(doc, "paths"), compiler: c, schemas: map[string]*jsonschema.Schema{},
		seen: map[string]bool{}}
}

func member(doc any, names ...string) map[string]any {
	for _, name := range names {
		m, _ := doc.(map[string]any)
		doc = m[name]
	}
	m, _ := doc.(map[string]any)
	return m
}

func closeObjects(doc any) {
	switch doc := doc.(type) {
	case map[string]any:
		if _, has := doc["additionalProperties"]; !has && doc["type"] == "object" && doc["properties"] != nil {
			doc["additionalProperties"] = false
		}
		for _, one := range doc {
			closeObjects(one)
		}
	case []any:
		for _, one := range doc {
			closeObjects(one)
		}
	}
}

// check compares an answer with the file's entry for the route and the status.
func (d *description) check(pattern string, w *httptest.ResponseRecorder) error {
	method, path, _ := strings.Cut(pattern, " ")
	if forPeople(path) || strings.HasPrefix(path, "/debug/") {
		return nil // not described: for users
	}
	answers := member(d.paths, path, strings.ToLower(method), "responses")
	status := fmt.Sprint(w.Code)
	if answers[status] == nil {
		status = "default"
	}
	if answers[status] == nil {
		return fmt.Errorf("%s: openapi.yaml has no answer %d", pattern, w.Code)
	}
	content := member(answers, status, "content")
	kind, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if w.Body.Len() == 0 && len(content) == 0 {
		return nil
	}
	if content[kind] == nil {
		return fmt.Errorf("%s: got %d as %q with %d bytes, want %v of openapi.yaml", pattern, w.Code, kind,
			w.Body.Len(), content)
	}
	d.seen[pattern+" "+status] = true
	if kind != "application/json" {
		return nil
	}
	at := strings.NewReplacer("~", "~0", "/", "~1")
	where := "file:///openapi.json#/paths/" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(at.Replace(path)) +
		"/" + strings.ToLower(method) + "/responses/" + status + "/content/" + at.Replace(kind) + "/schema"
	s := d.schemas[where]
	if s == nil {
		var err error
		if s, err = d.compiler.Compile(where); err != nil {
			return fmt.Errorf("%s: openapi.yaml: %w", pattern, err)
		}
		d.schemas[where] = s
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		return fmt.Errorf("%s: %d: %w: %s", pattern, w.Code, err, w.Body)
	}
	if err := s.Validate(value); err != nil {
		return fmt.Errorf("%s: %d differs from openapi.yaml: %w\n%s", pattern, w.Code, err, w.Body)
	}
	return nil
}

// TestDescriptionIsChecked checks that check finds deviations.
func TestDescriptionIsChecked(t *testing.T) {
	d := describe(t)
	for _, tt := range []struct {
		pattern, kind, body string
		status              int
		want                string // in the error; empty: no error
	}{
		{"GET /api/v1/nodes", "application/json", `{"detail":"no"}`, 401, ""},
		{"GET /api/v1/nodes", "application/json", `{"detail":"no","more":1}`, 401,
			"additional properties 'more' not allowed"},
		{"GET /api/v1/nodes", "application/json", `{"detail":7}`, 401, "detail"},
		{"GET /api/v1/nodes", "application/json", `{}`, 401, "missing property 'detail'"},
		{"GET /api/v1/nodes", "application/json", `{"detail":"no"`, 401, "EOF"},
		{"GET /api/v1/nodes", "text/plain", `no`, 401, `as "text/plain" with 2 bytes`},
		{"GET /api/v1/nothing", "application/json", `{}`, 200, "has no answer 200"},
		{"GET /ui/machines", "text/html", `<p>`, 200, ""},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", tt.kind)
		w.WriteHeader(tt.status)
		_, _ = w.WriteString(tt.body)
		err := d.check(tt.pattern, w)
		if got := fmt.Sprint(err); (err != nil) != (tt.want != "") || !strings.Contains(got, tt.want) && tt.want != "" {
			t.Errorf("%s %d %s: got %v, want %q", tt.pattern, tt.status, tt.body, err, tt.want)
		}
	}
}

// missing lists the successful answers with a body in the file that no answer was compared with.
func (d *description) missing() []string {
	var all []string
	for path := range d.paths {
		for method := range member(d.paths, path) {
			for status := range member(d.paths, path, method, "responses") {
				what := strings.ToUpper(method) + " " + path + " " + status
				if strings.HasPrefix(status, "2") && len(member(d.paths, path, method, "responses", status, "content")) > 0 &&
					!d.seen[what] {
					all = append(all, what)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}
