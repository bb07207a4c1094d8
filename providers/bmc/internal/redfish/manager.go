package redfish

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// manager returns the path of the system's manager: the BMC itself. If the system cannot be read,
// which is likely when a BMC has to be restarted, it is found without it.
func (h *Host) manager(ctx context.Context) (string, error) {
	h.mu.Lock()
	at := h.managed
	h.mu.Unlock()
	if at != "" {
		return at, nil
	}
	at, err := h.findManager(ctx)
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.managed = at
	}
	return at, err
}

// findManager returns the manager that the system names, or else the only one, that which names the
// system, or the only one of type BMC. A blade may have controllers of other parts beside its BMC,
// and a press of their buttons would hit those.
func (h *Host) findManager(ctx context.Context) (string, error) {
	s, unread := h.known(ctx, time.Hour)
	switch {
	case unread != nil && (ctx.Err() != nil || !access.Silent(unread)):
		return "", unread
	case unread == nil && len(s.Links.ManagedBy) == 1:
		return s.Links.ManagedBy[0], nil
	}
	const what = "find the manager"
	var all *collection
	if unread == nil && len(s.Links.ManagedBy) > 1 {
		all = new(collection)
		for _, at := range s.Links.ManagedBy {
			all.members = append(all.members, &resource{path: at})
		}
	} else {
		root, err := h.c.service(ctx)
		if err != nil {
			return "", err
		}
		if root.Managers.ID == "" {
			return "", providers.Errorf(providers.Unsupported, what, "the service has none")
		}
		if all, err = h.c.collection(ctx, root.Managers.ID, maxMembers); err != nil {
			return "", notYet(err)
		}
	}
	switch len(all.members) {
	case 0:
		return "", fmt.Errorf("%s: %w", what, access.Disagree("the service has none"))
	case 1:
		return all.members[0].path, nil
	}
	if err := h.c.fill(ctx, all); err != nil {
		return "", err
	}
	var names, ours, bmcs []string
	for _, m := range all.members {
		bmc := m.Word("ManagerType", "BMC") == "BMC"
		names = append(names, path.Base(m.path))
		for _, of := range m.In("Links").Links("ManagerForServers") {
			if unread == nil && sameAs(of, s.ODataID) {
				ours = append(ours, m.path)
				if bmc { // the BMC of the system before other managers of it
					return m.path, nil
				}
			}
		}
		if bmc {
			bmcs = append(bmcs, m.path)
		}
	}
	switch {
	case len(ours) == 1:
		return ours[0], nil
	case len(all.unread) > 0:
		return "", fmt.Errorf("%s: %w", what, notYet(all.unread[0].err))
	case len(ours) == 0 && len(bmcs) == 1:
		return bmcs[0], nil
	case unread != nil:
		return "", fmt.Errorf("find the system's manager among %d: %w", len(all.members), unread)
	}
	return "", providers.Errorf(providers.Unsupported, what,
		"the BMC does not show which of its managers is the system's: it has %s", strings.Join(names, ", "))
}
