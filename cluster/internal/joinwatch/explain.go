package joinwatch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// findings are the answers of one poll. A peer or address that works is not in the maps.
type findings struct {
	Standing

	asked  bool              // the peers were asked; otherwise only gossip is known
	leader string            // the peer that leads, if one answers so
	peers  map[string]string // id → cause
	addrs  map[string]string // join address → cause
}

// explain returns the reason in one line.
func explain(f findings) string {
	parts := []string{f.Forming}
	if len(f.Voters) > 0 {
		parts = []string{quorum(f)}
	}
	for _, addr := range slices.Sorted(maps.Keys(f.addrs)) {
		if cause := f.addrs[addr]; len(f.Voters) == 0 || !absent(cause) { // absent voters are named already
			parts = append(parts, addr+": "+cause)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f.peers)) {
		if cause := f.peers[id]; !absent(cause) {
			parts = append(parts, id+" "+cause)
		} else if len(f.Voters) == 0 {
			parts = append(parts, id+" is in gossip but "+cause)
		}
	}
	return strings.Join(parts, "; ")
}

// quorum names the leader that does not reach this peer, or the voters that are missing for a
// majority.
func quorum(f findings) string {
	if f.leader != "" {
		return f.leader + " leads, but does not replicate to this peer: it has just been elected, cannot reach the " +
			"Raft port of this peer, or has removed it from the cluster (see holdfast operator raft list-peers)"
	}
	var silent []string
	for _, id := range f.Voters {
		_, failed := f.peers[id]
		if id != f.Self && (failed || !f.asked && !slices.Contains(f.Seen, id)) {
			silent = append(silent, id)
		}
	}
	slices.Sort(silent)
	all, need := len(f.Voters), len(f.Voters)/2+1
	missing := need - (all - len(silent))
	if f.Unfit != "" && missing <= 0 {
		return "this peer does not vote: " + f.Unfit + "; if no peer votes, recover from one: holdfast operator recover"
	}
	if missing <= 0 {
		since := "since this peer started"
		if f.For > 0 {
			since = fmt.Sprintf("for %v", f.For.Round(time.Millisecond))
		}
		return fmt.Sprintf("none %s: an election is in progress, %d of %d voters answer", since, all-len(silent), all)
	}
	absence := " do not answer, "
	if len(silent) == 1 {
		absence = " does not answer, "
	}
	return list(silent) + absence +
		fmt.Sprintf("%d of %d voters are needed: start %s", need, all, some(missing, len(silent)))
}

// some returns n of the named peers in words.
func some(n, of int) string {
	switch {
	case of == 1:
		return "it"
	case n == of:
		return "them"
	case n == 1:
		return "one of them"
	}
	return fmt.Sprintf("%d of them", n)
}

// list joins names in words.
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
