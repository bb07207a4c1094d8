package server

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// TestOperatorsOfAPoolAreNotSentTheSecretsOfOthers tries, over the real listeners, the
// theft that the pools of secrets prevent. An operator of pool a points a machine at a
// host of their own and assigns it a secret of all pools.
func TestOperatorsOfAPoolAreNotSentTheSecretsOfOthers(t *testing.T) {
	keys, _ := keyring(t, "k1")
	p := secureWith(t, auth.Config{}, func(c *Config) { c.Keys = keys })
	admin := p.connect(t, kind{token: &holdfastv1.Token{Name: "root", Role: holdfastv1.Role_ADMIN}})
	thief := p.connect(t, kind{token: &holdfastv1.Token{Name: "mallory", Role: holdfastv1.Role_OPERATOR,
		Pools: []string{"a"}}})
	api := holdfastv1.NewSecretServiceClient(admin.conn)
	for name, pools := range map[string][]string{"bmc/a": {"a"}, "bmc/b": {"b"}, "bmc/a-b": {"a", "b"}, "bmc/all": nil} {
		s, err := api.PutSecret(admin.ctx(t), &holdfastv1.PutSecretRequest{Name: name, Type: "bmc",
			Values: map[string]string{"username": "u", "password": "p"}, Pools: pools})
		if err != nil || len(s.GetPools()) != len(pools) {
			t.Fatalf("%v, %v", s, err)
		}
	}
	p.End(t, "run-00a", 1, holdfastv1.Attempt_FAILED) // addresses stay as they are while a run is at work
	update := func(c *caller, spec *holdfastv1.MachineSpec, paths ...string) error {
		_, err := holdfastv1.NewMachineServiceClient(c.conn).UpdateMachine(c.ctx(t), &holdfastv1.UpdateMachineRequest{
			Machine: &holdfastv1.Machine{MachineId: "m-a", Spec: spec}, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
		return err
	}
	const ref, addr = "spec.bmc_credentials_ref", "spec.bmc_endpoint"
	if err := update(thief, &holdfastv1.MachineSpec{BmcEndpoint: "https://mallory.example.com"}, addr); err != nil {
		t.Fatalf("a machine without secrets may be anywhere: %v", err)
	}
	for _, name := range []string{"bmc/b", "bmc/a-b", "bmc/all", "bmc/none"} {
		wantError(t, update(thief, &holdfastv1.MachineSpec{BmcCredentialsRef: name}, ref), codes.PermissionDenied,
			fsm.ReasonOutOfScope)
		_, err := holdfastv1.NewMachineServiceClient(thief.conn).RegisterMachine(thief.ctx(t),
			&holdfastv1.RegisterMachineRequest{
				Machine: &holdfastv1.Machine{MachineId: "m-new", Spec: &holdfastv1.MachineSpec{Pool: "a",
					BmcEndpoint: "https://mallory.example.org", BmcCredentialsRef: name}}})
		wantError(t, err, codes.PermissionDenied, fsm.ReasonOutOfScope)
	}
	if err := update(thief, &holdfastv1.MachineSpec{BmcCredentialsRef: "bmc/a"}, ref); err != nil {
		t.Errorf("the secret of the own pool: %v", err)
	}
	if err := update(admin, &holdfastv1.MachineSpec{BmcCredentialsRef: "bmc/all", BmcEndpoint: "https://10.0.0.1"}, ref,
		addr); err != nil {
		t.Fatal(err)
	}
	wantError(t, update(thief, &holdfastv1.MachineSpec{BmcEndpoint: "https://mallory.example.com"}, addr),
		codes.PermissionDenied, fsm.ReasonOutOfScope)
	wantError(t, update(thief, &holdfastv1.MachineSpec{SshEndpoint: "mallory.example.com:22"}, "spec.ssh_endpoint"),
		codes.PermissionDenied, fsm.ReasonOutOfScope)
	wantError(t, update(admin, &holdfastv1.MachineSpec{BmcCredentialsRef: "bmc/b"}, ref), codes.FailedPrecondition,
		fsm.ReasonSecretPools)
	if got := getSpec(p, "m-a"); got.GetBmcCredentialsRef() != "bmc/all" || got.GetBmcEndpoint() != "https://10.0.0.1" ||
		got.GetSshEndpoint() != "" {
		t.Errorf("got %v", got)
	}

	// A new password keeps the pools if the request names none.
	_, err := api.PutSecret(admin.ctx(t), &holdfastv1.PutSecretRequest{Name: "bmc/b", Type: "bmc",
		Values: map[string]string{"username": "u", "password": "q"}})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, update(thief, &holdfastv1.MachineSpec{BmcCredentialsRef: "bmc/b"}, ref), codes.PermissionDenied,
		fsm.ReasonOutOfScope)
	got, err := secrets.NewResolver(p.Peer, keys).Resolve(t.Context(), "bmc/b")
	if s, _ := p.Peer.View().Secret("bmc/b"); err != nil || got.Values["password"].Reveal() != "q" ||
		len(s.GetSecret().GetPools()) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

func getSpec(p *secured, id string) *holdfastv1.MachineSpec {
	m, _ := p.Peer.View().Machine(id)
	return m.GetSpec()
}
