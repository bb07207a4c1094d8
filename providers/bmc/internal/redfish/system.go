package redfish

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/internal/facts/known"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
)

// Host is one machine behind a Redfish service. It is safe for concurrent use.
type Host struct {
	c      *Client
	system string        // path or id, for a service with several systems; else empty
	serial string        // likewise
	quirks access.Quirks // by the system's vendor and model

	mu      sync.Mutex
	found   *computerSystem // as last read
	picked  bool            // chosen by serial number among several
	readAt  time.Time
	media   *virtualMedia       // slot for images, as last read
	seenAt  time.Time           // when media was read
	wants   []string            // parameters that its InsertMedia requires
	reset   *resetAction        // of the manager
	managed string              // path of the manager
	infos   map[string][]string // values of actions, by the path of their ActionInfo
	task    string              // monitor of the last change, if it runs in the background
	boot    booting             // as last read
}

// computerSystem has the properties we need of a ComputerSystem resource.
type computerSystem struct {
	*resource
	ODataID      string // the path at which it was read
	ETag         string
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
	LastReset    string
	Actions      struct{ Reset resetAction }
	Links        struct {
		ManagedBy []string
		Chassis   []string
	}
	Processors         link
	Memory             link
	Storage            link
	EthernetInterfaces link
	LogServices        link
	VirtualMedia       link
	Settings           struct{ SettingsObject link }
	LocationIndicator  *bool
	IndicatorLED       string

	boots bool // the boot progress shows that the host is booting
}

// systemOf returns the system that a resource describes. What it does not show, or shows as another
// type, is empty.
func systemOf(r *resource) *computerSystem {
	s := &computerSystem{
		resource:     r,
		ODataID:      r.path,
		ETag:         r.etag,
		Manufacturer: known.Text(r.Text("Manufacturer")),
		Model:        known.Text(r.Text("Model")),
		SerialNumber: known.Text(r.Text("SerialNumber")),
		SKU:          known.Text(r.Text("SKU")),
		UUID:         strings.ToLower(known.Text(r.Text("UUID"))),
		BiosVersion:  r.Text("BiosVersion"),
		PowerState:   r.Word("PowerState", "On", "Off"),
		HostName:     r.Text("HostName"),
		Boot:         bootOf(r.Object),
		LastReset:    r.Text("LastResetTime"),
		IndicatorLED: r.Word("IndicatorLED", "Lit", "Blinking", "Off"),
	}
	s.BootProgress.LastState = r.In("BootProgress").Word("LastState", progressWords()...)
	if s.BootProgress.LastState == "" {
		s.BootProgress.LastState = r.Word("BootProgress", progressWords()...)
	}
	s.Actions.Reset = resetOf(r.Object, "#ComputerSystem.Reset")
	links := r.In("Links")
	s.Links.ManagedBy, s.Links.Chassis = links.Links("ManagedBy"), links.Links("Chassis")
	s.Processors.ID, s.Memory.ID, s.Storage.ID = r.Link("Processors"), r.Link("Memory"), r.Link("Storage")
	s.EthernetInterfaces.ID, s.LogServices.ID = r.Link("EthernetInterfaces"), r.Link("LogServices")
	s.VirtualMedia.ID = r.Link("VirtualMedia")
	s.Settings.SettingsObject.ID = r.In("@Redfish.Settings").Link("SettingsObject")
	if on, set := r.Flag("LocationIndicatorActive"); set {
		s.LocationIndicator = &on
	}
	return s
}

// dell reports whether the system's serial number is that of its board, and its SKU the service tag
// that Dell prints on the machine and shows to the operating system.
func (s *computerSystem) dell() bool { return access.Contains(s.Manufacturer, "Dell") && s.SKU != "" }

// is reports whether the system has a serial number.
func (s *computerSystem) is(serial string) bool {
	return known.SameSerial(s.SerialNumber, serial) || s.dell() && known.SameSerial(s.SKU, serial)
}

// bootOverride is the Boot property (ComputerSystem schema).
type bootOverride struct {
	Enabled  string
	Mode     string
	Target   string
	Targets  []string
	Enableds []string
	Modes    []string
}

func bootOf(o loose.Object) bootOverride {
	b := o.In("Boot")
	return bootOverride{
		Enabled:  b.Word("BootSourceOverrideEnabled", bootDisabled, bootOnce, bootContinuous),
		Mode:     b.Word("BootSourceOverrideMode", modeUEFI, modeLegacy),
		Target:   bootTarget(b),
		Targets:  b.Words("BootSourceOverrideTarget@Redfish.AllowableValues"),
		Enableds: b.Words("BootSourceOverrideEnabled@Redfish.AllowableValues"),
		Modes:    b.Words("BootSourceOverrideMode@Redfish.AllowableValues"),
	}
}

