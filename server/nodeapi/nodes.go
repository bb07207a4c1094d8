package nodeapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// fields returns the members that clients may set, with their destinations in n.
func fields(n *holdfastv1.NodeRecord) map[string]*string {
	return map[string]*string{
		"hostname":      &n.Hostname,
		"ip_address":    &n.IpAddress,
		"workflow_id":   &n.WorkflowId,
		"vendor":        &n.Vendor,
		"model":         &n.Model,
		"serial_number": &n.SerialNumber,
		"system_uuid":   &n.SystemUuid,
		"arch":          &n.Arch,
		"boot_mode":     &n.BootMode,
		"group_id":      &n.GroupId,
	}
}

// record reads the node's members of a body and returns the names of those present. A null
// clears a member.
func record(w http.ResponseWriter, body map[string]json.RawMessage) (*holdfastv1.NodeRecord, []string, bool) {
	n := &holdfastv1.NodeRecord{}
	var paths []string
	into := fields(n)
	for name, raw := range body {
		var err error
		switch to := into[name]; {
		case to != nil:
			err = json.Unmarshal(raw, to)
		case name == "tags":
			err = json.Unmarshal(raw, &n.Tags)
		default:
			continue
		}
		if err != nil {
			want := "a string"
			if name == "tags" {
				want = "a list of strings"
			}
			invalid(w, "body", name, "want "+want, "type_error")
			return nil, nil, false
		}
		paths = append(paths, name)
	}
	slices.Sort(paths)
	return n, paths, true
}

func (a *api) create(w http.ResponseWriter, r *http.Request) {
	var body map[string]json.RawMessage
	if !read(w, r, &body) {
		return
	}
	n, _, good := record(w, body)
	if !good {
		return
	}
	var mac string
	if raw, there := body["mac_address"]; !there || string(raw) == "null" {
		invalid(w, "body", "mac_address", "Field required", "missing")
		return
	} else if json.Unmarshal(raw, &mac) != nil {
		invalid(w, "body", "mac_address", "want a string", "type_error")
		return
	}
	m, err := a.nodes.CreateNode(r.Context(), &holdfastv1.CreateNodeRequest{MacAddress: mac, Node: n})
	if err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusCreated, envelope{true, show(m), "Node registered successfully"})
}

func (a *api) get(w http.ResponseWriter, r *http.Request) {
	m, err := a.nodes.GetNode(r.Context(), &holdfastv1.GetNodeRequest{Id: r.PathValue("id")})
	if err != nil {
		fail(w, err)
		return
	}
	ok(w, m, "")
}

func (a *api) update(w http.ResponseWriter, r *http.Request) {
	var body map[string]json.RawMessage
	if !read(w, r, &body) {
		return
	}
	n, paths, good := record(w, body)
	if !good {
		return
	}
	if len(paths) == 0 {
		a.get(w, r) // an empty list of paths would mean all paths
		return
	}
	a.change(w, r, n, paths, "Node updated successfully")
}

func (a *api) change(
	w http.ResponseWriter,
	r *http.Request,
	n *holdfastv1.NodeRecord,
	paths []string,
	message string,
) {
	req := &holdfastv1.UpdateNodeRequest{Id: r.PathValue("id"), Node: n, Paths: paths}
	m, err := a.nodes.UpdateNode(r.Context(), req)
	if err != nil {
		fail(w, err)
		return
	}
	ok(w, m, message)
}

// addTag adds tags. Existing tags are kept.
func (a *api) addTag(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Tag  string   `json:"tag"`
		Tags []string `json:"tags"`
	}
	if !read(w, r, &in) {
		return
	}
	tags := in.Tags
	if in.Tag != "" {
		tags = append(tags, in.Tag)
	}
	if len(tags) == 0 {
		invalid(w, "body", "tag", "Field required", "missing")
		return
	}
	a.change(w, r, &holdfastv1.NodeRecord{Tags: tags}, []string{"tags.add"}, "Tag added")
}

func (a *api) removeTag(w http.ResponseWriter, r *http.Request) {
	n := &holdfastv1.NodeRecord{Tags: []string{r.PathValue("tag")}}
	a.change(w, r, n, []string{"tags.remove"}, "Tag removed")
}

// list responds with nodes, filtered by ?state=, ?group_id= and ?tag=. It returns all of
// them, or ?limit= nodes from ?offset=. The total counts all matches.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	state, tag := holdfastv1.Node_NODE_STATE_UNSPECIFIED, q.Get("tag")
	if s := q.Get("state"); s != "" {
		var known bool
		if state, known = stateOf(s); !known {
			invalid(w, "query", "state", strconv.Quote(s)+" is not a state of a node", "value_error")
			return
		}
	}
	limit, good := number(w, q.Get("limit"), "limit", 0, 1, maxList)
	if !good {
		return
	}
	offset, good := number(w, q.Get("offset"), "offset", 0, 0, 1<<30)
	if !good {
		return
	}
	req := &holdfastv1.ListMachinesRequest{}
	all, total := []node{}, 0
	for resp, err := range httpjson.Pages(r.Context(), req, a.machines.ListMachines) {
		if err != nil {
			fail(w, err)
			return
		}
		for _, m := range resp.GetMachines() {
			n := m.GetNode()
			if state != 0 && m.GetStatus().GetNodeState() != state ||
				q.Get("group_id") != "" && n.GetGroupId() != q.Get("group_id") ||
				tag != "" && !hasTag(n, tag) {
				continue
			}
			if total >= offset && (limit == 0 || len(all) < limit) {
				all = append(all, show(m))
			}
			total++
		}
	}
	httpjson.Write(w, http.StatusOK, many{Success: true, Data: all, Total: total})
}

func hasTag(n *holdfastv1.NodeRecord, tag string) bool {
	return slices.ContainsFunc(n.GetTags(), func(has string) bool { return strings.EqualFold(has, tag) })
}

const maxList = 100_000

// number parses a number of the query. An empty text yields otherwise; an invalid one is a
// 422.
func number(w http.ResponseWriter, text, name string, otherwise, least, most int) (int, bool) {
	if text == "" {
		return otherwise, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		want := "want a whole number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most)
		invalid(w, "query", name, want+", not "+strconv.Quote(text), "value_error")
		return 0, false
	}
	return n, true
}

// stalled responds with the nodes that have been in a transition for at least
// ?threshold_minutes= (60), longest first.
func (a *api) stalled(w http.ResponseWriter, r *http.Request) {
	minutes, good := number(w, r.URL.Query().Get("threshold_minutes"), "threshold_minutes", 60, 1, 1<<20)
	if !good {
		return
	}
	req := &holdfastv1.ListStalledNodesRequest{OlderThanSeconds: int64(minutes) * 60}
	all := []node{}
	for resp, err := range httpjson.Pages(r.Context(), req, a.nodes.ListStalledNodes) {
		if err != nil {
			fail(w, err)
			return
		}
		for _, m := range resp.GetMachines() {
			all = append(all, show(m))
		}
	}
	httpjson.Write(w, http.StatusOK, many{Success: true, Data: all, Total: len(all)})
}
