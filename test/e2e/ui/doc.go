// Package ui tests the dashboard in a real browser, against peers that are real processes
// (make e2e-ui).
package ui
