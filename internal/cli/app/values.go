package app

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

// At returns a time, or the zero time if it is not set.
func At(ts *timestamppb.Timestamp) time.Time {
	if ts == nil {
		return time.Time{}
	}
	return ts.AsTime()
}

// Age returns the age of a time, or "" if it is not set.
func Age(now time.Time, ts *timestamppb.Timestamp) string { return render.Ago(now, At(ts)) }

// Stamp formats a time to the second, in UTC, so that histories of several places can be
// compared.
func Stamp(ts *timestamppb.Timestamp) string {
	if ts == nil {
		return ""
	}
	return ts.AsTime().Format(time.RFC3339)
}

// Number formats a count; 0 returns "".
func Number[N int32 | uint32 | uint64](n N) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

// ByteSize formats a number of bytes; 0 means unknown and returns "".
func ByteSize(n int64) string {
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

// Joined formats a map as k=v,k=v, sorted by key.
func Joined(m map[string]string) render.Text {
	parts := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return render.T(strings.Join(parts, ","), render.Plain)
}

// Plain returns a text without a color.
func Plain(s string) render.Text { return render.T(s, render.Plain) }

// Pairs parses the values of a repeatable flag such as --label k=v.
func Pairs(flag string, values []string) (map[string]string, error) {
	m := make(map[string]string, len(values))
	for _, v := range values {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return nil, Usagef("--%s: %q is not key=value", flag, v)
		}
		if _, twice := m[key]; twice {
			return nil, Usagef("--%s: %s is given twice: give it once", flag, key)
		}
		m[key] = value
	}
	return m, nil
}

// Params parses --param, which is repeatable.
func Params(values []string) (map[string]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	m, err := Pairs("param", values)
	if err != nil {
		return nil, fmt.Errorf("%w, e.g. image=ubuntu-24.04", err)
	}
	for name, value := range m {
		if value == "" {
			return nil, Usagef("--param: %s is empty: give a value, or leave the parameter out", name)
		}
	}
	return m, nil
}

// EnumName returns the name of an enum value in the API: IN_SERVICE for in-service.
func EnumName(written string) string { return strings.ToUpper(strings.ReplaceAll(written, "-", "_")) }

// EnumNames returns the names of an enum in the order of its values, without that of 0.
func EnumNames(names map[int32]string) []string {
	var all []string
	for i := int32(1); names[i] != ""; i++ {
		all = append(all, names[i])
	}
	return all
}

// Mapped returns the results of f for all items, such as their ids.
func Mapped[M, R any](items []M, f func(M) R) []R {
	out := make([]R, len(items))
	for i, m := range items {
		out[i] = f(m)
	}
	return out
}

// Prefixed returns words, each behind a prefix.
func Prefixed(prefix string, words []string) []string {
	return Mapped(words, func(w string) string { return prefix + w })
}
