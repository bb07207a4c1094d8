package bmc

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-metal/holdfast/providers"
)

// follow remembers the task of a change that was accepted and is done in the background (202,
// DSP0266 §12.2).
func (h *redfishHost) follow(a *answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.task = ""
	if a != nil && a.status == http.StatusAccepted {
		h.task = a.header.Get("Location")
	}
}

// failedTask returns the error that the task of the last change ended with, so that a wait for the
// change need not take its whole time. It returns nil while the task runs, when it has succeeded,
// and when there is none or the service does not show it.
func (h *redfishHost) failedTask(ctx context.Context, what string) error {
	h.mu.Lock()
	monitor := h.task
	h.mu.Unlock()
	if monitor == "" {
		return nil
	}
	var t struct {
		TaskState string
		Messages  []struct{ Message string }
	}
	a, err := h.c.get(ctx, monitor, &t)
	var refused *reply
	switch {
	case err == nil && a.status == http.StatusAccepted:
		return nil
	case errors.As(err, &refused) && refused.Status/100 == 4 && refused.Status != http.StatusNotFound: // a monitor that is done answers as the change would have
		h.follow(nil)
		return disagree("the BMC accepted the %s, and failed at it: %w", what, err)
	case err != nil:
		return nil //nolint:nilerr // what the change did is read back all the same
	}
	switch t.TaskState {
	case "Exception", "Killed", "Cancelled", "Interrupted":
		h.follow(nil)
		said := "it gives no reason"
		for _, m := range t.Messages {
			if m.Message != "" {
				said = clip(m.Message, maxText)
			}
		}
		return providers.Errorf(providers.Transient, "change the "+what, "%w", disagree("the BMC accepted it, and its task ended as %s: %s", t.TaskState, said))
	}
	return nil
}
