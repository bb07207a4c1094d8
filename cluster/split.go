package cluster

import (
	"github.com/hashicorp/raft"
)

const (
	// maxAppendBytes is how much one AppendEntries call carries, but for an entry that is larger.
	// The library limits the number of entries only, and the time of the whole call: on a slow link
	// hundreds of MiB never arrive in it, and what did arrive counts for nothing.
	maxAppendBytes = 1 << 20
	// entryOverhead is about what an entry adds to its data on the wire.
	entryOverhead = 64
)

// split cuts a request into parts of at most maxAppendBytes, in order. The parts share the entries
// of the request.
func split(req *raft.AppendEntriesRequest) []*raft.AppendEntriesRequest {
	var parts []*raft.AppendEntriesRequest
	prev, term, first, size := req.PrevLogEntry, req.PrevLogTerm, 0, 0
	cut := func(end int) {
		part := *req
		part.PrevLogEntry, part.PrevLogTerm, part.Entries = prev, term, req.Entries[first:end]
		parts = append(parts, &part)
	}
	for i, e := range req.Entries {
		n := len(e.Data) + len(e.Extensions) + entryOverhead
		if i > first && size+n > maxAppendBytes {
			cut(i)
			last := req.Entries[i-1]
			prev, term, first, size = last.Index, last.Term, i, 0
		}
		size += n
	}
	if first == 0 {
		return []*raft.AppendEntriesRequest{req}
	}
	cut(len(req.Entries))
	return parts
}
