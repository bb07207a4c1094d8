package table

import "iter"

// Values returns the rows of a scan without their keys.
func Values[P any](scan iter.Seq2[string, P]) iter.Seq[P] {
	return func(yield func(P) bool) {
		for _, m := range scan {
			if !yield(m) {
				return
			}
		}
	}
}

// Map returns the values of f for rows.
func Map[P, Q any](rows iter.Seq[P], f func(P) Q) iter.Seq[Q] {
	return func(yield func(Q) bool) {
		for m := range rows {
			if !yield(f(m)) {
				return
			}
		}
	}
}
