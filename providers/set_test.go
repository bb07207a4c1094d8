package providers_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// named is a provider without any capability.
type named struct{ name, config string }

func (n named) Kind() string { return "named" }

func namedFactory(name string, config json.RawMessage, _ *slog.Logger) (providers.Provider, error) {
	if strings.Contains(string(config), "broken") {
		return nil, errors.New("broken is not allowed")
	}
	return named{name, string(config)}, nil
}

func newSet(t *testing.T, config string) (*providers.Set, error) {
	t.Helper()
	var cs map[string]providers.Config
	if err := json.Unmarshal([]byte(config), &cs); err != nil {
		return nil, err
	}
	return providers.NewSet(map[string]providers.Factory{"named": namedFactory, "other": namedFactory}, cs,
		slog.New(slog.DiscardHandler))
}

func TestNewSet(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"no instance", `{}`, ""},
		{"two instances", `{"a": {"kind": "named", "x": 1}, "b": {"kind": "other"}}`, ""},
		{"no kind", `{"a": {"x": 1}}`, `set one, e.g. "kind: fake"`},
		{"kind is no text", `{"a": {"kind": 7}}`, "kind of provider is 7"},
		{"kind is empty", `{"a": {"kind": ""}}`, `kind of provider is ""`},
		{"unknown kind", `{"a": {"kind": "nope"}}`, `configure provider "a": kind "nope" is not one of named, other`},
		{"power-ons one after the other",
			`{"a": {"kind": "named", "power_on_interval": "2s", "power_on_rack_interval": "30s"}}`, ""},
		{"an interval without a unit", `{"a": {"kind": "named", "power_on_interval": 2}}`,
			"power_on_interval of provider is 2: want a time between two power-ons, e.g. 2s"},
		{"factory fails", `{"a": {"kind": "named", "broken": true}}`, `configure provider "a": broken is not allowed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newSet(t, c.config)
			switch {
			case c.want == "" && err != nil:
				t.Fatalf("got %v, want no error", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestSetOf(t *testing.T) {
	two, err := newSet(t, `{"a": {"kind": "named", "x": 1}, "fake": {"kind": "named"}}`)
	if err != nil {
		t.Fatal(err)
	}
	one := providers.SetOf(map[string]providers.Provider{"only": named{name: "only"}})
	field := &holdfastv1.Machine{MachineId: "m-1", Labels: map[string]string{"provider": "b"},
		Spec: &holdfastv1.MachineSpec{Provider: "a"}}
	label := &holdfastv1.Machine{MachineId: "m-1", Labels: map[string]string{"provider": "a"}}
	plain := &holdfastv1.Machine{MachineId: "m-1"}
	for _, c := range []struct {
		name    string
		set     *providers.Set
		machine providers.Machine
		want    providers.Provider
	}{
		{"field before label", two, field, named{"a", `{"x":1}`}},
		{"label", two, label, named{"a", `{"x":1}`}},
		{"the default among several", two, plain, named{"fake", `{}`}},
		{"the only one", one, plain, named{name: "only"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.set.Of(c.machine)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(named{})); diff != "" {
				t.Fatal(diff)
			}
		})
	}
	_, err = one.Of(label)
	if providers.ClassOf(err) != providers.Unsupported ||
		!strings.Contains(err.Error(), `provider "a" is not configured (configured: only)`) {
		t.Fatalf("got %v", err)
	}
}

func TestSetOfIsACopy(t *testing.T) {
	m := map[string]providers.Provider{"only": named{}}
	s := providers.SetOf(m)
	delete(m, "only")
	if _, err := s.Of(&holdfastv1.Machine{}); err != nil {
		t.Fatalf("provider after a change of the argument: %v", err)
	}
}

func TestFallbackProvider(t *testing.T) {
	own, fallback := named{name: "dc-1"}, named{name: "fake"}
	set := providers.SetOf(map[string]providers.Provider{"dc-1": own, "fake": fallback}).WithFallback("fake")
	for name, want := range map[string]providers.Provider{"dc-1": own, "fake": fallback, "elsewhere": fallback} {
		got, err := set.Of(&holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{Provider: name}})
		if err != nil || got != want {
			t.Errorf("provider of a machine of %q: got %v, %v, want %v", name, got, err, want)
		}
		if !set.Has(name) {
			t.Errorf("%q: got refused, want any name accepted with a fallback", name)
		}
	}
}
