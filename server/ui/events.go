package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// pulse is the position of the peer, for the status line of a page.
type pulse struct {
	Index   string `json:"index"`
	Leader  string `json:"leader"`
	Contact int64  `json:"contact"`
	Now     int64  `json:"now"`     // this peer's clock, in milliseconds since 1970
	Problem string `json:"problem"` // why there is no leader
	Sample  uint64 `json:"sample"`  // number of samples taken; a change makes the page redraw its charts
}

// hello is the first event of a stream: the answering peer and the other ones.
type hello struct {
	Peer  string     `json:"peer"`
	Peers []peerLink `json:"peers"`
}

type peerLink struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// transition is the subject of a run's transition. An open page uses it to decide whether
// to refresh.
type transition struct {
	Run     string `json:"run"`
	Machine string `json:"machine"`
}

// events streams changes to open pages. The id of an event is the cursor of WatchRuns, so a
// page that reconnects, to this peer or another, receives every transition since. If the
// cursor is no longer available, the event "reset" makes the page reload.
func (d *dashboard) events(w http.ResponseWriter, r *http.Request) {
	var cursor uint64
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		var err error
		if cursor, err = strconv.ParseUint(id, 10, 64); err != nil {
			http.Error(w, "Last-Event-ID is invalid: want the id of an event, or none", http.StatusBadRequest)
			return
		}
	}
	s := d.stream(w, r)
	s.pulse = func(at position) string {
		problem := ""
		if at.Leader == "" {
			problem = d.noLeader(s.ctx, newClients(s.conn))
		}
		return event("pulse", pulse{at.Index, at.Leader, at.Contact, d.now().UnixMilli(), problem, d.history.Taken()})
	}
	s.run(func(send func(text string) error) error { //nolint:contextcheck // the stream has the context of its request
		read := newClients(s.conn)
		if !authorized(s.ctx, read) {
			return status.Error(codes.Unauthenticated, "sign in first")
		}
		if err := send(event("hello", d.greeting(s.ctx, r, read)) + s.pulse(s.conn.position())); err != nil {
			return err
		}
		err := d.feed.RunEvents(s.ctx, "", cursor, func(e *holdfastv1.RunEvent) error {
			text := fmt.Sprintf("id: %d\n", e.GetCursor())
			if run := e.GetSnapshot(); run != nil {
				return send(text + event("run", transition{run.GetRunId(), run.GetMachineId()}))
			}
			return send(text + "event: mark\ndata: {}\n\n")
		})
		if status.Code(err) == codes.OutOfRange {
			return send("id: 0\nevent: reset\ndata: {}\n\n")
		}
		return err
	})
}

// greeting returns the answering peer and the HTTP addresses of the others, with the scheme
// of this request.
func (d *dashboard) greeting(ctx context.Context, r *http.Request, read *clients) hello {
	st, err := read.cluster.GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
	if err != nil {
		return hello{Peers: []peerLink{}}
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	h := hello{Peer: st.GetAnsweredBy(), Peers: []peerLink{}}
	for _, p := range st.GetPeers() {
		if p.GetId() != h.Peer && p.GetHttpAddr() != "" {
			h.Peers = append(h.Peers, peerLink{p.GetId(), scheme + p.GetHttpAddr()})
		}
	}
	return h
}

// authorized reports whether the reader of a stream is still authorized.
func authorized(ctx context.Context, read *clients) bool {
	_, err := read.access.WhoAmI(ctx, &holdfastv1.WhoAmIRequest{})
	return status.Code(err) != codes.Unauthenticated && status.Code(err) != codes.PermissionDenied
}

func event(name string, data any) string {
	b, _ := json.Marshal(data) // these types always marshal
	return "event: " + name + "\ndata: " + string(b) + "\n\n"
}
