package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-metal/holdfast/executor"
)

// Failpoints are the places where a peer can be made to kill itself: each boundary of each kind of step. None of them
// is armed at first. A file for each tells the peers whether somebody has died there: see cmd/holdfast/serve/failpoint_on.go.
type Failpoints struct{ dir string }

// Kinds are the kinds of steps.
func Kinds() []string {
	return []string{"ssh", "reboot", "netboot", "repave", "join", "verify", "net", "rma"}
}

func newFailpoints(dir string) (Failpoints, error) {
	f := Failpoints{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return f, err
	}
	for _, kind := range Kinds() {
		for _, b := range executor.Boundaries() {
			if err := os.WriteFile(f.file(b, kind), nil, 0o600); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

func (f Failpoints) file(b executor.Boundary, kind string) string {
	return filepath.Join(f.dir, string(b)+"-"+kind)
}

func (f Failpoints) environment() string {
	var points []string
	for _, kind := range Kinds() {
		for _, b := range executor.Boundaries() {
			points = append(points, fmt.Sprintf("%s/%s@%s", b, kind, f.file(b, kind)))
		}
	}
	return "HOLDFAST_FAILPOINT=" + strings.Join(points, ",")
}

// Arm makes the next peer that reaches the boundary kill itself. Others that reach it later go on.
func (f Failpoints) Arm(b executor.Boundary, kind string) error { return os.Remove(f.file(b, kind)) }

// Disarm makes sure that nobody dies there any more, and says whether somebody has.
func (f Failpoints) Disarm(b executor.Boundary, kind string) (died bool, err error) {
	file, err := os.OpenFile(f.file(b, kind), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, file.Close()
}
