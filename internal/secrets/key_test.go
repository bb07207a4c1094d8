package secrets

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// line returns a line with a key of one repeated byte, with or without an id.
func line(id string, b byte) string {
	text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(b)), keySize)))
	if id == "" {
		return text
	}
	return id + ":" + text
}

func TestParseKeys(t *testing.T) {
	short := base64.StdEncoding.EncodeToString([]byte("too short, and very secret"))
	for _, tc := range []struct {
		name, file string
		ids        []string
		err        string
	}{
		{"one", line("k1", 'a'), []string{"k1"}, ""},
		{"first key is primary", line("k2", 'b') + "\n" + line("k1", 'a') + "\n", []string{"k2", "k1"}, ""},
		{"comments and empty lines", "# keys\n\n  " + line("k1", 'a') + "  \r\n", []string{"k1"}, ""},
		{"bare", line("", 'a'), []string{"3ba3f5f4"}, ""},
		{"spaces around the colon", "k1 : " + line("", 'a'), []string{"k1"}, ""},
		{"base64url without padding", "k1:" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\xff\xfe", 16))),
			[]string{"k1"}, ""},
		{"empty", "\n", nil, "contains no key"},
		{"short", line("k1", 'a') + "\nk2:" + short, nil, "line 2: want"},
		{"no base64", "k1:not-so-" + short, nil, "line 1: want"},
		{"bad id", line("k/1", 'a'), nil, "line 1: key id"},
		{"no id before the colon", ":" + line("", 'a'), nil, "line 1: key id has 0"},
		{"twice", line("k1", 'a') + "\n" + line("k1", 'b'), nil, "line 2: duplicate key id k1"},
		{"long line", strings.Repeat("A", 1<<20), nil, "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			keys, err := parseKeys([]byte(tc.file))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got error %v, want %q in it", err, tc.err)
				}
				for _, part := range []string{short, line("", 'a'), line("", 'b'), "not-so"} {
					if strings.Contains(err.Error(), part) {
						t.Errorf("got the contents of the file in the error: %v", err)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, k := range keys {
				ids = append(ids, k.id)
			}
			if diff := cmp.Diff(tc.ids, ids); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewKeyLine(t *testing.T) {
	seen := map[string]bool{}
	for _, id := range []string{"", "", "2026-11", "a.b_c"} {
		l, err := NewKeyLine(id)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := parseKeys([]byte(l))
		if err != nil || len(keys) != 1 {
			t.Fatalf("parse a new line: %v", err)
		}
		if id != "" && keys[0].id != id {
			t.Errorf("got id %s, want %s", keys[0].id, id)
		}
		if _, text, _ := strings.Cut(l, ":"); seen[text] {
			t.Error("got the same key twice")
		} else {
			seen[text] = true
		}
		// The id of a key without one is derived from its bare line.
		if _, text, _ := strings.Cut(l, ":"); id == "" {
			if bare, err := parseKeys([]byte(text)); err != nil || bare[0].id != keys[0].id {
				t.Errorf("id of a bare line: got %v, %v, want %s", bare, err, keys[0].id)
			}
		}
	}
	if _, err := NewKeyLine("a b"); err == nil {
		t.Error("id with a space: got no error")
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	keys, err := parseKeys([]byte(line("k1", 'a')))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, it := range []any{keys[0], keys} {
			if s := fmt.Sprintf(verb, it); !strings.Contains(s, Redacted) {
				t.Errorf("print with %s of %T: got %s", verb, it, s)
			}
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(line("k1", 'a') + "\n#\n" + line("", 'b')))
	f.Add([]byte("a:b:c\n\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := parseKeys(b)
		if (err == nil) != (len(keys) > 0) {
			t.Errorf("got %d keys and error %v", len(keys), err)
		}
		for _, k := range keys {
			if checkID(k.id) != nil {
				t.Errorf("got key id %q", k.id)
			}
		}
	})
}
