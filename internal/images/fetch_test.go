package images_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// source is a web server with a file and configurable failures.
type source struct {
	*httptest.Server
	asked, ranges atomic.Int64
	broken        atomic.Int64 // number of responses that are interrupted half-way
}

func newSource(t *testing.T, all []byte, trouble func(s *source, w http.ResponseWriter, r *http.Request) bool) *source {
	s := &source{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if r.Header.Get("Range") != "" {
			s.ranges.Add(1)
		}
		if trouble != nil && trouble(s, w, r) {
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(all))
	}))
	t.Cleanup(s.Close)
	return s
}

// half sends half of the rest and breaks the connection, as often as configured.
func half(all []byte) func(s *source, w http.ResponseWriter, r *http.Request) bool {
	return func(s *source, w http.ResponseWriter, r *http.Request) bool {
		if s.broken.Add(-1) < 0 {
			return false
		}
		var at int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &at); err == nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(all)-1, len(all)))
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(all)-at))
		if at > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(all[at : at+(len(all)-at)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestFetchFromURL(t *testing.T) {
	all := someBytes(1<<20, 1)
	status := func(code int) func(*source, http.ResponseWriter, *http.Request) bool {
		return func(_ *source, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
	}
	for _, tt := range []struct {
		name    string
		broken  int64
		trouble func(*source, http.ResponseWriter, *http.Request) bool
		size    int64
		sum     string
		words   string // part of the expected error; empty: success
	}{
		{name: "complete", size: int64(len(all))},
		{name: "unknown size"},
		{name: "breaks off at half, repeatedly", broken: 3, trouble: half(all)},
		{name: "no support for ranges", trouble: func(s *source, w http.ResponseWriter, r *http.Request) bool {
			if s.asked.Load() == 1 {
				return half(all)(s, w, r)
			}
			_, _ = w.Write(all)
			return true
		}, broken: 1},
		{name: "busy at first", trouble: func(s *source, w http.ResponseWriter, r *http.Request) bool {
			if s.asked.Load() > 2 {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}},
		{name: "sends a different range", broken: 1,
			trouble: func(s *source, w http.ResponseWriter, r *http.Request) bool {
				if s.asked.Load() != 2 {
					return half(all)(s, w, r)
				}
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 5-%d/%d", len(all)-1, len(all)))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(all[5:])
				return true
			}},
		{name: "sends nothing any more", trouble: func(s *source, w http.ResponseWriter, r *http.Request) bool {
			if s.asked.Load() > 1 {
				return false
			}
			_, _ = w.Write(all[:1000])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}},
		{name: "missing", trouble: status(http.StatusNotFound), words: "the server answered 404 Not Found"},
		{name: "may not be read", trouble: status(http.StatusForbidden), words: "the server answered 403 Forbidden"},
		{name: "has another size", size: 17, words: "the file has 1048576 bytes, but the image states 17"},
		{name: "has another sum", sum: sumOf([]byte("other")), words: "wrong checksum"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := newSource(t, all, tt.trouble)
			src.broken.Store(tt.broken)
			l := newLab(t, 1).start()
			sum := tt.sum
			if sum == "" {
				sum = sumOf(all)
			}
			l.add("debian", &holdfastv1.Image_File{Url: src.URL + "/disk.raw?X-Signature=topsecret", Sha256: sum,
				SizeBytes: tt.size})
			p := l.peers[0]
			if tt.words == "" {
				p.has(sum)
				if tt.broken > 1 && src.ranges.Load() < tt.broken {
					t.Errorf("got %d of %d requests with a range, want at least %d", src.ranges.Load(), src.asked.Load(), tt.broken)
				}
				return
			}
			var words string
			l.until(func() bool { words = p.depot.Copies(t.Context(), sum)[0].GetError(); return words != "" },
				"a reason")
			if !strings.Contains(words, tt.words) || strings.Contains(words, "topsecret") {
				t.Errorf("got reason %q, want %q, without the query of the URL", words, tt.words)
			}
			resp, err := http.Get(p.web.URL + "/images/debian/disk")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
				bytes.Contains(body, []byte("127.0.0.1")) {
				t.Errorf("incomplete file: got %s %q", resp.Status, body)
			}
			if asked := src.asked.Load(); asked > 40 {
				t.Errorf("got %d requests to the source", asked)
			}
		})
	}
}

func TestURLIsFetchedOnce(t *testing.T) {
	all := someBytes(3<<20, 2)
	src := newSource(t, all, func(_ *source, _ http.ResponseWriter, r *http.Request) bool {
		select { // long enough for all peers to notice
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
		return false
	})
	l := newLab(t, 3).start()
	f := &holdfastv1.Image_File{Url: src.URL, Sha256: sumOf(all)}
	l.add("debian", f)
	for _, p := range l.peers {
		p.has(f.GetSha256())
	}
	if got := src.asked.Load(); got != 1 {
		t.Errorf("got %d requests of three peers, want 1", got)
	}
}

func TestFollowerFetchesURLWithoutLeader(t *testing.T) {
	all := someBytes(1000, 3)
	src := newSource(t, all, nil)
	l := newLab(t, 3)
	l.grace = 50 * time.Millisecond
	l.start(l.peers[1]) // the leader p0 does not answer
	l.add("debian", &holdfastv1.Image_File{Url: src.URL, Sha256: sumOf(all)})
	l.peers[1].has(sumOf(all))
}

func TestFetchFromPeers(t *testing.T) {
	all := someBytes(20<<20, 4)
	l := newLab(t, 3)
	l.brake = make(chan struct{})
	l.start(l.peers[0], l.peers[1])
	sum := l.peers[0].put(all)
	l.peers[1].put(all)
	l.add("debian", &holdfastv1.Image_File{Sha256: sum, SizeBytes: int64(len(all))})
	p := l.peers[2]
	l.start(p)
	l.until(func() bool { return p.store.Received(sum) > 1<<20 }, "the first bytes")
	l.peers[0].stop() // the source of the fetch
	close(l.brake)
	p.has(sum)
	f, err := p.store.Open(t.Context(), sum)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, all) {
		t.Errorf("got another file, or error %v", err)
	}
}
