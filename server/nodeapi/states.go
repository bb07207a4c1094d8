package nodeapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// transition changes the state of a node on request.
func (a *api) transition(w http.ResponseWriter, r *http.Request) {
	var in struct {
		State   *string `json:"state"`
		Comment string  `json:"comment"`
		Force   bool    `json:"force"`
	}
	if !read(w, r, &in) {
		return
	}
	if in.State == nil {
		invalid(w, "body", "state", "Field required", "missing")
		return
	}
	to, known := stateOf(*in.State)
	if !known {
		invalid(w, "body", "state", strconv.Quote(*in.State)+" is not a state of a node", "value_error")
		return
	}
	req := &holdfastv1.TransitionNodeRequest{
		Id:      r.PathValue("id"),
		State:   to,
		Comment: in.Comment,
		Force:   bool(in.Force),
	}
	a.move(w, r, req, "Node transitioned to "+*in.State)
}

// retire handles DELETE. The node's record is kept.
func (a *api) retire(w http.ResponseWriter, r *http.Request) {
	req := &holdfastv1.TransitionNodeRequest{Id: r.PathValue("id"), State: holdfastv1.Node_RETIRED}
	a.move(w, r, req, "Node retired")
}

func (a *api) move(w http.ResponseWriter, r *http.Request, req *holdfastv1.TransitionNodeRequest, message string) {
	m, err := a.nodes.TransitionNode(r.Context(), req)
	if err != nil {
		fail(w, err)
		return
	}
	ok(w, m, message)
}

// report accepts the report of an installer or a booted node.
func (a *api) report(w http.ResponseWriter, r *http.Request) {
	var in struct {
		MACAddress   *string `json:"mac_address"`
		IPAddress    string  `json:"ip_address"`
		Hostname     string  `json:"hostname"`
		Vendor       string  `json:"vendor"`
		Model        string  `json:"model"`
		SerialNumber string  `json:"serial_number"`
		SystemUUID   string  `json:"system_uuid"`
		Arch         string  `json:"arch"`
		BootMode     string  `json:"boot_mode"`
		Status       string  `json:"installation_status"`
		Progress     *int32  `json:"installation_progress"`
		Error        string  `json:"installation_error"`
		RequestID    string  `json:"request_id"` // an extension: a report that is sent again counts once
	}
	if !read(w, r, &in) {
		return
	}
	if in.MACAddress == nil {
		invalid(w, "body", "mac_address", "Field required", "missing")
		return
	}
	req := &holdfastv1.ReportNodeRequest{
		MacAddress:         *in.MACAddress,
		InstallationStatus: in.Status,
		InstallationError:  in.Error,
		RequestId:          in.RequestID,
		Facts: &holdfastv1.NodeRecord{
			IpAddress:    in.IPAddress,
			Hostname:     in.Hostname,
			Vendor:       in.Vendor,
			Model:        in.Model,
			SerialNumber: in.SerialNumber,
			SystemUuid:   in.SystemUUID,
			Arch:         in.Arch,
			BootMode:     in.BootMode,
		},
	}
	if in.Progress != nil {
		req.InstallationProgress, req.HasProgress = int32(*in.Progress), true
	}
	m, err := a.nodes.ReportNode(r.Context(), req)
	if err != nil {
		fail(w, err)
		return
	}
	if in.Status != "" {
		a.log.Info("installer reported", "machine", m.GetMachineId(), "status", in.Status,
			"attempts", m.GetNode().GetInstallAttempts())
	}
	ok(w, m, "Report processed")
}

// entry is one state transition of a node.
type entry struct {
	ID          string         `json:"id"`
	FromState   string         `json:"from_state"`
	ToState     string         `json:"to_state"`
	TriggeredBy string         `json:"triggered_by"` // admin, system, node_report
	UserID      *string        `json:"user_id"`
	Comment     *string        `json:"comment"`
	Metadata    map[string]any `json:"metadata"`
	CreatedAt   *string        `json:"created_at"`
}

// history responds with the transitions of a node, newest first: ?limit=1..200 (50) from
// ?offset=.
func (a *api) history(w http.ResponseWriter, r *http.Request) {
	limit, good := number(w, r.URL.Query().Get("limit"), "limit", 50, 1, 200)
	if !good {
		return
	}
	offset, good := number(w, r.URL.Query().Get("offset"), "offset", 0, 0, 1<<30)
	if !good {
		return
	}
	m, err := a.nodes.GetNode(r.Context(), &holdfastv1.GetNodeRequest{Id: r.PathValue("id")})
	if err != nil {
		fail(w, err)
		return
	}
	req := &holdfastv1.ListMachineHistoryRequest{MachineId: m.GetMachineId()}
	all, total := []entry{}, 0
	for resp, err := range httpjson.Pages(r.Context(), req, a.machines.ListMachineHistory) {
		if err != nil {
			fail(w, err)
			return
		}
		for _, e := range resp.GetEntries() {
			if e.GetFacet() != "node" || e.GetFrom() == "" { // the initial state is not a transition
				continue
			}
			if total >= offset && len(all) < limit {
				all = append(all, showEntry(e))
			}
			total++
		}
	}
	httpjson.Write(w, http.StatusOK, map[string]any{"data": all, "total": total})
}

func showEntry(e *holdfastv1.HistoryEntry) entry {
	key := "holdfast:" + e.GetMachineId() + "/history/" + strconv.FormatUint(e.GetSequence(), 10)
	out := entry{
		ID:        uuid.NewSHA1(uuid.NameSpaceURL, []byte(key)).String(),
		FromState: strings.ToLower(e.GetFrom()),
		ToState:   strings.ToLower(e.GetTo()),
		Comment:   httpjson.OrNull(e.GetComment()),
		CreatedAt: stamp(e.GetAt()),
	}
	out.TriggeredBy = describe.NodeTrigger(e.GetTriggeredBy())
	if out.TriggeredBy == "admin" {
		out.UserID = httpjson.OrNull(e.GetPrincipal())
	}
	if len(e.GetMetadata()) > 0 {
		out.Metadata = map[string]any{}
		for k, v := range e.GetMetadata() {
			if n, err := strconv.Atoi(v); err == nil && k == "attempt" {
				out.Metadata[k] = n
			} else {
				out.Metadata[k] = v
			}
		}
	}
	return out
}
