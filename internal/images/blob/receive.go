package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"syscall"
)

// syncEvery is how many bytes are written before they are brought to the disk: the log of the
// cluster waits for the same disk, and would wait long for all of an image at once.
const syncEvery = 32 << 20

// Receiver takes the bytes of one file. It is for one goroutine, which must Close it.
type Receiver struct {
	s       *Store
	sum     string
	size    int64 // 0: not known
	f       *os.File
	hash    hash.Hash
	at      int64
	unsaved int64
}

// Receive goes on with a file where it broke off: Offset says where. Size is what it will have, 0
// when that is not known. ErrBusy while somebody else receives it, ErrFull when it has no room,
// ErrSize when it is too big.
func (s *Store) Receive(ctx context.Context, sum string, size int64) (r *Receiver, err error) {
	switch {
	case !valid(sum):
		return nil, fmt.Errorf("receive a file: %.80q is not a SHA-256", sum)
	case size < 0 || size > s.cfg.MaxFile:
		return nil, fmt.Errorf("receive image file %s: it has %d bytes, at most %d are taken: %w", sum, size, s.cfg.MaxFile, ErrSize)
	case !s.begin(sum):
		return nil, ErrBusy
	}
	r = &Receiver{s: s, sum: sum, size: size, hash: sha256.New()}
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	r.f, err = os.OpenFile(s.path(sum)+partial, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, r.word(err)
	}
	// What is there may be of a file that broke off in a crash, and not be what was received. Then
	// the sum at the end is wrong.
	if r.at, err = io.Copy(r.hash, contextReader{ctx: ctx, r: r.f}); err != nil {
		return nil, r.word(err)
	}
	if size > 0 && r.at > size {
		if err := r.restart(); err != nil {
			return nil, err
		}
	}
	return r, r.room(size - r.at)
}

func (s *Store) begin(sum string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing[sum] {
		return false
	}
	s.writing[sum] = true
	return true
}

// Offset reports how many bytes have been received: which one is next.
func (r *Receiver) Offset() int64 { return r.at }

// Restart forgets what was received.
func (r *Receiver) Restart() error { return r.restart() }

func (r *Receiver) restart() error {
	r.hash.Reset()
	r.at, r.unsaved = 0, 0
	if err := r.f.Truncate(0); err != nil {
		return r.word(err)
	}
	_, err := r.f.Seek(0, io.SeekStart)
	return r.word(err)
}

// Write implements io.Writer. The error is ErrFull or ErrSize when that is why.
func (r *Receiver) Write(p []byte) (int, error) {
	most := r.s.cfg.MaxFile
	if r.size > 0 {
		most = r.size
	}
	if r.at+int64(len(p)) > most {
		return 0, fmt.Errorf("receive image file %s: it has more than the %d bytes that it may have: %w", r.sum, most, ErrSize)
	}
	n, err := r.f.Write(p)
	r.hash.Write(p[:n])
	r.at += int64(n)
	r.unsaved += int64(n)
	if err == nil && r.unsaved >= syncEvery {
		r.unsaved = 0
		if err = r.f.Sync(); err == nil {
			return n, r.room(0)
		}
	}
	return n, r.word(err)
}

// Commit makes the file one that the store has, if all of it has come and its sum is right; else it
// is as if none of it had come. When it returns nil the file is on the disk.
func (r *Receiver) Commit() error {
	if r.size > 0 && r.at != r.size {
		return fmt.Errorf("receive image file %s: it has ended after %d of %d bytes: %w", r.sum, r.at, r.size, ErrSize)
	}
	if got := hex.EncodeToString(r.hash.Sum(nil)); got != r.sum {
		at := r.at
		return errors.Join(fmt.Errorf("receive image file %s: its %d bytes sum up to %s: %w", r.sum, at, got, ErrSum), r.restart())
	}
	if err := r.f.Sync(); err != nil {
		return r.word(err)
	}
	// A crash here leaves a part that is whole, and the next Receive finds it so.
	if err := os.Rename(r.s.path(r.sum)+partial, r.s.path(r.sum)); err != nil {
		return r.word(err)
	}
	if err := syncDir(r.s.cfg.Dir); err != nil {
		return r.word(err)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.whole[r.sum] = r.at
	return nil
}

// Close lets others receive the file. What has come of it is kept.
func (r *Receiver) Close() error {
	r.s.mu.Lock()
	delete(r.s.writing, r.sum)
	r.s.mu.Unlock()
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}

// room reports whether the disk has room for so many more bytes, and what must stay free.
func (r *Receiver) room(more int64) error {
	free, total, err := r.s.cfg.Free(r.s.cfg.Dir)
	if err != nil {
		return r.word(err)
	}
	if reserve := min(maxReserve, total/20); free-max(0, more) < reserve {
		return fmt.Errorf("receive image file %s: %d bytes are still to come, the disk of %s has %d free, and %d of them must stay free for the cluster's log: delete images, or give it a bigger disk: %w",
			r.sum, max(0, more), r.s.cfg.Dir, free, reserve, ErrFull)
	}
	return nil
}

// word reports what an error of the disk was about.
func (r *Receiver) word(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("receive image file %s: %w after %d bytes: delete images, or give %s a bigger disk", r.sum, ErrFull, r.at, r.s.cfg.Dir)
	}
	return fmt.Errorf("receive image file %s: %w", r.sum, err)
}

// syncDir brings the names in a directory to the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
