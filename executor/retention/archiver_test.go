package retention

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/archive"
	"github.com/holdfast-metal/holdfast/internal/archive/dir"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// breaking is an archive in a directory that can fail, corrupt data, or call a function at each
// call.
type breaking struct {
	*dir.Store
	before func(call string) error
	damage bool // reads differ from writes
}

func (b *breaking) Put(ctx context.Context, name string, data []byte) error {
	if err := b.before("put"); err != nil {
		return err
	}
	return b.Store.Put(ctx, name, data)
}

func (b *breaking) Get(ctx context.Context, name string) ([]byte, error) {
	if err := b.before("get"); err != nil {
		return nil, err
	}
	data, err := b.Store.Get(ctx, name)
	if b.damage && err == nil {
		data[0] ^= 1
	}
	return data, err
}

func (b *breaking) Remove(ctx context.Context, folder string) error {
	if err := b.before("remove"); err != nil {
		return err
	}
	return b.Store.Remove(ctx, folder)
}

func newBreaking(t *testing.T) *breaking {
	t.Helper()
	d, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return &breaking{Store: d, before: func(string) error { return nil }}
}

// old returns a lab with ended runs of one machine.
func old(t *testing.T, n int) (*lab, []string) {
	t.Helper()
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: "yes 100"}))
	l.lead(quick())
	var ids []string
	for range n {
		id := l.Start("m-1", "", "p", nil).GetRunId()
		l.Ended(id)
		l.Wait(id, "compacted", (*holdfastv1.Run).GetLogCompacted)
		ids = append(ids, id)
	}
	return l, ids
}

const month = 31 * 24 * time.Hour

// passes moves the clock of the state, as time does.
func (l *lab) passes(to time.Time) {
	l.T.Helper()
	l.Must(&internalv1.Command{Time: timestamppb.New(to), Op: &internalv1.Command_NoOp{NoOp: &internalv1.NoOp{}}})
}

