package marks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

var errDisk = errors.New("input/output error")

// disk is the part of a data directory that this package uses.
type disk struct {
	book []byte
	id   Identity
	why  string // why it has lost its vote
	fail bool   // the next write fails; it may be on the disk nevertheless
	torn bool
}

func (d *disk) Marks() ([]byte, error) { return d.book, nil }

func (d *disk) SetMarks(book []byte) error {
	if d.fail {
		if d.torn {
			d.book = book
		}
		return errDisk
	}
	d.book = book
	return nil
}

func (d *disk) lose(why string) error {
	d.id = Identity{Cluster: d.id.Cluster, Instance: d.id.Instance + "'"}
	d.why = why
	return nil
}

func (d *disk) open(self, file string) (*Keeper, error) {
	return Open(Config{Self: self, Store: d, Identity: func() Identity { return d.id }, LoseVote: d.lose, File: file,
		Logger: slog.New(slog.DiscardHandler)})
}

func newDisk(instance string) *disk {
	return &disk{id: Identity{Cluster: "c", Instance: instance, Admitted: true}}
}

// must opens a directory and ends the test if that fails.
func must(t interface {
	Fatal(...any)
	Helper()
}, d *disk, self string) *Keeper {
	t.Helper()
	k, err := d.open(self, "")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestDirectoryPutBack puts a directory back after each number of starts, and tells it and another
// peer about each other.
func TestDirectoryPutBack(t *testing.T) {
	for starts := range kept + 3 {
		p, q := newDisk("p"), must(t, newDisk("q"), "q")
		old := *p
		for i := range starts + 1 {
			if i == starts {
				old = *p
			}
			if err := q.Meet(must(t, p, "p").Greeting()); err != nil {
				t.Fatalf("start %d: %v", i, err)
			}
		}
		copied := must(t, &old, "p")
		if err := q.Meet(copied.Greeting()); err == nil {
			t.Errorf("put back after start %d: another peer accepts it", starts)
		}
		if err := copied.Meet(q.Greeting()); !errors.Is(err, ErrStale) || old.id.Admitted || old.why == "" {
			t.Errorf("put back after start %d: got %v, may vote: %t (%s)", starts, err, old.id.Admitted, old.why)
		}
		if err := copied.Run(t.Context(), Others{Changed: func() <-chan struct{} { return nil },
			Voters: func() []string { return nil }, Peers: func() []string { return nil }}); !errors.Is(err, ErrStale) {
			t.Errorf("put back after start %d: got that the peer ends with %v", starts, err)
		}
		// It rejoins as a peer that has lost its data, and is not refused again.
		again := must(t, &old, "p")
		if err := errors.Join(q.Meet(again.Greeting()), again.Meet(q.Greeting())); err != nil {
			t.Errorf("after it has lost its vote: %v", err)
		}
		old.id.Admitted, old.id.AdmittedAt = true, 9
		if err := errors.Join(again.Meet(q.Greeting()), q.Meet(again.Greeting()), again.Meet(q.Greeting())); err != nil {
			t.Errorf("after it may vote again: %v", err)
		}
		if err := q.Meet(must(t, p, "p").Greeting()); err == nil {
			t.Error("the directory of the earlier instance: another peer accepts it")
		}
	}
}

// TestToldByOthers checks that a peer learns from a second one what a third one has told that.
func TestToldByOthers(t *testing.T) {
	p, q, r := newDisk("p"), must(t, newDisk("q"), "q"), must(t, newDisk("r"), "r")
	old := *p
	if err := errors.Join(q.Meet(must(t, p, "p").Greeting()), r.Meet(q.Greeting())); err != nil {
		t.Fatal(err)
	}
	if err := r.Meet(must(t, &old, "p").Greeting()); err == nil {
		t.Error("an old directory: the third peer accepts it")
	}
}

// TestOtherFiles checks files of different directories in one.
func TestOtherFiles(t *testing.T) {
	d := newDisk("i")
	must(t, d, "p")
	if _, err := d.open("p2", ""); !errors.Is(err, ErrForeign) {
		t.Errorf("raft.db of another peer: got %v, want an error", err)
	}
	d.id.Instance = "j" // an identity.json of another time
	if k := must(t, d, "p"); d.id.Admitted || k.Greeting().GetMarks().GetInstance() != d.id.Instance {
		t.Errorf("identity.json of another time: got %+v, want no vote", d.id)
	}
}

// TestNothingIsProven checks greetings that must change nothing.
func TestNothingIsProven(t *testing.T) {
	d := newDisk("i")
	k := must(t, d, "p")
	far := map[string]*internalv1.Marks{"p": list("i", 0, 99, 1), "q": list("q", 0, 5, 5)}
	for _, g := range []*internalv1.Greeting{
		{},
		{ClusterId: "c", Known: far}, // without a name
		{ClusterId: "other", PeerId: "q", Known: far},  // of another cluster
		{PeerId: "q", Known: far},                      // of none
		{ClusterId: "c", PeerId: "p", Known: far},      // of itself
		{ClusterId: "c", PeerId: "q", Marks: far["q"]}, // may not vote
	} {
		if err := k.Meet(g); err != nil || !d.id.Admitted || k.Known("q") != nil {
			t.Errorf("greeting %v: got %v, may vote: %t, remembers %v", g, err, d.id.Admitted, k.Known("q"))
		}
	}
	d.id.Admitted = false // it is catching up: nothing can be too old
	if err := k.Meet(&internalv1.Greeting{ClusterId: "c", PeerId: "q", Known: far}); err != nil {
		t.Errorf("a peer that may not vote: got %v", err)
	}
	// The recovered cluster has peers of the same names.
	d.id.Admitted = true
	if err := k.Meet(&internalv1.Greeting{ClusterId: "c", PeerId: "q", Admitted: true, Marks: far["q"]}); err != nil {
		t.Fatal(err)
	}
	d.id.Cluster = "recovered"
	if got := k.Greeting().GetKnown(); got != nil || k.Known("q") != nil {
		t.Errorf("in another cluster: got that it remembers %v", got)
	}
	g := &internalv1.Greeting{ClusterId: "recovered", PeerId: "q", Admitted: true, Marks: list("new", 0, 1, 1)}
	if err := k.Meet(g); err != nil || k.Known("q").GetInstance() != "new" {
		t.Errorf("a new peer of that name: got %v, %v", k.Known("q"), err)
	}
}

// TestHealthyPeersAreNeverRefused runs three peers at random: they crash and restart at any write,
// writes fail and may be on disk nevertheless, greetings arrive late, twice and in any order, peers
// lose their data and are admitted again. No peer may ever take its own directory for an old one.
// Then one directory is put back. A peer that remembers a mark which it lacks must refuse it.
func TestHealthyPeersAreNeverRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"p", "q", "r"}
		disks, peers := map[string]*disk{}, map[string]*Keeper{}
		for _, n := range names {
			disks[n] = newDisk(n)
			peers[n] = must(t, disks[n], n)
		}
		index := uint64(0)
		var sent []*internalv1.Greeting
		name := func(label string) string { return rapid.SampledFrom(names).Draw(t, label) }
		fails := func(d *disk) {
			d.fail = rapid.IntRange(0, 3).Draw(t, "fails") == 0
			d.torn = rapid.Bool().Draw(t, "on disk nevertheless")
		}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			n := name("peer")
			d, k := disks[n], peers[n]
			index++
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0: // restart, at best in the second try
				fails(d)
				if again, err := d.open(n, ""); err == nil {
					peers[n] = again
				} else {
					d.fail = false
					peers[n] = must(t, d, n)
				}
			case 1: // a minute later; a peer whose write fails ends, and is started again
				fails(d)
				if k.renew() != nil {
					d.fail = false
					peers[n] = must(t, d, n)
				}
			case 2:
				sent = append(sent, proto.Clone(k.Greeting()).(*internalv1.Greeting))
			case 3, 4:
				if len(sent) == 0 {
					break
				}
				g := rapid.SampledFrom(sent).Draw(t, "greeting")
				fails(d)
				err := k.Meet(g)
				if errors.Is(err, ErrStale) || !d.id.Admitted && d.why != "" {
					t.Fatalf("peer %s, told by %s: %v", n, g.GetPeerId(), err)
				}
				if errors.Is(err, errDisk) {
					d.fail = false
					peers[n] = must(t, d, n)
				}
			case 5: // it has lost its data, and catches up
				disks[n] = &disk{id: Identity{Cluster: "c", Instance: fmt.Sprint(n, index)}}
				peers[n] = must(t, disks[n], n)
				disks[n].id.Admitted, disks[n].id.AdmittedAt = true, index
			case 6: // what it says now is not refused by anybody
				if to := peers[name("to")]; to != k {
					if err := to.Meet(k.Greeting()); err != nil && !errors.Is(err, errDisk) {
						t.Fatalf("peer %s is refused: %v", n, err)
					}
				}
			}
			disks[n].fail = false
		}
		n, by := names[0], peers[names[1]]
		old := *disks[n]
		if err := by.Meet(must(t, disks[n], n).Greeting()); err != nil { // a later start
			t.Fatal(err)
		}
		k := must(t, &old, n)
		for range rapid.IntRange(0, kept-2).Draw(t, "later marks") {
			if err := k.renew(); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.Meet(by.Greeting()); !errors.Is(err, ErrStale) {
			t.Errorf("a directory that was put back: got %v, want that it is old", err)
		}
	})
}

