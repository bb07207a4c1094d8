package lease

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/guard"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestGuardLink limits the allocations of encoding and decoding a message of 32 heartbeats: the
// message with its list, the batch, and the growing map. The lists of calls are reused.
func TestGuardLink(t *testing.T) {
	const calls = 32
	l := newLink(func() {})
	answered := 0
	c := call{rn: &internalv1.Renewal{}, size: 100, reply: func(*internalv1.RenewalAnswer) { answered++ }}
	resp := &internalv1.RenewResponse{}
	for i := range calls {
		resp.Positions, resp.Answers = append(resp.Positions, uint32(i)), append(resp.Answers, &internalv1.RenewalAnswer{})
	}
	var room []delivery
	runs := 0
	got := testing.AllocsPerRun(100, func() {
		for range calls {
			l.add(c)
		}
		resp.Batch = l.next().GetBatch()
		room = l.answer(resp, room)
		runs++
	})
	if answered != runs*calls {
		t.Errorf("got %d of %d answers", answered, runs*calls)
	}
	guard.Check(t, "link.32.allocs", got)
	if len(l.inflight) != 0 || len(l.queue) != 0 {
		t.Errorf("got %d remaining batches and %d heartbeats, want 0", len(l.inflight), len(l.queue))
	}
}

// A batch that is answered in parts is kept until the last part. A leader counts as hung if it does
// not answer a call for too long, or receives nothing.
func TestLinkHangs(t *testing.T) {
	got := map[int]int{}
	l := newLink(func() {})
	for i := range 3 {
		l.add(call{rn: &internalv1.Renewal{}, reply: func(*internalv1.RenewalAnswer) { got[i]++ }})
	}
	if l.hangs(time.Now()) || !l.hangs(time.Now().Add(lostAfter)) {
		t.Error("nothing sent: want hung after a while, not at once")
	}
	batch := l.next().GetBatch()
	if l.hangs(time.Now()) || !l.hangs(time.Now().Add(lostAfter)) {
		t.Error("nothing answered: want hung after a while, not at once")
	}
	part := func(positions ...uint32) {
		r := &internalv1.RenewResponse{Batch: batch, Positions: positions}
		for range positions {
			r.Answers = append(r.Answers, &internalv1.RenewalAnswer{})
		}
		l.answer(r, nil)
	}
	part(2, 0, 7) // no call has index 7
	part(2)       // already answered
	part()
	if !l.hangs(time.Now().Add(lostAfter)) || got[0] != 1 || got[1] != 0 || got[2] != 1 {
		t.Errorf("one missing: got answers %v, want hung", got)
	}
	part(1)
	part(0, 1, 2) // of a removed batch
	if l.hangs(time.Now().Add(time.Hour)) || got[1] != 1 || len(l.inflight) != 0 {
		t.Errorf("all answered: got answers %v, %d batches, want none hung", got, len(l.inflight))
	}
	l.add(call{rn: &internalv1.Renewal{}, reply: func(a *internalv1.RenewalAnswer) {
		if a.GetOutcome() == internalv1.RenewalAnswer_NOT_LEADER {
			got[9]++
		}
	}})
	l.next()
	l.close()
	if got[9] != 1 || got[0] != 1 {
		t.Errorf("closed link: got answers %v, want the last call returned", got)
	}
}

// TestSizeOf checks that the estimate is at least the encoded size, and not far above it.
func TestSizeOf(t *testing.T) {
	full := func(n int64, text string) *internalv1.Renewal {
		return &internalv1.Renewal{
			Lease: &internalv1.LeaseRef{Kind: internalv1.LeaseRef_INSTALL, Id: text,
				Generation: uint64(n)}, AgentVersion: text, PoolName: text, ProviderName: text,
			Metrics: &holdfastv1.AgentMetrics{CpuUtilizationPct: 1e-300, MemoryUtilizationPct: -1, TotalCpuAvailable: n,
				TotalMemoryAvailable: n, FreeGpuCount: int32(n)},
		}
	}
	for name, rn := range map[string]*internalv1.Renewal{
		"empty": {}, "ordinary": full(8, "m-1"), "large": full(-1, strings.Repeat("x", 300<<10)),
		"pool": {Pool: &internalv1.PoolReport{UptimeSeconds: 1 << 62}}, "service": {State: &holdfastv1.ServiceState{}},
	} {
		if got, size := sizeOf(rn), proto.Size(rn); got < size || got > size+192 {
			t.Errorf("%s: got %d, want %d or a little more", name, got, size)
		}
	}
}
