package cli_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestApplyDryRunChecks checks that a dry run refuses documents that the server would refuse.
func TestApplyDryRunChecks(t *testing.T) {
	for doc, want := range map[string]string{
		"machine_id: m-new\nspec: {mac_addresses: [nonsense]}\n": `machine.spec.mac_addresses[0]: "nonsense" is not`,
		"machine_id: m-123\nlabels: {\"a b\": x}\n":              `machine.labels: key "a b" is not`,
		"pool_id: new\nlabels: {\"a b\": x}\n":                   `pool.labels: key "a b" is not`,
		"pool_id: pool-1\ngpu_type: \"a\\nb\"\n":                 `pool.gpu_type: must be one line`,
	} {
		f := clitest.Start(t, clitest.Fixture())
		c := clitest.Command{In: doc}
		c.WantCode(t, c.Run(t, f, "apply", "-f", "-", "--dry-run"), app.ExitUsage)
		clitest.WantIn(t, "stderr", c.Err.String(), want)
		if got := changes(f); len(got) > 0 {
			t.Errorf("%s: got changes %v, want none", doc, got)
		}
	}
}

// TestApplyRegion checks that the region of a pool without a manager is applied.
func TestApplyRegion(t *testing.T) {
	for _, tt := range []struct{ doc, want string }{
		{"pool_id: managed\nregion: US\n", "0 created, 0 updated, 1 unchanged"}, // its manager reports it
		{"pool_id: own\nregion: US\n", `region: (none) → "US"`},
	} {
		f := clitest.Fixture()
		f.Pools = append(f.Pools, &holdfastv1.Pool{PoolId: "own", Declared: true, Provider: "generic"},
			&holdfastv1.Pool{PoolId: "managed", Declared: true, Provider: "generic", Status: holdfastv1.Pool_HEALTHY,
				Region: "EU"})
		clitest.Start(t, f)
		c := clitest.Command{In: tt.doc}
		c.WantCode(t, c.Run(t, f, "apply", "-f", "-"), app.ExitOK)
		clitest.WantIn(t, "out", c.Out.String(), tt.want)
	}
}
