package fsmtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// checkAccess checks the audit chain, tokens, secrets and signing keys.
func checkAccess(v *fsm.View) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := CheckAudit(v); err != nil {
		errs = append(errs, err)
	}
	bootstraps := 0
	for tok := range v.Tokens("") {
		if bad := fsm.ValidateToken(tok); len(bad) > 0 || tok.GetCreatedAt() == nil {
			add("token %s: %v", tok.GetTokenId(), bad)
		}
		if tok.GetBootstrap() {
			bootstraps++
		}
	}
	if bootstraps > 1 || bootstraps == 1 && !v.Meta().GetBootstrapped() {
		add("%d bootstrap tokens, bootstrapped is %v", bootstraps, v.Meta().GetBootstrapped())
	}
	uses := map[string]int32{}
	for m := range v.Machines("") {
		bmc, ssh := m.GetSpec().GetBmcCredentialsRef(), m.GetSpec().GetSshCredentialsRef()
		uses[bmc]++
		if ssh != bmc {
			uses[ssh]++
		}
		for _, name := range []string{bmc, ssh} {
			s, _ := v.Secret(name)
			if pools := s.GetSecret().GetPools(); len(pools) > 0 && !slices.Contains(pools, m.GetSpec().GetPool()) {
				add("machine %s in pool %q refers to secret %s, which is for %v",
					m.GetMachineId(), m.GetSpec().GetPool(), name, pools)
			}
		}
	}
	for s := range v.Secrets("") {
		sec := s.GetSecret()
		if bad := fsm.ValidateSecret(sec); len(bad) > 0 || sec.GetVersion() == 0 ||
			sec.GetKeyId() != s.GetSealed().GetKeyId() {
			add("secret %v: %v", sec, bad)
		}
		if sec.GetUses() != uses[sec.GetName()] {
			add("secret %s has %d uses, %d machines refer to it", sec.GetName(), sec.GetUses(), uses[sec.GetName()])
		}
	}
	keys := v.SigningKeys()
	for i := 1; i < len(keys); i++ {
		if keys[i].GetCreatedAt().AsTime().Before(keys[i-1].GetCreatedAt().AsTime()) {
			add("signing key %s stands before the older %s", keys[i-1].GetKeyId(), keys[i].GetKeyId())
		}
	}
	return errors.Join(errs...)
}

// CheckAudit verifies the audit chain of a state.
func CheckAudit(v *fsm.View) error {
	first, last, hash := v.Audit()
	events, err := v.AuditAfter(0, int(last))
	if err != nil {
		return fmt.Errorf("read the audit trail: %w", err)
	}
	var chain holdfastv1.AuditChain
	for _, e := range events {
		if err := chain.Add(e); err != nil {
			return fmt.Errorf("verify the audit trail: %w", err)
		}
	}
	if chain.First != first || chain.Sequence != last || !bytes.Equal(chain.Hash, hash) {
		return fmt.Errorf("the audit trail has events %d to %d with hash %x, want %d to %d with %x",
			chain.First, chain.Sequence, chain.Hash, first, last, hash)
	}
	return nil
}

// checkAccessStep checks that no audit event was changed or lost, and that no invalid token
// became valid.
func checkAccessStep(before, after *fsm.View) error {
	var errs []error
	for old := range before.Tokens("") {
		tok, ok := after.Token(old.GetTokenId())
		dead := fsm.TokenGood(old, before.Meta().GetNow().AsTime()) != nil
		switch {
		case !ok && fsm.TokenGood(old, after.Meta().GetNow().AsTime()) == nil:
			errs = append(errs, fmt.Errorf("token %s was good and has vanished", old.GetTokenId()))
		case ok && dead && proto.Equal(old.GetCreatedAt(), tok.GetCreatedAt()) &&
			fsm.TokenGood(tok, after.Meta().GetNow().AsTime()) == nil:
			errs = append(errs, fmt.Errorf("token %s is good again", old.GetTokenId()))
		}
	}
	_, was, _ := before.Audit()
	first, last, _ := after.Audit()
	if last < was {
		errs = append(errs, fmt.Errorf("the audit trail went from event %d to %d", was, last))
	}
	old, err := before.AuditAfter(0, int(was))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	now, err := after.AuditAfter(0, int(was))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for len(old) > 0 && old[0].GetSequence() < first {
		old = old[1:]
	}
	for i, e := range old {
		if i >= len(now) || !proto.Equal(e, now[i]) {
			errs = append(errs, fmt.Errorf("audit event %d has changed or is gone", e.GetSequence()))
		}
	}
	return errors.Join(errs...)
}

// WithoutAudit returns the state without its audit trail, to which refused commands add too.
func (d *Dump) WithoutAudit() *Dump {
	c := &Dump{Meta: proto.CloneOf(d.Meta), Records: map[string]string{}}
	c.Meta.FirstAudit, c.Meta.LastAudit, c.Meta.AuditHash = 0, 0, nil
	for k, v := range d.Records {
		if !strings.HasPrefix(k, "AUDIT/") {
			c.Records[k] = v
		}
	}
	return c
}
