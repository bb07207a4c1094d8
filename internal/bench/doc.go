// Package bench is `holdfast-bench`: how fast the product is, measured side by side with something
// that everybody knows, on the machine of whoever asks. It starts real peers, processes on loopback
// with TLS, tokens and fsync as they are by default, and holds the figures against the goals of
// docs/performance.md.
//
// It owns the benchmarks. Package load makes the load, contest has contenders take turns, rival
// starts the systems to compare with, proc counts processor time and memory, and report shows the
// figures. It must not reach into a peer: what it measures is what a client sees, and what the
// operating system says of the processes. A ratio is between slices of one run that were
// interleaved, never between two runs.
package bench
