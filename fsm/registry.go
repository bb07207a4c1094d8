package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func serviceSchema() *schema[holdfastv1.Service, *holdfastv1.Service] {
	return &schema[holdfastv1.Service, *holdfastv1.Service]{
		kind: internalv1.SnapshotRecord_SERVICES,
		key:  func(s *holdfastv1.Service) string { return s.GetTarget().GetId() },
	}
}

func serviceEventSchema() *schema[holdfastv1.ServiceEvent, *holdfastv1.ServiceEvent] {
	return &schema[holdfastv1.ServiceEvent, *holdfastv1.ServiceEvent]{
		kind: internalv1.SnapshotRecord_SERVICE_EVENTS,
		key:  func(e *holdfastv1.ServiceEvent) string { return ordered(e.GetCursor()) },
	}
}

func (t *tx) registerService(_ *internalv1.RegisterService) (*holdfastv1.Service, *Error) {
	return nil, unbuilt()
}

func (t *tx) updateServiceState(_ *internalv1.UpdateServiceState) (*holdfastv1.Service, *Error) {
	return nil, unbuilt()
}

func (t *tx) deregisterService(_ *internalv1.DeregisterService) (*holdfastv1.Service, *Error) {
	return nil, unbuilt()
}
