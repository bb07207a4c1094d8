// Package nearest finds the name that a mistyped one was meant to be, for suggestions in
// error messages. It owns the edit distance, and must not know the source of the names.
package nearest

// Of returns the first of the names with the fewest letters to add, drop or change, at most
// two. It returns "" if there is none. Short words must share at least half of their
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

// distance counts the letters to add, drop or change (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := before
			if a[i] != b[j] {
				d++
			}
			before = row[j+1]
			row[j+1] = min(d, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
