package operator

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

func TestPrintVerification(t *testing.T) {
	whole := cluster.VerifiedStore{Store: "stable store", File: "raft.db", Contents: "term 3"}
	damaged := cluster.VerifiedStore{Store: "log", File: "wal/1.wal", Index: 7,
		Damage: errors.New("entry 7 is damaged: checksum mismatch")}
	for _, tt := range []struct {
		stores    []cluster.VerifiedStore
		want, err string
	}{
		{[]cluster.VerifiedStore{whole}, `peer n1 of cluster c-1
  stable store  raft.db: term 3
Everything verifies.
`, ""},
		{[]cluster.VerifiedStore{whole, damaged}, `peer n1 of cluster c-1
  stable store  raft.db: term 3
  log           wal/1.wal: DAMAGED: entry 7 is damaged: checksum mismatch
`, "verify /data: wal/1.wal: entry 7 is damaged: checksum mismatch: " + cluster.DamageAdvice},
	} {
		var out bytes.Buffer
		a := &app.App{Streams: app.Streams{Out: &out}}
		err := printVerification(a, "/data", &cluster.Verification{PeerID: "n1", ClusterID: "c-1", Stores: tt.stores})
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("output (-want +got):\n%s", diff)
		}
		got, code := "", app.ExitCode(err)
		if err != nil {
			got = err.Error()
		}
		if got != tt.err || code != map[bool]int{true: app.ExitError, false: app.ExitOK}[tt.err != ""] {
			t.Errorf("error: got %q with exit code %d, want %q", got, code, tt.err)
		}
	}
}
