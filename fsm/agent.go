package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func (t *tx) createAgentMachine(_ *internalv1.CreateAgentMachine) (*holdfastv1.Machine, *Error) {
	return nil, unbuilt()
}

func (t *tx) registerAgent(_ *internalv1.RegisterAgent) (*holdfastv1.Machine, *Error) {
	return nil, unbuilt()
}
