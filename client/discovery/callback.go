package discovery

import (
	"context"
	"log/slog"
)

// Callback receives the events of a registration. Run calls it, one call at a time, so it
// must return quickly.
type Callback interface {
	// OnRegistration is called when the router has registered the service, with the id in
	// target.
	OnRegistration(m *Manager, target Target)
	// OnPing is called with the status of the response to a ping. A ping without a response
	// is not reported.
	OnPing(m *Manager, target Target, status int)
	// OnDeregistration is called with the status of the response to the deregistration.
	OnDeregistration(m *Manager, target Target, status int)
}

// LogCallback returns a Callback that logs pings at debug level and the rest at info.
func LogCallback(log *slog.Logger) Callback { return logCallback{log} }

type logCallback struct{ log *slog.Logger }

func (c logCallback) OnRegistration(_ *Manager, t Target) {
	c.log.Info("service registered", "service", t.ServiceName, "id", t.ID)
}

func (c logCallback) OnPing(_ *Manager, t Target, status int) {
	c.log.Log(context.Background(), slog.LevelDebug, "service pinged",
		"service", t.ServiceName, "id", t.ID, "status", status)
}

func (c logCallback) OnDeregistration(_ *Manager, t Target, status int) {
	c.log.Info("service deregistered", "service", t.ServiceName, "id", t.ID, "status", status)
}
