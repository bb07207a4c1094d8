package lab

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Step returns a step without retries, so that a run only succeeds if no attempt fails.
func Step(name string, settings proto.Message) *holdfastv1.Step {
	s := stepkind.With(settings)
	s.Name, s.TimeoutSeconds, s.MaxRetries = name, 60, proto.Int32(0)
	return s
}

// Script returns a step that runs a script on the host.
func Script(name, text string) *holdfastv1.Step {
	return Step(name, &holdfastv1.SshCommand{Script: text})
}
