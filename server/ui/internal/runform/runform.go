// Package runform reads the forms that start runs: the plan and the parameters. It makes no calls.
package runform

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Sort sorts plans of users first, then built-in plans that are usually started directly, then
// those with a single operation.
func Sort(plans []*holdfastv1.Plan) {
	slices.SortStableFunc(plans, func(a, b *holdfastv1.Plan) int { return rank(a) - rank(b) })
}

func rank(p *holdfastv1.Plan) int {
	switch {
	case !p.GetBuiltIn():
		return 0
	case len(p.GetSteps()) > 1 || TypeOf(p.GetPlanId()) != "":
		return 1
	}
	return 2
}

// TypeOf returns the run type whose default plan this is, or "".
func TypeOf(plan string) string {
	for _, t := range []string{"REPAVE", "RMA", "REBOOT", "UPGRADE", "NET_RECONFIG"} {
		if fsm.DefaultPlanID(t) == plan {
			return t
		}
	}
	return ""
}

// Lines returns parameters as Params parses them, sorted.
func Lines(params map[string]string) string {
	var lines []string
	for k, v := range params {
		if !strings.Contains(v, "\n") {
			lines = append(lines, k+"="+v)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Params parses one key=value per line.
func Params(text string) (map[string]string, error) {
	params := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, status.Errorf(codes.InvalidArgument,
				"params: %q is not key=value, such as image=ubuntu-24.04", line)
		}
		if _, twice := params[key]; twice {
			return nil, status.Errorf(codes.InvalidArgument, "params: %s is set twice", key)
		}
		params[key] = strings.TrimSpace(value)
	}
	return params, nil
}
