// Package fleet counts the machines that a user may see, by state, pool and rack, and draws
// them as a heat map. It keeps the counts for a short time, since their cost grows with the
// number of machines. It must not render pages.
package fleet
