// Package rest is what the HTTP clients below client/ have in common: several base URLs of one
// cluster, of which any takes any call; a bound on every try; bearer tokens that can change; and
// waits between tries.
//
// It owns which address is asked next and how long to wait. It knows no path, no body and no rule
// of any of the APIs, and it never decides that something has failed for good: the packages that
// use it do.
package rest
