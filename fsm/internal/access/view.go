// Package access has the rules of tokens, secrets, signing keys and webhooks. It must not see the
// value of a token or a secret: it stores hashes and ciphertext. It does not decide which caller
// may give a command.
package access

import "github.com/holdfast-metal/holdfast/fsm/internal/core"

// View has the queries of this package.
type View struct{ s *core.State }

// NewView returns the queries of a frozen state.
func NewView(s *core.State) View { return View{s} }
