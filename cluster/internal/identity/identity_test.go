package identity

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIdentitySurvives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	id, err := Open(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	err = id.Update(func(r *Record) error {
		r.ClusterID, r.Admitted, r.Forming = "c", true, []Founder{{ID: "a", Instance: r.Instance, RaftAddr: "x:1"}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(id.Get(), again.Get()); diff != "" {
		t.Errorf("identity after a restart (-want +got):\n%s", diff)
	}
	boom := errors.New("boom")
	if err := again.Update(func(r *Record) error { r.ClusterID = "other"; return boom }); !errors.Is(err, boom) {
		t.Errorf("update: got %v, want %v", err, boom)
	}
	if got := again.Get().ClusterID; got != "c" {
		t.Errorf("after a failed change: got cluster %s", got)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("files in the data directory: got %v, want only the identity", files)
	}
}
