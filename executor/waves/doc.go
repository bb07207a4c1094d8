// Package waves starts the runs of waves, within their limits. It decides nothing: Apply checks the
// limits, counts the machines and ends a wave. It has no state, so the next leader continues where
// this one ended, and no machine of a wave is started twice.
package waves
