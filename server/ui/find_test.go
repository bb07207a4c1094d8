package ui_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestFind: the palette finds machines by the beginning of their id, MAC address, serial or label,
// runs by their id, and plans by a part of it, and only what the caller may see.
func TestFind(t *testing.T) {
	l := lab(t)
	for i, pool := range []string{"", "elsewhere"} {
		l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("x-%d", i),
			Labels: map[string]string{"env": "prod-" + fmt.Sprint(i)},
			Spec: &holdfastv1.MachineSpec{Pool: pool, Serial: fmt.Sprintf("SN77%d", i),
				MacAddresses: []string{fmt.Sprintf("02:ab:cd:00:00:0%d", i)}}}})
	}
	for _, tt := range []struct{ as, text, want string }{
		{"viewer", "m-", "machine m-1, machine m-2"},
		{"viewer", "m-1", "machine m-1"},
		{"elsewhere", "m-", "machine m-2"},
		{"viewer", "sn77", "machine x-0, machine x-1"},
		{"elsewhere", "SN77", "machine x-1"},
		{"viewer", "02-ab-c", "machine x-0, machine x-1"},
		{"viewer", "02abcd000001", "machine x-1"},
		{"viewer", "env=prod", "machine x-0, machine x-1"},
		{"viewer", "env=prod-1", "machine x-1"},
		{"viewer", "en=prod", ""},
		{"viewer", "run-1", "run run-1"},
		{"elsewhere", "run-1", ""},
		{"viewer", "repave-j", "plan plan/repave-join"},
		{"viewer", "", ""},
	} {
		w := get(l, tt.as, "/ui/find?q="+url.QueryEscape(tt.text))
		var items []struct{ Kind, Text, Link string }
		if err := json.Unmarshal(w.Body.Bytes(), &items); err != nil || w.Code != 200 {
			t.Fatalf("find %q: got %d %s", tt.text, w.Code, w.Body)
		}
		var got []string
		for _, i := range items {
			got = append(got, i.Kind+" "+i.Text)
			has(t, get(l, tt.as, i.Link), 200, nil)
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("find %q as %s (-want +got):\n%s", tt.text, tt.as, diff)
		}
	}
	has(t, get(l, "viewer", "/ui/find?q="+strings.Repeat("x", 101)), 400, nil)
	has(t, get(l, "", "/ui/find?q=m"), 401, nil)
	has(t, get(l, "agent", "/ui/find?q=m"), 403, nil)
}

// TestFindSaysThatThereIsMore: an answer with fewer than all that match has a header.
func TestFindSaysThatThereIsMore(t *testing.T) {
	l := lab(t)
	for n := range 9 {
		if n > 0 {
			w := get(l, "viewer", "/ui/find?q=many-")
			var items []struct{ Text string }
			if err := json.Unmarshal(w.Body.Bytes(), &items); err != nil || len(items) != n ||
				w.Header().Get("Holdfast-More") != "" {
				t.Fatalf("of %d machines: got %s, more %q", n, w.Body, w.Header().Get("Holdfast-More"))
			}
		}
		l.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("many-%d", n)}})
	}
	if w := get(l, "viewer", "/ui/find?q=many-"); w.Header().Get("Holdfast-More") != "true" {
		t.Errorf("of 9 machines: got %s, and no header", w.Body)
	}
	if w := get(l, "viewer", "/ui/find?q=plan"); w.Header().Get("Holdfast-More") != "true" {
		t.Errorf("of the built-in plans: got %s, and no header", w.Body)
	}
}
