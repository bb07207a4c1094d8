// Package chart draws the history of a peer as SVG, with a table for each chart, and writes it
// as JSON.
//
// It owns scales, labels and colours by class. It must not read the history itself, make calls,
// or know the caller: the page decides what may be shown.
package chart
