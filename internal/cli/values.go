package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// How values of the API are written in tables, and read from arguments.

// at returns a time, or the zero time if it is not set.
func at(ts *timestamppb.Timestamp) time.Time {
	if ts == nil {
		return time.Time{}
	}
	return ts.AsTime()
}

// age returns the age of a time, or "" if it is not set.
func age(now time.Time, ts *timestamppb.Timestamp) string { return render.Ago(now, at(ts)) }

// stamp formats a time to the second, in UTC, so that histories of several places can be
// compared.
func stamp(ts *timestamppb.Timestamp) string {
	if ts == nil {
		return ""
	}
	return ts.AsTime().Format(time.RFC3339)
}

// number formats a count; 0 returns "".
func number[N int32 | uint32 | uint64](n N) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

// byteSize formats a number of bytes; 0 means unknown and returns "".
func byteSize(n int64) string {
	const units = "KMGT"
	if n == 0 {
		return ""
	}
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[u])
}

// joined formats a map as k=v,k=v, sorted by key.
func joined(m map[string]string) render.Text {
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return render.T(strings.Join(parts, ","), render.Plain)
}

// plain returns a text without a color.
func plain(s string) render.Text { return render.T(s, render.Plain) }

// pairs parses the values of a repeatable flag such as --label k=v.
func pairs(flag string, values []string) (map[string]string, error) {
	m := make(map[string]string, len(values))
	for _, v := range values {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return nil, usagef("--%s: %q is not key=value", flag, v)
		}
		if _, twice := m[key]; twice {
			return nil, usagef("--%s: %s is given twice: give it once", flag, key)
		}
		m[key] = value
	}
	return m, nil
}

// params parses --param, which is repeatable.
func params(values []string) (map[string]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	m, err := pairs("param", values)
	if err != nil {
		return nil, fmt.Errorf("%w, e.g. image=ubuntu-24.04", err)
	}
	for name, value := range m {
		if value == "" {
			return nil, usagef("--param: %s is empty: give a value, or leave the parameter out", name)
		}
	}
	return m, nil
}

// enumName returns the name of an enum value in the API: IN_SERVICE for in-service.
func enumName(written string) string { return strings.ToUpper(strings.ReplaceAll(written, "-", "_")) }

// enumNames returns the names of an enum in the order of its values, without that of 0.
func enumNames(names map[int32]string) []string {
	var all []string
	for i := int32(1); names[i] != ""; i++ {
		all = append(all, names[i])
	}
	return all
}

// mapped returns the results of f for all items, such as their ids.
func mapped[M, R any](items []M, f func(M) R) []R {
	out := make([]R, len(items))
	for i, m := range items {
		out[i] = f(m)
	}
	return out
}

// prefixed returns words, each behind a prefix.
func prefixed(prefix string, words []string) []string {
	return mapped(words, func(w string) string { return prefix + w })
}
