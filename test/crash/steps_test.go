package crash

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// step returns a step of a plan, without retries: a run only succeeds if no attempt fails when
// leaders die.
func step(name string, settings proto.Message) *holdfastv1.Step {
	s := stepkind.With(settings)
	s.Name, s.TimeoutSeconds, s.MaxRetries = name, 50, proto.Int32(0)
	return s
}
