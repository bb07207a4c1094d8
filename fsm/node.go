package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func (t *tx) createNode(_ *internalv1.CreateNode) (*holdfastv1.Machine, *Error) {
	return nil, unbuilt()
}

func (t *tx) updateNode(_ *internalv1.UpdateNode) (*holdfastv1.Machine, *Error) {
	return nil, unbuilt()
}

func (t *tx) transitionNode(_ *internalv1.TransitionNode) (*holdfastv1.Machine, *Error) {
	return nil, unbuilt()
}

func (t *tx) reportNode(_ *internalv1.ReportNode) (*holdfastv1.Machine, *Error) {
	return nil, unbuilt()
}
