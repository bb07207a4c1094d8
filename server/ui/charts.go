package ui

import (
	"encoding/json"
	"net/http"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/ui/history"
	"github.com/holdfast-metal/holdfast/server/ui/internal/chart"
)

// Histories is the history of this peer (*history.History).
type Histories interface {
	// Window returns the samples of a range.
	Window(r history.Range) *history.Window
	// Taken returns the number of samples taken since the start.
	Taken() uint64
}

// chartsBody is the page of the charts.
type chartsBody struct {
	Window *history.Window
	Ranges []history.Range
	Charts []chart.Chart
	Fleet  bool // the charts of machines, runs and BMCs are included
}

func (d *dashboard) charts(v *visit) error {
	b := chartsBody{Window: d.history.Window(rangeOf(v.r)), Ranges: history.Ranges(), Fleet: seesFleet(v.who)}
	if b.Fleet {
		b.Charts = chart.Fleet(b.Window)
	}
	b.Charts = append(b.Charts, chart.Cluster(b.Window)...)
	return v.page("charts", "Charts", "charts", b, nil)
}

// chartsData writes the data of the charts as JSON.
func (d *dashboard) chartsData(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	data := chart.DataOf(d.history.Window(rangeOf(r)), seesFleet(auth.From(r.Context())))
	_ = json.NewEncoder(w).Encode(data) // the client has disconnected
}

func rangeOf(r *http.Request) history.Range { return history.RangeOf(r.URL.Query().Get("range")) }

// seesFleet reports whether a user may see the numbers of all machines and runs. The history
// does not know pools.
func seesFleet(id *holdfastv1.Identity) bool { return len(id.GetPools()) == 0 }
