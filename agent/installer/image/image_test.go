package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

const imageSize = 5<<20 + 1234

// picture returns an image of noise with a run of zeros, and an MBR whose partition ends at the end
// of the image.
func picture() []byte {
	b := make([]byte, imageSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	clear(b[2<<20 : 4<<20])
	clear(b[:512])
	copy(b, "boot code")
	b[510], b[511] = 0x55, 0xaa
	b[446+4] = 0x83
	binary.LittleEndian.PutUint32(b[446+8:], 2048)
	binary.LittleEndian.PutUint32(b[446+12:], imageSize/512-2048)
	return b
}

// packed compresses an image.
func packed(t *testing.T, kind string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch kind {
	case "NONE":
		return b
	case "GZIP":
		z := gzip.NewWriter(&out)
		_, err := z.Write(b)
		if err := errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
	case "ZSTD":
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			t.Fatal(err)
		}
		_, err = z.Write(b) // a stream: its frame has no size
		if err := errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
	case "ZSTD, sized":
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			t.Fatal(err)
		}
		return z.EncodeAll(b, nil)
	}
	return out.Bytes()
}

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// serve returns the URL of a server with these bytes.
func serve(t *testing.T, wrap func(http.Handler) http.Handler, b []byte) string {
	t.Helper()
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	})
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/disk"
}

// cut ends each answer after this number of bytes.
func cut(after int) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&cutWriter{w, after}, r) })
	}
}

type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if len(p) <= c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// memory is a disk with old data. Writes beyond its end fail, as on a real disk.
type memory []byte

func newDisk(size int) memory { return bytes.Repeat([]byte{0xaa}, size) }

func (m memory) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(m).ReadAt(p, off) }

func (m memory) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > int64(len(m)) {
		return 0, errors.New("no space left on device")
	}
	return copy(m[off:], p), nil
}

func (m memory) Sync() error { return nil }

func TestWrite(t *testing.T) {
	plain := picture()
	for _, kind := range []string{"NONE", "GZIP", "ZSTD", "ZSTD, sized"} {
		for _, zeroed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, zeroed %v", kind, zeroed), func(t *testing.T) {
				sent := packed(t, kind, plain)
				compression, _, _ := strings.Cut(kind, ",")
				f := newDisk(8 << 20)
				d := NewDownload(t.Context(), DownloadConfig{Name: "x", URLs: []string{serve(t, nil, sent)},
					Size: int64(len(sent))})
				var percent atomic.Int64
				job := Job{
					Name: "x", SHA256: sumOf(sent), Compression: compression, DiskSize: 8 << 20,
					Progress: func(p int) { percent.Store(int64(p)) },
					Prepare: func(context.Context) (bool, error) {
						if !zeroed {
							return false, nil
						}
						_, err := f.WriteAt(make([]byte, 8<<20), 0)
						return true, err
					},
				}
				got, err := job.Write(t.Context(), d, f)
				if err != nil {
					t.Fatal(err)
				}
				if got.ImageBytes != imageSize || got.SentBytes != int64(len(sent)) || percent.Load() != 100 {
					t.Errorf("got %+v and %d %%", got, percent.Load())
				}
				if !bytes.Equal(f[:imageSize], plain) {
					t.Error("got a disk without the image")
				}
			})
		}
	}
}

// A connection that breaks repeatedly only costs time: the rest of the bytes comes from other
// peers, or over another connection.
func TestResume(t *testing.T) {
	plain := picture()
	sent := packed(t, "ZSTD", plain)
	noRanges := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { r.Header.Del("Range"); next.ServeHTTP(w, r) })
	}
	hang := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				w.Header().Set("Content-Length", fmt.Sprint(len(sent)))
				_, _ = w.Write(sent[:1<<20])
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	gone := func(http.Handler) http.Handler { return http.NotFoundHandler() }
	tests := []struct {
		name string
		urls []string
	}{
		{"cut off", []string{serve(t, cut(1<<20), sent)}},
		{"the next peer has it", []string{serve(t, gone, sent), serve(t, cut(2<<20), sent), "http://127.0.0.1:1/",
			serve(t, nil, sent)}},
		{"proxy without ranges", []string{serve(t, cut(1<<20), sent), serve(t, noRanges, sent)}},
		{"silence", []string{serve(t, hang, sent)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newDisk(8 << 20)
			d := NewDownload(t.Context(), DownloadConfig{Name: "x", URLs: tt.urls, Stall: 300 * time.Millisecond})
			if _, err := (Job{Name: "x", SHA256: sumOf(sent), Compression: "ZSTD", DiskSize: 8 << 20}).Write(t.Context(), d,
				f); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(f[:imageSize], plain) {
				t.Error("got a disk without the image")
			}
		})
	}
}

