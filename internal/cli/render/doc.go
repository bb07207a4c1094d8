// Package render writes for the eyes of an operator: tables, ages, colours, and a block of lines
// that is redrawn in place. It owns how things look and knows nothing of machines, runs or servers.
package render
