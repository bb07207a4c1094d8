package machine

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// specFlags are the flags of a machine's spec, for register and update.
type specFlags struct {
	labels   []string
	macs     []string
	hostKeys []string
	text     map[protoreflect.Name]*string // by field of MachineSpec
}

// specFields maps flags to fields of MachineSpec.
func specFields() [][3]string {
	return [][3]string{
		{"ssh", "ssh_endpoint", "SSH endpoint, host:port"},
		{"bmc", "bmc_endpoint", "BMC endpoint, host or URL"},
		{"ssh-credentials", "ssh_credentials_ref", "name of the secret that opens the host"},
		{"bmc-credentials", "bmc_credentials_ref", "name of the secret that opens the BMC"},
		{"provider", "provider", "name of the provider that operates the machine"},
		{"location", "location", "location, e.g. a datacenter"},
		{"rack", "rack", "rack"},
		{"pool", "pool", "pool of the machine"},
		{"serial", "serial", "serial number"},
		{"cluster", "target_cluster_ref", "cluster that the machine is for"},
		{"customer", "customer_id", "customer that the machine is for"},
	}
}

func (s *specFlags) register(f *pflag.FlagSet) {
	s.text = map[protoreflect.Name]*string{}
	f.StringArrayVar(&s.labels, "label", nil, "label `key=value`; repeatable")
	f.StringSliceVar(&s.macs, "mac", nil, "MAC `address`; repeatable")
	f.StringArrayVar(&s.hostKeys, "ssh-host-key", nil, "public host `key`, as in authorized_keys; repeatable")
	for _, d := range specFields() {
		s.text[protoreflect.Name(d[1])] = f.String(d[0], "", d[2])
	}
}

// given reports whether any of the flags is set.
func (s *specFlags) given(f *pflag.FlagSet) bool { return len(s.paths(f)) > 0 }

// paths returns the field mask of the set flags. Labels are masked one by one, so that an
// update keeps the others.
func (s *specFlags) paths(f *pflag.FlagSet) []string {
	var paths []string
	for _, d := range specFields() {
		if f.Changed(d[0]) {
			paths = append(paths, "spec."+d[1])
		}
	}
	if f.Changed("mac") {
		paths = append(paths, "spec.mac_addresses")
	}
	if f.Changed("ssh-host-key") {
		paths = append(paths, "spec.ssh_host_keys")
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
	spec := &holdfastv1.MachineSpec{MacAddresses: s.macs, SshHostKeys: s.hostKeys}
	m := spec.ProtoReflect()
	for name, value := range s.text {
		if scheme, _, isURL := strings.Cut(*value, "://"); name == "ssh_endpoint" && isURL {
			return nil, app.Usagef("--ssh: begins with %q, as a URL: leave it out: want host, host:port or user@host",
				scheme+"://")
		}
		m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOfString(*value))
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
