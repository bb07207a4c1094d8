package secrets_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-metal/holdfast/internal/secrets"
)

// A value must not be revealed by any way of printing it, alone or inside of another value.
func TestValueIsNeverShown(t *testing.T) {
	const text = "correct-horse"
	v := secrets.NewValue(text)
	type holder struct {
		Name string
		V    secrets.Value
		P    *secrets.Value
		M    map[string]secrets.Value
		K    map[secrets.Value]int
		L    []secrets.Value
		A    any
	}
	h := holder{"x", v, &v, map[string]secrets.Value{"k": v}, map[secrets.Value]int{v: 1}, []secrets.Value{v}, v}
	shown := map[string]string{}
	for verb := range strings.SplitSeq("v +v #v s q x X d t b o e g p U T c", " ") {
		for name, it := range map[string]any{"value": v, "pointer": &v, "holder": h, "pointer to a holder": &h,
			"slice": h.L, "map": h.M, "any": []any{v}} {
			shown[name+" %"+verb] = fmt.Sprintf("%"+verb, it)
		}
	}
	shown["print"] = fmt.Sprint(v, &v, h, h.M)
	shown["error"] = fmt.Errorf("open: %w %v", fmt.Errorf("%v", v), h).Error()
	for name, encode := range map[string]func(any) ([]byte, error){"json": json.Marshal, "yaml": yaml.Marshal,
		"xml": xml.Marshal} {
		for what, it := range map[string]any{"value": v, "slice": h.L} {
			b, err := encode(it)
			if err != nil {
				t.Errorf("%s of a %s: %v", name, what, err)
			}
			shown[name+" "+what] = string(b)
		}
	}
	for name, make := range map[string]func(*bytes.Buffer) slog.Handler{
		"text log": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json log": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(make(&b)).Info("m", "v", v, "p", &v, "h", h.L, "m", h.M, slog.Group("g", "v", v))
		shown[name] = b.String()
	}
	for how, s := range shown {
		if strings.Contains(s, text) || strings.Contains(s, fmt.Sprintf("%x", text)) ||
			strings.Contains(s, fmt.Sprintf("%X", text)) || strings.Contains(s, fmt.Sprintf("%d", []byte(text))) {
			t.Errorf("print with %s: got the value: %s", how, s)
		}
	}
	if v.Reveal() != text || v.Empty() || !(secrets.Value{}).Empty() {
		t.Errorf("Reveal: got %q", v.Reveal())
	}
}
