package fsm_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func backup(t testing.TB, v *fsm.View) []byte {
	t.Helper()
	b, err := fsmtest.Backup(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBackupFileReadsBack(t *testing.T) {
	p := populated(t)
	v := p.View()
	b, err := fsm.ReadBackup(bytes.NewReader(backup(t, v)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Header.GetIndex(), v.Index(); got != want {
		t.Errorf("index: got %d, want %d", got, want)
	}
	if diff := cmp.Diff(v.SealedUnder(), b.Header.GetSecretsKeys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	machines := 0
	for range v.Machines("") {
		machines++
	}
	i := slices.IndexFunc(b.Tables(), func(c fsm.TableCount) bool { return c.Table == "machines" })
	if i < 0 || b.Tables()[i].Records != uint64(machines) {
		t.Errorf("tables: %v, want %d machines", b.Tables(), machines)
	}
	checked, err := fsm.CheckBackup(bytes.NewReader(backup(t, v)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.Tables(), checked.Tables); diff != "" {
		t.Errorf("tables of a file that was only checked (-read +checked):\n%s", diff)
	}
	if err := fsm.SumBackup(backup(t, v)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(v.Meta(), b.View().Meta(), protocmp.Transform()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

// TestDamagedBackup flips and cuts every byte that matters. No damaged file is accepted.
func TestDamagedBackup(t *testing.T) {
	file := backup(t, populated(t).View())
	for i := 0; i < len(file); i += 1 + len(file)/400 {
		bad := bytes.Clone(file)
		bad[i] ^= 0x10
		if _, err := fsm.ReadBackup(bytes.NewReader(bad)); err == nil {
			t.Errorf("byte %d of %d flipped: read without an error", i, len(file))
		}
		if _, err := fsm.ReadBackup(bytes.NewReader(file[:i])); err == nil {
			t.Errorf("cut off after %d of %d bytes: read without an error", i, len(file))
		}
		for what, part := range map[string][]byte{"flipped": bad, "cut off": file[:i]} {
			if _, err := fsm.CheckBackup(bytes.NewReader(part)); err == nil {
				t.Errorf("byte %d of %d %s: checked without an error", i, len(file), what)
			}
			if err := fsm.SumBackup(part); err == nil {
				t.Errorf("byte %d of %d %s: the sum is right", i, len(file), what)
			}
		}
	}
	for name, bad := range map[string][]byte{"none": []byte("no such thing"), "goes on": append(bytes.Clone(file), 'x')} {
		if _, err := fsm.ReadBackup(bytes.NewReader(bad)); err == nil ||
			!strings.Contains(err.Error(), "read snapshot file") {
			t.Errorf("%s: got %v, want an error that says what was read", name, err)
		}
	}
}

// TestRestoreEndsRuns restores a state with a run in progress. The run fails with a reason,
// its machine needs intervention, and no part of it continues.
func TestRestoreEndsRuns(t *testing.T) {
	p, run := running(t)
	do(t, p, &internalv1.InitCluster{ClusterId: "c1"})
	do(t, p, &internalv1.BeginAttempt{RunId: run, Step: mustRun(t, p, run).GetCurrentStep(), Attempt: 1})
	file := backup(t, p.View())
	r := p.RestoreFile(file, 1000, &internalv1.RestoreBackup{RestoreId: "r1"})
	if r.Err == nil || r.Err.Reason != fsm.ReasonRunsActive {
		t.Fatalf("restore with an active run: got %v, want %s", r.Err, fsm.ReasonRunsActive)
	}
	last := p.View().LastRunEvent()
	p.Lead(7)
	if r = p.RestoreFile(file, 1000, &internalv1.RestoreBackup{RestoreId: "r2", AbandonRuns: true}); r.Err != nil {
		t.Fatal(r.Err)
	}
	got := mustRun(t, p, run)
	if got.GetPhase() != holdfastv1.Run_FAILED || got.GetError().GetReason() != "Restored" {
		t.Errorf("run: got %v, want one that has FAILED for Restored", got)
	}
	if fsm.Open(got.GetSteps()[0].GetAttempts()[0]) {
		t.Error("its attempt is still open")
	}
	m, _ := p.View().Machine(got.GetMachineId())
	if m.GetStatus().GetPhase() != holdfastv1.MachineStatus_MAINTENANCE || m.GetStatus().GetActiveRunId() != "" {
		t.Errorf("machine: got %v, want it in MAINTENANCE without a run", m.GetStatus())
	}
	if e := p.View().Meta().GetEpoch(); e != 7 {
		t.Errorf("epoch: got %d, want 7: it never goes down", e)
	}
	if _, err := p.View().RunEvents(last, 10); err == nil {
		t.Error("a watcher with a cursor of before goes on as if nothing had happened")
	}
	out := r.Value.(*holdfastv1.RestoreSnapshotResponse)
	if diff := cmp.Diff([]string{run}, out.GetEndedRuns()); diff != "" {
		t.Errorf("ended runs (-want +got):\n%s", diff)
	}
	if err := fsmtest.Check(p.View()); err != nil {
		t.Error(err)
	}
}

// TestRestoreHoldsNoPlan checks that runs ended by a restore do not count against their plan.
func TestRestoreHoldsNoPlan(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.InitCluster{ClusterId: "c1"})
	plan(t, p, "plan/x", "ssh")
	for i := range 8 {
		machine, run := fmt.Sprint("m-", i), fmt.Sprint("request-", i)
		register(t, p, machine, ready)
		start(t, p, machine, run, "", "plan/x")
		do(t, p, &internalv1.BeginAttempt{RunId: "run-" + run, Step: mustRun(t, p, "run-"+run).GetCurrentStep(), Attempt: 1})
	}
	file := backup(t, p.View())
	r := p.RestoreFile(file, 1000, &internalv1.RestoreBackup{RestoreId: "r1", AbandonRuns: true})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if n := len(r.Value.(*holdfastv1.RestoreSnapshotResponse).GetEndedRuns()); n != 8 {
		t.Errorf("%d runs were ended, want 8", n)
	}
	if x, _ := p.View().Plan("plan/x"); x.GetBrake() != nil || len(x.GetRecent()) != 0 {
		t.Errorf("plan: got %v, want it not held, and nothing on its record", x)
	}
}

// Runs ended by the end of a cluster do not count against their plans either.
func TestRecoverHoldsNoPlan(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.InitCluster{ClusterId: "c1"})
	plan(t, p, "plan/x", "ssh")
	for i := range 8 {
		machine := fmt.Sprint("m-", i)
		register(t, p, machine, ready)
		start(t, p, machine, fmt.Sprint("request-", i), "", "plan/x")
	}
	if ended, err := p.Recover("c2", "the majority is lost"); err != nil || len(ended) != 8 {
		t.Fatalf("%d runs have ended, %v, want 8", len(ended), err)
	}
	if x, _ := p.View().Plan("plan/x"); x.GetBrake() != nil || len(x.GetRecent()) != 0 {
		t.Errorf("plan: got %v, want it not held, and nothing on its record", x)
	}
}

func mustRun(t testing.TB, p *fsmtest.Peer, id string) *holdfastv1.Run {
	t.Helper()
	r, ok := p.View().Run(id)
	if !ok {
		t.Fatalf("no run %s", id)
	}
	return r
}

func TestRestoreKeepsCredentials(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.InitCluster{ClusterId: "c1"})
	token := func(id string, sum byte) {
		do(t, p, &internalv1.CreateToken{Token: &internalv1.StoredToken{Sha256: bytes.Repeat([]byte{sum}, 32),
			Token: &holdfastv1.Token{TokenId: id, Name: id, Role: holdfastv1.Role_ADMIN, CreatedAt: p.View().Meta().GetNow()}}})
	}
	token("t-old", 1)
	file := backup(t, p.View())
	do(t, p, &internalv1.RevokeToken{TokenId: "t-old"})
	token("t-new", 2)
	if r := p.RestoreFile(file, 512, &internalv1.RestoreBackup{RestoreId: "r1"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	old, _ := p.View().Token("t-old")
	if old.GetRevokedAt() == nil {
		t.Error("a restore has brought a revoked token back")
	}
	if _, ok := p.View().Token("t-new"); !ok {
		t.Error("a token that was made since is gone")
	}
}

// Webhooks come from the snapshot, and receive events after the restore. Events in between
// are lost.
func TestRestoreMovesWebhooksOn(t *testing.T) {
	p := populated(t)
	do(t, p, &internalv1.PutWebhook{Webhook: &holdfastv1.Webhook{Name: "chat", Url: "https://hooks.example"}})
	file := backup(t, p.View())
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-late"}})
	do(t, p, &internalv1.DeleteWebhook{Name: "chat"})
	before := p.View().LastEvent()
	if r := p.RestoreFile(file, 1000, &internalv1.RestoreBackup{RestoreId: "r1", AbandonRuns: true}); r.Err != nil {
		t.Fatal(r.Err)
	}
	v := p.View()
	w, ok := v.Webhook("chat")
	if !ok || w.GetCursor() <= before || w.GetMissed() != 0 {
		t.Errorf("the webhook is %v, want it after event %d", w, before)
	}
	if _, err := v.Events(before, 1); err == nil {
		t.Error("who watches from before goes on as if nothing had happened")
	}
	if _, err := v.Events(w.GetCursor(), 1); err != nil {
		t.Errorf("the webhook cannot go on: %v", err)
	}
}

func TestRestoreRefusals(t *testing.T) {
	other := populated(t)
	file := backup(t, other.View())
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.InitCluster{ClusterId: "c1"})
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "mine"}})
	if r := p.RestoreFile(file, 4096, &internalv1.RestoreBackup{RestoreId: "r1"}); r.Err == nil ||
		r.Err.Reason != fsm.ReasonOtherCluster {
		t.Errorf("another cluster's file into one that is not empty: got %v, want %s", r.Err, fsm.ReasonOtherCluster)
	}
	// A new leader clears the stage: an upload to one leader cannot be completed under the
	// next.
	do(t, p, &internalv1.StageBackup{RestoreId: "r2", Data: file[:100]})
	p.Lead(2)
	if r := p.Do(&internalv1.StageBackup{RestoreId: "r2", Sequence: 1, Data: file[100:200]}); r.Err == nil ||
		r.Err.Reason != fsm.ReasonStageGone {
		t.Errorf("a chunk after a change of leader: got %v, want %s", r.Err, fsm.ReasonStageGone)
	}
	if r := p.RestoreFile(append(bytes.Clone(file[:len(file)-1]), 0), 4096,
		&internalv1.RestoreBackup{RestoreId: "r3", OtherCluster: true}); r.Err == nil || r.Err.Reason != "SNAPSHOT_DAMAGED" {
		t.Errorf("a damaged file: got %v, want SNAPSHOT_DAMAGED", r.Err)
	}
	if _, ok := p.View().Machine("mine"); !ok {
		t.Error("a refused restore has changed the state")
	}
	if r := p.RestoreFile(file, 4096, &internalv1.RestoreBackup{RestoreId: "r4", OtherCluster: true}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if id := p.View().Meta().GetClusterId(); id != "c1" {
		t.Errorf("cluster id: got %s, want its own, c1", id)
	}
	if err := fsmtest.CheckAudit(p.View()); err != nil {
		t.Error(err)
	}
}

// TestRestoreKeepsRequests checks that a request that was made since the snapshot still names its
// run after a restore: a repeated REPAVE must not erase the disk again.
func TestRestoreKeepsRequests(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m-1", ready)
	register(t, p, "m-2", ready)
	file := backup(t, p.View())
	plan(t, p, "plan/later", "reboot")
	start(t, p, "m-1", "ended", "REBOOT", "")
	finish(t, p, "run-ended", succeeded)
	start(t, p, "m-1", "later", "", "plan/later")
	finish(t, p, "run-later", failed)
	start(t, p, "m-2", "active", "REPAVE", "")
	begin(t, p, "run-active")
	r := p.RestoreFile(file, 700, &internalv1.RestoreBackup{RestoreId: "r", AbandonRuns: true})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, tt := range []struct {
		machine, request, kind, plan string
		phase                        holdfastv1.Run_Phase
	}{
		{"m-1", "ended", "REBOOT", "", holdfastv1.Run_SUCCEEDED},
		{"m-1", "later", "", "plan/later", holdfastv1.Run_FAILED},
		{"m-2", "active", "REPAVE", "", holdfastv1.Run_FAILED},
	} {
		op := startOp(tt.machine, tt.request, tt.kind, tt.plan)
		op.RunId = "another"
		run := do(t, p, op).(*holdfastv1.Run)
		if run.GetRunId() != "run-"+tt.request || run.GetPhase() != tt.phase || len(run.GetSteps()) != 0 {
			t.Errorf("request %s after the restore: got run %s, %s with %d steps", tt.request, run.GetRunId(),
				run.GetPhase(), len(run.GetSteps()))
		}
	}
	if err := fsmtest.Check(p.View()); err != nil {
		t.Error(err)
	}
}

// TestRestoreKeepsGenerations checks that no lease gets a generation again that a heartbeat may
// still carry: neither one that is in the snapshot nor one that was granted since.
func TestRestoreKeepsGenerations(t *testing.T) {
	p := fsmtest.NewPeer()
	pool := func(id string) uint64 {
		t.Helper()
		do(t, p, &internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: id}, TtlMs: 30_000})
		l, _ := p.View().Lease(internalv1.LeaseRef_POOL, id)
		return l.GetRef().GetGeneration()
	}
	pool("old")
	file := backup(t, p.View())
	had := map[string]uint64{}
	for range 3 {
		had["old"], had["new"] = pool("old"), pool("new")
	}
	if r := p.RestoreFile(file, 700, &internalv1.RestoreBackup{RestoreId: "r"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	for id, was := range had {
		if got := pool(id); got <= was {
			t.Errorf("pool %s: got generation %d after the restore, had %d before", id, got, was)
		}
	}
}

// TestRestoreProperty restores an earlier state at a random point of a log. All invariants
// hold after it, nothing goes back that must not, and more commands apply. A peer that
// applies the same log, through a snapshot, has the same bytes.
func TestRestoreProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p, g := furnished(), &fsmtest.Generator{Chooser: drawn{rt}}
		live := func(n int) {
			for range n {
				p.Propose(g.Next(p.View()))
			}
		}
		live(rapid.IntRange(0, 40).Draw(rt, "before"))
		file := backup(t, p.View())
		live(rapid.IntRange(0, 40).Draw(rt, "after"))
		before := p.View()
		var twin fsmtest.Peer
		{ // it gets the state by a snapshot, then the restore by the log
			b, err := fsmtest.Bytes(p.FSM)
			if err != nil {
				rt.Fatal(err)
			}
			twin = fsmtest.Peer{FSM: fsm.New(), Index: p.Index, Term: p.Term, Now: p.Now}
			if err := twin.Restore(bytes.NewReader(b)); err != nil {
				rt.Fatal(err)
			}
		}
		c := &internalv1.RestoreBackup{RestoreId: "again", AbandonRuns: true, OtherCluster: true}
		if r := p.RestoreFile(file, 700, proto.CloneOf(c)); r.Err != nil {
			rt.Fatal(r.Err)
		}
		if r := twin.RestoreFile(file, 700, c); r.Err != nil {
			rt.Fatal(r.Err)
		}
		mine, err1 := fsmtest.Bytes(p.FSM)
		its, err2 := fsmtest.Bytes(twin.FSM)
		if err1 != nil || err2 != nil || !bytes.Equal(mine, its) {
			rt.Fatalf("two peers differ after the same restore: %v, %v", err1, err2)
		}
		a, b := before.Meta(), p.View().Meta()
		if b.GetEpoch() < a.GetEpoch() || b.GetNow().AsTime().Before(a.GetNow().AsTime()) ||
			b.GetLastRunEvent() <= a.GetLastRunEvent() || b.GetLeaseClockMs() < a.GetLeaseClockMs() ||
			b.GetAppliedIndex() <= a.GetAppliedIndex() || b.GetClusterId() != a.GetClusterId() {
			rt.Fatalf("something went back: %v, then %v", a, b)
		}
		for r := range p.View().ActiveRuns() {
			rt.Fatalf("run %s is active after a restore", r.GetRunId())
		}
		check := func() {
			if err := fsmtest.Check(p.View()); err != nil {
				rt.Fatal(err)
			}
			if err := fsmtest.CheckAudit(p.View()); err != nil {
				rt.Fatal(err)
			}
		}
		check()
		live(rapid.IntRange(0, 15).Draw(rt, "and on"))
		check()
	})
}

func FuzzReadBackup(f *testing.F) {
	file, err := fsmtest.Backup(fsmtest.NewPeer().View())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add([]byte("HOLDFAST-SNAPSHOT\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		b, err := fsm.ReadBackup(bytes.NewReader(data))
		if err == nil {
			_ = b.Tables()
		}
	})
}

// TestStagedMark checks that the mark changes with the stage, and with nothing else.
func TestStagedMark(t *testing.T) {
	p := fsmtest.NewPeer()
	file := backup(t, p.View())
	seen := map[any]bool{p.View().StagedMark(): true}
	for _, tc := range []struct {
		name string
		do   func()
		want bool // whether it changes
	}{
		{"a chunk", func() { do(t, p, &internalv1.StageBackup{RestoreId: "r1", Data: file[:100]}) }, true},
		{"something else", func() { register(t, p, "m-1", ready) }, false},
		{"the rest", func() { do(t, p, &internalv1.StageBackup{RestoreId: "r1", Sequence: 1, Data: file[100:]}) }, true},
		{"the restore", func() { do(t, p, &internalv1.RestoreBackup{RestoreId: "r1", Chunks: 2, OtherCluster: true}) }, true},
		{"a chunk of another one", func() { do(t, p, &internalv1.StageBackup{RestoreId: "r2", Data: file}) }, true},
		{"another leader", func() { p.Lead(2) }, true},
	} {
		tc.do()
		mark := p.View().StagedMark()
		if got := !seen[mark]; got != tc.want {
			t.Errorf("after %s: another mark %v, want %v", tc.name, got, tc.want)
		}
		seen[mark] = true
	}
}
