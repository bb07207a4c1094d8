// Package fault has the ways in which tests break a cluster: its processes, its network,
// its disks and their contents. Each fault can be undone, and declares its requirements.
// Chance comes from a seed, so that a schedule can be repeated.
//
// Package check and Cluster.Healthy decide what must hold meanwhile and afterwards.
package fault
