package freeport

import "syscall"

// withoutFork calls f while this process starts no other process. Between fork and exec, a child
// has copies of all sockets of its parent, so a port could stay in use after it was closed here. A
// short time remains: the kernel lets the parent continue just before it closes the copies.
func withoutFork(f func() error) error {
	syscall.ForkLock.RLock() // it excludes fork, which holds the lock until exec
	defer syscall.ForkLock.RUnlock()
	return f()
}
