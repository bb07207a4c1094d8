// Package health describes the state of the control plane for the dashboard: how many peers
// answer, how many may fail, and which alerts a peer can evaluate itself. It must not render
// pages.
package health
