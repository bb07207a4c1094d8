package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// pairs parses the values of a repeatable flag such as --label k=v.
func pairs(flag string, values []string) (map[string]string, error) {
	m := make(map[string]string, len(values))
	for _, v := range values {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return nil, usagef("--%s: %q is not key=value", flag, v)
		}
		m[key] = value
	}
	return m, nil
}

// joined formats a map as k=v,k=v, sorted by key.
func joined(m map[string]string) render.Text {
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return render.T(strings.Join(parts, ","), render.Plain)
}

func plain(s string) render.Text { return render.T(s, render.Plain) }
