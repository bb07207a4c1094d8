// Package selector translates label selectors in the syntax of kubectl into filters of the API. It
// must not know the resources that have labels.
package selector
