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

// syncEvery is the number of bytes between two syncs. The cluster's log is on the same disk
// and would wait long for a whole image.
const syncEvery = 32 << 20

// Receiver receives the bytes of one file. It is for one goroutine, which must Close it.
type Receiver struct {
	s       *Store
	sum     string
	size    int64 // 0 if unknown
	f       *os.File
	hash    hash.Hash
	at      int64
	unsaved int64
}

// Receive starts or resumes receiving a file; Offset returns the resume position. size is
// the file's size, or 0 if unknown. The error is ErrBusy if the file is already being
// received, ErrFull if the disk has no room, and ErrSize if the file is too big.
func (s *Store) Receive(ctx context.Context, sum string, size int64) (r *Receiver, err error) {
	switch {
	case !valid(sum):
		return nil, fmt.Errorf("receive a file: %.80q is not a SHA-256", sum)
	case size < 0 || size > s.cfg.MaxFile:
		return nil, fmt.Errorf("receive image file %s: it has %d bytes, the limit is %d: %w",
			sum, size, s.cfg.MaxFile, ErrSize)
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
		return nil, r.wrap(err)
	}
	// After a crash, a partial file may differ from the received bytes. The checksum at the
	// end then fails.
	if r.at, err = io.Copy(r.hash, contextReader{ctx: ctx, r: r.f}); err != nil {
		return nil, r.wrap(err)
	}
	if size > 0 && r.at > size {
		if err := r.Restart(); err != nil {
			return nil, err
		}
	}
	return r, r.checkSpace(size - r.at)
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

// Offset returns the number of bytes received so far.
func (r *Receiver) Offset() int64 { return r.at }

// Restart discards the received bytes.
func (r *Receiver) Restart() error {
	r.hash.Reset()
	r.at, r.unsaved = 0, 0
	if err := r.f.Truncate(0); err != nil {
		return r.wrap(err)
	}
	_, err := r.f.Seek(0, io.SeekStart)
	return r.wrap(err)
}

// Write implements io.Writer. The error wraps ErrFull or ErrSize if that is the cause.
func (r *Receiver) Write(p []byte) (int, error) {
	most := r.s.cfg.MaxFile
	if r.size > 0 {
		most = r.size
	}
	if r.at+int64(len(p)) > most {
		return 0, fmt.Errorf("receive image file %s: it has more than the expected %d bytes: %w", r.sum, most, ErrSize)
	}
	n, err := r.f.Write(p)
	r.hash.Write(p[:n])
	r.at += int64(n)
	r.unsaved += int64(n)
	if err == nil && r.unsaved >= syncEvery {
		r.unsaved = 0
		if err = r.f.Sync(); err == nil {
			return n, r.checkSpace(0)
		}
	}
	return n, r.wrap(err)
}

// Commit adds the file to the store if it is complete and its checksum is right. Otherwise
// all received bytes are discarded. When Commit returns nil, the file is on disk.
func (r *Receiver) Commit() error {
	if r.size > 0 && r.at != r.size {
		return fmt.Errorf("receive image file %s: it ended after %d of %d bytes: %w", r.sum, r.at, r.size, ErrSize)
	}
	if got := hex.EncodeToString(r.hash.Sum(nil)); got != r.sum {
		at := r.at
		return errors.Join(
			fmt.Errorf("receive image file %s: the checksum of its %d bytes is %s: %w", r.sum, at, got, ErrSum),
			r.Restart(),
		)
	}
	if err := r.f.Sync(); err != nil {
		return r.wrap(err)
	}
	// A crash here leaves a complete partial file, which the next Receive finishes.
	if err := os.Rename(r.s.path(r.sum)+partial, r.s.path(r.sum)); err != nil {
		return r.wrap(err)
	}
	if err := syncDir(r.s.cfg.Dir); err != nil {
		return r.wrap(err)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.whole[r.sum] = r.at
	return nil
}

// Close lets others receive the file. The received bytes are kept.
func (r *Receiver) Close() error {
	r.s.mu.Lock()
	delete(r.s.writing, r.sum)
	r.s.mu.Unlock()
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}

// checkSpace checks that the disk has room for that many more bytes and the reserve.
func (r *Receiver) checkSpace(more int64) error {
	free, total, err := r.s.cfg.Free(r.s.cfg.Dir)
	if err != nil {
		return r.wrap(err)
	}
	if reserve := min(maxReserve, total/20); free-max(0, more) < reserve {
		return fmt.Errorf("receive image file %s: %d more bytes are expected, the disk of %s has %d free, "+
			"and %d of them are reserved for the cluster's log: delete images, or use a bigger disk: %w",
			r.sum, max(0, more), r.s.cfg.Dir, free, reserve, ErrFull)
	}
	return nil
}

// wrap adds the file to an error of the disk.
func (r *Receiver) wrap(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("receive image file %s: %w after %d bytes: delete images, or give %s a bigger disk",
			r.sum, ErrFull, r.at, r.s.cfg.Dir)
	}
	return fmt.Errorf("receive image file %s: %w", r.sum, err)
}

// syncDir syncs a directory, so that new file names survive a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
