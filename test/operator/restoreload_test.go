package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

const (
	writers = 4
	enough  = 150 // acknowledged writes in each part of the test
)

// write is the registration of a machine, acknowledged or not.
type write struct {
	id           string
	began, ended time.Time
}

// traffic registers machines continuously, and starts a run on each.
type traffic struct {
	t       *testing.T
	c       *client.Client
	mu      sync.Mutex
	acked   []write
	started []*holdfastv1.Run
}

// run is one writer. It does not retry, because a restore may end a call in any way.
func (tr *traffic) run(ctx context.Context, name string) {
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-pace.C
		w := write{id: fmt.Sprintf("%s-%05d", name, i), began: time.Now()}
		_, err := tr.c.Machines().RegisterMachine(ctx,
			&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: w.id,
				Spec: &holdfastv1.MachineSpec{Provider: "fake"}}})
		if w.ended = time.Now(); err != nil {
			continue
		}
		tr.mu.Lock()
		tr.acked = append(tr.acked, w)
		tr.mu.Unlock()
		if i%20 != 0 {
			continue
		}
		r, err := tr.c.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{MachineId: w.id, Type: "REBOOT", RequestId: w.id})
		if err == nil {
			tr.mu.Lock()
			tr.started = append(tr.started, r)
			tr.mu.Unlock()
		}
	}
}

// wait blocks until this number of further writes has been acknowledged.
func (tr *traffic) wait(ctx context.Context, more int) {
	tr.t.Helper()
	count := func() int {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return len(tr.acked)
	}
	for want := count() + more; count() < want; {
		select {
		case <-ctx.Done():
			tr.t.Fatalf("got %d acknowledged writes, want %d: %v", count(), want, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestRestoreUnderLoad restores a snapshot under traffic. The state must be exactly that of the
// file, writes acknowledged after the restore must stay, and no effect may happen for runs from
// before it.
func TestRestoreUnderLoad(t *testing.T) {
	s := open(t)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	c, err := client.Dial(client.Config{Addrs: s.Addrs(), TLS: s.TLS(), Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	tr := &traffic{t: t, c: c}
	working, rest := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() { tr.run(working, fmt.Sprintf("w%d", i)) })
	}
	defer all.Wait()
	defer rest()

	tr.wait(ctx, enough)
	file := filepath.Join(s.dir, "load.snap")
	saving := time.Now()
	s.must(t, "operator", "snapshot", "save", file)
	saved := time.Now()
	tr.wait(ctx, enough)
	restoring := time.Now()
	s.must(t, "operator", "snapshot", "restore", "--yes", file, "--abandon-runs")
	restored := time.Now()
	pressed := s.effects(ctx, t, "")
	tr.wait(ctx, enough)
	rest()
	all.Wait()

	there := map[string]bool{}
	for id := range strings.FieldsSeq(s.machines(t)) {
		there[id] = true
	}
	var before, gone, after int
	var last, longest time.Time
	var away time.Duration
	for _, w := range tr.acked {
		switch {
		case w.ended.Before(saving):
			if before++; !there[w.id] {
				t.Errorf("machine %s, acknowledged before the snapshot: got none, want it restored", w.id)
			}
		case w.began.After(saved) && w.ended.Before(restoring):
			if gone++; there[w.id] {
				t.Errorf("machine %s, registered between snapshot and restore: got it, want none", w.id)
			}
		case w.began.After(restored):
			if after++; !there[w.id] {
				t.Errorf("machine %s, acknowledged after the restore: got none", w.id)
			}
		}
		if d := w.ended.Sub(last); !last.IsZero() && d > away {
			away, longest = d, w.ended
		}
		last = w.ended
	}
	if before == 0 || gone == 0 || after == 0 {
		t.Errorf("got %d writes kept, %d lost and %d after it, want some of each", before, gone, after)
	}
	for _, addr := range s.Addrs() {
		if out, code := s.run(t, true, "--addr", addr, "--stale", "cluster", "status"); code != 0 {
			t.Errorf("%s after the restore: got exit code %d\n%s", addr, code, out)
		}
	}
	t.Logf("%d writes kept, %d lost, %d after it; at most %s without an answered write, at %s of a restore of %s",
		before, gone, after, away.Round(time.Millisecond), longest.Sub(restoring).Round(time.Millisecond),
		restored.Sub(restoring).Round(time.Millisecond))
	if away > 10*time.Second {
		t.Errorf("got %s without an answered write, want at most 10s", away)
	}
	tr.judge(ctx, s, restored, pressed)
	s.must(t, "audit", "verify")
}

// judge compares the runs with the effects. Runs from before the restore are gone, failed or
// without steps, and have no further effects. Runs started after it end, with each effect once.
func (tr *traffic) judge(ctx context.Context, s *site, restored time.Time, pressed []fake.Effect) {
	tr.t.Helper()
	were := map[string]int{}
	for _, e := range pressed {
		were[e.RunID]++
	}
	ended := 0
	for _, r := range tr.started {
		got, err := tr.c.WaitRun(ctx, r.GetRunId())
		if status.Code(err) == codes.NotFound {
			if r.GetCreatedAt().AsTime().After(restored) {
				tr.t.Errorf("run %s, started after the restore: got none", r.GetRunId())
			}
			continue
		}
		if err != nil {
			tr.t.Fatalf("run %s: %v", r.GetRunId(), err)
		}
		of := s.effects(ctx, tr.t, r.GetRunId())
		if got.GetError().GetReason() == "Restored" || got.GetArchive().GetDroppedAt() != nil {
			if len(of) != were[r.GetRunId()] {
				tr.t.Errorf("run %s, from before the restore: got %d later effects, want 0", r.GetRunId(),
					len(of)-were[r.GetRunId()])
			}
			continue
		}
		ended++
		for _, found := range harness.Judge(got, of) {
			tr.t.Errorf("run %s: %s", r.GetRunId(), found)
		}
	}
	if ended == 0 {
		tr.t.Error("got no run that ended by itself, want some")
	}
}

// effects lists the effects of a run, or of all runs if run is empty.
func (s *site) effects(ctx context.Context, t *testing.T, run string) []fake.Effect {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.hardware.Endpoint+"/effects?run_id="+run, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var all []fake.Effect
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}
