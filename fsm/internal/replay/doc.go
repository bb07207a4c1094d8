// Package replay remembers the outcomes of commands that peers may deliver twice.
//
// A peer that forwards a call to the leader may lose the answer when the leader dies. It then
// delivers the call to the next leader under the same id. The first delivery may have been applied,
// so the state remembers the outcome of each such command that changed something, and answers the
// second delivery with it. A refused command has changed nothing, and its second delivery is
// applied as if it were the first.
//
// The memory is bounded: see the limits. If the outcome of an earlier delivery may have been
// forgotten, the second delivery is refused, since nobody can tell whether it was applied.
//
// The package must not know commands.
package replay
