package cli

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func tokenKind() kind[*holdfastv1.Token] {
	return kind[*holdfastv1.Token]{
		noun: "token", list: "tokens",
		name:   (*holdfastv1.Token).GetTokenId,
		header: []string{"TOKEN", "NAME", "ROLE", "FOR", "STATE", "EXPIRES", "CREATED"},
		wide:   []string{"BY", "REVOKED", "COMMENT"},
		row: func(t *holdfastv1.Token, now time.Time, wide bool) []render.Text {
			row := []render.Text{
				plain(t.GetTokenId()),
				plain(t.GetName()),
				plain(roleName(t.GetRole())),
				plain(scope(t.GetPools(), t.GetMachineId())),
				tokenState(t.GetState()),
				plain(first(stamp(at(t.GetExpiresAt())), "never")),
				plain(render.Ago(now, at(t.GetCreatedAt()))),
			}
			if wide {
				row = append(row, plain(t.GetCreatedBy()), plain(stamp(at(t.GetRevokedAt()))), plain(t.GetComment()))
			}
			return row
		},
	}
}

func tokenState(s string) render.Text {
	switch s {
	case "active":
		return render.T(s, render.Green)
	case "revoked":
		return render.T(s, render.Red)
	}
	return plain(s)
}

func identityKind() kind[*holdfastv1.Identity] {
	return kind[*holdfastv1.Identity]{
		list:   "identities",
		name:   (*holdfastv1.Identity).GetPrincipal,
		header: []string{"PRINCIPAL", "ROLE", "FOR", "BY", "TOKEN"},
		row: func(id *holdfastv1.Identity, _ time.Time, _ bool) []render.Text {
			return []render.Text{
				plain(id.GetPrincipal()), plain(roleName(id.GetRole())), plain(scope(id.GetPools(), id.GetMachineId())),
				plain(id.GetMethod()), plain(id.GetTokenId()),
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

// may describes the permissions of a token.
func may(t *holdfastv1.Token) string {
	s := roleName(t.GetRole()) + " " + t.GetName()
	if of := scope(t.GetPools(), t.GetMachineId()); of != "" {
		s += " (" + of + ")"
	}
	return s
}

func until(t *holdfastv1.Token) string {
	if t.GetExpiresAt() == nil {
		return "good until it is revoked"
	}
	return "good until " + stamp(at(t.GetExpiresAt()))
}

func tokenIDs(ctx context.Context, c *client.Client) []string {
	r, err := c.Access().ListTokens(ctx, &holdfastv1.ListTokensRequest{PageSize: pageSize, Filter: "state = active"})
	if err != nil {
		return nil
	}
	return ids(r.GetTokens(), (*holdfastv1.Token).GetTokenId)
}
