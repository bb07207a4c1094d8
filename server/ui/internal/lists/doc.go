// Package lists declares the pages of the dashboard that are one list: their columns, the
// access they need, and how a part of a list is read as the signed-in user. It must not
// render pages, and must not change anything.
package lists
