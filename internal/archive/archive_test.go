package archive_test

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/internal/archive"
	"github.com/holdfast-metal/holdfast/internal/archive/dir"
	"github.com/holdfast-metal/holdfast/internal/archive/s3"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// store is the interface of all archives.
type store interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	Remove(ctx context.Context, folder string) error
}

func seal(t *testing.T, id string) archive.Object {
	t.Helper()
	o, err := archive.Seal(&holdfastv1.Run{RunId: id, Phase: holdfastv1.Run_SUCCEEDED},
		[]*internalv1.LogBlock{{Offset: 0, Size: 3, Payload: []byte("abc")}})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestObjects(t *testing.T) {
	o := seal(t, "run-1")
	got, err := archive.Open(o.Data, o.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	want := &internalv1.ArchivedRun{Run: &holdfastv1.Run{RunId: "run-1", Phase: holdfastv1.Run_SUCCEEDED},
		Log: []*internalv1.LogBlock{{Size: 3, Payload: []byte("abc")}}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if again := seal(t, "run-1"); again.Name != o.Name || !bytes.Equal(again.Data, o.Data) {
		t.Errorf("second archive of the run: got %s, want %s", again.Name, o.Name)
	}
	for i := range o.Data {
		damaged := bytes.Clone(o.Data)
		damaged[i] ^= 1
		if _, err := archive.Open(damaged, o.SHA256); err == nil {
			t.Fatalf("flipped bit in byte %d: got no error", i)
		}
	}
	for _, id := range []string{"", ".", "..", "a/b", "../x", "-x", strings.Repeat("x", 129)} {
		if _, err := archive.Seal(&holdfastv1.Run{RunId: id}, nil); err == nil {
			t.Errorf("object of run id %q: got one, want an error", id)
		}
	}
}

func TestStores(t *testing.T) {
	directory, err := dir.Open(filepath.Join(t.TempDir(), "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	if err := backend.CreateBucket("runs-of-prod"); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("[default]\naws_access_key_id = key\naws_secret_access_key = secret\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	bucket := func(prefix string) store {
		s, err := s3.New(s3.Config{Endpoint: strings.TrimPrefix(server.URL, "http://"), Bucket: "runs-of-prod",
			Prefix: prefix, Region: "eu-1", Plain: true, CredentialsFile: keys})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	stores := map[string]store{"directory": directory, "bucket": bucket(""),
		"bucket with a prefix": bucket("prod/holdfast")}
	// A real server, such as versitygw: host:port over HTTP, with the bucket runs-of-prod
	// and the key and secret above.
	if endpoint := os.Getenv("HOLDFAST_TEST_S3"); endpoint != "" {
		s, err := s3.New(s3.Config{Endpoint: endpoint, Bucket: "runs-of-prod", Prefix: "prod/holdfast", Region: "us-east-1",
			Plain: true, CredentialsFile: keys})
		if err != nil {
			t.Fatal(err)
		}
		stores["bucket of "+endpoint] = s
	}
	for name, s := range stores {
		t.Run(name, func(t *testing.T) { keeps(t, s) })
	}
}

// keeps checks that a store meets the requirements of the executor and the server.
func keeps(t *testing.T, s store) {
	ctx := t.Context()
	a, b := seal(t, "run-1"), seal(t, "run-10") // one id is a prefix of the other; removing one must keep the other
	if _, err := s.Get(ctx, a.Name); !errors.Is(err, archive.ErrNotFound) {
		t.Errorf("read a missing object: got %v, want ErrNotFound", err)
	}
	for range 2 { // repeated by a new leader
		for _, o := range []archive.Object{a, b} {
			if err := s.Put(ctx, o.Name, o.Data); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Get(ctx, o.Name); err != nil || !bytes.Equal(got, o.Data) {
				t.Errorf("read back %s: got %d bytes, %v, want %d", o.Name, len(got), err, len(o.Data))
			}
		}
	}
	for range 2 {
		if err := s.Remove(ctx, "runs/run-1/"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Get(ctx, a.Name); !errors.Is(err, archive.ErrNotFound) {
		t.Errorf("read after the removal: got %v, want ErrNotFound", err)
	}
	if _, err := s.Get(ctx, b.Name); err != nil {
		t.Errorf("read the other object: %v", err)
	}
	for _, bad := range []string{"", "x", "runs", "runs/", "runs//", "runs/../x", "runs/a/../../x", "/runs/a/b",
		"runs/a/b/c", "runs/run-1"} {
		if err := s.Put(ctx, bad, []byte("x")); err == nil {
			t.Errorf("write %q: got no error", bad)
		}
		if err := s.Remove(ctx, bad); err == nil {
			t.Errorf("remove %q: got no error", bad)
		}
	}
}

// TestDirectoryIsPrivate checks that other users of the host cannot read the logs.
func TestDirectoryIsPrivate(t *testing.T) {
	where := filepath.Join(t.TempDir(), "archive")
	s, err := dir.Open(where)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := seal(t, "run-1")
	if err := s.Put(t.Context(), o.Name, o.Data); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]os.FileMode{where: 0o700, filepath.Join(where, "runs/run-1"): 0o700,
		filepath.Join(where, o.Name): 0o600} {
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want %v", file, st, err, want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(where, "runs/run-1/.new-*")); err != nil || len(left) != 0 {
		t.Errorf("got remaining files %v, %v", left, err)
	}
}
