package discovery

import (
	"context"
	"log/slog"
)

// Callback is told of what happens to a registration. It is called from Run, one call at a time, so
// it returns soon.
type Callback interface {
	// OnRegistration tells that the router has taken the service, under the id in target.
	OnRegistration(m *Manager, target Target)
	// OnPing tells the status that a ping was answered with. A ping without an answer is not told.
	OnPing(m *Manager, target Target, status int)
	// OnDeregistration tells the status that the farewell was answered with.
	OnDeregistration(m *Manager, target Target, status int)
}

// LogCallback writes what happens to a log: pings at debug level, the rest at info.
func LogCallback(log *slog.Logger) Callback { return logCallback{log} }

type logCallback struct{ log *slog.Logger }

func (c logCallback) OnRegistration(_ *Manager, t Target) {
	c.log.Info("service registered", "service", t.ServiceName, "id", t.ID)
}

func (c logCallback) OnPing(_ *Manager, t Target, status int) {
	c.log.Log(context.Background(), slog.LevelDebug, "service pinged", "service", t.ServiceName, "id", t.ID, "status", status)
}

func (c logCallback) OnDeregistration(_ *Manager, t Target, status int) {
	c.log.Info("service deregistered", "service", t.ServiceName, "id", t.ID, "status", status)
}