// TestCopy opens a directory whose file was copied.
func TestCopy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "raft.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if born(file) == 0 {
		t.Skip("NOT TESTED: the file system does not know when a file was created")
	}
	for _, tt := range []struct {
		name    string
		stopped bool
		voters  []string
		met     []string
		votes   bool // in the end
		kept    bool // it has not lost its vote
	}{
		{"the only voter, killed", false, nil, nil, true, true},
		{"the only voter", true, nil, nil, true, true},
		{"killed", false, []string{"q", "r"}, []string{"q", "r"}, false, false},
		{"stopped, alone", true, []string{"q", "r"}, nil, false, true},
		{"stopped, met one", true, []string{"q", "r"}, []string{"r"}, false, true},
		{"stopped, met both", true, []string{"q", "r"}, []string{"q", "r"}, true, true},
		{"stopped, of two", true, []string{"q"}, []string{"q"}, true, true},
		{"stopped, met half of four", true, []string{"q", "r", "s", "u"}, []string{"q", "r"}, false, true},
		{"stopped, met most of four", true, []string{"q", "r", "s", "u"}, []string{"q", "r", "u"}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDisk("i")
			k, err := d.open("p", file)
			if err == nil && tt.stopped {
				err = k.Stop()
			}
			if err == nil { // as if the file had been there at another time
				err = k.book.change(func(r *internalv1.MarkBook) bool { r.Born -= 1e12; return true })
			}
			if err != nil {
				t.Fatal(err)
			}
			votes := false
			for range 2 { // also if it ends before it has met them
				if k, err = d.open("p", file); err != nil {
					t.Fatal(err)
				}
				if !k.Copied() {
					t.Fatal("a copy: got no copy")
				}
				if err := k.JudgeCopy(tt.voters, func() { votes = true }); err != nil {
					t.Fatal(err)
				}
				if !k.Copied() {
					break
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			stop()
			err = k.Run(ctx, Others{Changed: func() <-chan struct{} { return nil },
				Voters: func() []string { return tt.voters }, Peers: func() []string { return tt.voters },
				Meet: func(_ context.Context, id string, _ *internalv1.Greeting) (*internalv1.Greeting, error) {
					if !slices.Contains(tt.met, id) {
						return nil, errDisk
					}
					return &internalv1.Greeting{PeerId: id, ClusterId: "c"}, nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			if votes != tt.votes || d.id.Admitted != tt.kept {
				t.Errorf("got votes: %t, admitted: %t, want %t and %t", votes, d.id.Admitted, tt.votes, tt.kept)
			}
			if k, err = d.open("p", file); err != nil || k.Copied() != (tt.kept && !tt.votes) {
				t.Errorf("after a restart: got a copy: %t, %v", k.Copied(), err)
			}
		})
	}
}
