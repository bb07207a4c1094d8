// Package find searches for the keyboard palette: machines by the beginning of their id, MAC
// address, serial or a label, runs by the beginning of their id, and plans by a part of their id.
//
// It owns the endpoint and the limits of its answers. It must not decide which records a caller
// may see: its sources do.
package find

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// The limits of a search.
const (
	mostMachines = 8
	mostRuns     = 5
	mostPlans    = 5
	maxText      = 100  // bytes of the text
	readPlans    = 1000 // plans that are compared
)

// Source finds what the caller of the context may see.
type Source interface {
	FindMachines(ctx context.Context, text string, most int) []*holdfastv1.Machine
	FindRuns(ctx context.Context, text string, most int) []*holdfastv1.Run
}

// Plans lists plans.
type Plans interface {
	ListPlans(context.Context, *holdfastv1.ListPlansRequest, ...grpc.CallOption) (*holdfastv1.ListPlansResponse, error)
}

// Item is a page that the search has found.
type Item struct {
	Kind   string `json:"kind"` // machine, run or plan
	Text   string `json:"text"`
	Detail string `json:"detail"`
	Link   string `json:"link"`
}

// Handler returns the handler of the search for the text in the parameter q. Plans returns a
// client for one request.
func Handler(source Source, plans func() Plans) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text := strings.TrimSpace(r.URL.Query().Get("q"))
		if len(text) > maxText || !utf8.ValidString(text) {
			http.Error(w, "q: want at most 100 bytes of UTF-8", http.StatusBadRequest)
			return
		}
		items := []Item{}
		if text != "" {
			found, more, err := search(r.Context(), source, plans(), text)
			if err != nil {
				http.Error(w, httpjson.Message(err), httpjson.Status(err))
				return
			}
			if more {
				w.Header().Set(headerMore, "true")
			}
			items = append(items, found...)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(items) // the client has disconnected
	}
}

// headerMore is the header of an answer that leaves some out.
const headerMore = "Holdfast-More"

// search returns what matches, up to a number of each kind, and whether there is more.
func search(ctx context.Context, source Source, plans Plans, text string) (all []Item, more bool, err error) {
	for i, m := range source.FindMachines(ctx, text, mostMachines+1) {
		if i == mostMachines {
			more = true
			break
		}
		all = append(all, Item{"machine", m.GetMachineId(), machineDetail(m, text), display.MachinePath(m.GetMachineId())})
	}
	for i, r := range source.FindRuns(ctx, text, mostRuns+1) {
		if i == mostRuns {
			more = true
			break
		}
		detail := []string{r.GetMachineId(), cmp.Or(r.GetType(), r.GetPlanId()), display.Label(r.GetPhase())}
		all = append(all, Item{"run", r.GetRunId(), strings.Join(detail, ", "), display.RunPath(r.GetRunId())})
	}
	list, err := plans.ListPlans(ctx, &holdfastv1.ListPlansRequest{PageSize: readPlans})
	if err != nil {
		return nil, false, err
	}
	found := 0
	for _, p := range list.GetPlans() {
		if !strings.Contains(strings.ToLower(p.GetPlanId()), strings.ToLower(text)) {
			continue
		}
		if found++; found > mostPlans {
			more = true
			break
		}
		all = append(all, Item{"plan", p.GetPlanId(), p.GetDisplayName(), display.PlanPath(p.GetPlanId())})
	}
	return all, more, nil
}

// machineDetail returns the state and place of a machine, and the label that was searched for.
func machineDetail(m *holdfastv1.Machine, text string) string {
	parts := []string{display.Label(m.GetStatus().GetEffectiveState())}
	if rack := m.GetSpec().GetRack(); rack != "" {
		parts = append(parts, "rack "+rack)
	}
	if serial := m.GetSpec().GetSerial(); serial != "" {
		parts = append(parts, "serial "+serial)
	}
	if key, _, ok := strings.Cut(text, "="); ok {
		key = strings.TrimSpace(key)
		parts = append(parts, key+"="+m.GetLabels()[key])
	}
	return strings.Join(parts, ", ")
}
