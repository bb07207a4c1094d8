package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/fleet"
)

// racks is a service with n machines in racks of 40.
type racks struct {
	holdfastv1.MachineServiceClient
	n int
}

func (r racks) ListMachines(
	context.Context, *holdfastv1.ListMachinesRequest, ...grpc.CallOption,
) (*holdfastv1.ListMachinesResponse, error) {
	resp := &holdfastv1.ListMachinesResponse{}
	for i := range r.n {
		resp.Machines = append(resp.Machines, &holdfastv1.Machine{MachineId: fmt.Sprintf("m-%d", i),
			Spec: &holdfastv1.MachineSpec{Location: fmt.Sprintf("dc%d", 1+2*i/r.n), Rack: fmt.Sprintf("r%d", i/40+1)},
			Status: &holdfastv1.MachineStatus{EffectiveState: holdfastv1.EffectiveState_IN_SERVICE,
				NeedsAttention: i%100 == 0}})
	}
	return resp, nil
}

func fleetOf(t *testing.T, n int) *fleet.Counts {
	t.Helper()
	f, err := fleet.NewCache(time.Now).Of(t.Context(), &holdfastv1.Identity{}, racks{n: n})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestOverviewOfMany: the page of 10,000 machines is small enough to be sent on every
// change, and has few elements, which determine the rendering time.
func TestOverviewOfMany(t *testing.T) {
	f := fleetOf(t, 10_000)
	d := &dashboard{pages: loadPages(loadAssets()), now: time.Now}
	begin := time.Now()
	w := httptest.NewRecorder()
	d.show(w, httptest.NewRequest(http.MethodGet, "/ui/", nil), http.StatusOK, "overview",
		&view{Title: "Overview", Body: overviewBody{Fleet: f, Heat: fleet.Draw(f)}})
	took := time.Since(begin)
	page := w.Body.String()
	elements := strings.Count(page, "<") - strings.Count(page, "</")
	t.Logf("10,000 machines: %d KB in %d elements, made in %s", len(page)>>10, elements, took.Round(time.Millisecond))
	if w.Code != http.StatusOK || len(page) > 400<<10 || elements > 3000 {
		t.Errorf("got %d, %d bytes in %d elements", w.Code, len(page), elements)
	}
}

func TestNatural(t *testing.T) {
	got := []string{"", "r10", "r2", "r1", "a", "r"}
	slices.SortFunc(got, display.Natural)
	if want := "a r r1 r2 r10 "; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
}

// FuzzClean: any output of a host is shown as text.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"plain\n", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07x", "\xff\xfe", "a\r\nb\rc\x00", "\x1b",
		"\u009b1m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := display.Clean(s)
		if !utf8.ValidString(got) ||
			strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }) {
			t.Errorf("%q: got %q", s, got)
		}
	})
}

// TestTimeline: attempts are placed within the run's time.
func TestTimeline(t *testing.T) {
	begin := time.Date(2026, 1, 29, 15, 10, 0, 0, time.UTC)
	at := func(s int) *timestamppb.Timestamp { return timestamppb.New(begin.Add(time.Duration(s) * time.Second)) }
	run := &holdfastv1.Run{StartedAt: at(0), CurrentStep: "b", Steps: []*holdfastv1.StepStatus{
		{Name: "a", Attempts: []*holdfastv1.Attempt{
			{StartedAt: at(0), FinishedAt: at(10), Outcome: holdfastv1.Attempt_FAILED, Error: "no",
				ErrorClass: "transient"}, {StartedAt: at(20), FinishedAt: at(50), Outcome: holdfastv1.Attempt_SUCCEEDED}}},
		{Name: "b", Attempts: []*holdfastv1.Attempt{{StartedAt: at(50)}}}, {Name: "c"},
	}}
	var got []string
	for _, s := range display.Timeline(run, at(100)) {
		for _, b := range s.Bars {
			got = append(got, fmt.Sprintf("%s %d+%d %s", s.GetName(), b.X, b.Width, b.Class))
		}
	}
	if want := "a 0+100 t-bad, a 200+300 t-good, b 500+500 t-open"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	p := display.Plot([]*holdfastv1.Run{run})
	if len(p.Took) != 1 || p.Took[0].Label != "30s / 30s" || p.Took[0].Width != 1000 || p.Took[0].Span != 1000 ||
		len(p.Failed) != 1 || p.Failed[0].Name != "transient: a" || p.Failed[0].Label != "1" || p.Failed[0].Width != 1000 {
		t.Errorf("got plots %+v", p)
	}
}
