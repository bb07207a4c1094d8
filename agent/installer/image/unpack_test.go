package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// tarball returns an archive with one file.
func tarball(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "a", Mode: 0o644, Size: 100000})
	_, err2 := w.Write(bytes.Repeat([]byte("a"), 100000))
	if err := errors.Join(err, err2, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sent is a source that has all its bytes.
type sent struct {
	*bytes.Reader
	all []byte
}

func (s *sent) Received() int64 { return s.Reader.Size() - int64(s.Len()) }
func (s *sent) Size() int64     { return s.Reader.Size() }
func (s *sent) Sum() string     { return sum(s.all[:s.Received()]) }

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func TestUnpackJob(t *testing.T) {
	plain := tarball(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("the disk is broken")
	tests := []struct {
		name, compression string
		b                 []byte
		sum               string // default: the correct one
		into              error
		want              string // empty: success
		begun             bool   // writes may have begun
	}{
		{"plain", "NONE", plain, "", nil, "", true},
		{"gzip", "GZIP", packed.Bytes(), "", nil, "", true},
		{"another sum", "NONE", plain, strings.Repeat("0", 64), nil, "checksum of image root is ", true},
		{"no archive", "NONE", bytes.Repeat([]byte("x"), 4096), "", nil, "is it really a TAR of a root file system", false},
		{"no archive, and the wrong bytes", "NONE", bytes.Repeat([]byte("x"), 4096), strings.Repeat("0", 64), nil,
			"checksum of image root is ", false},
		{"the wrong compression", "GZIP", plain, "", nil, "and its compression GZIP?", false},
		{"empty archive", "NONE", make([]byte, 10240), "", nil, "it is empty", false},
		{"bad contents", "NONE", plain, "",
			&ContentError{What: `entry "../x"`,
				Err: errors.New("its name leads upwards (..)")},
			`entry "../x": its name leads upwards (..): its checksum is right`, true},
		{"bad contents, and the wrong bytes", "NONE", plain, strings.Repeat("0", 64),
			&ContentError{What: "in it", Err: errors.New("bad")}, "checksum of image root is ", true},
		{"the disk", "NONE", plain, "", stop, "write image root: the disk is broken", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			prepared, got, percent := false, int64(0), 0
			j := Job{Name: "root", SHA256: tt.sum, Compression: tt.compression, Format: "TAR", DiskSize: 1 << 30,
				Prepare:  func(context.Context) (bool, error) { prepared = true; return false, nil },
				Progress: func(p int) { percent = p }}
			if j.SHA256 == "" {
				j.SHA256 = sum(tt.b)
			}
			r, err := j.Unpack(t.Context(), &sent{bytes.NewReader(tt.b), tt.b},
				func(_ context.Context, archive io.Reader) error {
					if !prepared {
						t.Error("got data unpacked before prepare was called")
					}
					if tt.into != nil {
						return tt.into
					}
					n, err := io.Copy(io.Discard, io.LimitReader(archive, 512+100000)) // up to the end mark
					got = n
					return err
				})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || prepared != tt.begun {
					t.Errorf("got %v, begun: %v, want %q, %v", err, prepared, tt.want, tt.begun)
				}
				return
			}
			if err != nil || got != 512+100000 || r.ImageBytes != int64(len(plain)) || r.SentBytes != int64(len(tt.b)) ||
				percent != 100 {
				t.Errorf("got %+v, %v, %d bytes unpacked, %d %%", r, err, got, percent)
			}
		})
	}
}

// dripping returns few bytes at a time, like a network.
type dripping struct{ *sent }

func (d dripping) Read(p []byte) (int, error) { return d.sent.Read(p[:min(len(p), 4<<10)]) }

// A decoder reads ahead in its own goroutine. Code that finds the reason of an invalid tar must not
// read concurrently, which the race detector shows.
func TestUnpackStopsTheDecoder(t *testing.T) {
	noise := make([]byte, 8<<20) // more than the decoder buffers
	_, _ = rand.NewChaCha8([32]byte{4}).Read(noise)
	tests := []struct {
		name string
		b    []byte
		into error
		want string
	}{
		{"no archive", noise, nil, "is it really a TAR of a root file system"},
		{"bad contents", slices.Concat(tarball(t), noise), &ContentError{What: "in it", Err: errors.New("bad")},
			"in it: bad: its checksum is right"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := packed(t, "ZSTD", tt.b)
			j := Job{Name: "root", SHA256: sum(b), Compression: "ZSTD", Format: "TAR", DiskSize: 1 << 30}
			_, err := j.Unpack(t.Context(), dripping{&sent{bytes.NewReader(b), b}},
				func(context.Context, io.Reader) error { return tt.into })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
