package blob

import (
	"cmp"
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

// partial is the suffix of incomplete files.
const partial = ".part"

// maxReserve bounds the space that is kept free for the cluster's log, which is on the same
// disk.
const maxReserve = 2 << 30

// The reasons why a file is not stored.
var (
	// ErrSum is returned if a file does not match its checksum. Its bytes are discarded.
	ErrSum = errors.New("wrong checksum")
	// ErrFull is returned if a file does not fit on the disk. The received bytes are kept.
	ErrFull = errors.New("the disk is full")
	// ErrSize is returned if a file is longer or shorter than announced, or too big.
	ErrSize = errors.New("wrong size")
	// ErrBusy is returned if the file is already being received.
	ErrBusy = errors.New("the file is being received already")
)

// Config configures a Store.
type Config struct {
	// Dir is the directory of the files. It is created with mode 0700.
	Dir string
	// MaxFile is the maximum size of a file in bytes; default 1 TiB.
	MaxFile int64
	// Free returns the free and total bytes of the disk; default: those of the file system.
	Free func(dir string) (free, total int64, err error)
}

// Store stores files. Its methods are safe for concurrent use.
type Store struct {
	cfg Config

	mu      sync.Mutex
	whole   map[string]int64         // sum → size of complete files that were checked since the start
	checks  map[string]chan struct{} // by sum; closed when the check has ended
	writing map[string]bool
}

// Open opens the directory, and creates it if needed.
func Open(cfg Config) (*Store, error) {
	cfg.MaxFile = cmp.Or(cfg.MaxFile, 1<<40)
	if cfg.Free == nil {
		cfg.Free = freeSpace
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the image directory: %w", err)
	}
	return &Store{
		cfg:     cfg,
		whole:   map[string]int64{},
		checks:  map[string]chan struct{}{},
		writing: map[string]bool{},
	}, nil
}

// valid reports whether a text is a SHA-256 in hex, and so safe as a file name.
func valid(sum string) bool { return len(sum) == 64 && strings.Trim(sum, "0123456789abcdef") == "" }

func (s *Store) path(sum string) string { return filepath.Join(s.cfg.Dir, sum) }

// Has reports whether the store has a complete file, and returns its size. The first call
// for a file after a start reads and verifies all of it, because disks can lose data. A
// damaged file is removed, and that one call returns ErrSum.
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
			return 0, false, fmt.Errorf("remove damaged image file %s with the checksum %s: %w", sum, got, err)
		}
		return 0, false, fmt.Errorf(
			"image file %s on this peer's disk was damaged (its checksum is %s): it was removed: %w", sum, got, ErrSum)
	}
	s.whole[sum] = size
	return size, true, nil
}

// sumOf reads a whole file and returns its size and SHA-256. It stops early if ctx ends.
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

// contextReader is a Reader that fails once its context has ended.
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

// Open opens a complete file. The error is fs.ErrNotExist if the store does not have it.
// The caller closes the file.
func (s *Store) Open(ctx context.Context, sum string) (*os.File, error) {
	_, ok, err := s.Has(ctx, sum)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("open image file %.64q: %w", sum, fs.ErrNotExist)
	}
	f, err := os.Open(s.path(sum))
	if errors.Is(err, fs.ErrNotExist) { // removed by another process
		s.forget(sum)
	}
	return f, err
}

func (s *Store) forget(sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.whole, sum)
}

// Received returns the number of bytes of an incomplete file.
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

// Keep marks a file as in use at the given time: see Sweep.
func (s *Store) Keep(sum string, at time.Time) {
	if valid(sum) {
		_ = os.Chtimes(s.path(sum), at, at) // no such file, or the next call succeeds
	}
}

// Sweep removes files, complete or not, that were last in use before the given time and
// that used does not report as in use now.
func (s *Store) Sweep(before time.Time, used func(sum string) bool) (removed []string, err error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	for _, e := range entries {
		sum, _ := strings.CutSuffix(e.Name(), partial)
		st, serr := e.Info()
		if serr != nil || !valid(sum) || st.IsDir() || !st.ModTime().Before(before) || used(sum) {
			continue
		}
		if !s.remove(sum, e.Name(), before) {
			continue
		}
		removed = append(removed, e.Name())
	}
	return removed, nil
}

// remove removes a file unless it was marked as in use in the meantime.
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

// Usage returns the number of files, complete or not, and their total size in bytes.
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
