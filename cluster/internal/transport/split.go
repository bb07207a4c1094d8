package transport

import "github.com/hashicorp/raft"

const (
	// maxAppendBytes is the size limit of one AppendEntries call, unless a single entry is
	// larger. The library limits only the number of entries and the time of the whole call.
	// On a slow link hundreds of MiB would never arrive in that time, and a partial request
	// counts for nothing.
	maxAppendBytes = 1 << 20
	// entryOverhead is the approximate overhead of an entry on the wire.
	entryOverhead = 64
)

// split cuts a request into ordered parts of at most maxAppendBytes. The parts share the
// entries of the request.
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
