package images

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// TestBusyIsNotCached checks that the response of an overloaded peer is not stored by caches, which
// otherwise keep the response of that URL permanently.
func TestBusyIsNotCached(t *testing.T) {
	sum, state := strings.Repeat("ab", 32), fsm.New()
	entry, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{{FeatureLevel: 1,
		Time: timestamppb.Now(), Op: &internalv1.Command_PutImage{
			PutImage: &internalv1.PutImage{Image: &holdfastv1.Image{Name: "debian",
				Disk: &holdfastv1.Image_File{Sha256: sum, SizeBytes: 1}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if r := state.Apply(1, 1, entry); r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
	d := New(Config{}, nil, nil, state)
	for i := range maxDownloads {
		if err := d.downloads.acquire(strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	mux := auth.Open().NewMux()
	d.Routes(mux, nil)
	for _, path := range []string{"/images/sha256/" + sum, "/images/debian/disk"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		if got := w.Header().Get("Cache-Control"); w.Code != http.StatusServiceUnavailable || got != "no-store" ||
			w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: got %d with Cache-Control %q, want 503 with no-store", path, w.Code, got)
		}
	}
}
