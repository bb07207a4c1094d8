package lab

import (
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Step returns a step without retries, so that a run only succeeds if no attempt fails.
func Step(name string, kind any) *holdfastv1.Step {
	s := &holdfastv1.Step{Name: name, TimeoutSeconds: 60, MaxRetries: proto.Int32(0)}
	switch k := kind.(type) {
	case *holdfastv1.SshCommand:
		s.Kind = &holdfastv1.Step_Ssh{Ssh: k}
	case *holdfastv1.Reboot:
		s.Kind = &holdfastv1.Step_Reboot{Reboot: k}
	case *holdfastv1.SetNetboot:
		s.Kind = &holdfastv1.Step_Netboot{Netboot: k}
	case *holdfastv1.RepaveImage:
		s.Kind = &holdfastv1.Step_Repave{Repave: k}
	}
	return s
}

// Script returns a step that runs a script on the host.
func Script(name, text string) *holdfastv1.Step {
	return Step(name, &holdfastv1.SshCommand{Script: text})
}
