package display

import (
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestScope(t *testing.T) {
	for _, tt := range []struct {
		role  holdfastv1.Role_Value
		pools []string
		want  string
	}{
		{holdfastv1.Role_ADMIN, nil, "admin"},
		{holdfastv1.Role_OPERATOR, []string{"a", "b"}, "operator of a, b"},
		{holdfastv1.Role_POOL_AGENT, []string{"a"}, "pool-agent of a"},
		{holdfastv1.Role_ROLE_UNSPECIFIED, nil, "no role"},
	} {
		if got := scope(&holdfastv1.Identity{Role: tt.role, Pools: tt.pools}); got != tt.want {
			t.Errorf("%v %v: got %q, want %q", tt.role, tt.pools, got, tt.want)
		}
	}
}
