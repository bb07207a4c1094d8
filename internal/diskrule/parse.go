package diskrule

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxRule bounds a rule, in bytes.
const maxRule = 4 << 10

// keys are the keys of a rule, in the order of String.
const keys = "name, serial, wwn, model, min_size, max_size, rotational, by"

// Rule is a parsed rule. Its zero value is the empty rule.
type Rule struct {
	name, serial, wwn, model string
	minSize, maxSize         uint64 // bytes; 0: none
	rotational               *bool
	by                       string // "", smallest or largest
}

// Parse parses a rule. An error names the invalid part and the valid values.
func Parse(text string) (Rule, error) {
	var r Rule
	if len(text) > maxRule {
		return r, fmt.Errorf("parse the disk rule: it has %d bytes, at most %d are allowed", len(text), maxRule)
	}
	if strings.TrimSpace(text) == "" {
		return r, nil
	}
	var seen []string
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !found:
			return Rule{}, fmt.Errorf("parse the disk rule %q: %q is not a condition: use key=value with one of %s",
				text, part, keys)
		case value == "":
			return Rule{}, fmt.Errorf("parse the disk rule %q: %s has no value", text, key)
		case slices.Contains(seen, key):
			return Rule{}, fmt.Errorf("parse the disk rule %q: duplicate key %s", text, key)
		}
		seen = append(seen, key)
		if err := r.set(key, value); err != nil {
			return Rule{}, fmt.Errorf("parse the disk rule %q: %w", text, err)
		}
	}
	if r.maxSize != 0 && r.minSize > r.maxSize {
		return Rule{}, fmt.Errorf("parse the disk rule %q: min_size is above max_size", text)
	}
	return r, nil
}

func (r *Rule) set(key, value string) (err error) {
	switch key {
	case "name":
		r.name = strings.TrimPrefix(value, "/dev/")
	case "serial":
		r.serial = value
	case "wwn":
		r.wwn = value
	case "model":
		r.model = value
	case "min_size":
		r.minSize, err = parseSize(value)
	case "max_size":
		r.maxSize, err = parseSize(value)
	case "rotational":
		if value != "true" && value != "false" {
			return fmt.Errorf("rotational is %q: use true or false", value)
		}
		is := value == "true"
		r.rotational = &is
	case "by":
		if value != "smallest" && value != "largest" {
			return fmt.Errorf("by is %q: use smallest or largest", value)
		}
		r.by = value
	default:
		return fmt.Errorf("unknown key %q: use one of %s", key, keys)
	}
	return err
}

// String returns the rule in a form that Parse accepts.
func (r Rule) String() string {
	var parts []string
	add := func(key, value string) {
		if value != "" {
			parts = append(parts, key+"="+value)
		}
	}
	size := func(n uint64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatUint(n, 10)
	}
	add("name", r.name)
	add("serial", r.serial)
	add("wwn", r.wwn)
	add("model", r.model)
	add("min_size", size(r.minSize))
	add("max_size", size(r.maxSize))
	if r.rotational != nil {
		add("rotational", strconv.FormatBool(*r.rotational))
	}
	add("by", r.by)
	return strings.Join(parts, ",")
}

// unit is a suffix of sizes.
type unit struct {
	suffix string
	bytes  uint64
}

// units returns the units, longer suffixes first.
func units() []unit {
	return []unit{
		{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
		{"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
	}
}

// parseSize parses a whole number of bytes with an optional unit, which may end in B.
func parseSize(text string) (uint64, error) {
	number, factor := strings.TrimSuffix(text, "B"), uint64(1)
	for _, u := range units() {
		if n, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = n, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
	if err != nil || n == 0 || n > math.MaxUint64/factor {
		return 0, fmt.Errorf("size %q: use a whole number of bytes above 0, with an optional K M G T (1000) "+
			"or Ki Mi Gi Ti (1024)", text)
	}
	return n * factor, nil
}

// Size formats a size as disk vendors do: 480 GB, 1.92 TB.
func Size(bytes uint64) string {
	switch {
	case bytes >= 1e12:
		return strconv.FormatFloat(math.Round(float64(bytes)/1e10)/100, 'f', -1, 64) + " TB"
	case bytes >= 1e9:
		return strconv.FormatFloat(math.Round(float64(bytes)/1e8)/10, 'f', -1, 64) + " GB"
	case bytes >= 1e6:
		return strconv.FormatUint(bytes/1e6, 10) + " MB"
	}
	return strconv.FormatUint(bytes, 10) + " bytes"
}
