package ironictest

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Node is the initial state of a node.
type Node struct {
	Name        string
	State       string // provision state; default available
	Power       string // default "power on"
	Traits      []string
	BootMode    string
	Silent      bool // requests for it are not answered
	Instance    string
	Maintenance string // reason
	Fault       string
	Locked      string         // holder of the lock
	Inventory   map[string]any // as in the API

	uuid, target, lastError, targetPower string
	since                                time.Time
	powerAt                              string
	boot                                 bootDevice
	extra, instance                      map[string]any
}

type bootDevice struct {
	Device     string `json:"boot_device"`
	Persistent bool   `json:"persistent"`
}

// Add adds a node.
func (s *Server) Add(n Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.State = cmp.Or(n.State, "available")
	n.Power = cmp.Or(n.Power, "power on")
	h := rand.Text()
	n.uuid, n.since = strings.ToLower("00000000-0000-4000-8000-"+h[:12]), time.Now().Add(-time.Minute)
	n.extra, n.instance = map[string]any{}, map[string]any{}
	n.boot = bootDevice{Device: "disk", Persistent: true}
	n.powerAt = n.since.UTC().Format(time.RFC3339Nano)
	s.nodes[n.Name] = &n
}

// Change changes a node without a request.
func (s *Server) Change(name string, f func(*Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.nodes[name])
}

// State returns the provision state and the instance_info of a node.
func (s *Server) State(name string) (state string, instance map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	return n.State, n.instance
}

func (s *Server) show(w http.ResponseWriter, _ *http.Request, n *Node) {
	answer(w, http.StatusOK, n.view())
}

func (n *Node) view() map[string]any {
	null := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return map[string]any{
		"uuid":                   n.uuid,
		"name":                   n.Name,
		"power_state":            null(n.Power),
		"target_power_state":     null(n.targetPower),
		"provision_state":        n.State,
		"target_provision_state": null(n.target),
		// Whole seconds, as MySQL stores them.
		"provision_updated_at": n.since.UTC().Truncate(time.Second).Format("2006-01-02T15:04:05+00:00"),
		"maintenance":          n.Maintenance != "",
		"maintenance_reason":   null(n.Maintenance),
		"fault":                null(n.Fault),
		"last_error":           null(n.lastError),
		"reservation":          null(n.Locked),
		"instance_uuid":        null(n.Instance),
		"instance_info":        n.instance,
		"extra":                n.extra,
		"boot_mode":            null(n.BootMode),
		"traits":               slices.Concat([]string{}, n.Traits),
		"clean_step":           map[string]any{},
		"deploy_step":          map[string]any{},
		"properties":           map[string]any{"cpus": "8", "memory_mb": 1024},
		"driver_internal_info": map[string]any{"last_power_state_change": n.powerAt},
	}
}

// locked refuses a request that needs the lock of a locked node.
func (n *Node) locked(w http.ResponseWriter) bool {
	if n.Locked != "" {
		fault(w, http.StatusConflict,
			"Node %s is locked by host %s, please retry after the current operation is completed.",
			n.uuid, n.Locked)
	}
	return n.Locked != ""
}

func (s *Server) patch(w http.ResponseWriter, r *http.Request, n *Node) {
	var ops []struct {
		Op, Path string
		Value    any
	}
	if err := json.NewDecoder(r.Body).Decode(&ops); err != nil {
		fault(w, http.StatusBadRequest, "%v", err)
		return
	}
	if n.target != "" && !slices.Contains([]string{"deploy failed", "clean failed", "error"}, n.State) {
		fault(w, http.StatusConflict, "Node %s can not be updated while a state transition is in progress.", n.Name)
		return
	}
	if n.locked(w) {
		return
	}
	for _, o := range ops {
		field, key, _ := strings.Cut(strings.TrimPrefix(o.Path, "/"), "/")
		into := map[string]map[string]any{"extra": n.extra, "instance_info": n.instance}[field]
		switch v, whole := o.Value.(map[string]any); {
		case into == nil || o.Op != "add" && o.Op != "replace":
			fault(w, http.StatusBadRequest, "'%s' is not an allowed attribute", o.Path)
			return
		case key != "":
			into[key] = o.Value
		case whole && field == "instance_info":
			n.instance = v
		default:
			fault(w, http.StatusBadRequest, "'%s' is not of type object", o.Path)
			return
		}
	}
	s.asked = append(s.asked, n.Name+" patch")
	answer(w, http.StatusOK, n.view())
}

func (s *Server) bootDevice(w http.ResponseWriter, _ *http.Request, n *Node) {
	answer(w, http.StatusOK, n.boot)
}

func (s *Server) setBootDevice(w http.ResponseWriter, r *http.Request, n *Node) {
	var d bootDevice
	_ = json.NewDecoder(r.Body).Decode(&d)
	if !slices.Contains([]string{"pxe", "disk", "cdrom", "uefihttp"}, d.Device) {
		fault(w, http.StatusBadRequest, "Invalid boot device %s specified.", d.Device)
		return
	}
	if n.locked(w) {
		return
	}
	s.asked = append(s.asked, fmt.Sprintf("%s boot: %s", n.Name, d.Device))
	if !s.faults.IgnoreBoot {
		n.boot = d
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) inventory(w http.ResponseWriter, _ *http.Request, n *Node) {
	if n.Inventory == nil {
		fault(w, http.StatusNotFound, "Node inventory record for node 1 could not be found.")
		return
	}
	answer(w, http.StatusOK, map[string]any{"inventory": n.Inventory, "plugin_data": map[string]any{}})
}
