package redfish

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// Host is one machine behind a Redfish service. It is safe for concurrent use.
type Host struct {
	c      *Client
	system string        // path or id, for a service with several systems; else empty
	serial string        // likewise
	quirks access.Quirks // by the system's vendor and model

	mu     sync.Mutex
	found  *computerSystem // as last read
	picked bool            // chosen by serial number among several
	readAt time.Time
	media  *virtualMedia       // slot for images, as last read
	seenAt time.Time           // when media was read
	wants  []string            // parameters that its InsertMedia requires
	reset  *resetAction        // of the manager
	infos  map[string][]string // values of actions, by the path of their ActionInfo
	task   string              // monitor of the last change, if it runs in the background
}

// computerSystem has the fields we need of a ComputerSystem resource.
type computerSystem struct {
	ODataID      string `json:"@odata.id"`
	ETag         string `json:"@odata.etag"`
	Manufacturer string
	Model        string
	SerialNumber string
	SKU          string
	UUID         string
	BiosVersion  string
	PowerState   string
	HostName     string
	Boot         bootOverride
	BootProgress struct{ LastState string }
	LastReset    string `json:"LastResetTime"`
	Actions      struct {
		Reset resetAction `json:"#ComputerSystem.Reset"`
	}
	Links struct {
		ManagedBy []link
		Chassis   []link
	}
	Processors         link
	Memory             link
	Storage            link
	EthernetInterfaces link
	PCIeDevices        []link
	LogServices        link
	VirtualMedia       link
	Settings           struct{ SettingsObject link } `json:"@Redfish.Settings"`
	LocationIndicator  *bool                         `json:"LocationIndicatorActive"`
	IndicatorLED       string                        `json:"IndicatorLED"`
}

// bootOverride is the Boot property (ComputerSystem schema).
type bootOverride struct {
	Enabled  string   `json:"BootSourceOverrideEnabled"`
	Mode     string   `json:"BootSourceOverrideMode"`
	Target   string   `json:"BootSourceOverrideTarget"`
	Targets  []string `json:"BootSourceOverrideTarget@Redfish.AllowableValues"`
	Enableds []string `json:"BootSourceOverrideEnabled@Redfish.AllowableValues"`
	Modes    []string `json:"BootSourceOverrideMode@Redfish.AllowableValues"`
}

// resetAction is an action Reset with its allowed values.
type resetAction struct {
	Target string   `json:"target"`
	Types  []string `json:"ResetType@Redfish.AllowableValues"`
	Info   string   `json:"@Redfish.ActionInfo"`
}

// read reads the system.
func (h *Host) read(ctx context.Context) (*computerSystem, error) {
	for again := true; ; again = false {
		p, err := h.path(ctx)
		if err != nil {
			return nil, err
		}
		s := new(computerSystem)
		a, err := h.c.expect(ctx, p, s)
		missing := statusOf(err) == http.StatusNotFound
		if again && (missing || err == nil && h.another(s)) { // its path may have changed
			h.lose()
			continue
		}
		if err != nil {
			return nil, err
		}
		if h.another(s) {
			return nil, access.Disagree("the system at %s had the serial number %s a moment ago, and has %q now",
				p, h.serial, s.SerialNumber)
		}
		h.keep(s, a.header.Get("ETag"), p)
		return s, nil
	}
}

// another reports whether s is a different machine. If another sled was inserted in place of the
// machine, it must not receive its presses.
func (h *Host) another(s *computerSystem) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.picked && s.SerialNumber != h.serial
}

// lose drops the path of the system and all data below it.
func (h *Host) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found, h.picked, h.media, h.reset, h.infos = nil, false, nil, nil, nil
}

// keep stores the system as read.
func (h *Host) keep(s *computerSystem, etag, path string) {
	if etag != "" {
		s.ETag = etag
	}
	s.ODataID = cmp.Or(s.ODataID, path)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found, h.readAt = s, time.Now()
	h.quirks = access.QuirksOf(s.Manufacturer, s.Model)
}

// known returns the last reading of the system if it is younger than maxAge, else it reads it.
func (h *Host) known(ctx context.Context, maxAge time.Duration) (*computerSystem, error) {
	h.mu.Lock()
	s, at := h.found, h.readAt
	h.mu.Unlock()
	if s != nil && time.Since(at) < maxAge {
		return s, nil
	}
	return h.read(ctx)
}

// Settle returns the time until a press shows, if the BMC is known to need longer than others.
func (h *Host) Settle() time.Duration { return h.quirksNow().Settle }

