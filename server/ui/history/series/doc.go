// Package series stores measurements over time at several resolutions, in a fixed amount of
// memory.
//
// It owns rings of equal periods, the way in which the samples of a period are combined, and
// the bounds of memory. It must not read a clock, measure anything, or know what a series
// means.
package series
