package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// TestStartRunNeedsImage checks that a run with an image that does not exist is refused before it
// reboots the machine, but only if its provider installs images of the cluster.
func TestStartRunNeedsImage(t *testing.T) {
	sum := strings.Repeat("a", 64)
	for _, tt := range []struct {
		name, image string
		provider    providers.Provider
		want        string // in the refusal; empty: the run starts
	}{
		{"it exists", "debian-13", readOnly{}, ""},
		{"a typo", "debain-13", readOnly{},
			`there is no image "debain-13": did you mean "debian-13"?: see: holdfast image list`},
		{"another name", "x", readOnly{}, `there is no image "x": see: holdfast image list`},
		{"none is named", "", readOnly{}, ""},
		{"the provider has its own", "debain-13", able{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			n.Machine(t, "m-1")
			n.Do(t, &internalv1.PutImage{Image: &holdfastv1.Image{Name: "debian-13",
				Disk: &holdfastv1.Image_File{Sha256: sum, Url: "http://x/y"}}})
			// The first state lags behind the leader's.
			s := New(Config{}, n, fsm.New(), providers.SetOf(map[string]providers.Provider{"fake": tt.provider}))
			req := &holdfastv1.StartRunRequest{RequestId: "r", Type: "REPAVE", MachineId: "m-1"}
			if tt.image != "" {
				req.Params = map[string]string{"image": tt.image}
			}
			_, err := s.runs.StartRun(testCtx(t), req)
			var refused *fsm.Error
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want a run", err)
			case tt.want != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Message, tt.want)):
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}