// quirksNow returns the quirks of the BMC, as far as they are known.
func (h *Host) quirksNow() access.Quirks {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.quirks
}

// stale makes the next call of known read the system.
func (h *Host) stale() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readAt = time.Time{}
}

// path returns the path of the system: the one in the endpoint, else the only one, else the one
// with the machine's serial number.
func (h *Host) path(ctx context.Context) (string, error) {
	h.mu.Lock()
	s := h.found
	h.mu.Unlock()
	if s != nil {
		return s.ODataID, nil
	}
	root, err := h.c.service(ctx)
	if err != nil {
		return "", err
	}
	var all struct{ Members []link }
	if _, err := h.c.expect(ctx, root.Systems.ID, &all); err != nil {
		return "", err
	}
	var ids []string
	for _, m := range all.Members {
		id := strings.TrimRight(m.ID, "/")
		if h.system != "" && (id == h.system || path.Base(id) == path.Base(h.system)) {
			return m.ID, nil
		}
		ids = append(ids, path.Base(id))
	}
	switch {
	case len(all.Members) == 0: // some BMCs show none while they start
		return "", access.Disagree("the BMC shows no system (yet)")
	case h.system != "":
		return "", providers.Errorf(providers.Gone, "find system "+h.system,
			"the BMC has no such system; it has %s", strings.Join(ids, ", "))
	case len(all.Members) == 1:
		return all.Members[0].ID, nil
	case h.serial != "":
		for _, m := range all.Members {
			var s computerSystem
			if _, err := h.c.expect(ctx, m.ID, &s); err != nil {
				return "", err
			}
			if s.SerialNumber == h.serial {
				h.mu.Lock()
				h.picked = true
				h.mu.Unlock()
				return m.ID, nil
			}
		}
	}
	return "", providers.Errorf(providers.Unsupported, "pick a system of the BMC",
		"it has %s: name one in bmc_endpoint, like https://…/redfish/v1/Systems/%s",
		strings.Join(ids, ", "), ids[0])
}

// resetTypes returns the allowed values of a Reset, from the action or its ActionInfo. It returns
// none if the service lists none.
func (h *Host) resetTypes(ctx context.Context, r resetAction) ([]string, error) {
	if len(r.Types) > 0 || r.Info == "" {
		return r.Types, nil
	}
	h.mu.Lock()
	types, known := h.infos[r.Info]
	h.mu.Unlock()
	if known {
		return types, nil
	}
	var info struct {
		Parameters []struct {
			Name            string
			AllowableValues []string
		}
	}
	if _, err := h.c.get(ctx, r.Info, &info); err != nil {
		return nil, err
	}
	for _, p := range info.Parameters {
		if p.Name == "ResetType" {
			types = p.AllowableValues
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.infos == nil {
		h.infos = map[string][]string{}
	}
	h.infos[r.Info] = types
	return types, nil
}

// pick returns the first wanted value that is allowed. If the service lists none, it returns the
// first wanted value.
func pick(what string, allowed []string, wanted ...string) (string, error) {
	if len(allowed) == 0 {
		return wanted[0], nil
	}
	for _, w := range wanted {
		if slices.Contains(allowed, w) {
			return w, nil
		}
	}
	return "", providers.Errorf(providers.Unsupported, what,
		"the BMC supports none of %s; it supports %s",
		strings.Join(wanted, ", "), strings.Join(allowed, ", "))
}

// manager returns the path of the system's manager: the BMC itself. If the system cannot be read,
// which is likely when a BMC has to be restarted, it returns the only manager of the service.
func (h *Host) manager(ctx context.Context) (string, error) {
	s, unread := h.known(ctx, time.Hour)
	switch {
	case unread != nil && (ctx.Err() != nil || !access.Silent(unread)):
		return "", unread
	case unread == nil && len(s.Links.ManagedBy) > 0:
		return s.Links.ManagedBy[0].ID, nil
	}
	root, err := h.c.service(ctx)
	if err != nil {
		return "", err
	}
	if root.Managers.ID == "" {
		return "", providers.Errorf(providers.Unsupported, "find the manager", "the service has none")
	}
	var all struct{ Members []link }
	if _, err := h.c.expect(ctx, root.Managers.ID, &all); err != nil {
		return "", err
	}
	switch {
	case len(all.Members) == 0:
		return "", fmt.Errorf("find the manager: %w", access.Disagree("the service has none"))
	case unread != nil && len(all.Members) > 1:
		return "", fmt.Errorf("find the system's manager among %d: %w", len(all.Members), unread)
	}
	return all.Members[0].ID, nil
}
