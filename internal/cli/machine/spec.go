package machine

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// specFlags are the flags of a machine's spec, for register and update: one for each declared
// field, by the name of the field.
type specFlags struct {
	labels []string
	text   map[string]*string
	list   map[string]*[]string
}

func (s *specFlags) register(f *pflag.FlagSet) {
	s.text, s.list = map[string]*string{}, map[string]*[]string{}
	f.StringArrayVar(&s.labels, "label", nil, "label `key=value`; repeatable")
	for d := range machinefield.All() {
		switch {
		case d.GetFlag() == "":
		case d.GetCommas():
			s.list[d.Name()] = f.StringSlice(d.GetFlag(), nil, d.GetHelp()+"; repeatable")
		case d.List():
			s.list[d.Name()] = f.StringArray(d.GetFlag(), nil, d.GetHelp()+"; repeatable")
		default:
			s.text[d.Name()] = f.String(d.GetFlag(), "", d.GetHelp())
		}
	}
}

// given reports whether any of the flags is set.
func (s *specFlags) given(f *pflag.FlagSet) bool { return len(s.paths(f)) > 0 }

// paths returns the field mask of the set flags. Labels are masked one by one, so that an
// update keeps the others.
func (s *specFlags) paths(f *pflag.FlagSet) []string {
	var paths []string
	for d := range machinefield.All() {
		if f.Changed(d.GetFlag()) {
			paths = append(paths, d.Path())
		}
	}
	for _, l := range s.labels {
		key, _, _ := strings.Cut(l, "=")
		paths = append(paths, "labels."+strings.TrimSuffix(key, "-"))
	}
	return paths
}

// machine returns the machine that the flags describe. A label "key-" is removed: it is in the
// mask and has no value.
func (s *specFlags) machine(id string, removal bool) (*holdfastv1.Machine, error) {
	var set []string
	for _, l := range s.labels {
		if key, ok := strings.CutSuffix(l, "-"); removal && ok && key != "" && !strings.Contains(l, "=") {
			continue
		}
		set = append(set, l)
	}
	labels, err := app.Pairs("label", set)
	if err != nil {
		return nil, err
	}
	spec := &holdfastv1.MachineSpec{}
	for d := range machinefield.All() {
		if values := s.list[d.Name()]; values != nil {
			d.SetTexts(spec, *values)
		}
		if value := s.text[d.Name()]; value != nil {
			d.Set(spec, *value)
		}
	}
	if scheme, _, isURL := strings.Cut(spec.GetSshEndpoint(), "://"); isURL {
		return nil, app.Usagef("--ssh: begins with %q, as a URL: leave it out: want host, host:port or user@host",
			scheme+"://")
	}
	return &holdfastv1.Machine{MachineId: id, Labels: labels, Spec: spec}, nil
}

// newMachineID generates the id on the client, so that a registration with an unknown outcome
// can be repeated.
func newMachineID() string {
	var b [4]byte
	// It never fails: the runtime ends the process instead.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// phase parses a machine phase in any spelling.
func phase(flag, s string) (holdfastv1.MachineStatus_Phase, error) {
	if v := holdfastv1.MachineStatus_Phase_value[app.EnumName(s)]; v != 0 {
		return holdfastv1.MachineStatus_Phase(v), nil
	}
	return 0, app.Usagef("%s: %q is not one of %s", flag, s,
		strings.Join(app.EnumNames(holdfastv1.MachineStatus_Phase_name), ", "))
}
