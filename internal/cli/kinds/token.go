package kinds

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Token returns the kind of tokens.
func Token() output.Kind[*holdfastv1.Token] {
	return output.Kind[*holdfastv1.Token]{
		Noun: "token", List: "tokens",
		Name:   (*holdfastv1.Token).GetTokenId,
		Header: []string{"TOKEN", "NAME", "ROLE", "FOR", "STATE", "EXPIRES", "CREATED"},
		Wide:   []string{"BY", "REVOKED", "MACHINES", "COMMENT"},
		Row: func(t *holdfastv1.Token, now time.Time) []any {
			return []any{
				t.GetTokenId(), t.GetName(), roleName(t.GetRole()), scope(t.GetPools(), t.GetMachineId()),
				tokenState(t.GetState()), cmp.Or(app.Stamp(t.GetExpiresAt()), "never"),
				app.Age(now, t.GetCreatedAt()),
				t.GetCreatedBy(), app.Stamp(t.GetRevokedAt()), enrolled(t), t.GetComment(),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Token, string, error) {
			r, err := c.Access().ListTokens(ctx, &holdfastv1.ListTokensRequest{Filter: q.Filter, PageSize: q.Size,
				PageToken: q.Token})
			return r.GetTokens(), r.GetNextPageToken(), err
		},
		Offer: "state = active",
		Get:   getToken,
	}
}

// enrolled returns how many machines a token has enrolled, of how many, and "" for other roles.
func enrolled(t *holdfastv1.Token) string {
	if t.GetMaxMachines() == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", t.GetEnrolledMachines(), t.GetMaxMachines())
}

func tokenState(s string) render.Text {
	switch s {
	case "active":
		return render.T(s, render.Green)
	case "revoked":
		return render.T(s, render.Red)
	}
	return app.Plain(s)
}

// Identity returns the kind of the identity of the caller.
func Identity() output.Kind[*holdfastv1.Identity] {
	return output.Kind[*holdfastv1.Identity]{
		List:   "identities",
		Name:   (*holdfastv1.Identity).GetPrincipal,
		Header: []string{"PRINCIPAL", "ROLE", "FOR", "BY", "TOKEN"},
		Row: func(id *holdfastv1.Identity, _ time.Time) []any {
			return []any{
				id.GetPrincipal(), roleName(id.GetRole()), scope(id.GetPools(), id.GetMachineId()), id.GetMethod(),
				id.GetTokenId(),
			}
		},
	}
}

// roleName returns the name of a role in commands.
func roleName(r holdfastv1.Role_Value) string {
	if r == holdfastv1.Role_ROLE_UNSPECIFIED {
		return "none"
	}
	return strings.ToLower(strings.ReplaceAll(r.String(), "_", "-"))
}

// scope describes the restriction of a token.
func scope(pools []string, machine string) string {
	switch {
	case machine != "":
		return "machine " + machine
	case len(pools) > 0:
		return "pool " + strings.Join(pools, ",")
	}
	return ""
}

// May describes the permissions of a token.
func May(t *holdfastv1.Token) string {
	s := roleName(t.GetRole()) + " " + t.GetName()
	if of := scope(t.GetPools(), t.GetMachineId()); of != "" {
		s += " (" + of + ")"
	}
	return s
}

// Until states how long a token is valid.
func Until(t *holdfastv1.Token) string {
	if t.GetExpiresAt() == nil {
		return "valid until it is revoked"
	}
	return "valid until " + app.Stamp(t.GetExpiresAt())
}

// getToken returns a token by its id. The API only lists tokens.
func getToken(ctx context.Context, c *client.Client, id string) (*holdfastv1.Token, error) {
	if IsTokenValue(id) {
		return nil, app.Usagef("it is a value, not an id: see: holdfast token list")
	}
	all, err := Token().All(ctx, c, filter.Equals("token_id", id), 1)
	if err == nil && len(all) == 0 {
		err = status.Error(codes.NotFound, "token not found")
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// IsTokenValue reports whether a text is the value of a token instead of its id.
func IsTokenValue(text string) bool { return len(text) > 64 }
