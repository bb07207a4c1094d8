// Package waves has the records of waves: their limits, how the end of a run changes them, when
// they end, and the queries. It must not start or cancel runs, which package runs does.
package waves
