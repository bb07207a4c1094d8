package crash

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// step returns a step of a plan. No retry is allowed, so that a run only succeeds if no crash of a
// leader makes an attempt fail.
func step(name string, settings proto.Message) *holdfastv1.Step {
	s := stepkind.With(settings)
	s.Name, s.TimeoutSeconds, s.MaxRetries = name, 50, proto.Int32(0)
	return s
}
