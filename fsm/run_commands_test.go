package fsm_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// namedEntry is an entry of the Raft log with one command.
type namedEntry struct {
	name string
	data []byte
}

// entryOf encodes a command as the leader proposes it.
func entryOf(p *fsmtest.Peer, op proto.Message, origin *internalv1.Origin) []byte {
	c := fsmtest.Command(op)
	c.FeatureLevel, c.Time, c.Epoch = fsm.FeatureLevel, timestamppb.New(p.Now), p.Term
	c.Principal, c.Origin = "bench", origin
	return fsmtest.Encode(c)
}

// operatorOrigin is the origin of a call with a token, which is checked and audited.
func operatorOrigin() *internalv1.Origin {
	return &internalv1.Origin{Source: "10.20.30.40:53412", Peer: "p1", Method: "/holdfast.v1.RunService/StartRun",
		RequestId: "0123456789abcdef", TokenId: "t-1", Role: holdfastv1.Role_OPERATOR}
}

// prepareRuns stores the token and the plan of runEntries.
func prepareRuns(p *fsmtest.Peer) {
	p.Do(createToken("t-1", holdfastv1.Role_OPERATOR))
	p.Do(&internalv1.CreatePlan{Plan: planOf("plan/three", "inspect", "power", "ssh")})
}

// runEntries returns the entries of a run of three steps on machine m-<i>, in their order, each of
// one command, with the evidence and the log lines of a real one.
func runEntries(p *fsmtest.Peer, i int) []namedEntry {
	run := fmt.Sprintf("run-%06d", i)
	all := []namedEntry{{"StartRun", entryOf(p, &internalv1.StartRun{RunId: run, MachineId: fmt.Sprintf("m-%d", i),
		RequestId: fmt.Sprintf("request-%06d", i), Type: "REBOOT", PlanId: "plan/three", CheckedProvider: "fake",
		DefaultTimeoutSeconds: 600, DefaultMaxRetries: 3}, operatorOrigin())}}
	offset := int64(0)
	for n, step := range []string{"inspect", "power", "ssh"} {
		lines := &internalv1.LogAppend{RunId: run, Offset: offset}
		for _, text := range []string{"attempt 1 of " + step + "\n", step + " succeeded\n"} {
			lines.Chunks = append(lines.Chunks, &holdfastv1.LogChunk{Stream: "system", Step: step, Attempt: 1,
				Data: []byte(text)})
			offset += int64(len(text))
		}
		all = append(all,
			namedEntry{fmt.Sprintf("BeginAttempt.%d", n+1), entryOf(p, &internalv1.BeginAttempt{RunId: run, Step: step,
				Attempt: 1, Deadline: timestamppb.New(p.Now.Add(time.Hour)),
				EvidenceBefore: map[string]string{"power": "on", "boot_id": "b1"}, NextActionAt: timestamppb.New(p.Now)}, nil)},
			namedEntry{fmt.Sprintf("EndAttempt.%d", n+1), entryOf(p, &internalv1.EndAttempt{RunId: run, Step: step,
				Attempt: 1, Outcome: succeeded, EvidenceAfter: map[string]string{"power": "on", "boot_id": "b2"},
				Message: "done", Log: lines}, nil)})
	}
	return all
}

// applyEntry applies an entry whose commands must be accepted.
func applyEntry(tb testing.TB, p *fsmtest.Peer, entry []byte) {
	p.Index++
	for _, r := range p.Apply(p.Index, p.Term, entry) {
		if r.Err != nil {
			tb.Fatal(r.Err)
		}
	}
}

// BenchmarkRunCommands applies all commands of runs of three steps, each in an entry of its own as
// a lightly loaded leader commits them. cpu-ns/op is the processor time of a run, which other
// processes on the machine do not change much.
func BenchmarkRunCommands(b *testing.B) {
	const machines = 512
	b.ReportAllocs()
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		p := fleet(b, machines)
		prepareRuns(p)
		var entries []namedEntry
		for i := range machines {
			entries = append(entries, runEntries(p, i)...)
		}
		before := processorTime(b)
		b.StartTimer()
		for _, e := range entries {
			applyEntry(b, p, e.data)
		}
		b.StopTimer()
		used += processorTime(b) - before
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*machines), "ns/run")
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*machines), "cpu-ns/run")
}

// processorTime returns what this process has used of the processor.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
