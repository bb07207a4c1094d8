// Package pool has the commands of pools, and of the providers of pools.
//
// It must not register a manager: agents of pools do.
package pool
