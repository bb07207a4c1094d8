package archive_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/holdfast-metal/holdfast/internal/archive/s3"
)

// TestRefusedRemoval checks that a bucket that refuses to delete costs no goroutine for each try.
func TestRefusedRemoval(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("runs-of-prod"); err != nil {
		t.Fatal(err)
	}
	all := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		all.ServeHTTP(w, r)
	}))
	defer server.Close()
	s, err := s3.New(s3.Config{Endpoint: strings.TrimPrefix(server.URL, "http://"), Bucket: "runs-of-prod",
		Region: "eu-1", Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := s.Put(t.Context(), fmt.Sprintf("runs/run-1/%d.zst", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(t.Context(), "runs/run-1/"); err == nil || !strings.Contains(err.Error(), "runs/run-1/0.zst") {
		t.Errorf("got error %v, want one that names the first object", err)
	}
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stacks.String(), ").ListObjects") {
		t.Error("got a goroutine that still lists the bucket")
	}
}
