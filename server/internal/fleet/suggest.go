package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// longParam is the maximum length of a parameter in a suggested command, in bytes. The
// command reads a longer one from the run.
const longParam = 256

// restartCommand returns the command that starts a run again with all of its parameters.
// Without one of them a step could use a default instead.
func restartCommand(run *holdfastv1.Run) string {
	cmd := "holdfast run start " + run.GetMachineId()
	if run.GetType() != "" {
		cmd += " --type " + run.GetType()
	}
	if run.GetPlanId() != fsm.DefaultPlanID(run.GetType()) {
		cmd += " --plan " + run.GetPlanId()
	}
	for _, name := range slices.Sorted(maps.Keys(run.GetParams())) {
		if value := run.GetParams()[name]; len(value) > longParam {
			cmd += fmt.Sprintf(` --param %s="$(holdfast run get %s -o json | jq -r '.params[%s]')"`,
				shellWord(name), run.GetRunId(), strconv.Quote(name))
		} else {
			cmd += " --param " + shellWord(name+"="+value)
		}
	}
	return cmd
}

// shellWord returns text as one word of a POSIX shell.
func shellWord(text string) string {
	if text != "" && strings.Trim(text, shellSafe) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-=./:,+@%"
