package selector

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Help describes the syntax in one line.
const Help = "key=value, key!=value, 'key in (a,b)', 'key notin (a,b)', key, or '!key', comma-separated"

// One requirement: a key alone, a comparison, or a set.
var (
	key     = regexp.MustCompile(`^(!?)\s*([^\s!=<>(),]+)$`)
	compare = regexp.MustCompile(`^([^\s!=<>(),]+)\s*(==|=|!=)\s*([^\s=(),]*)$`)
	set     = regexp.MustCompile(`^([^\s!=<>(),]+)\s+(in|notin)\s*\(([^()]*)\)$`)
)

// Filter returns the filter of the resources that a selector selects. As in kubectl, != and notin
// also select resources without the label.
func Filter(selector string) (string, error) {
	var all []string
	for _, part := range split(selector) {
		one, err := requirement(strings.TrimSpace(part))
		if err != nil {
			return "", fmt.Errorf("parse selector %q: %w", selector, err)
		}
		all = append(all, one)
	}
	return strings.Join(all, " AND "), nil
}

// split splits a selector at the commas outside of parentheses.
func split(selector string) []string {
	depth := 0
	var parts []string
	start := 0
	for i, r := range selector {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			parts = append(parts, selector[start:i])
			start = i + 1
		}
	}
	return append(parts, selector[start:])
}

func requirement(text string) (string, error) {
	if m := key.FindStringSubmatch(text); m != nil {
		has := label(m[2]) + ":*"
		if m[1] != "" {
			return "NOT " + has, nil
		}
		return has, nil
	}
	if m := compare.FindStringSubmatch(text); m != nil {
		return label(m[1]) + " " + strings.Replace(m[2], "==", "=", 1) + " " + strconv.Quote(m[3]), nil
	}
	if m := set.FindStringSubmatch(text); m != nil {
		var some []string
		for value := range strings.SplitSeq(m[3], ",") {
			some = append(some, label(m[1])+" = "+strconv.Quote(strings.TrimSpace(value)))
		}
		one := "(" + strings.Join(some, " OR ") + ")"
		if m[2] == "notin" {
			return "NOT " + one, nil
		}
		return one, nil
	}
	return "", fmt.Errorf("%q is none of %s", text, Help)
}

// label returns the path of a label, whose key may contain dots.
func label(key string) string { return "labels." + strconv.Quote(key) }
