package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The suggested command must have all parameters of the run after a shell has parsed it.
func TestStartAgain(t *testing.T) {
	long := strings.Repeat("x", longParam+1)
	for _, tt := range []struct {
		name string
		run  *holdfastv1.Run
		want []string
	}{
		{"type", &holdfastv1.Run{MachineId: "m-1", Type: "REBOOT", PlanId: "plan/reboot"},
			[]string{"run", "start", "m-1", "--type", "REBOOT"}},
		{
			"parameters", &holdfastv1.Run{MachineId: "m-1", Type: "REPAVE", PlanId: "p", Params: map[string]string{
				"image": "debian-13", "reason": `it's "$HOME"`, "net_config": "auto eth0\niface eth0", "empty": "",
			}},
			[]string{
				"run", "start", "m-1", "--type", "REPAVE", "--plan", "p", "--param", "empty=", "--param", "image=debian-13",
				"--param", "net_config=auto eth0\niface eth0", "--param", `reason=it's "$HOME"`,
			},
		},
		{
			"a long one", &holdfastv1.Run{RunId: "run-1", MachineId: "m-1", PlanId: "p",
				Params: map[string]string{"net_config": long}},
			[]string{"run", "start", "m-1", "--plan", "p", "--param", "net_config=" + long},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			record, err := protojson.Marshal(tt.run)
			if err != nil {
				t.Fatal(err)
			}
			// The shell runs the command; `run get` prints the record, and jq extracts
			// one parameter.
			script := "holdfast() { if [ \"$2\" = get ]; then cat record; else printf '%s\\0' \"$@\"; fi; }\n" +
				"jq() { sed 's/.*\"net_config\": *\"\\([^\"]*\\)\".*/\\1/'; }\n" + restartCommand(tt.run)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
			cmd.Dir = t.TempDir()
			if err := os.WriteFile(filepath.Join(cmd.Dir, "record"), record, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}
