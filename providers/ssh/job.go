package sshexec

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

//go:embed host/supervisor.sh
var supervisorScript string

// tokenVariable marks the processes of a command, so that the supervisor finds those outside of its
// process group.
const tokenVariable = "HOLDFAST_TOKEN"

// job is a command in the form that the host runs.
type job struct {
	user    string
	timeout string // in seconds; empty for none
	text    string // shell script that execs the command
	script  string // the command's own script, run from a file so that its stdin stays free
}

// newJob validates a command and converts it for the host.
func newJob(c providers.Command) (job, error) {
	j := job{user: cmp.Or(c.User, "root"), script: c.Script}
	if !userOK.MatchString(j.user) {
		return job{}, fmt.Errorf("user %q is not a user name", text.Clip(c.User, 80))
	}
	if c.Timeout > 0 {
		j.timeout = fmt.Sprintf("%.3f", math.Max(c.Timeout.Seconds(), time.Millisecond.Seconds()))
	}
	var b strings.Builder
	b.WriteString("cd \"$HOME\" 2>/dev/null || cd /\nexec env")
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if !envOK.MatchString(name) || name == tokenVariable {
			return job{}, fmt.Errorf("%q is not a name of an environment variable that can be set", text.Clip(name, 80))
		}
		if strings.ContainsRune(c.Env[name], 0) {
			return job{}, fmt.Errorf("environment variable %s contains a NUL byte", name)
		}
		b.WriteString(" " + quote(name+"="+c.Env[name]))
	}
	switch {
	case c.Script != "" && c.Path != "":
		return job{}, fmt.Errorf("command has a path and a script: want one of them")
	case strings.HasPrefix(c.Script, "#!"):
		b.WriteString(` "${0%/job}/script"`)
	case c.Script != "":
		b.WriteString(` /bin/sh "${0%/job}/script"`)
	case c.Path == "":
		return job{}, fmt.Errorf("command has neither a path nor a script")
	case strings.HasPrefix(c.Path, "-"):
		return job{}, fmt.Errorf("path %q begins with a dash", text.Clip(c.Path, 80))
	default:
		if strings.Contains(c.Path, "=") { // env would treat it as a variable
			b.WriteString(` /bin/sh -c 'exec "$@"' holdfast`)
		}
		for _, w := range append([]string{c.Path}, c.Args...) {
			if strings.ContainsRune(w, 0) {
				return job{}, fmt.Errorf("an argument contains a NUL byte")
			}
			b.WriteString(" " + quote(w))
		}
	}
	b.WriteByte('\n')
	j.text = b.String()
	return j, nil
}
