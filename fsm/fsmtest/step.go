package fsmtest

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Kinds returns the kinds of steps.
func Kinds() []string { return stepkind.Names() }

// Step returns a valid step of a kind, named after it.
func Step(kind string) *holdfastv1.Step {
	s := stepkind.New(kind)
	if s == nil {
		panic(fmt.Sprintf("step kind %q is not known", kind))
	}
	s.Name = kind
	switch kind {
	case "ssh":
		s.GetSsh().Command = "true"
	case "power":
		s.GetPower().Action = "off"
	}
	return s
}
