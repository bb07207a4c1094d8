// Package nearest finds the name that a mistyped one was meant to be, for suggestions in
// error messages. It owns the edit distance, and must not know the source of the names.
package nearest

import (
	"math"
	"regexp"
	"strings"
)

// Of returns the first of the names with the fewest letters to add, drop, change or swap, at
// most two. It returns "" if there is none. Short words must share at least half of their
// letters.
func Of(written string, names []string) string {
	best, at := "", min(3, len(written)/2+1)
	for _, n := range names {
		if d := distance(written, n); d < at {
			best, at = n, d
		}
	}
	return best
}

// Key returns the key that a mistyped one was meant to be, or "": Of, or else the only key that
// begins with the written words (bmc_endpoint for bmc), or the one with the longest common
// beginning (grpc_addr for grpc_address).
func Key(written string, keys []string) string {
	if best := Of(written, keys); best != "" || len(written) < 2 {
		return best
	}
	best, longest := "", max(leastCommon, len(written)/2)
	for _, k := range keys {
		common := 0
		for common < min(len(k), len(written)) && k[common] == written[common] {
			common++
		}
		if strings.HasPrefix(k, written+"_") {
			common = math.MaxInt // all of the written words
		}
		switch {
		case common > longest:
			best, longest = k, common
		case common == longest:
			best = "" // two keys: neither is meant for certain
		}
	}
	return best
}

// leastCommon is the number of letters that two keys may share by chance.
const leastCommon = 5

// Name returns the name of a resource that a mistyped one was meant to be, or "". A name may have
// been written without its prefix (plan/repave as repave). Names that differ in a number are names
// of different resources: m-9 is not meant by m-99, but m-09 is meant by m-9.
func Name(written string, names []string) string {
	var others []string
	bases := map[string]string{}
	for _, n := range names {
		base := n[strings.LastIndex(n, "/")+1:]
		switch {
		case base == written, digits.ReplaceAllString(n, "$1") == digits.ReplaceAllString(written, "$1"):
			return n
		case numbers.ReplaceAllString(n, "#") != numbers.ReplaceAllString(written, "#"):
			others = append(others, n, base)
			bases[base] = n
		}
	}
	like := Of(written, others)
	if full, ok := bases[like]; ok {
		return full
	}
	return like
}

var (
	numbers = regexp.MustCompile(`[0-9]+`)
	digits  = regexp.MustCompile(`0*([0-9]+)`) // a number and the zeros before it
)

// distance counts the letters to add, drop, change or swap with the next one (optimal string
// alignment).
func distance(a, b string) int {
	d := make([][]int, len(a)+1) // d[i][j] is the distance of a[:i] and b[:j]
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
