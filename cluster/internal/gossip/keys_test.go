package gossip

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testKey(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func testLine(b byte, n int) string {
	return base64.StdEncoding.EncodeToString(testKey(b, n)) + "\n"
}

func TestParseGossipKeys(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		want       [][]byte
		err        string
	}{
		{"one", testLine(1, 32), [][]byte{testKey(1, 32)}, ""},
		{"three sizes, in order", testLine(2, 16) + testLine(1, 24) + testLine(3, 32),
			[][]byte{testKey(2, 16), testKey(1, 24), testKey(3, 32)}, ""},
		{"twice the same", testLine(1, 32) + testLine(1, 32), [][]byte{testKey(1, 32)}, ""},
		{"comments, empty lines, spaces and CR", "# new\n\n  " + strings.TrimSpace(testLine(1, 32)) + " \r\n",
			[][]byte{testKey(1, 32)}, ""},
		{"nothing", "", nil, "holdfast gossip keygen"},
		{"comments only", "# x\n", nil, "contains no key"},
		{"too short", testLine(1, 32) + testLine(1, 8), nil, "line 2: the key has 8 bytes, want 16, 24 or 32"},
		{"not base64", "hunter2!\n", nil, "line 1 is not base64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseKeys([]byte(tc.file))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if (err == nil) != (tc.err == "") || err != nil && (!strings.Contains(err.Error(), tc.err) ||
				strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("error = %v, want it to contain %q and no key", err, tc.err)
			}
		})
	}
}

// The ring follows the file while it is read concurrently.
func TestGossipKeysFollowTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gossip.key")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(testLine(1, 32))
	var log bytes.Buffer
	k, err := openKeys(file, 0, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // as memberlist does with each packet
		for {
			for _, key := range k.ring.GetKeys() {
				if len(key) == 0 || bytes.Count(key, key[:1]) != len(key) {
					t.Error("got a torn key")
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	one, two, three := testLine(1, 32), testLine(2, 16), testLine(3, 32)
	for range 50 {
		for _, text := range []string{one + two, two + one, two, three + two + one, three + one, one + three + two, one} {
			write(text)
			k.reload()
			want, err := parseKeys([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, k.ring.GetKeys()); diff != "" {
				t.Fatalf("ring after %q (-want +got):\n%s", text, diff)
			}
		}
	}
	close(stop)
	wg.Wait()

	log.Reset()
	for _, spoil := range []func(){
		func() { write("rubbish\n") },
		func() { _ = os.Chmod(file, 0o644) },
		func() { _ = os.Remove(file) },
	} {
		spoil()
		k.reload()
		k.reload()
		if diff := cmp.Diff([][]byte{testKey(1, 32)}, k.ring.GetKeys()); diff != "" {
			t.Errorf("ring after an invalid file (-want +got):\n%s", diff)
		}
	}
	if n := strings.Count(log.String(), "not usable"); n != 3 || strings.Contains(log.String(), "rubbish") {
		t.Errorf("got %d log lines, want 3 without the contents of the file:\n%s", n, log.String())
	}
}

func FuzzParseGossipKeys(f *testing.F) {
	f.Add([]byte(testLine(1, 32) + "# x\n" + testLine(2, 16)))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := parseKeys(data)
		if (err == nil) != (len(keys) > 0) {
			t.Errorf("got %d keys and error %v", len(keys), err)
		}
		for _, k := range keys {
			if len(k) != 16 && len(k) != 24 && len(k) != 32 {
				t.Errorf("got a key of %d bytes", len(k))
			}
		}
	})
}
