package filter

// meant asks whether a name was mistyped, when one of those that there are is at most two letters away from it.
func meant(written string, names []string) string {
	best, at := "", min(3, len(written)/2+1)
	for _, n := range names {
		if d := distance(written, n); d < at {
			best, at = n, d
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean " + best + "?"
}

// distance is how many letters have to be put in, taken out or changed to make one text of another.
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
