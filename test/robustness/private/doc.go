// Package private runs a test in a process with its own network and mounts. The test can
// break both and leaves nothing behind on the host, however it ends.
package private
