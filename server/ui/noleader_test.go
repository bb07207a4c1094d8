package ui

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/fleet"
	"github.com/holdfast-metal/holdfast/server/ui/internal/health"
	"github.com/holdfast-metal/holdfast/server/ui/internal/lists"
)

// peer is a peer that knows a leader, or none.
type peer struct {
	grpc.ClientConnInterface
	leader string
	status *holdfastv1.ClusterStatus
}

func (p *peer) Invoke(_ context.Context, method string, _, reply any, opts ...grpc.CallOption) error {
	for _, o := range opts {
		if h, ok := o.(grpc.HeaderCallOption); ok {
			*h.HeaderAddr = metadata.Pairs("holdfast-index", "7", "holdfast-leader", p.leader)
		}
	}
	if path.Base(method) == "GetClusterStatus" {
		proto.Merge(reply.(proto.Message), p.status)
	}
	return nil
}

// TestNoLeaderNotice checks that pages of a peer without a leader name the peers that are missing.
func TestNoLeaderNotice(t *testing.T) {
	const evil = "<script>"
	p := &peer{status: &holdfastv1.ClusterStatus{AnsweredBy: "p1",
		Problem: "no leader: " + evil + " and p3 do not answer, 2 of 3 voters are needed"}}
	d := &dashboard{rpc: p, pages: loadPages(loadAssets()), now: time.Now,
		health: health.NewCache(time.Now)}
	open := func() string {
		r := httptest.NewRequest(http.MethodGet, "/ui/services", nil)
		w := httptest.NewRecorder()
		d.visit(func(v *visit) error {
			v.who = &holdfastv1.Identity{Role: holdfastv1.Role_VIEWER}
			return d.list(lists.All()[2], nil)(v)
		})(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("got status %d:\n%s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	page := open()
	for _, want := range []string{
		`class="live stale"`, "There are no services yet",
		"and p3 do not answer, 2 of 3 voters are needed. This page shows the state of p1. Changes wait",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("without a leader: got no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, evil+" and") {
		t.Error("got an executable reason")
	}
	p.leader = "p2"
	if page := open(); strings.Contains(page, "stale") || !strings.Contains(page, "leader p2") {
		t.Errorf("with a leader: got\n%s", page)
	}
}

// whole returns the HTML of a word that is not broken at its hyphens.
func whole(word string) string { return `<span class="word">` + word + `</span>` }

// TestEmptyFleet checks that pages without machines have the command that adds the first one, and
// no empty tables, legends or cards.
func TestEmptyFleet(t *testing.T) {
	d := &dashboard{rpc: &peer{leader: "p1", status: &holdfastv1.ClusterStatus{Leader: "p1"}},
		pages: loadPages(loadAssets()), now: time.Now, fleets: fleet.NewCache(time.Now),
		health: health.NewCache(time.Now)}
	register := "<code>holdfast machine register " + whole("--id") + " " + whole("m-1") + " " + whole("--rack") +
		" r7</code>"
	for _, tt := range []struct {
		name    string
		page    func(*visit) error
		command string
	}{
		{"overview", d.overview, register},
		{"machines", d.machines, register},
		{"hardware", d.list(lists.Hardware(), hardwareSum), register},
		{"pools", d.pools, "<code>holdfast pool create gpu</code>"},
		{"runs", d.runs, "<code>holdfast run start MACHINE " + whole("--type") + " INSPECT</code>"},
	} {
		w := httptest.NewRecorder()
		d.visit(func(v *visit) error {
			v.who = &holdfastv1.Identity{Role: holdfastv1.Role_ADMIN}
			return tt.page(v)
		})(w, httptest.NewRequest(http.MethodGet, "/ui/", nil))
		page := w.Body.String()
		for _, want := range []string{"To get started:", tt.command} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: got no %q in\n%s", tt.name, want, page)
			}
		}
		for _, not := range []string{"<table", `class="legend"`, `id="h-pools"`, `id="h-attention"`} {
			if strings.Contains(page, not) {
				t.Errorf("%s: got %q", tt.name, not)
			}
		}
	}
}