// blank reports whether the start of the disk cannot boot.
func blank(b []byte) bool { return bytes.Equal(b[:HeadSize], make([]byte, HeadSize)) }

func TestWriteFails(t *testing.T) {
	plain := picture()
	gz, zs, sized := packed(t, "GZIP", plain), packed(t, "ZSTD", plain), packed(t, "ZSTD, sized", plain)
	broken := bytes.Clone(zs)
	broken[len(broken)/2] ^= 0xff
	noTable := make([]byte, imageSize)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(noTable)
	copy(noTable, "XFSB")
	bare := packed(t, "ZSTD", noTable)
	tests := []struct {
		name        string
		sent        []byte
		compression string
		sum         string
		disk        int
		want        string
		touched     bool // got a write to the disk
	}{
		{"wrong checksum", zs, "ZSTD", sumOf([]byte("x")), 8 << 20, "checksum of image debian-13 is " + sumOf(zs) +
			", want " + sumOf([]byte("x")), true},
		{"damaged", broken, "ZSTD", sumOf(zs), 8 << 20, "checksum of image debian-13", true},
		{"cut short", zs[:len(zs)/2], "ZSTD", sumOf(zs), 8 << 20, "checksum of image debian-13", true},
		{"wrong compression", zs, "GZIP", sumOf(zs), 8 << 20, "is its compression really GZIP?", false},
		{"truncated before it was added", gz[:len(gz)/2], "GZIP", sumOf(gz[:len(gz)/2]), 8 << 20,
			"is its compression really GZIP?", true},
		{"empty", nil, "NONE", sumOf(nil), 8 << 20, "it is empty", false},
		{"raw, too large", plain, "NONE", sumOf(plain), 4 << 20,
			"needs a disk of 5243904 bytes (5 MB) and this one has 4194304 (4 MB): nothing was written", false},
		{"zstd with its size", sized, "ZSTD", sumOf(sized), 4 << 20, "nothing was written", false},
		{"size in its partition table", gz, "GZIP", sumOf(gz), 4 << 20, "nothing was written", false},
		{"unknown size", bare, "ZSTD", sumOf(bare), 4 << 20, "does not boot", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newDisk(tt.disk)
			d := NewDownload(t.Context(), DownloadConfig{Name: "debian-13", URLs: []string{serve(t, nil, tt.sent)}})
			_, err := (Job{Name: "debian-13", SHA256: tt.sum, Compression: tt.compression,
				DiskSize: uint64(tt.disk)}).Write(t.Context(), d, f)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v\nwant %q", err, tt.want)
			}
			if untouched := bytes.Equal(f, newDisk(tt.disk)); untouched == tt.touched {
				t.Errorf("got written %v, want %v", !untouched, tt.touched)
			}
			if tt.touched && !blank(f) {
				t.Error("got a bootable disk")
			}
		})
	}
}

func TestNoPeerHasImage(t *testing.T) {
	d := NewDownload(t.Context(), DownloadConfig{Name: "x", URLs: []string{"http://127.0.0.1:1/"},
		GiveUp: time.Millisecond})
	_, err := (Job{Name: "x", Compression: "NONE", DiskSize: 1 << 20}).Write(t.Context(), d, newDisk(1<<20))
	if err == nil || !strings.Contains(err.Error(), "no peer has sent anything for 1ms") ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}

// A canceled order stops the write with its reason.
func TestCanceledOrder(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("the session is over")
	sent := picture()
	f := newDisk(8 << 20)
	d := NewDownload(ctx, DownloadConfig{Name: "x", URLs: []string{serve(t, nil, sent)}})
	job := Job{Name: "x", SHA256: sumOf(sent), Compression: "NONE", DiskSize: 8 << 20,
		Progress: func(int) { cancel(over) }}
	if _, err := job.Write(ctx, d, f); !errors.Is(err, over) {
		t.Errorf("got %v, want %v", err, over)
	}
	if !blank(f) {
		t.Error("got a bootable disk")
	}
}

func TestFailedPrepareStopsWrite(t *testing.T) {
	no := errors.New("no")
	sent := picture()
	f := newDisk(8 << 20)
	d := NewDownload(t.Context(), DownloadConfig{Name: "x", URLs: []string{serve(t, nil, sent)}})
	job := Job{Name: "x", SHA256: sumOf(sent), Compression: "NONE", DiskSize: 8 << 20,
		Prepare: func(context.Context) (bool, error) { return false, no }}
	if _, err := job.Write(t.Context(), d, f); !errors.Is(err, no) {
		t.Errorf("got %v, want %v", err, no)
	}
	if !bytes.Equal(f, bytes.Repeat([]byte{0xaa}, 8<<20)) {
		t.Error("got a write to the disk")
	}
}
