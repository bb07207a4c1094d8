package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Build says which holdfast to build.
type Build struct {
	Race    bool
	Tags    []string
	Overlay string // a file for go build -overlay: sources that stand in for others, as mutants do
	Out     string // where the binary goes
}

// Make builds it.
func (b Build) Make(ctx context.Context) error {
	args := []string{"build", "-buildvcs=false", "-o", b.Out}
	if b.Race {
		args = append(args, "-race")
	}
	if len(b.Tags) > 0 {
		args = append(args, "-tags", strings.Join(b.Tags, ","))
	}
	if b.Overlay != "" {
		args = append(args, "-overlay", b.Overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/holdfast-metal/holdfast/cmd/holdfast")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1") // the race detector needs it
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build holdfast: %w\n%s", err, out)
	}
	return nil
}
