package redfish

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// follow stores the task of a change that was accepted and runs in the background (202, DSP0266
// §12.2).
func (h *Host) follow(a *answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.task = ""
	if a != nil && a.status == http.StatusAccepted {
		h.task = a.header.Get("Location")
	}
}

// failedTask returns the error of the last change's task, so that verify need not wait until its
// deadline. It returns nil if the task runs or has succeeded, if there is none, or if the service
// does not show it.
func (h *Host) failedTask(ctx context.Context, what string) error {
	h.mu.Lock()
	monitor := h.task
	h.mu.Unlock()
	if monitor == "" {
		return nil
	}
	t, err := h.c.read(ctx, monitor)
	var refused *reply
	switch {
	// The monitor of a task that has ended returns the response to the change itself.
	case errors.As(err, &refused) && refused.Status/100 == 4 && refused.Status != http.StatusNotFound:
		h.follow(nil)
		return access.Disagree("the BMC accepted the %s, but it failed: %w", what, err)
	case err != nil:
		return nil //nolint:nilerr // the caller verifies the change anyway
	}
	// While it runs, the monitor may return 202 and no task.
	state := t.Text("TaskState")
	switch strings.ToLower(state) {
	case "exception", "killed", "cancelled", "canceled", "interrupted":
		h.follow(nil)
		reason := "no reason given"
		for _, m := range t.Objects("Messages") {
			if said := m.Text("Message"); said != "" {
				reason = text.Clip(said, access.MaxText)
			}
		}
		return providers.Errorf(providers.Transient, "change the "+what, "%w",
			access.Disagree("the BMC accepted it, and its task ended as %s: %s", text.Clip(state, 40), reason))
	}
	return nil
}
