package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// partial is how the files end that are not whole yet.
const partial = ".part"

// maxReserve is how much of a disk stays free at most: the log of the cluster lies on it too.
const maxReserve = 2 << 30

// The ways in which a file is not kept.
var (
	// ErrSum is a file whose bytes are not those that its name says. They are gone.
	ErrSum = errors.New("wrong checksum")
	// ErrFull is a file that does not fit on the disk. What was received is kept.
	ErrFull = errors.New("the disk is full")
	// ErrSize is a file that has more or fewer bytes than was said.
	ErrSize = errors.New("wrong size")
	// ErrBusy is a file that somebody else receives right now.
	ErrBusy = errors.New("the file is being received already")
)

// Config is what a Store can be told.
type Config struct {
	// Dir is where the files lie; made with mode 0700.
	Dir string
	// MaxFile is how many bytes a file may have; default 1 TiB.
	MaxFile int64
	// Free tells how many bytes the disk has left, and in all; default: asks the disk.
	Free func(dir string) (free, total int64, err error)
}

// Store keeps files. Its methods may be called by any goroutine.
type Store struct {
	cfg Config

	mu      sync.Mutex
	whole   map[string]int64         // sum → size, of those that were checked since the start
	checks  map[string]chan struct{} // closed when a check is over
	writing map[string]bool
}

// Open opens the directory, and makes it if there is none.
func Open(cfg Config) (*Store, error) {
	if cfg.MaxFile == 0 {
		cfg.MaxFile = 1 << 40
	}
	if cfg.Free == nil {
		cfg.Free = freeSpace
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of images: %w", err)
	}
	return &Store{cfg: cfg, whole: map[string]int64{}, checks: map[string]chan struct{}{}, writing: map[string]bool{}}, nil
}

// valid reports whether a text is a sum, and so fit to be a file's name.
func valid(sum string) bool { return len(sum) == 64 && strings.Trim(sum, "0123456789abcdef") == "" }

func (s *Store) path(sum string) string { return filepath.Join(s.cfg.Dir, sum) }

// Has reports whether the store has all of a file, and its size. The first time since the start it
// reads all of it: a disk can lose what it was given. One whose sum is wrong is removed, and the
// error is ErrSum, once.
func (s *Store) Has(ctx context.Context, sum string) (size int64, ok bool, err error) {
	if !valid(sum) {
		return 0, false, nil
	}
	for {
		s.mu.Lock()
		size, ok := s.whole[sum]
		check := s.checks[sum]
		if !ok && check == nil {
			check = make(chan struct{})
			s.checks[sum] = check
			s.mu.Unlock()
			return s.check(ctx, sum, check)
		}
		s.mu.Unlock()
		if ok {
			return size, true, nil
		}
		select {
		case <-check:
		case <-ctx.Done():
			return 0, false, fmt.Errorf("wait for the check of %s: %w", sum, ctx.Err())
		}
	}
}

func (s *Store) check(ctx context.Context, sum string, done chan struct{}) (int64, bool, error) {
	size, got, err := sumOf(ctx, s.path(sum))
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(done)
	delete(s.checks, sum)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("read image file %s: %w", sum, err)
	case got != sum:
		if err := os.Remove(s.path(sum)); err != nil {
			return 0, false, fmt.Errorf("remove image file %s, whose bytes sum up to %s: %w", sum, got, err)
		}
		return 0, false, fmt.Errorf("image file %s on this peer's disk was damaged, it sums up to %s: it was removed: %w", sum, got, ErrSum)
	}
	s.whole[sum] = size
	return size, true, nil
}

// sumOf reads a file to its end, unless ctx ends before.
func sumOf(ctx context.Context, path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	size, err = io.Copy(h, contextReader{ctx: ctx, r: f})
	return size, hex.EncodeToString(h.Sum(nil)), err
}

// contextReader ends when the context does.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Open opens a file that the store has whole; fs.ErrNotExist when it has not. The caller closes it.
func (s *Store) Open(ctx context.Context, sum string) (*os.File, error) {
	_, ok, err := s.Has(ctx, sum)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("open image file %.64q: %w", sum, fs.ErrNotExist)
	}
	f, err := os.Open(s.path(sum))
	if errors.Is(err, fs.ErrNotExist) { // somebody has tidied up
		s.forget(sum)
	}
	return f, err
}

func (s *Store) forget(sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.whole, sum)
}

// Received reports how much of a file there is that is not whole.
func (s *Store) Received(sum string) int64 {
	if !valid(sum) {
		return 0
	}
	st, err := os.Stat(s.path(sum) + partial)
	if err != nil {
		return 0
	}
	return st.Size()
}

// Keep reports that a file is in use at that time: see Sweep.
func (s *Store) Keep(sum string, at time.Time) {
	if valid(sum) {
		_ = os.Chtimes(s.path(sum), at, at) // there is none, or the next time will do
	}
}

// Sweep removes the files that were in use before a time at last and are not in use now, whole or
// not.
func (s *Store) Sweep(before time.Time, used func(sum string) bool) (removed []string, err error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	for _, e := range entries {
		sum, _ := strings.CutSuffix(e.Name(), partial)
		st, serr := e.Info()
		if serr != nil || !valid(sum) || st.IsDir() || !st.ModTime().Before(before) || used(sum) || !s.remove(sum, e.Name(), before) {
			continue
		}
		removed = append(removed, e.Name())
	}
	return removed, nil
}

// remove looks at the time again: a caller may have announced meanwhile that it will use it.
func (s *Store) remove(sum, name string, before time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := os.Stat(filepath.Join(s.cfg.Dir, name))
	if s.writing[sum] || err != nil || !st.ModTime().Before(before) {
		return false
	}
	delete(s.whole, sum)
	return os.Remove(filepath.Join(s.cfg.Dir, name)) == nil
}

// Usage returns how many files there are, whole or not, and their bytes.
func (s *Store) Usage() (files int, bytes int64) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return 0, 0
	}
	for _, e := range entries {
		if st, err := e.Info(); err == nil && !st.IsDir() {
			files, bytes = files+1, bytes+st.Size()
		}
	}
	return files, bytes
}
