package auth

import (
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestRefusalInWords(t *testing.T) {
	viewer := func(principal string) *holdfastv1.Identity {
		return &holdfastv1.Identity{Principal: principal, Role: holdfastv1.Role_VIEWER}
	}
	for _, tt := range []struct {
		method string
		id     *holdfastv1.Identity
		want   string
	}{
		{"RunService/StartRun", viewer("user:ann"), `user "ann" (viewer) may not start runs: this needs the role operator: ` +
			"an admin creates a token with `holdfast token create --role operator`"},
		{"AccessService/CreateToken", viewer("token:ci"), `token "ci" (viewer) may not create tokens: this needs the role admin: `},
		{"MachineService/SetMachinePhase", viewer("user:ann"), "may not set machine phases: this needs the role operator: "},
		{"MachineService/RetryBmc", viewer("user:ann"), "may not retry BMCs: "},
		{"ConsoleService/Attach", viewer("user:ann"), "may not attach consoles: this needs the role operator"},
		{"OperatorService/TransferLeadership", viewer("user:ann"), "may not transfer leadership: "},
		{"PoolService/RegisterPool", viewer("user:ann"),
			"may not register pools: this needs the role admin or pool-agent: " +
				"an admin creates a token with `holdfast token create --role pool-agent`"},
		{"PlanService/CreatePlan", &holdfastv1.Identity{Principal: "token:a", Role: holdfastv1.Role_OPERATOR,
			Pools: []string{"p", "q"}}, `token "a" (operator) is scoped to the pools p, q and may not create plans: ` +
			"this needs an operator without a scope"},
		{"RunService/StartRun", &holdfastv1.Identity{Principal: "user:bo"}, `user "bo" (no role) may not start runs: `},
		{"RunService/StartRun", &holdfastv1.Identity{Principal: "user:bo@sso.example.com", Method: MethodOIDC},
			`user "bo@sso.example.com" (no role) may not start runs: this needs the role operator: ` +
				"an admin maps a role or group that your identity provider gives you to one in oidc_issuers"},
	} {
		r := policy()["holdfast.v1."+tt.method]
		err := r.allows(tt.id, nil, tt.method)
		if err == nil || !strings.Contains(err.Message, tt.want) {
			t.Errorf("%s: got %v, want %q in it", tt.method, err, tt.want)
		}
	}
}

// TestRouteInWords checks that the route of a method is refused in the words of the method, and
// another route by its name.
func TestRouteInWords(t *testing.T) {
	same, other := SameAs("holdfast.v1.RunService/StartRun"), Least(holdfastv1.Role_ADMIN)
	id := &holdfastv1.Identity{Principal: "user:ann", Role: holdfastv1.Role_VIEWER}
	if err := same.allows(id, nil, "POST /v1/runs"); !strings.Contains(err.Message, "may not start runs:") {
		t.Error(err)
	}
	if err := other.allows(id, nil, "GET /debug"); !strings.Contains(err.Message, "may not call GET /debug:") {
		t.Error(err)
	}
}
