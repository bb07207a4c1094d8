// Package marks recognizes a data directory that is older than what its peer once acknowledged: a
// copy that was put back, a disk or a virtual machine that was reverted, an old raft.db. A
// directory gets a new mark at each start, and every minute while its peer runs. The other peers
// remember the marks of each peer. A directory that lacks a mark which another peer remembers is
// older, so its peer must not vote with it. The package must not decide who is a member or leads.
//
// A mark is on disk before another peer learns it. So a crash at any point, also a power cut, never
// makes a directory look older than it is.
package marks

import (
	"slices"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// kept is how many marks a directory keeps. A peer that remembers an older one learns nothing from
// it.
const kept = 64

// Newest returns the last of some marks alone, or nil if there is none.
func Newest(m *internalv1.Marks) *internalv1.Marks {
	ids := m.GetIds()
	if len(ids) == 0 {
		return nil
	}
	return &internalv1.Marks{
		Instance: m.GetInstance(), AdmittedAt: m.GetAdmittedAt(), Count: m.GetCount(), Ids: ids[len(ids)-1:],
	}
}

// Stale reports whether a directory with these marks, whose instance may vote, is older than one
// that another peer remembers of the same peer.
//
// An instance that may vote follows those that were admitted earlier, as the Raft index of the
// admission shows. Two instances with the same index do not exist.
func Stale(own, remembered *internalv1.Marks) bool {
	last := Newest(remembered)
	if last == nil {
		return false
	}
	if own.GetInstance() != last.GetInstance() {
		return last.GetAdmittedAt() > own.GetAdmittedAt()
	}
	if last.GetCount() < oldest(own) {
		return false // own has forgotten it, or has it
	}
	return !has(own, last)
}

// follows reports whether marks of a peer show a later state than remembered ones, so that they may
// replace them. Nothing is remembered that contradicts what is.
func follows(next, remembered *internalv1.Marks) bool {
	switch {
	case len(next.GetIds()) == 0:
		return false
	case len(remembered.GetIds()) == 0:
		return true
	case next.GetInstance() != remembered.GetInstance():
		return next.GetAdmittedAt() > remembered.GetAdmittedAt()
	}
	return next.GetCount() > remembered.GetCount() && !Stale(next, remembered)
}

// oldest returns the count of the first of some marks.
func oldest(m *internalv1.Marks) uint64 { return m.GetCount() + 1 - uint64(len(m.GetIds())) }

// has reports whether marks of the same instance include the last of others.
func has(m, last *internalv1.Marks) bool {
	n := last.GetCount()
	if n < oldest(m) || n > m.GetCount() {
		return false
	}
	return m.GetIds()[n-oldest(m)] == last.GetIds()[len(last.GetIds())-1]
}

// add returns marks with one more.
func add(m *internalv1.Marks, id uint64) *internalv1.Marks {
	ids := append(slices.Clone(m.GetIds()), id)
	return &internalv1.Marks{
		Instance: m.GetInstance(), AdmittedAt: m.GetAdmittedAt(), Count: m.GetCount() + 1,
		Ids: ids[max(0, len(ids)-kept):],
	}
}
