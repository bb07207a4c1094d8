package discovery

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const someID = "550e8400-e29b-41d4-a716-446655440000"

// The file has the format of the original SDK.
func TestIDFileBytes(t *testing.T) {
	for serviceType, number := range map[string]string{
		ResourceProvider: "00000001", ToolInvoker: "00000002", MultiCapability: "00000003", CodeExecutionEngine: "00000003",
	} {
		dir := t.TempDir()
		f, err := newIDFile(dir, Target{ServiceName: "my-tool", ServiceType: serviceType})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.write(someID); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "my-tool.wanaku.dat"))
		want := hex.EncodeToString([]byte("wanaku")) + "00000001" + number + hex.EncodeToString([]byte(someID))
		if err != nil || hex.EncodeToString(got) != want || len(got) != 50 {
			t.Errorf("%s: got %d bytes %x, %v, want %s", serviceType, len(got), got, err, want)
		}
		if id, err := f.read(); id != someID || err != nil {
			t.Errorf("read: got %q, %v", id, err)
		}
	}
}

func TestDecodeID(t *testing.T) {
	good := string(encodeID(2, someID))
	tests := []struct {
		name, file string
		want       string // empty: an error
	}{
		{"good", good, someID},
		{"with the padding that the document speaks of", good + "\x00\x00\x00\x00", someID},
		{"another type", string(encodeID(9, someID)), someID},
		{"empty", "", ""},
		{"torn in the id", good[:49], ""},
		{"torn in the header", good[:9], ""},
		{"zeros at the end", good[:30] + strings.Repeat("\x00", 20), ""},
		{"zeros", strings.Repeat("\x00", 50), ""},
		{"another magic", "WANAKU" + good[6:], ""},
		{"another version", "wanaku\x00\x00\x00\x02" + good[10:], ""},
		{"no text", good[:14] + strings.Repeat("\xff", 36), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeID([]byte(tt.file))
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("decodeID: got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// A truncated file is detected, and the next registration repairs it.
func TestTruncatedIDFile(t *testing.T) {
	f, err := newIDFile(t.TempDir(), tool())
	if err != nil {
		t.Fatal(err)
	}
	whole := encodeID(2, someID)
	for n := range whole {
		if err := os.WriteFile(f.path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := f.read(); id != "" || err == nil {
			t.Errorf("%d bytes: got %q, %v, want an error", n, id, err)
		}
	}
	if err := f.write(someID); err != nil {
		t.Fatal(err)
	}
	if id, err := f.read(); id != someID || err != nil {
		t.Errorf("read after a registration: got %q, %v", id, err)
	}
}

func TestMissingIDFile(t *testing.T) {
	var none idFile
	if id, err := none.read(); id != "" || err != nil || none.write(someID) != nil {
		t.Errorf("without a directory: got %q, %v", id, err)
	}
	f, err := newIDFile(t.TempDir(), tool())
	if err != nil {
		t.Fatal(err)
	}
	if id, err := f.read(); id != "" || err != nil {
		t.Errorf("before the first registration: got %q, %v", id, err)
	}
	if err := f.write("short"); err == nil {
		t.Error("write an id of five characters: got no error")
	}
}

func FuzzDecodeID(f *testing.F) {
	f.Add(encodeID(2, someID))
	f.Add([]byte("wanaku\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := decodeID(b)
		if err != nil {
			return
		}
		if again, err := decodeID(encodeID(2, id)); again != id || err != nil {
			t.Errorf("decodeID(%x): got %q, which is read back as %q, %v", b, id, again, err)
		}
	})
}

func FuzzAssignedID(f *testing.F) {
	f.Add([]byte(`{"error":null,"data":{"id":"x"}}`), "")
	f.Add([]byte(`{"error":{"message":"`+strings.Repeat("é", 200)+`"}}`), "y")
	f.Fuzz(func(t *testing.T, body []byte, sent string) {
		if id, err := assignedID(body, sent); (id == "") != (err != nil) {
			t.Errorf("assignedID(%q, %q): got %q, %v", body, sent, id, err)
		}
	})
}
