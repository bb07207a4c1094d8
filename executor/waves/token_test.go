package waves

import (
	"crypto/sha256"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/executor/executortest"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// TestOutlivesToken checks that a wave continues after the token that started it was revoked or has
// expired, and that the wave and its runs name the token.
func TestOutlivesToken(t *testing.T) {
	for _, end := range []string{"revoked", "expired"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lab{Lab: executortest.New(t, fake.Config{}), starts: &starts{}}
				l.Plan("p", executortest.Step("s", &holdfastv1.SshCommand{Command: "true"}))
				ids := []string{"m-0", "m-1", "m-2"}
				for _, id := range ids {
					l.Machine(id)
				}
				value := sha256.Sum256([]byte("tok-1"))
				token := &internalv1.StoredToken{Sha256: value[:], Token: &holdfastv1.Token{TokenId: "tok-1", Name: "ci",
					Role: holdfastv1.Role_OPERATOR, ExpiresAt: timestamppb.New(time.Now().Add(time.Hour))}}
				l.Must(&internalv1.Command{
					Op: &internalv1.Command_CreateToken{CreateToken: &internalv1.CreateToken{Token: token}}})
				start := func(id string) error {
					c := &internalv1.Command{Principal: "token:ci",
						Origin: &internalv1.Origin{TokenId: "tok-1", Role: holdfastv1.Role_OPERATOR, RequestId: id},
						Op: &internalv1.Command_StartWave{StartWave: &internalv1.StartWave{MachineIds: ids,
							Wave: &holdfastv1.Wave{WaveId: id, PlanId: "p", MaxParallel: 1}}}}
					_, err := l.Apply(t.Context(), c)
					return err
				}
				if err := start("w"); err != nil {
					t.Fatal(err)
				}
				if end == "revoked" {
					l.Must(&internalv1.Command{Op: &internalv1.Command_RevokeToken{
						RevokeToken: &internalv1.RevokeToken{TokenId: "tok-1"}}})
				} else {
					time.Sleep(2 * time.Hour) // sleep: in the bubble
				}
				var refusal *fsm.Error
				if err := start("late"); !errors.As(err, &refusal) || refusal.Code != fsm.Unauthenticated {
					t.Fatalf("a start with the %s token: got %v, want it refused", end, err)
				}
				l.lead()
				l.Until(func(v *fsm.View) bool {
					w, _ := v.Wave("w")
					return fsm.WaveEnded(w)
				})
				got := []string{l.wave().GetPhase().String() + " " + l.wave().GetPrincipal()}
				for _, id := range ids {
					for _, r := range l.FSM.View().MachineRuns(id, "") {
						got = append(got, r.GetPhase().String()+" "+r.GetPrincipal())
					}
				}
				want := []string{"SUCCEEDED token:ci", "SUCCEEDED token:ci", "SUCCEEDED token:ci", "SUCCEEDED token:ci"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("wave and runs (-want +got):\n%s", diff)
				}
			})
		})
	}
}
