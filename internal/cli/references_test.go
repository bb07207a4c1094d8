package cli_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestUnknownPools checks that no machine gets into a pool that does not exist.
func TestUnknownPools(t *testing.T) {
	for _, tt := range []struct {
		args, in string
		code     int
		want     string // on standard error
	}{
		{"machine register --id m-1 --pool pool-1", "", app.ExitOK, ""},
		{"machine register --id m-1", "", app.ExitOK, ""},
		{"machine register --id m-1 --pool pol-1", "", app.ExitNotFound, `error: machine m-1: there is no pool "pol-1": ` +
			"did you mean \"pool-1\"?: create it first: holdfast pool create pol-1\n"},
		{"machine register --id m-1 --pool old", "", app.ExitOK, ""}, // not declared, but it has machines
		{"machine update m-123 --pool elsewhere", "", app.ExitNotFound,
			"error: machine m-123: there is no pool \"elsewhere\": create it first: holdfast pool create elsewhere\n"},
		{"machine update m-123 --rack r8", "", app.ExitOK, ""},
		{"apply -f -", "machine_id: m-1\nspec: {pool: new}\n---\npool_id: new\n", app.ExitOK, ""},
		{"apply -f -", "machine_id: m-1\nspec: {pool: ned}\n---\npool_id: new\n", app.ExitNotFound,
			"error: apply: machine m-1: there is no pool \"ned\": did you mean \"new\"?"},
	} {
		t.Run(tt.args+tt.in, func(t *testing.T) {
			f := clitest.Fixture()
			f.Refuse = func(r proto.Message) error {
				if g, ok := r.(*holdfastv1.GetMachineRequest); ok && g.GetMachineId() == "m-1" {
					return status.Error(codes.NotFound, "not found")
				}
				return nil
			}
			f.Machines[0].Spec.Pool = "old"
			clitest.Start(t, f)
			c := clitest.Command{In: tt.in}
			c.WantCode(t, c.Run(t, f, strings.Fields(tt.args)...), tt.code)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.want)
			if got := changes(f); (tt.code == app.ExitOK) != (len(got) > 0) {
				t.Errorf("got changes %v with exit code %d", got, tt.code)
			}
		})
	}
}
