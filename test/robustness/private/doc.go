// Package private runs a test in a process with a network and mounts of its own, so that it can
// break both and leaves nothing behind on the host, however it ends.
package private
