package images

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/internal/images/blob"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestDownloadOfBadFile checks that a download that finds a file damaged counts it, as the check of
// all files does, and that one that cannot read a file fails at once instead of logging each try.
func TestDownloadOfBadFile(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	for _, tt := range []struct {
		name    string
		prepare func(path string) error
		damaged float64
		logs    int
		text    string
	}{
		{"damaged", func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }, 1, 1, "has 0 bytes of it"},
		{"unreadable", func(path string) error { return os.Mkdir(path, 0o700) }, 0, 1, "cannot read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := tt.prepare(filepath.Join(dir, sum)); err != nil {
				t.Fatal(err)
			}
			store, err := blob.Open(blob.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			var logs strings.Builder
			registry := prometheus.NewRegistry()
			d := New(Config{Patience: 300 * time.Millisecond, Registerer: registry,
				Logger: slog.New(slog.NewTextHandler(&logs, nil))}, store, nil, nil)
			w := httptest.NewRecorder()
			d.serve(w, httptest.NewRequest(http.MethodGet, "/images/sha256/"+sum, nil), &holdfastv1.Image_File{Sha256: sum})
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), tt.text) {
				t.Errorf("got %d %q, want 503 and %q", w.Code, w.Body, tt.text)
			}
			if got := strings.Count(logs.String(), "level=ERROR"); got != tt.logs {
				t.Errorf("got %d lines in the log, want %d:\n%s", got, tt.logs, logs.String())
			}
			all, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range all {
				if f.GetName() != "holdfast_image_files_damaged_total" {
					continue
				}
				if got := f.GetMetric()[0].GetCounter().GetValue(); got != tt.damaged {
					t.Errorf("got %v damaged files, want %v", got, tt.damaged)
				}
			}
		})
	}
}
