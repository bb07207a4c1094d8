// Package render formats output for terminals: tables, ages, colors, and a block of lines that
// is redrawn in place. It owns the layout and knows nothing of machines, runs or servers.
package render
