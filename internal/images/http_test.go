package images_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestDownloads(t *testing.T) {
	all := someBytes(100_000, 7)
	l := newLab(t, 1).start()
	p := l.peers[0]
	sum := p.put(all)
	unused := p.put([]byte("uploaded, and of no image"))
	l.add("debian", &holdfastv1.Image_File{Sha256: sum, SizeBytes: int64(len(all))})
	etag := `"` + sum + `"`
	for _, tt := range []struct {
		method, path string
		header       [2]string
		code         int
		body         []byte
	}{
		{"GET", "/images/debian/disk", [2]string{}, 200, all},
		{"HEAD", "/images/debian/disk", [2]string{}, 200, nil},
		{"GET", "/images/sha256/" + sum, [2]string{}, 200, all},
		{"GET", "/images/debian/disk", [2]string{"Range", "bytes=1000-1999"}, 206, all[1000:2000]},
		{"GET", "/images/sha256/" + sum, [2]string{"Range", "bytes=-10"}, 206, all[len(all)-10:]},
		{"GET", "/images/debian/disk", [2]string{"Range", "bytes=100000-"}, 416, nil},
		{"GET", "/images/sha256/" + sum, [2]string{"Range", "bytes=100000-"}, 416, nil},
		{"GET", "/images/debian/disk", [2]string{"If-None-Match", etag}, 304, nil},
		{"GET", "/images/debian/kernel", [2]string{}, 404, nil},
		{"GET", "/images/debian/passwd", [2]string{}, 404, nil},
		{"GET", "/images/none/disk", [2]string{}, 404, nil},
		{"GET", "/images/sha256/" + unused, [2]string{}, 404, nil},
		{"GET", "/images/sha256/..%2f..%2fetc%2fpasswd", [2]string{}, 404, nil},
		{"POST", "/images/debian/disk", [2]string{}, 405, nil},
	} {
		t.Run(tt.method+" "+tt.path+" "+tt.header[1], func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, p.web.URL+tt.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if tt.header[0] != "" {
				req.Header.Set(tt.header[0], tt.header[1])
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.code || tt.body != nil && !bytes.Equal(body, tt.body) {
				t.Errorf("got %s and %d bytes, want %d and %d", resp.Status, len(body), tt.code, len(tt.body))
			}
			if got := resp.Header.Get("Cache-Control"); tt.code >= 400 && strings.Contains(got, "immutable") {
				t.Errorf("error: got Cache-Control %q, want no-store", got)
			}
			if tt.code < 300 && (resp.Header.Get("ETag") != etag || !strings.HasPrefix(resp.Header.Get("Repr-Digest"),
				"sha-256=:")) {
				t.Errorf("headers: %v", resp.Header)
			}
		})
	}
}
