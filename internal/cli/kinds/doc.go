// Package kinds describes the kinds of resources for package output: how each is named, read and
// printed, and what several commands show of it.
//
// It must not change a resource, nor have commands.
package kinds