// resetAction is an action Reset with its allowed values.
type resetAction struct {
	Target string
	Types  []string
	Info   string
}

// resetOf returns an action Reset of a resource. Its target may be a text or a link.
func resetOf(o loose.Object, name string) resetAction {
	a := o.In("Actions", name)
	return resetAction{
		Target: a.Link("target"),
		Types:  a.Words("ResetType@Redfish.AllowableValues"),
		Info:   a.Link("@Redfish.ActionInfo"),
	}
}

// read reads the system.
func (h *Host) read(ctx context.Context) (*computerSystem, error) {
	for again := true; ; again = false {
		p, err := h.path(ctx)
		if err != nil {
			return nil, err
		}
		r, err := h.c.readShown(ctx, p)
		var s *computerSystem
		if err == nil {
			s = systemOf(r)
		}
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
		h.keep(s)
		return s, nil
	}
}

// another reports whether s is a different machine. If another sled was inserted in place of the
// machine, it must not receive its presses.
func (h *Host) another(s *computerSystem) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.picked && !s.is(h.serial)
}

// lose drops the path of the system and all data below it.
func (h *Host) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found, h.picked, h.media, h.reset, h.infos, h.managed = nil, false, nil, nil, nil, ""
}

// keep stores the system as read.
func (h *Host) keep(s *computerSystem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found, h.readAt = s, time.Now()
	h.boot, s.boots = h.boot.next(s.BootProgress.LastState, h.readAt)
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
	all, err := h.c.collection(ctx, root.Systems.ID, maxMembers)
	if err != nil {
		return "", notYet(err)
	}
	var ids []string
	for _, m := range all.members {
		id := strings.TrimRight(m.path, "/")
		if h.system != "" && (id == strings.TrimRight(h.system, "/") || path.Base(id) == path.Base(h.system)) {
			return m.path, nil
		}
		ids = append(ids, path.Base(id))
	}
	switch {
	case len(all.members) == 0 && len(all.unread) == 0: // some BMCs show none while they start
		return "", access.Disagree("the BMC shows no system (yet)")
	case h.system != "":
		return "", providers.Errorf(providers.Gone, "find system "+h.system,
			"the BMC has no such system; it has %s", strings.Join(ids, ", "))
	case len(all.members) == 1:
		return all.members[0].path, nil
	case h.serial != "":
		at, err := h.bySerial(ctx, all)
		if at != "" || err != nil {
			return at, err
		}
	}
	return "", providers.Errorf(providers.Unsupported, "pick a system of the BMC",
		"it has %s: name one in bmc_endpoint, like https://…/redfish/v1/Systems/%s",
		strings.Join(ids, ", "), ids[0])
}

// bySerial returns the path of the system with the machine's serial number, or "" if several have
// it, or none. A system that cannot be read could be the one.
func (h *Host) bySerial(ctx context.Context, all *collection) (at string, err error) {
	if err := h.c.fill(ctx, all); err != nil {
		return "", err
	}
	for _, r := range all.members {
		if !systemOf(r).is(h.serial) {
			continue
		}
		if at != "" {
			return "", nil
		}
		at = r.path
	}
	if at == "" && len(all.unread) > 0 {
		return "", fmt.Errorf("find the system with serial number %s: %w", h.serial, notYet(all.unread[0].err))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.picked = at != ""
	return at, nil
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
	info, err := h.c.read(ctx, r.Info)
	if err != nil {
		return nil, err
	}
	for _, p := range info.Objects("Parameters") {
		if loose.SameWord(p.Text("Name"), "ResetType") {
			types = p.Words("AllowableValues")
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

// pick returns the first wanted value that is allowed, in the service's spelling. If the service
// lists none, it returns the first wanted value.
func pick(what string, allowed []string, wanted ...string) (string, error) {
	if len(allowed) == 0 {
		return wanted[0], nil
	}
	for _, w := range wanted {
		if i := slices.IndexFunc(allowed, func(a string) bool { return loose.SameWord(a, w) }); i >= 0 {
			return allowed[i], nil
		}
	}
	return "", providers.Errorf(providers.Unsupported, what,
		"the BMC supports none of %s; it supports %s",
		strings.Join(wanted, ", "), strings.Join(allowed, ", "))
}