// TestArchiver checks that old runs are archived, the newest stay, and the object is complete.
func TestArchiver(t *testing.T) {
	l, ids := old(t, 3)
	a := newBreaking(t)
	reg := prometheus.NewRegistry()
	v := NewArchiver(ArchiverConfig{KeepRuns: 1, Keep: 2 * month, Registerer: reg}, l, l.FSM, a)
	passAt := func(now time.Time) {
		t.Helper()
		if err := v.pass(t.Context(), l.Epoch(), now); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := l.FSM.View().Run(ids[0])
	text := l.Log(ids[0], "stdout")
	passAt(time.Now())
	if r, _ := l.FSM.View().Run(ids[0]); r.GetArchive() != nil {
		t.Error("run of today: got it archived")
	}
	passAt(time.Now().Add(month))
	for i, id := range ids {
		r, _ := l.FSM.View().Run(id)
		if got, want := r.GetArchive() != nil, i < 2; got != want {
			t.Errorf("run %d: got archived %v, want %v", i, got, want)
		}
	}
	r, _ := l.FSM.View().Run(ids[0])
	data, err := a.Store.Get(t.Context(), r.GetArchive().GetObject())
	if err != nil {
		t.Fatal(err)
	}
	o, err := archive.Open(data, r.GetArchive().GetSha256())
	if err != nil || len(o.GetRun().GetSteps()) != len(before.GetSteps()) || len(o.GetLog()) == 0 || text == "" {
		t.Errorf("object: got %v, run %v, %d blocks", err, o.GetRun(), len(o.GetLog()))
	}

	l.passes(time.Now().Add(3 * month))
	passAt(time.Now().Add(3 * month))
	r, _ = l.FSM.View().Run(ids[0])
	if r.GetArchive().GetDroppedAt() == nil {
		t.Error("archived run: got it kept beyond its retention")
	}
	if _, err := a.Store.Get(t.Context(), r.GetArchive().GetObject()); !errors.Is(err, archive.ErrNotFound) {
		t.Errorf("object of the run: got %v, want ErrNotFound", err)
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("got %d metrics, %v", len(families), err)
	}
	counted := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		counted[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	if diff := cmp.Diff(map[string]float64{"archived": 2, "dropped": 2, "failed": 0}, counted); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// TestArchiverFaults checks that a run is complete in the state or in the archive after each
// fault, and that the next pass continues.
func TestArchiverFaults(t *testing.T) {
	for _, call := range []string{"put", "get", "damaged"} {
		t.Run(call, func(t *testing.T) {
			l, ids := old(t, 1)
			a := newBreaking(t)
			a.damage = call == "damaged"
			a.before = func(c string) error {
				if c == call {
					return errors.New("archive unavailable")
				}
				return nil
			}
			v := NewArchiver(ArchiverConfig{KeepRuns: -1}, l, l.FSM, a)
			then := time.Now().Add(month)
			if err := v.pass(t.Context(), l.Epoch(), then); err != nil {
				t.Fatalf("pass with an unavailable archive: got %v, want no error", err)
			}
			if r, _ := l.FSM.View().Run(ids[0]); r.GetArchive() != nil || len(r.GetSteps()) == 0 ||
				l.Log(ids[0], "stdout") == "" {
				t.Fatalf("run: got it archived without an object: %v", r)
			}
			a.before, a.damage = func(string) error { return nil }, false
			if err := v.pass(t.Context(), l.Epoch(), then); err != nil {
				t.Fatal(err)
			}
			if r, _ := l.FSM.View().Run(ids[0]); r.GetArchive() == nil {
				t.Error("next pass: got no archived run")
			}
		})
	}
}

// TestArchiverIsReplaced checks that a leader that was replaced between the archive and the state
// changes nothing and returns an error. Its successor writes the run again.
func TestArchiverIsReplaced(t *testing.T) {
	for _, call := range []string{"put", "get", "remove"} {
		t.Run(call, func(t *testing.T) {
			l, ids := old(t, 1)
			a := newBreaking(t)
			cfg := ArchiverConfig{KeepRuns: -1, Keep: 2 * month}
			then := time.Now().Add(month)
			if call == "remove" {
				if err := NewArchiver(cfg, l, l.FSM, a).pass(t.Context(), l.Epoch(), then); err != nil {
					t.Fatal(err)
				}
				then = then.Add(2 * month)
				l.passes(then)
			}
			stale := l.Epoch()
			a.before = func(c string) error {
				if c == call && l.Epoch() == stale {
					l.lead(quick())
				}
				return nil
			}
			err := NewArchiver(cfg, l, l.FSM, a).pass(t.Context(), stale, then)
			if err == nil || !strings.Contains(err.Error(), "epoch") {
				t.Errorf("old leader: got %v, want an old epoch", err)
			}
			r, _ := l.FSM.View().Run(ids[0])
			if call == "remove" && r.GetArchive().GetDroppedAt() != nil || call != "remove" && r.GetArchive() != nil {
				t.Errorf("old leader: got the run archived: %v", r.GetArchive())
			}
			if err := NewArchiver(cfg, l, l.FSM, a).pass(t.Context(), l.Epoch(), then); err != nil {
				t.Fatal(err)
			}
			if r, _ := l.FSM.View().Run(ids[0]); r.GetArchive() == nil ||
				(call == "remove") != (r.GetArchive().GetDroppedAt() != nil) {
				t.Errorf("new leader: got the run not archived: %v", r.GetArchive())
			}
		})
	}
}

// TestArchiverWithWrongClock checks that a leader whose clock is far ahead removes no archived run,
// because the clock of the state decides.
func TestArchiverWithWrongClock(t *testing.T) {
	l, ids := old(t, 1)
	a := newBreaking(t)
	v := NewArchiver(ArchiverConfig{KeepRuns: -1, Keep: 2 * month}, l, l.FSM, a)
	if err := v.pass(t.Context(), l.Epoch(), time.Now().Add(month)); err != nil {
		t.Fatal(err)
	}
	if err := v.pass(t.Context(), l.Epoch(), time.Now().Add(6*month)); err != nil {
		t.Fatal(err)
	}
	r, _ := l.FSM.View().Run(ids[0])
	if r.GetArchive() == nil || r.GetArchive().GetDroppedAt() != nil {
		t.Errorf("got %v, want an archived run that is not dropped", r.GetArchive())
	}
	if _, err := a.Get(t.Context(), r.GetArchive().GetObject()); err != nil {
		t.Errorf("object of the run: %v", err)
	}
}
