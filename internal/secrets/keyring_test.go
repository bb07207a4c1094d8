package secrets

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOpenRefuses(t *testing.T) {
	shared := keyFile(t, line("k1", 'a'))
	if err := os.Chmod(shared, 0o640); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	for _, tc := range []struct{ name, file, want string }{
		{"others can read it", shared, "chmod 600 " + shared},
		{"missing file", filepath.Join(t.TempDir(), "none"), "no such file"},
		{"no key in it", keyFile(t, "x"), "line 1: want"},
		{"no credentials", "credential:keys", "CREDENTIALS_DIRECTORY"},
	} {
		if _, err := Open(tc.file, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want %q in it", tc.name, err, tc.want)
		}
	}
}

func TestCredential(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(keyFile(t, line("k1", 'a'))))
	k, err := Open("credential:secrets.keys", nil)
	if err != nil || !k.Has("k1") {
		t.Errorf("Open: %v", err)
	}
}

// A changed file is reloaded. An invalid one is logged once, and the current keys stay in use.
func TestReload(t *testing.T) {
	path := keyFile(t, line("k1", 'a'))
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		k, err := Open(path, slog.New(slog.NewTextHandler(&out, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		put := func(mode os.FileMode, lines ...string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * pollEvery) // sleep: fake clock, for two reads of the file
			synctest.Wait()
		}
		wantIDs := func(want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, k.IDs()); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
		}
		changed := k.Changed()
		put(0o600, line("k2", 'b'), line("k1", 'a'))
		wantIDs("k2", "k1")
		select {
		case <-changed:
		default:
			t.Error("got no notification of the change")
		}
		put(0o600, "rubbish")
		wantIDs("k2", "k1")
		put(0o644, line("k3", 'c'))
		wantIDs("k2", "k1")
		if n := strings.Count(out.String(), "level=ERROR"); n != 2 {
			t.Errorf("log: got %d errors, want one for each of the two broken files:\n%s", n, out.String())
		}
		put(0o600, line("k3", 'c'))
		wantIDs("k3")
		if strings.Contains(out.String(), line("", 'b')) {
			t.Error("got a key in the log")
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// A lookup of a missing key reads the file at once, but only once per second.
func TestUnknownKeyReadsFile(t *testing.T) {
	path := keyFile(t, line("k1", 'a'))
	synctest.Test(t, func(t *testing.T) {
		k, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(line("k2", 'b')), 0o600); err != nil {
			t.Fatal(err)
		}
		if k.Has("k2") {
			t.Error("got two reads of the file within a second")
		}
		time.Sleep(minPause) // sleep: fake clock
		if !k.Has("k2") || k.Has("k1") {
			t.Errorf("got keys %v, want k2", k.IDs())
		}
	})
}
