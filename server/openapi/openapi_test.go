package openapi_test

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/openapi"
)

// TestPages checks that the page loads nothing from elsewhere, and that its policy forbids it.
func TestPages(t *testing.T) {
	m := auth.Open().NewMux()
	openapi.Register(m)
	outside := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9]+\.[a-z]|<style|style=|onclick=|innerHTML|eval\(|<script>`)
	for path, kind := range map[string]string{
		"/docs/": "text/html; charset=utf-8", "/docs/app.js": "text/javascript; charset=utf-8",
		"/docs/app.css": "text/css; charset=utf-8", "/openapi/v1.json": "application/json",
		"/openapi.yaml": "application/yaml",
	} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, nil))
		policy := w.Header().Get("Content-Security-Policy")
		if w.Code != 200 || w.Header().Get("Content-Type") != kind || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: got %d %v", path, w.Code, w.Header())
		}
		if got := outside.FindString(w.Body.String()); got != "" && strings.HasPrefix(path, "/docs/") {
			t.Errorf("%s: contains %q", path, got)
		}
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/docs", nil))
	if w.Code != 301 || w.Header().Get("Location") != "/docs/" {
		t.Errorf("/docs: got %d %q", w.Code, w.Header().Get("Location"))
	}
}

// TestReferences checks that each schema is described, and that names of operations are unique.
func TestReferences(t *testing.T) {
	var doc struct {
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(openapi.V1(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range regexp.MustCompile(`#/components/schemas/([^"]*)`).FindAllStringSubmatch(string(openapi.V1()), -1) {
		if doc.Components.Schemas[r[1]] == nil {
			t.Errorf("the schema %s is not described", r[1])
		}
	}
	var names []string
	for path, verbs := range doc.Paths {
		for verb, op := range verbs {
			if slices.Contains(names, op.OperationID) {
				t.Errorf("%s %s: another operation is called %s", verb, path, op.OperationID)
			}
			names = append(names, op.OperationID)
		}
	}
	if len(names) < 70 {
		t.Errorf("got %d operations, too few to prove anything", len(names))
	}
}
