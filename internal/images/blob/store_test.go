package blob_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/images/blob"
)

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func open(t *testing.T, cfg blob.Config) *blob.Store {
	t.Helper()
	if cfg.Free == nil {
		cfg.Free = func(string) (int64, int64, error) { return 1 << 40, 1 << 40, nil }
	}
	s, err := blob.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// receive resumes a file in a store, writes some bytes, and commits.
func receive(t *testing.T, s *blob.Store, sum string, size int64, all []byte, until int) error {
	t.Helper()
	r, err := s.Receive(t.Context(), sum, size)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if until > 0 && r.Offset() < int64(until) {
		if _, err := r.Write(all[r.Offset():until]); err != nil {
			return err
		}
	}
	if until < len(all) {
		return nil // interrupted
	}
	return r.Commit()
}

func read(t *testing.T, s *blob.Store, sum string) []byte {
	t.Helper()
	f, err := s.Open(t.Context(), sum)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInterruptedFileResumes(t *testing.T) {
	dir := t.TempDir()
	all := bytes.Repeat([]byte("holdfast"), 1000)
	sum := sumOf(all)
	s := open(t, blob.Config{Dir: dir})
	if err := receive(t, s, sum, int64(len(all)), all, 3000); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), sum); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("incomplete file: got %v, want ErrNotExist", err)
	}
	s = open(t, blob.Config{Dir: dir}) // a restart of the process
	if got := s.Received(sum); got != 3000 {
		t.Errorf("got %d received bytes, want 3000", got)
	}
	if err := receive(t, s, sum, int64(len(all)), all, len(all)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read(t, s, sum), all) {
		t.Error("got a file that differs from the received bytes")
	}
	if got := s.Received(sum); got != 0 {
		t.Errorf("got %d bytes of temporary files, want 0", got)
	}
}

func TestRefusedFiles(t *testing.T) {
	all := []byte("some bytes of an image")
	sum := sumOf(all)
	for _, tt := range []struct {
		name string
		cfg  blob.Config
		sum  string
		size int64
		give []byte
		want error
		left int64
	}{
		{"other bytes", blob.Config{}, sum, 0, []byte("some bytes of an imagE"), blob.ErrSum, 0},
		{"too few", blob.Config{}, sum, int64(len(all)), all[:5], blob.ErrSize, 5},
		{"too many", blob.Config{}, sum, 5, all, blob.ErrSize, 0},
		{"more than any may have", blob.Config{MaxFile: 10}, sum, 0, all, blob.ErrSize, 0},
		{"declared size above the limit", blob.Config{MaxFile: 10}, sum, 11, nil, blob.ErrSize, 0},
		{"no room", blob.Config{Free: func(string) (int64, int64, error) { return 1000, 10_000, nil }}, sum, 600, all,
			blob.ErrFull, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Dir = t.TempDir()
			s := open(t, tt.cfg)
			err := receive(t, s, tt.sum, tt.size, tt.give, len(tt.give))
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if _, ok, err := s.Has(t.Context(), tt.sum); ok || err != nil {
				t.Errorf("got a stored file: %v, %v", ok, err)
			}
			if got := s.Received(tt.sum); got != tt.left {
				t.Errorf("got %d kept bytes, want %d", got, tt.left)
			}
			if err := receive(t, open(t, blob.Config{Dir: tt.cfg.Dir}), sum, 0, all, len(all)); err != nil {
				t.Errorf("retry: %v", err)
			}
		})
	}
	if err := receive(t, open(t, blob.Config{Dir: t.TempDir()}), "../../etc/passwd", 0, all, len(all)); err == nil {
		t.Error("name that is no checksum: got no error")
	}
}

func TestDamagedFileIsNotServed(t *testing.T) {
	dir := t.TempDir()
	all := bytes.Repeat([]byte("x"), 10_000)
	sum := sumOf(all)
	if err := receive(t, open(t, blob.Config{Dir: dir}), sum, 0, all, len(all)); err != nil {
		t.Fatal(err)
	}
	for name, tear := range map[string]func(path string) error{
		"a bit":    func(p string) error { return os.WriteFile(p, append(bytes.Repeat([]byte("x"), 9_999), 'y'), 0o600) },
		"cut off":  func(p string) error { return os.Truncate(p, 4096) },
		"nothing":  func(p string) error { return os.Truncate(p, 0) },
		"too long": func(p string) error { return os.WriteFile(p, append(bytes.Clone(all), 'x'), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := tear(filepath.Join(dir, sum)); err != nil {
				t.Fatal(err)
			}
			s := open(t, blob.Config{Dir: dir})
			if _, err := s.Open(t.Context(), sum); !errors.Is(err, blob.ErrSum) {
				t.Errorf("got %v, want ErrSum", err)
			}
			if _, ok, err := s.Has(t.Context(), sum); ok || err != nil {
				t.Errorf("afterwards: got %v, %v, want it removed", ok, err)
			}
			if err := receive(t, s, sum, 0, all, len(all)); err != nil {
				t.Errorf("receive the file again: %v", err)
			}
		})
	}
}

func TestOneReceiverPerFile(t *testing.T) {
	s := open(t, blob.Config{Dir: t.TempDir()})
	sum := sumOf([]byte("x"))
	r, err := s.Receive(t.Context(), sum, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(t.Context(), sum, 0); !errors.Is(err, blob.ErrBusy) {
		t.Errorf("second receiver: got %v, want ErrBusy", err)
	}
	if removed, err := s.Sweep(time.Now().Add(time.Hour), func(string) bool { return false }); err != nil ||
		len(removed) > 0 {
		t.Errorf("remove a file in transfer: got %v, %v", removed, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, s, sum, 0, []byte("x"), 1); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	s := open(t, blob.Config{Dir: dir})
	now := time.Now()
	old := map[string]string{}
	for _, what := range []string{"used", "unused", "unused lately"} {
		old[sumOf([]byte(what))] = what
		if err := receive(t, s, sumOf([]byte(what)), 0, []byte(what), len(what)); err != nil {
			t.Fatal(err)
		}
		s.Keep(sumOf([]byte(what)), now.Add(-48*time.Hour))
	}
	s.Keep(sumOf([]byte("unused lately")), now)
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	removed, err := s.Sweep(now.Add(-24*time.Hour), func(sum string) bool { return old[sum] == "used" })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{sumOf([]byte("unused"))}, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if _, ok, _ := s.Has(t.Context(), sumOf([]byte("unused"))); ok {
		t.Error("got the file, want it removed")
	}
	if files, size := s.Usage(); files != 3 || size != int64(len("used")+len("unused lately")) {
		t.Errorf("Usage: got %d files, %d bytes", files, size)
	}
}

// TestDiskFillsUp fills the disk while a file of unknown size arrives.
func TestDiskFillsUp(t *testing.T) {
	free := int64(1000)
	s := open(t, blob.Config{Dir: t.TempDir(), Free: func(string) (int64, int64, error) { return free, 10_000, nil }})
	all := make([]byte, 32<<20)
	r, err := s.Receive(t.Context(), sumOf(all), 0)
	if err != nil {
		t.Fatal(err)
	}
	free = 499 // a twentieth is reserved
	if _, err := r.Write(all); !errors.Is(err, blob.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	free = 1000
	if err := receive(t, s, sumOf(all), 0, all, len(all)); err != nil { // resumes
		t.Errorf("receive after space was freed: %v", err)
	}
}
