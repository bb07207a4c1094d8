package machine

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestIdentity(t *testing.T) {
	const random = "^[0-9a-f]{8}$"
	tests := []struct {
		name           string
		file           string // "-": no file
		want, hardware string
		id             string // pattern
		note           string // a part of the note
		err            string // a part of the error
		keeps          string // a part of the file afterwards
	}{
		{"first start", "-", "", "board-1", random, "", "", `"hardware":"board-1"`},
		{"first start with unknown hardware", "-", "", "", random, "", "", ""},
		{"first start with a configured id", "-", "m-123", "board-1", "^m-123$", "", "",
			`{"machine_id":"m-123","hardware":"board-1"}`},
		{"a restart", `{"machine_id":"1165a9b6","hardware":"board-1"}`, "", "board-1", "^1165a9b6$", "", "", `"board-1"`},
		{"restart with the configured id", `{"machine_id":"m-1","hardware":"board-1"}`, "m-1", "board-1", "^m-1$", "", "", ""},
		{"a restart without root", `{"machine_id":"1165a9b6","hardware":"board-1"}`, "", "", "^1165a9b6$", "", "",
			`"board-1"`},
		{"hardware known later", `{"machine_id":"1165a9b6"}`, "", "board-1", "^1165a9b6$", "", "", `"board-1"`},
		{"a copied disk", `{"machine_id":"1165a9b6","hardware":"board-1"}`, "", "board-2", random,
			"other hardware, with the id 1165a9b6", "", `"board-2"`},
		{"new board with the configured id", `{"machine_id":"1165a9b6","hardware":"board-1"}`, "1165a9b6", "board-2",
			"^1165a9b6$", "", "", `"board-2"`},
		{"different configured id", `{"machine_id":"m-1"}`, "m-2", "", "", "", "has the id", `m-1`},
		{"a torn file", `{"machine_id":"1165`, "", "", random, "no identity in the file", "", ""},
		{"an empty file", "", "", "", random, "no identity in the file", "", ""},
		{"a file of zeros", strings.Repeat("\x00", 64), "", "", random, "no identity in the file", "", ""},
		{"invalid id", `{"machine_id":"../../etc"}`, "", "", random, "no identity in the file", "", ""},
		{"truncated file with a configured id", `{`, "m-1", "", "^m-1$", "no identity in the file", "", `m-1`},
		{"invalid configured id", "-", "a b", "", "", "", `machine id "a b"`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "identity.json")
			if tt.file != "-" {
				if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			id, note, err := Identity(path, tt.want, tt.hardware)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("Identity: got %q, %v, want an error with %q", id, err, tt.err)
				}
			} else if err != nil || !regexp.MustCompile(tt.id).MatchString(id) {
				t.Fatalf("Identity: got %q, %v, want %s", id, err, tt.id)
			}
			if !strings.Contains(note, tt.note) || (note == "") != (tt.note == "") {
				t.Errorf("got note %q, want %q in it", note, tt.note)
			}
			got, _ := os.ReadFile(path)
			if !bytes.Contains(got, []byte(tt.keeps)) {
				t.Errorf("file: got %q, want %q in it", got, tt.keeps)
			}
			if tt.err != "" {
				return
			}
			if again, note, err := Identity(path, "", tt.hardware); again != id || note != "" || err != nil {
				t.Errorf("next start: got %q, %q, %v, want %q", again, note, err, id)
			}
		})
	}
}

func TestIdentityThatCannotBeStored(t *testing.T) {
	if id, _, err := Identity(filepath.Join(t.TempDir(), "missing", "id"), "", ""); err == nil {
		t.Errorf("Identity: got %q, want an error, because the next start would create another id", id)
	}
}

func FuzzParseIdentity(f *testing.F) {
	for _, s := range []string{`{"machine_id":"1165a9b6","hardware":"x"}`, `{"machine_id":""}`, `null`, ``, "\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		have, ok := parseIdentity(b)
		if !ok {
			return
		}
		written, err := json.Marshal(have)
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := parseIdentity(written); !ok || again != have {
			t.Errorf("read %q: got %+v, which reads back as %+v", b, have, again)
		}
	})
}
