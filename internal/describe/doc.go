// Package describe puts machines, runs and ages into words that the command line and the dashboard
// share, so that both show the same. It owns these words. It must not know tables, pages or styles.
package describe
